//! The construct and the operation that the calling thread is in, as the tool sees them.

use super::callbacks::{Callbacks, Data, TaskInfo};
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
        }
    };
}

/// Calls a function with the state of the calling thread.
pub(super) fn with<R>(function: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(function)
}

impl Thread {
    /// Begins a construct: asks libomp for the tasks, and clears the data of the construct.
    pub(super) fn enter(&self, tool: &Callbacks) {
        // SAFETY: libomp's functions have these types.
        unsafe {
            self.task.set(tool.task_data.map_or(null_mut(), |get| get()));
            match tool.target_task_info {
                // Newer libomps have data for deferred tasks only.
                Some(get) => self.set_target_task(get()),
                None => {
                    self.target_task.set(tool.target_task_data.map_or(null_mut(), |get| get()));
                    *self.own_target.get() = 0;
                }
            }
        }
        self.code.set(caller::return_address());
    }

    fn set_target_task(&self, info: *mut TaskInfo) {
        if info.is_null() {
            return;
        }
        // SAFETY: libomp keeps the data as long as the task, which contains the construct.
        unsafe {
            self.target_task.set(&raw mut (*info).task);
            self.target.set(&raw mut (*info).target);
        }
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
