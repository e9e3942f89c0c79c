//! The connection to libomp, which knows the tool, and to plugins, which ask this library.

use super::callbacks::{self, Callbacks, Data, Lookup};
use crate::{libomp, settings};
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::AtomicU64;

type Initialize = unsafe extern "C" fn(lookup: Lookup, device: c_int, data: *mut Data) -> c_int;
type Finalize = unsafe extern "C" fn(data: *mut Data);

/// The two functions of a library that connects to another: `ompt_start_tool_result_t`.
#[repr(C)]
pub(crate) struct Connection {
    initialize: Option<Initialize>,
    finalize: Option<Finalize>,
    data: AtomicU64,
}

/// The functions of this library. libomp keeps the address until it calls `finalize`.
static CONNECTION: Connection =
    Connection { initialize: Some(initialize), finalize: Some(finalize), data: AtomicU64::new(0) };

/// The look-up function of libomp, while a tool is connected.
static LOOKUP: Mutex<Option<Lookup>> = Mutex::new(None);
/// The functions to call when the tool is disconnected.
static FINALIZERS: Mutex<Vec<Finalize>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether a function below this one connects.
    static IS_CONNECTING: Cell<bool> = const { Cell::new(false) };
}

/// Connects to libomp, at the first call. libomp starts the tool of the process, if there is one,
/// and calls `initialize`. Does nothing while the tool starts on this thread.
#[cold]
pub(crate) fn connect() {
    static ONCE: Once = Once::new();
    if IS_CONNECTING.replace(true) {
        return;
    }
    ONCE.call_once(|| {
        let connection = (&raw const CONNECTION).cast_mut().cast();
        if libomp::ompt_connect(connection).is_none() && names_tool() {
            connect_to_new(connection);
        }
    });
    IS_CONNECTING.set(false);
}

/// Returns whether the process seems to have a tool: the environment names one, or an object of
/// the process contains one. libomp decides whether the tool starts.
pub(crate) fn expects_tool() -> bool {
    names_tool() || contains_tool()
}

fn names_tool() -> bool {
    settings::text("OMP_TOOL_LIBRARIES").is_some()
}

/// Returns whether an object other than libomp has `ompt_start_tool`. libomp has a function of this
/// name for processes without a tool.
fn contains_tool() -> bool {
    let (Some(start), Some(connect)) = (libomp::start_tool(), libomp::connect_function()) else {
        return false;
    };
    object_of(start) != object_of(connect)
}

/// Returns the address of the object that contains an address.
fn object_of(address: usize) -> Option<usize> {
    let mut object = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `dladdr` accepts any address, and writes to `object` unless it returns 0.
    unsafe {
        let found = libc::dladdr(address as *const c_void, object.as_mut_ptr()) != 0;
        found.then(|| object.assume_init().dli_fbase as usize)
    }
}

/// Loads libomp into a process without it, for the sake of the tool.
fn connect_to_new(connection: *mut c_void) {
    // SAFETY: the names end with a zero byte.
    let address = unsafe {
        let libomp = libc::dlopen(c"libomp.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        if libomp.is_null() {
            log::info!("OMP_TOOL_LIBRARIES has no effect: the process has no libomp");
            return;
        }
        libc::dlsym(libomp, c"ompt_libomp_connect".as_ptr())
    };
    if !address.is_null() {
        // SAFETY: libomp's function of this name has this type.
        unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(address)(
                connection,
            );
        }
    }
}

unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut Data) -> c_int {
    *LOOKUP.lock() = Some(lookup);
    // SAFETY: libomp calls this function with its look-up function.
    callbacks::set(unsafe { Callbacks::read(lookup) });
    0
}

unsafe extern "C" fn finalize(_data: *mut Data) {
    *LOOKUP.lock() = None;
    for finalize in std::mem::take(&mut *FINALIZERS.lock()) {
        // SAFETY: the plugin gave the function for this call.
        unsafe { finalize(std::ptr::null_mut()) };
    }
    callbacks::set(None);
}

/// Connects a plugin: calls its `initialize` now, and its `finalize` when the tool ends. Without a
/// tool, does nothing.
///
/// # Safety
/// `plugin` is null, or leads to two functions of these types, or null instead of a function.
pub(crate) unsafe fn connect_plugin(plugin: *const Connection) {
    connect();
    // SAFETY: promised by the caller.
    let Some(plugin) = (unsafe { plugin.as_ref() }) else { return };
    let Some(lookup) = *LOOKUP.lock() else { return };
    FINALIZERS.lock().extend(plugin.finalize);
    if let Some(initialize) = plugin.initialize {
        // SAFETY: promised by the caller.
        unsafe { initialize(lookup, 0, std::ptr::null_mut()) };
    }
}
