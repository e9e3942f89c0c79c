//! Events of constructs, data operations and launches. Each function reports the beginning, and
//! returns a scope that reports the end when it is dropped.

use super::callbacks::{Callbacks, callbacks};
use super::thread;
use crate::runtime;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

const BEGIN: c_int = 1;
const END: c_int = 2;

/// The number of no device.
const NO_DEVICE: c_int = -1;
/// The number of the host for tools of LLVM 23 and later. LLVM: `omp_initial_device`.
const INITIAL_DEVICE: c_int = -1;

/// A kind of construct: `ompt_target_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Construct {
    Target = 1,
    EnterData = 2,
    ExitData = 3,
    Update = 4,
}

/// A kind of data operation: `ompt_target_data_op_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataOp {
    Allocate = 1,
    ToDevice = 2,
    FromDevice = 3,
    Delete = 4,
    Associate = 5,
    Disassociate = 6,
    /// Tools of LLVM 23 and later know fills.
    Fill = 8,
}

/// Returns a new identity of a construct or operation, for tools that do not assign their own.
fn new_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A construct that runs.
#[must_use]
pub(crate) struct ConstructScope(Option<(&'static Callbacks, Construct, usize)>);

/// Reports the beginning of a construct.
#[inline]
pub(crate) fn construct(kind: Construct, device: usize) -> ConstructScope {
    ConstructScope(callbacks().map(|tool| {
        begin_construct(tool, kind, device);
        (tool, kind, device)
    }))
}

impl Drop for ConstructScope {
    #[inline]
    fn drop(&mut self) {
        if let Some((tool, kind, device)) = self.0 {
            report_construct(tool, kind, END, device);
            thread::with(thread::Thread::leave);
        }
    }
}

#[cold]
fn begin_construct(tool: &Callbacks, kind: Construct, device: usize) {
    thread::with(|thread| {
        thread.enter(tool);
        if tool.target_emi.is_none() && tool.target.is_some() {
            // SAFETY: the place belongs to the thread or its task.
            unsafe { *thread.target() = new_identity() };
        }
    });
    report_construct(tool, kind, BEGIN, device);
}

#[cold]
fn report_construct(tool: &Callbacks, kind: Construct, endpoint: c_int, device: usize) {
    let (kind, device) = (kind as c_int, device as c_int);
    thread::with(|thread| {
        let (task, code) = (thread.task(), thread.code());
        // SAFETY: the callbacks have these types; the pointers are the thread's.
        unsafe {
            if let Some(callback) = tool.target_emi {
                let target_task = thread.target_task();
                callback(kind, endpoint, device, task, target_task, thread.target(), code);
            } else if let Some(callback) = tool.target {
                callback(kind, endpoint, device, task, *thread.target(), code);
            }
        }
    });
}

/// A data operation: addresses with the numbers of their devices, and the number of bytes.
#[derive(Clone, Copy)]
struct Operation {
    kind: DataOp,
    from: (u64, c_int),
    to: (u64, c_int),
    bytes: u64,
}

/// A data operation that runs.
#[must_use]
pub(crate) struct OperationScope(Option<Running>);

/// A data operation, its tool, and the address in the program to which its function returns.
struct Running {
    tool: &'static Callbacks,
    operation: Operation,
    code: *const c_void,
}

impl OperationScope {
    #[inline]
    fn begin(operation: impl FnOnce(&Callbacks) -> Operation) -> OperationScope {
        OperationScope(callbacks().and_then(|tool| begin_operation(tool, operation(tool))))
    }

    /// Notes the address that an allocation returned, for the report of its end.
    #[inline]
    pub(crate) fn allocated(&mut self, address: u64) {
        if let Some(running) = &mut self.0 {
            running.operation.to.0 = address;
        }
    }
}

impl Drop for OperationScope {
    #[inline]
    fn drop(&mut self) {
        if let Some(running) = &self.0 {
            running.report(END);
        }
    }
}

#[cold]
fn begin_operation(tool: &'static Callbacks, operation: Operation) -> Option<Running> {
    if tool.data_op_emi.is_none() && tool.data_op.is_none() {
        return None;
    }
    let running = Running { tool, operation, code: thread::with(thread::Thread::code) };
    running.report(BEGIN);
    Some(running)
}

impl Running {
    #[cold]
    fn report(&self, endpoint: c_int) {
        let Operation { kind, from, to, bytes } = self.operation;
        let (kind, bytes, code) = (kind as c_int, bytes as usize, self.code);
        let (from, from_device) = (from.0 as *mut c_void, from.1);
        let (to, to_device) = (to.0 as *mut c_void, to.1);
        let report = |thread: &thread::Thread| {
            let (target, id) = (thread.target(), thread.operation());
            // SAFETY: the callbacks have these types; the pointers are the thread's.
            unsafe {
                if let Some(call) = self.tool.data_op_emi {
                    let task = thread.target_task();
                    call(
                        endpoint,
                        task,
                        target,
                        id,
                        kind,
                        from,
                        from_device,
                        to,
                        to_device,
                        bytes,
                        code,
                    );
                } else if let Some(call) = self.tool.data_op.filter(|_| endpoint == BEGIN) {
                    *id = new_identity();
                    call(*target, *id, kind, from, from_device, to, to_device, bytes, code);
                }
            }
        };
        thread::with(report);
    }
}

/// Returns the number of the host.
fn host(tool: &Callbacks) -> c_int {
    match tool.is_recent() {
        true => INITIAL_DEVICE,
        false => runtime::devices().len() as c_int,
    }
}

/// Reports an allocation on a device; `mapped` is the host memory it is for, or 0.
#[inline]
pub(crate) fn allocation(device: usize, mapped: u64, bytes: u64) -> OperationScope {
    OperationScope::begin(|tool| Operation {
        kind: DataOp::Allocate,
        from: (mapped, host(tool)),
        to: (0, device as c_int),
        bytes,
    })
}

/// Reports that memory of a device is freed.
#[inline]
pub(crate) fn deletion(device: usize, address: u64) -> OperationScope {
    OperationScope::begin(|_| Operation {
        kind: DataOp::Delete,
        from: (address, device as c_int),
        to: (0, NO_DEVICE),
        bytes: 0,
    })
}

/// Reports a copy from the host to a device.
#[inline]
pub(crate) fn transfer_to_device(device: usize, to: u64, from: u64, bytes: u64) -> OperationScope {
    OperationScope::begin(|tool| Operation {
        kind: DataOp::ToDevice,
        from: (from, host(tool)),
        to: (to, device as c_int),
        bytes,
    })
}

/// Reports that memory of a device is set to a value. Tools of LLVM 22 and earlier know no fills:
/// they see a copy from the host, without an address there.
#[inline]
pub(crate) fn fill(device: usize, to: u64, bytes: u64) -> OperationScope {
    OperationScope::begin(|tool| Operation {
        kind: if tool.is_recent() { DataOp::Fill } else { DataOp::ToDevice },
        from: (0, host(tool)),
        to: (to, device as c_int),
        bytes,
    })
}

/// Reports a copy from a device to the host.
#[inline]
pub(crate) fn transfer_to_host(device: usize, to: u64, from: u64, bytes: u64) -> OperationScope {
    OperationScope::begin(|tool| Operation {
        kind: DataOp::FromDevice,
        from: (from, device as c_int),
        to: (to, host(tool)),
        bytes,
    })
}

/// Reports a copy between devices, each address with its device. LLVM reports it as a copy from a
/// device.
#[inline]
pub(crate) fn transfer(to: (u64, usize), from: (u64, usize), bytes: u64) -> OperationScope {
    OperationScope::begin(|_| Operation {
        kind: DataOp::FromDevice,
        from: (from.0, from.1 as c_int),
        to: (to.0, to.1 as c_int),
        bytes,
    })
}

/// Reports that host memory is associated with memory of a device.
#[inline]
pub(crate) fn association(device: usize, mapped: u64, target: u64, bytes: u64) -> OperationScope {
    OperationScope::begin(|tool| Operation {
        kind: DataOp::Associate,
        from: (mapped, host(tool)),
        to: (target, device as c_int),
        bytes,
    })
}

/// Reports that the association of host memory ends.
#[inline]
pub(crate) fn disassociation(device: usize, mapped: u64) -> OperationScope {
    OperationScope::begin(|tool| Operation {
        kind: DataOp::Disassociate,
        from: (mapped, host(tool)),
        to: (0, device as c_int),
        bytes: 0,
    })
}

/// A kernel that is being launched.
#[must_use]
pub(crate) struct LaunchScope(Option<(&'static Callbacks, c_uint)>);

/// Reports the launch of a kernel. `teams` is the number of teams that the program asks for, -1
/// without a `teams` construct.
#[inline]
pub(crate) fn launch(teams: i32) -> LaunchScope {
    LaunchScope(callbacks().map(|tool| {
        // A region without `teams` has one team.
        let teams = if teams == -1 { 1 } else { teams as c_uint };
        report_launch(tool, BEGIN, teams);
        (tool, teams)
    }))
}

impl Drop for LaunchScope {
    #[inline]
    fn drop(&mut self) {
        if let Some((tool, teams)) = self.0 {
            report_launch(tool, END, teams);
        }
    }
}

#[cold]
fn report_launch(tool: &Callbacks, endpoint: c_int, teams: c_uint) {
    thread::with(|thread| {
        let (target, id) = (thread.target(), thread.operation());
        // SAFETY: the callbacks have these types; the pointers are the thread's.
        unsafe {
            if let Some(callback) = tool.submit_emi {
                callback(endpoint, target, id, teams);
            } else if let Some(callback) = tool.submit.filter(|_| endpoint == BEGIN) {
                *id = new_identity();
                callback(*target, *id, teams);
            }
        }
    });
}
