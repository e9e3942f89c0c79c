//! Exit handlers of linked code: functions registered with `atexit` and `__cxa_atexit`, and the
//! destructors of its thread-local variables (as in the `ELFNixPlatform` of ORC's runtime).

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex, RwLock};

use crate::{call_at_bottom, thread, tls};

/// The exit handlers of one library. The scope's address is the `__dso_handle` of the linked code.
///
/// Any thread may use it. Dropping it forgets the handlers that have not run, and blocks as
/// [`run`](Self::run) does.
#[derive(Debug)]
pub struct ExitScope(Arc<Scope>);

/// The live scopes, by address.
static SCOPES: RwLock<BTreeMap<usize, Weak<Scope>>> = RwLock::new(BTreeMap::new());

impl ExitScope {
    /// Creates a scope without handlers.
    pub fn new() -> Self {
        let scope = Arc::new(Scope::default());
        SCOPES.write().insert(Arc::as_ptr(&scope).addr(), Arc::downgrade(&scope));
        Self(scope)
    }

    /// Returns the address that the linked code uses as its `__dso_handle`. The memory there must
    /// not be read.
    pub fn dso_handle(&self) -> u64 {
        Arc::as_ptr(&self.0) as u64
    }

    /// Adds another `__dso_handle` of this scope, an address in the linked code's memory. It must
    /// be removed before the memory is given back.
    pub fn add_handle(&self, address: u64) {
        SCOPES.write().insert(address as usize, Arc::downgrade(&self.0));
    }

    /// Removes a handle added by [`add_handle`](Self::add_handle). Handlers registered with it
    /// stay.
    pub fn remove_handle(address: u64) {
        SCOPES.write().remove(&(address as usize));
    }

    /// Runs the handlers, each exactly once, the last registered first: handlers for the end of the
    /// calling thread, then handlers for the end of the library. Handlers registered meanwhile run
    /// too, by the same rule. Handlers for the end of other threads are forgotten.
    ///
    /// Blocks until handlers running on other threads have returned, so that the code can be
    /// unloaded afterwards. It may be called again, and by a handler, where it does not block.
    pub fn run(&self) {
        _ = self.0.run(|_| true);
    }
}

impl ExitScope {
    /// Runs the matching handlers, such as an object's handlers before its removal, otherwise as
    /// [`run`](Self::run) does. Returns whether any have run, here or meanwhile on another thread.
    pub(crate) fn run_some(&self, matches: impl Fn(&Handler) -> bool) -> bool {
        self.0.run(matches)
    }

    /// Forgets all handlers, including handlers of other threads, before their code is unloaded.
    /// Blocks as [`run`](Self::run) does.
    pub(crate) fn forget(&self) {
        self.0.forget();
    }
}

impl Default for ExitScope {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ExitScope {
    fn drop(&mut self) {
        SCOPES.write().remove(&Arc::as_ptr(&self.0).addr());
        self.0.forget();
    }
}

/// The name of `int __longshore_atexit(void (*function)(void), void *dso)`, with which the linker
/// replaces `atexit`.
pub const LONGSHORE_ATEXIT: &str = "__longshore_atexit";

/// Returns the replacements that linked code gets for functions of the C and C++ libraries, by the
/// names of [`names::stand_in`](crate::names::stand_in). A `dso` that is not the handle of a live
/// scope is passed on to libc.
///
/// - `int __cxa_atexit(void (*function)(void *), void *argument, void *dso)`
/// - [`LONGSHORE_ATEXIT`]
/// - `int __cxa_thread_atexit(void (*function)(void *), void *argument, void *dso)`; replaces
///   `__cxa_thread_atexit_impl` too
/// - `void __cxa_finalize(void *dso)`: [`ExitScope::run`]
pub fn exit_functions() -> [(&'static str, u64); 4] {
    [
        ("__longshore_cxa_atexit", cxa_atexit as *const () as u64),
        (LONGSHORE_ATEXIT, longshore_atexit as *const () as u64),
        ("__longshore_cxa_thread_atexit", cxa_thread_atexit as *const () as u64),
        ("__longshore_cxa_finalize", cxa_finalize as *const () as u64),
    ]
}

pub(crate) type Function = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    fn __cxa_atexit(function: Function, argument: *mut c_void, dso: *mut c_void) -> c_int;
    fn __cxa_finalize(dso: *mut c_void);
}

unsafe extern "C" fn cxa_atexit(
    function: Function,
    argument: *mut c_void,
    dso: *mut c_void,
) -> c_int {
    let Some(scope) = Scope::at(dso) else {
        // SAFETY: guaranteed by the caller.
        return unsafe { __cxa_atexit(function, argument, dso) };
    };
    scope.state.lock().handlers.push(Handler::new(function, argument));
    0
}

unsafe extern "C" fn longshore_atexit(function: unsafe extern "C" fn(), dso: *mut c_void) -> c_int {
    // SAFETY: on x86-64 and AArch64 a function may be called with an argument that it does not
    // take.
    let function = unsafe { std::mem::transmute::<unsafe extern "C" fn(), Function>(function) };
    // SAFETY: guaranteed by the caller.
    unsafe { cxa_atexit(function, std::ptr::null_mut(), dso) }
}

unsafe extern "C" fn cxa_thread_atexit(
    function: Function,
    argument: *mut c_void,
    dso: *mut c_void,
) -> c_int {
    let Some(scope) = Scope::at(dso) else {
        // SAFETY: guaranteed by the caller.
        return unsafe { thread::libc_thread_atexit(function, argument, dso) };
    };
    // The destroyed variables must outlive their destructors.
    tls::free_blocks_at_end_of_thread();
    let id = scope.state.lock().add_for_thread(Handler::new(function, argument));
    let registration = Box::new(Registration { scope: Arc::downgrade(&scope), id });
    // SAFETY: the function takes this box.
    unsafe { thread::at_end(end_of_thread, Box::into_raw(registration).cast()) };
    0
}

unsafe extern "C" fn cxa_finalize(dso: *mut c_void) {
    match Scope::at(dso) {
        Some(scope) => _ = scope.run(|_| true),
        // SAFETY: guaranteed by the caller.
        None => unsafe { __cxa_finalize(dso) },
    }
}

/// A handler to run at the end of a thread.
struct Registration {
    scope: Weak<Scope>,
    id: u64,
}

unsafe extern "C" fn end_of_thread(registration: *mut c_void) {
    // SAFETY: the pointer was made from a box, and this function is called once.
    let Registration { scope, id } = *unsafe { Box::from_raw(registration.cast::<Registration>()) };
    if let Some(scope) = scope.upgrade() {
        scope.run_for_thread(id);
    }
}

/// The state shared by [`ExitScope`] and the ends of threads.
#[derive(Debug, Default)]
struct Scope {
    state: Mutex<State>,
    /// Notified when a handler has returned.
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Handlers for the end of the library, in the order of registration.
    handlers: Vec<Handler>,
    /// Handlers for the end of a thread, by number in the order of registration.
    of_threads: BTreeMap<u64, ThreadHandler>,
    last_id: u64,
    /// Running handlers.
    running: Vec<ThreadHandler>,
}

/// A function and its argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) function: Function,
    pub(crate) argument: usize,
    /// The thread pointer of the registering thread.
    pub(crate) thread_pointer: u64,
}

