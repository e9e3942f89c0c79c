//! The end of the process, before which SPIRV-Tools' library must not be called.
//!
//! `exit` has the library's tables destroyed, while programs may load modules until their last static destructor. Exit
//! handlers run newest first, and a function of the library may register one for a table that it makes when it is first
//! called. So a handler of this file is registered anew after each call: it runs before all that the library registered.

use libloading::os::unix::{Library, Symbol};
use parking_lot::{Mutex, RwLock};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs `body`, which calls the library or opens it. `None` once the process has begun to run exit handlers, or where it
/// cannot be told whether it has. Threads may call this at the same time.
pub(super) fn unless_ending<R>(body: impl FnOnce() -> R) -> Option<R> {
    let _calling = CALLS.read();
    if IS_ENDING.load(Ordering::Acquire) || !watch() {
        return None;
    }
    let result = body();
    watch();
    Some(result)
}

/// Held for reading by each call of the library, for writing by the exit handler.
static CALLS: RwLock<()> = RwLock::new(());
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Longest wait of the exit handler for calls of other threads, which a thread that was ended by force never leaves.
const LIMIT: Duration = Duration::from_secs(10);

thread_local! {
    /// Whether this thread takes a handler away, which glibc does by calling it.
    static IS_REPLACING: Cell<bool> = const { Cell::new(false) };
}

/// glibc's functions for exit handlers. They are found by name at run time, so that the plugin itself imports nothing by
/// which a compiler would have its statics destroyed.
struct Handlers {
    /// `__cxa_atexit`.
    add: Symbol<AddHandler>,
    /// `__cxa_finalize`.
    remove: Symbol<RemoveHandlers>,
}

type Handler = extern "C" fn(*mut c_void);
type AddHandler = unsafe extern "C" fn(Handler, *mut c_void, *mut c_void) -> c_int;
type RemoveHandlers = unsafe extern "C" fn(*mut c_void);

/// Two owners of handlers, in glibc's eyes libraries: while the handler of one is replaced, that of the other stands.
static OWNERS: [u8; 2] = [0; 2];

/// Makes the handler the newest of the process; `false` if it cannot be registered.
fn watch() -> bool {
    static CURRENT: Mutex<usize> = Mutex::new(0);
    let Some(handlers) = handlers() else { return false };
    let mut current = CURRENT.lock();
    let owner = |index: usize| ptr::from_ref(&OWNERS[index]).cast_mut().cast::<c_void>();
    let next = 1 - *current;
    // SAFETY: the handler is a function of this library, which is never unloaded.
    if unsafe { (handlers.add)(end, ptr::null_mut(), owner(next)) } != 0 {
        return false;
    }
    IS_REPLACING.set(true);
    // SAFETY: the owner is an address of this file, so that no handler of others has it.
    unsafe { (handlers.remove)(owner(*current)) };
    IS_REPLACING.set(false);
    *current = next;
    true
}

fn handlers() -> Option<&'static Handlers> {
    static FOUND: OnceLock<Option<Handlers>> = OnceLock::new();
    let find = || {
        let process = Library::this();
        // SAFETY: the C++ ABI for Linux gives both functions these types.
        let (add, remove) =
            unsafe { (process.get(b"__cxa_atexit\0"), process.get(b"__cxa_finalize\0")) };
        Some(Handlers { add: add.ok()?, remove: remove.ok()? })
    };
    FOUND.get_or_init(find).as_ref()
}

/// The exit handler: no call of the library begins any more, and those of other threads are waited for.
extern "C" fn end(_: *mut c_void) {
    if !IS_REPLACING.get() {
        IS_ENDING.store(true, Ordering::Release);
        drop(CALLS.try_write_for(LIMIT));
    }
}
