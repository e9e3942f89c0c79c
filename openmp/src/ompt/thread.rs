//! The construct and the operation that the calling thread is in, as the tool sees them.

use super::callbacks::{Callbacks, Data, callbacks};
use super::caller;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr::null_mut;

/// The state of one thread. A tool writes to its values through pointers, in callbacks on the
/// thread.
pub(super) struct Thread {
    /// Data of the encountering task.
    task: Cell<*mut Data>,
    /// Data of the target task; null outside of a construct.
    target_task: Cell<*mut Data>,
    /// Data of the construct in libomp's target task; null if `own_target` has it.
    target: Cell<*mut Data>,
    own_target: UnsafeCell<Data>,
    /// Identity of the last operation.
    operation: UnsafeCell<u64>,
    /// Address in the program to which the construct returns; 0 outside of a construct.
    code: Cell<usize>,
    /// The origin of the next construct, if another thread has encountered it.
    origin: Cell<Option<Origin>>,
}

/// The origin of a construct: tasks of libomp, and the address in the program.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    task: *mut Data,
    target_task: *mut Data,
    /// Data of the construct in libomp's target task; may be null.
    target: *mut Data,
    code: usize,
}

// SAFETY: libomp keeps the data of a task until the construct is done.
unsafe impl Send for Origin {}

impl Origin {
    /// Returns the origin of a construct that another thread will run; `None` without a tool.
    pub(crate) fn for_task() -> Option<Origin> {
        callbacks().map(Origin::current)
    }

    /// Makes this the origin of the calling thread's next construct.
    pub(crate) fn adopt(self) {
        with(|thread| thread.origin.set(Some(self)));
    }

    fn current(tool: &Callbacks) -> Origin {
        let code = caller::return_address();
        // SAFETY: libomp's functions have these types, and their results are valid for the task
        // that contains the construct.
        unsafe {
            let task = tool.task_data.map_or(null_mut(), |get| get());
            let (target_task, target) = match tool.target_task_info {
                // Newer libomps have data for deferred tasks only.
                Some(get) => match get() {
                    info if info.is_null() => (null_mut(), null_mut()),
                    info => (&raw mut (*info).task, &raw mut (*info).target),
                },
                None => (tool.target_task_data.map_or(null_mut(), |get| get()), null_mut()),
            };
            Origin { task, target_task, target, code }
        }
    }
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            task: Cell::new(null_mut()),
            target_task: Cell::new(null_mut()),
            target: Cell::new(null_mut()),
            own_target: UnsafeCell::new(0),
            operation: UnsafeCell::new(0),
            code: Cell::new(0),
            origin: Cell::new(None),
        }
    };
}

/// Calls a function with the state of the calling thread.
pub(super) fn with<R>(function: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(function)
}

impl Thread {
    /// Begins a construct: takes its origin, and clears the data of the construct.
    pub(super) fn enter(&self, tool: &Callbacks) {
        let origin = self.origin.take().unwrap_or_else(|| Origin::current(tool));
        self.task.set(origin.task);
        self.target_task.set(origin.target_task);
        self.target.set(origin.target);
        if tool.target_task_info.is_none() {
            // SAFETY: the value belongs to this thread.
            unsafe { *self.own_target.get() = 0 };
        }
        self.code.set(origin.code);
    }

    /// Ends a construct.
    pub(super) fn leave(&self) {
        self.task.set(null_mut());
        self.target_task.set(null_mut());
        self.target.set(null_mut());
        // SAFETY: the value belongs to this thread.
        unsafe { *self.own_target.get() = 0 };
        self.code.set(0);
    }

    /// Returns the data of the encountering task; null outside of a construct.
    pub(super) fn task(&self) -> *mut Data {
        self.task.get()
    }

    /// Returns the data of the target task; null outside of a construct.
    pub(super) fn target_task(&self) -> *mut Data {
        self.target_task.get()
    }

    /// Returns the data of the construct.
    pub(super) fn target(&self) -> *mut Data {
        match self.target.get() {
            target if target.is_null() => self.own_target.get(),
            target => target,
        }
    }

    /// Returns the place of the identity of the current operation.
    pub(super) fn operation(&self) -> *mut u64 {
        self.operation.get()
    }

    /// Returns the address to which the current construct, or the current function of the API,
    /// returns.
    pub(super) fn code(&self) -> *const c_void {
        let code = match self.code.get() {
            0 => caller::return_address(),
            code => code,
        };
        code as *const c_void
    }
}

#[cfg(test)]
mod tests {
    use super::super::callbacks::TaskInfo;
    use super::*;
    use std::ffi::c_char;

    unsafe extern "C" fn lookup(_name: *const c_char) -> *const c_void {
        std::ptr::null()
    }

    unsafe extern "C" fn task_data() -> *mut Data {
        Box::into_raw(Box::new(1))
    }

    unsafe extern "C" fn deferred_task() -> *mut TaskInfo {
        Box::into_raw(Box::new(TaskInfo { task: 2, target: 3 }))
    }

    unsafe extern "C" fn no_task() -> *mut TaskInfo {
        null_mut()
    }

    fn tool() -> Callbacks {
        Callbacks {
            lookup,
            task_data: Some(task_data),
            target_task_data: Some(task_data),
            target_task_info: None,
            device_initialize: None,
            device_finalize: None,
            device_load: None,
            target: None,
            target_emi: None,
            data_op: None,
            data_op_emi: None,
            submit: None,
            submit_emi: None,
        }
    }

    #[test]
    fn newer_libomps_give_target_tasks_for_deferred_constructs_only() {
        with(|thread| {
            thread.enter(&Callbacks { target_task_info: Some(deferred_task), ..tool() });
            // SAFETY: the functions above have allocated the values.
            assert_eq!(unsafe { (*thread.target_task(), *thread.target()) }, (2, 3));
            thread.leave();
            thread.enter(&Callbacks { target_task_info: Some(no_task), ..tool() });
            assert!(thread.target_task().is_null());
            assert_eq!(thread.target(), thread.own_target.get());
            thread.leave();
        });
    }

    #[test]
    fn a_construct_of_another_thread_has_that_threads_task_and_code() {
        let origin = Origin::current(&tool());
        let adopted = std::thread::spawn(move || {
            origin.adopt();
            with(|thread| {
                thread.enter(&tool());
                let found = (thread.task() as usize, thread.code() as usize);
                thread.leave();
                thread.enter(&tool());
                (found, thread.task() as usize)
            })
        });
        let (found, next) = adopted.join().expect("the thread does not panic");
        assert_eq!(found, (origin.task as usize, origin.code));
        assert_ne!(next, found.0);
    }
}