impl Handler {
    fn new(function: Function, argument: *mut c_void) -> Self {
        Self { function, argument: argument.addr(), thread_pointer: thread::thread_pointer() }
    }
}

/// A handler and the number of its thread.
#[derive(Debug, Clone, Copy)]
struct ThreadHandler {
    thread: u64,
    handler: Handler,
}

impl Scope {
    /// Returns the live scope with this address.
    fn at(dso: *mut c_void) -> Option<Arc<Self>> {
        SCOPES.read().get(&dso.addr()).and_then(Weak::upgrade)
    }

    /// Runs the matching handlers. Returns whether any handler has run, here or meanwhile on
    /// another thread.
    fn run(&self, matches: impl Fn(&Handler) -> bool) -> bool {
        let thread = thread::number();
        let mut state = self.state.lock();
        let mut any = false;
        loop {
            while let Some(handler) = state.take(thread, &matches) {
                state = self.call(state, ThreadHandler { thread, handler });
                any = true;
            }
            // Handlers of other threads may have registered further handlers, which must run too.
            if !self.wait(&mut state, |running| matches(&running.handler)) {
                return any;
            }
            any = true;
        }
    }

    /// Runs a handler for the end of the calling thread, unless it has run or was forgotten.
    fn run_for_thread(&self, id: u64) {
        let mut state = self.state.lock();
        if let Some(handler) = state.of_threads.remove(&id) {
            drop(self.call(state, handler));
        }
    }

    fn forget(&self) {
        let mut state = self.state.lock();
        loop {
            state.handlers.clear();
            state.of_threads.clear();
            if !self.wait(&mut state, |_| true) {
                return;
            }
        }
    }

    /// Calls a handler on its thread, the calling one, without the lock.
    fn call<'a>(&'a self, mut state: Guard<'a>, handler: ThreadHandler) -> Guard<'a> {
        state.running.push(handler);
        drop(state);
        let Handler { function, argument, .. } = handler.handler;
        // SAFETY: the handler was registered for this one call, and its code lives until
        // `ExitScope::run` has returned.
        unsafe { call_at_bottom(function as *const () as u64, [argument as u64, 0, 0]) };
        let mut state = self.state.lock();
        let index = state.running.iter().rposition(|running| running.thread == handler.thread);
        state.running.remove(index.expect("it was added above"));
        self.returned.notify_all();
        state
    }

    /// Waits until a handler returns, if a matching one runs on another thread. Does not wait if
    /// this thread runs one: two threads could wait for each other. Returns whether it has waited.
    fn wait(&self, state: &mut Guard<'_>, matches: impl Fn(&ThreadHandler) -> bool) -> bool {
        let thread = thread::number();
        let waits = state.running.iter().all(|running| running.thread != thread)
            && state.running.iter().any(matches);
        if waits {
            self.returned.wait(state);
        }
        waits
    }
}

type Guard<'a> = parking_lot::MutexGuard<'a, State>;

impl State {
    fn add_for_thread(&mut self, handler: Handler) -> u64 {
        self.last_id += 1;
        self.of_threads.insert(self.last_id, ThreadHandler { thread: thread::number(), handler });
        self.last_id
    }

    /// Removes and returns the next handler for `thread`. Forgets matching handlers of other
    /// threads.
    fn take(&mut self, thread: u64, matches: impl Fn(&Handler) -> bool) -> Option<Handler> {
        self.of_threads.retain(|_, of| of.thread == thread || !matches(&of.handler));
        let last = self
            .of_threads
            .iter()
            .rev()
            .find(|(_, of)| of.thread == thread && matches(&of.handler));
        if let Some(id) = last.map(|(id, _)| *id) {
            return self.of_threads.remove(&id).map(|of| of.handler);
        }
        self.handlers.iter().rposition(matches).map(|index| self.handlers.remove(index))
    }
}

#[cfg(test)]
mod tests;
