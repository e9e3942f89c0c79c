//! The end of the process: once it has begun, SPIRV-Tools' library must not be called.
//!
//! `exit` destroys the library's tables, while programs may load modules until their last static
//! destructor. Exit handlers run newest first, and a function of the library may register a handler
//! for a table at its first call. So this file registers its own handler again after each call: the
//! handler runs before all handlers of the library.

use libloading::os::unix::{Library, Symbol};
use parking_lot::{Mutex, RwLock};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs `body`, which calls or opens the library. `None` once the process has begun to run exit
/// handlers, or if that cannot be determined. Threads may call this function at the same time.
pub(super) fn unless_ending<R>(body: impl FnOnce() -> R) -> Option<R> {
    let _calling = CALLS.read();
    if IS_ENDING.load(Ordering::Acquire) || !watch() {
        return None;
    }
    let result = body();
    watch();
    Some(result)
}

/// Locked for reading by each call of the library, for writing by the exit handler.
static CALLS: RwLock<()> = RwLock::new(());
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Longest wait of the exit handler for calls of other threads. A thread that was ended by force
/// never leaves its call.
const LIMIT: Duration = Duration::from_secs(10);

thread_local! {
    /// Whether this thread removes a handler, which glibc does by calling it.
    static IS_REPLACING: Cell<bool> = const { Cell::new(false) };
}

/// glibc's functions for exit handlers. They are found by name at run time, so that the plugin
/// itself imports no function for the destruction of statics.
struct Handlers {
    /// `__cxa_atexit`.
    add: Symbol<AddHandler>,
    /// `__cxa_finalize`.
    remove: Symbol<RemoveHandlers>,
}

type Handler = extern "C" fn(*mut c_void);
type AddHandler = unsafe extern "C" fn(Handler, *mut c_void, *mut c_void) -> c_int;
type RemoveHandlers = unsafe extern "C" fn(*mut c_void);

/// Two owners of handlers, which glibc takes for libraries: while the handler of one is replaced,
/// the other's stays registered.
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
    // SAFETY: the owner is an address of this file, so no other handler has it.
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

/// Handles the exit: prevents further calls of the library, and waits for calls of other threads.
extern "C" fn end(_: *mut c_void) {
    if !IS_REPLACING.get() {
        IS_ENDING.store(true, Ordering::Release);
        drop(CALLS.try_write_for(LIMIT));
    }
}
