//! Exit handlers of linked code: what it registers with `atexit` and `__cxa_atexit`, and the destructors of its
//! thread-local variables (what ORC's runtime does in its `ELFNixPlatform`).

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex, RwLock};

use crate::{call_at_bottom, thread, tls};

/// The exit handlers of one library. Its address is the `__dso_handle` of the linked code.
///
/// Any thread may use it. Dropping it forgets the handlers that have not run, and blocks as [`run`](Self::run) does.
#[derive(Debug)]
pub struct ExitScope(Arc<Scope>);

/// The scopes that are alive, by address.
static SCOPES: RwLock<BTreeMap<usize, Weak<Scope>>> = RwLock::new(BTreeMap::new());

impl ExitScope {
    /// A scope without handlers.
    pub fn new() -> Self {
        let scope = Arc::new(Scope::default());
        SCOPES.write().insert(Arc::as_ptr(&scope).addr(), Arc::downgrade(&scope));
        Self(scope)
    }

    /// The address that the linked code has as its `__dso_handle`. There is nothing to read there.
    pub fn dso_handle(&self) -> u64 {
        Arc::as_ptr(&self.0) as u64
    }

    /// Lets linked code have another `__dso_handle` of this scope, in its own memory. It has to be taken back before the memory is.
    pub fn add_handle(&self, address: u64) {
        SCOPES.write().insert(address as usize, Arc::downgrade(&self.0));
    }

    /// Takes such a handle back. Handlers that were registered with it stay.
    pub fn remove_handle(address: u64) {
        SCOPES.write().remove(&(address as usize));
    }

    /// Runs the handlers, the last registered first and each exactly once: those for the end of the calling thread, then
    /// those for the end of the library. Those that are registered meanwhile are run too, by the same rule. Those for the
    /// end of other threads are forgotten.
    ///
    /// Blocks until handlers that run on other threads have returned, so that afterwards the code can go. It may be called
    /// again, and by a handler, where it does not block.
    pub fn run(&self) {
        _ = self.0.run(|_| true);
    }
}

impl ExitScope {
    /// As [`run`](Self::run), but only for some handlers: those of an object that is removed. Whether any have run, here or
    /// meanwhile on another thread.
    pub(crate) fn run_some(&self, matches: impl Fn(&Handler) -> bool) -> bool {
        self.0.run(matches)
    }

    /// Forgets all handlers, those of other threads too: their code goes. Blocks as [`run`](Self::run) does.
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

/// The name of `int __longshore_atexit(void (*function)(void), void *dso)`, which the linker makes of `atexit`.
pub const LONGSHORE_ATEXIT: &str = "__longshore_atexit";

/// What linked code is given for functions of the C and C++ libraries, by the names of [`names::stand_in`](crate::names::stand_in).
/// A `dso` that is not the handle of a live scope is passed on to libc.
///
/// - `int __cxa_atexit(void (*function)(void *), void *argument, void *dso)`
/// - [`LONGSHORE_ATEXIT`]
/// - `int __cxa_thread_atexit(void (*function)(void *), void *argument, void *dso)`, also for `__cxa_thread_atexit_impl`
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
        // SAFETY: promised by the caller.
        return unsafe { __cxa_atexit(function, argument, dso) };
    };
    scope.state.lock().handlers.push(Handler::new(function, argument));
    0
}

unsafe extern "C" fn longshore_atexit(function: unsafe extern "C" fn(), dso: *mut c_void) -> c_int {
    // SAFETY: on x86-64 and AArch64 a function can be called with an argument that it does not take.
    let function = unsafe { std::mem::transmute::<unsafe extern "C" fn(), Function>(function) };
    // SAFETY: promised by the caller.
    unsafe { cxa_atexit(function, std::ptr::null_mut(), dso) }
}

unsafe extern "C" fn cxa_thread_atexit(
    function: Function,
    argument: *mut c_void,
    dso: *mut c_void,
) -> c_int {
    let Some(scope) = Scope::at(dso) else {
        // SAFETY: promised by the caller.
        return unsafe { thread::libc_thread_atexit(function, argument, dso) };
    };
    // What the destructors destroy must outlive them.
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
        // SAFETY: promised by the caller.
        None => unsafe { __cxa_finalize(dso) },
    }
}

/// What the end of a thread is to run.
struct Registration {
    scope: Weak<Scope>,
    id: u64,
}

unsafe extern "C" fn end_of_thread(registration: *mut c_void) {
    // SAFETY: it was made from a box, and this is called once.
    let Registration { scope, id } = *unsafe { Box::from_raw(registration.cast::<Registration>()) };
    if let Some(scope) = scope.upgrade() {
        scope.run_for_thread(id);
    }
}

/// What [`ExitScope`] and the ends of threads share.
#[derive(Debug, Default)]
struct Scope {
    state: Mutex<State>,
    /// Notified when a handler has returned.
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// For the end of the library, in the order of registration.
    handlers: Vec<Handler>,
    /// For the end of a thread, by number in the order of registration.
    of_threads: BTreeMap<u64, ThreadHandler>,
    last_id: u64,
    /// Those that are running.
    running: Vec<ThreadHandler>,
}

/// A function, and what it is called with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) function: Function,
    pub(crate) argument: usize,
    /// That of the thread that has registered it.
    pub(crate) thread_pointer: u64,
}

impl Handler {
    fn new(function: Function, argument: *mut c_void) -> Self {
        Self { function, argument: argument.addr(), thread_pointer: thread::thread_pointer() }
    }
}

/// A handler and the number of the thread that it belongs to.
#[derive(Debug, Clone, Copy)]
struct ThreadHandler {
    thread: u64,
    handler: Handler,
}

impl Scope {
    /// The live scope with this address.
    fn at(dso: *mut c_void) -> Option<Arc<Self>> {
        SCOPES.read().get(&dso.addr()).and_then(Weak::upgrade)
    }

    /// Whether any handler has run, here or meanwhile on another thread.
    fn run(&self, matches: impl Fn(&Handler) -> bool) -> bool {
        let thread = thread::number();
        let mut state = self.state.lock();
        let mut any = false;
        loop {
            while let Some(handler) = state.take(thread, &matches) {
                state = self.call(state, ThreadHandler { thread, handler });
                any = true;
            }
            // What handlers of other threads have registered is to be run too.
            if !self.wait(&mut state, |running| matches(&running.handler)) {
                return any;
            }
            any = true;
        }
    }

    /// Runs a handler for the end of the calling thread, unless that has been done or it is forgotten.
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

    /// Calls a handler on its thread, which is the calling one, without the lock.
    fn call<'a>(&'a self, mut state: Guard<'a>, handler: ThreadHandler) -> Guard<'a> {
        state.running.push(handler);
        drop(state);
        let Handler { function, argument, .. } = handler.handler;
        // SAFETY: it was registered for this one call, and its code lives until `ExitScope::run` has returned.
        unsafe { call_at_bottom(function as *const () as u64, [argument as u64, 0, 0]) };
        let mut state = self.state.lock();
        let index = state.running.iter().rposition(|running| running.thread == handler.thread);
        state.running.remove(index.expect("it was added above"));
        self.returned.notify_all();
        state
    }

    /// Waits until a handler returns if one that matches runs on another thread, unless one runs on this: two could wait for
    /// each other. Whether it has waited.
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

    /// Takes out the handler that `thread` is to run next. Forgets those of other threads that match.
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
