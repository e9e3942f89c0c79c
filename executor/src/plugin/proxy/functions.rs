//! Functions of the program that an executor's queues will run in this process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use longshore_plugin_api::{Error, HostFunction, Result};
use parking_lot::{Condvar, Mutex};

/// The queued and the running functions.
#[derive(Default)]
pub(super) struct Functions {
    state: Mutex<State>,
    /// The signal for the return of a function.
    returned: Condvar,
    next: AtomicU64,
}

#[derive(Default)]
struct State {
    queued: BTreeMap<u64, Queued>,
    running: usize,
}

struct Queued {
    function: HostFunction,
    /// The number of the function's queue.
    queue: u64,
}

/// A function that a thread runs; `outer` is the function whose wait runs this one, or null.
struct Running {
    functions: *const Functions,
    queue: u64,
    outer: *const Running,
}

thread_local! {
    static INNERMOST: Cell<*const Running> = const { Cell::new(std::ptr::null()) };
}

impl Functions {
    /// Adds a function and returns its number.
    pub(super) fn add(&self, queue: u64, function: HostFunction) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.state.lock().queued.insert(number, Queued { function, queue });
        number
    }

    /// Removes a function without running it. Returns false if it was run.
    pub(super) fn forget(&self, number: u64) -> bool {
        self.state.lock().queued.remove(&number).is_some()
    }

    /// Runs a function if it was not run yet. Blocks as the function does.
    pub(super) fn run(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(Queued { function, queue }) = state.queued.remove(&number) else { return };
        state.running += 1;
        drop(state);
        let running = Running { functions: self, queue, outer: INNERMOST.get() };
        INNERMOST.set(&raw const running);
        // `HostFunction::from_raw` requires that the function does not unwind.
        function.call();
        INNERMOST.set(running.outer);
        self.state.lock().running -= 1;
        self.returned.notify_all();
    }

    /// Runs all queued functions in order, since no queue will run them. Blocks as they do, and
    /// until functions running on other threads have returned. A thread that runs one of these
    /// functions must not call it.
    pub(super) fn run_all(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(number) = state.queued.keys().next().copied() {
                drop(state);
                self.run(number);
                state = self.state.lock();
            } else if state.running > 0 {
                self.returned.wait(&mut state);
            } else {
                return;
            }
        }
    }

    /// Returns whether this thread runs one of these functions: of the queue with this number or,
    /// for `None`, of any queue.
    pub(super) fn is_inside(&self, queue: Option<u64>) -> bool {
        // SAFETY: each listed value lies on this thread's stack, in a call of `run` that is under
        // way.
        let listed = |running: *const Running| unsafe { running.as_ref() };
        let mut running = listed(INNERMOST.get());
        while let Some(found) = running {
            if std::ptr::eq(found.functions, self) && queue.is_none_or(|queue| queue == found.queue)
            {
                return true;
            }
            running = listed(found.outer);
        }
        false
    }

    /// Refuses to wait for a queue inside one of its own functions.
    ///
    /// # Errors
    /// `Unsupported` inside a function of the queue.
    pub(super) fn refuse_inside(&self, queue: u64) -> Result<()> {
        if !self.is_inside(Some(queue)) {
            return Ok(());
        }
        Err(Error::would_deadlock("waiting for a queue", "the same queue"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_plugin_api::abi;
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    static RUN: AtomicUsize = AtomicUsize::new(0);

    fn function() -> HostFunction {
        unsafe extern "C" fn call(_: *mut c_void) {
            RUN.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the function may be called at any time.
        unsafe { HostFunction::from_raw(abi::HostFunction { context: std::ptr::null_mut(), call }) }
    }

    #[test]
    fn a_function_is_run_once_or_forgotten() {
        let functions = Functions::default();
        let numbers: Vec<_> = (0..3).map(|_| functions.add(7, function())).collect();
        functions.run(numbers[1]);
        functions.run(numbers[1]);
        assert!(!functions.forget(numbers[1]) && functions.forget(numbers[0]));
        functions.run_all();
        assert_eq!(RUN.load(Ordering::Relaxed), 2);
        assert!(!functions.is_inside(None));
    }

    #[test]
    fn callbacks_on_another_thread_are_waited_for() {
        static GO: Mutex<()> = Mutex::new(());
        static HAS_RETURNED: AtomicBool = AtomicBool::new(false);
        unsafe extern "C" fn call(_: *mut c_void) {
            drop(GO.lock());
            HAS_RETURNED.store(true, Ordering::Release);
        }
        let functions = Functions::default();
        let context = std::ptr::null_mut();
        // SAFETY: the function may be called at any time.
        let number = functions
            .add(7, unsafe { HostFunction::from_raw(abi::HostFunction { context, call }) });
        let stopped = GO.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| functions.run(number));
            while functions.state.lock().running == 0 {
                std::thread::yield_now();
            }
            let all = scope.spawn(|| {
                functions.run_all();
                assert!(HAS_RETURNED.load(Ordering::Acquire));
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!all.is_finished());
            drop(stopped);
        });
    }
}
