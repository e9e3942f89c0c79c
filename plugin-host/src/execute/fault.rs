//! Error messages of failed kernels.

use super::stack::STACK_BYTES;
use super::wait::{State, Wait};
use crate::guard::{Failure, Signal, Stop, thread_stack};
use crate::kernel::Kernel;
use crate::lines::Place;
use crate::memory::Allocations;
use longshore_plugin_api::{Error, ErrorCode};
use std::ffi::CStr;
use std::fmt::Write;

/// A kernel's failure and its place.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    /// The group's number; 0 for kernels of LLVM's host form.
    pub(crate) group: u64,
    /// The item, if it is known.
    pub(crate) item: Option<[u32; 3]>,
    /// The code that failed in an earlier run of the group, if this fault is of a second run.
    pub(crate) earlier_code: Option<u64>,
}

/// The cause of a kernel's failure.
#[derive(Debug)]
pub(crate) enum Cause {
    Stop(Stop),
    /// Items that wait for each other at different places: two of them.
    Stuck([([u32; 3], State); 2]),
    /// Groups that wait for groups which have returned.
    GridStuck,
    NoStack(std::io::Error),
    NoThread(std::io::Error),
    /// The overflow of a stack of this number of bytes, and the address of the instruction.
    StackOverflow(usize, u64),
    /// A panic of the backend's own thread.
    Panicked,
}

impl Cause {
    /// Creates the cause for a kernel that failed on its thread's own stack.
    pub(super) fn on_thread(stop: Stop) -> Cause {
        let overflow = match &stop {
            Stop::Signal(signal)
                if signal.number == libc::SIGSEGV && !signal.is_of_other_thread =>
            {
                let bytes = thread_stack::overflow(signal.address);
                bytes.map(|bytes| Cause::StackOverflow(bytes, signal.instruction))
            }
            _ => None,
        };
        overflow.unwrap_or(Cause::Stop(stop))
    }
}

// SAFETY: the pointers are to constants of the image, which stays loaded until the fault is
// described.
unsafe impl Send for Fault {}

impl Fault {
    /// Creates the error that the queue reports. `groups` is `None` for LLVM's host form.
    pub(crate) fn describe(
        &self,
        kernel: &Kernel,
        groups: Option<[u32; 3]>,
        allocations: &Allocations,
    ) -> Error {
        let mut message = format!("kernel '{}'", kernel.name);
        if let Some([width, height, _]) = groups {
            let (width, height) = (u64::from(width), u64::from(height));
            let (x, rest) = (self.group % width, self.group / width);
            let _ = write!(message, ", group ({x}, {}, {})", rest % height, rest / height);
            match self.item {
                Some([x, y, z]) => {
                    let _ = write!(message, ", item ({x}, {y}, {z})");
                }
                None => message.push_str(", an item that could not be determined"),
            }
        }
        message.push_str(": ");
        let code = [self.cause.code(), self.earlier_code, self.cause.caller()];
        let code = code.into_iter().flatten();
        let place = kernel.lines.upgrade().and_then(|lines| lines.first_place(code));
        self.cause.describe(message, Some(allocations), place.as_ref())
    }
}

/// Creates the error of a call of device code other than a kernel. The message does not name the
/// function.
pub(super) fn describe_call(stop: Stop) -> Error {
    Cause::on_thread(stop).describe(String::new(), None, None)
}

impl Cause {
    /// Returns the address of the code that failed.
    pub(super) fn code(&self) -> Option<u64> {
        match self {
            Cause::Stop(Stop::Signal(signal)) => Some(signal.instruction),
            // The code calls the function that reports the failure, and has the call's return
            // address.
            Cause::Stop(Stop::Failed(failure)) => failure.from.checked_sub(1),
            Cause::StackOverflow(_, instruction) => Some(*instruction),
            _ => None,
        }
    }

    /// Returns an address in the code that called a function without a stack frame, such as
    /// `memcpy`, which failed.
    fn caller(&self) -> Option<u64> {
        match self {
            Cause::Stop(Stop::Signal(signal)) => signal.caller?.checked_sub(1),
            _ => None,
        }
    }

    /// Appends the cause to the message.
    fn describe(
        &self,
        mut message: String,
        allocations: Option<&Allocations>,
        place: Option<&Place>,
    ) -> Error {
        let code = match self {
            Cause::NoStack(_) | Cause::NoThread(_) => ErrorCode::OutOfResources,
            _ => ErrorCode::BackendFailure,
        };
        match self {
            Cause::Stop(Stop::Signal(signal)) => {
                signal.describe(&mut message, allocations);
                append_place(&mut message, place);
                let (name, _) = signal.name();
                return Error::new(code, message).with_vendor(name, signal.number.into());
            }
            Cause::Stop(Stop::NotLinked(error)) => {
                // SAFETY: the error lives as long as the image, which stays loaded until the fault
                // is described.
                let error = unsafe { error.as_ref() };
                message.push_str(error.message());
                return Error::new(error.code(), message);
            }
            Cause::Stop(Stop::Ended(ending)) => {
                let function = ending.function.to_string_lossy();
                let _ = write!(message, "{function}() was called, which device code must not");
                let error = Error::new(code, message);
                return match ending.status {
                    Some(status) => error.with_vendor(function, status.into()),
                    None => error,
                };
            }
            Cause::Stop(Stop::Failed(failure)) => {
                failure.describe(&mut message);
                if let Some(place) = place {
                    let _ = write!(message, " {}", place.functions);
                }
            }
            Cause::Stop(Stop::TimedOut) => message.push_str("it took too long"),
            Cause::Stop(Stop::Cancelled) => message.push_str("another group has failed"),
            Cause::Stuck(items) => stuck(&mut message, items),
            Cause::GridStuck => message.push_str(
                "it waits at a barrier of the whole grid, but other groups have returned",
            ),
            Cause::NoStack(error) => {
                let _ = write!(message, "no stack of {STACK_BYTES} bytes for it: {error}");
            }
            Cause::NoThread(error) => {
                let _ = write!(message, "no thread for it: {error}");
            }
            Cause::Panicked => message.push_str("the thread that ran it panicked"),
            Cause::StackOverflow(bytes, _) => {
                let _ = write!(message, "its stack of {bytes} bytes overflowed");
                append_place(&mut message, place);
            }
        }
        Error::new(code, message)
    }
}

fn append_place(message: &mut String, place: Option<&Place>) {
    if let Some(Place { line, functions }) = place {
        let _ = write!(message, ", at {line} {functions}");
    }
}

impl Signal {
    fn describe(&self, message: &mut String, allocations: Option<&Allocations>) {
        self.describe_place(message, allocations);
        if self.is_of_other_thread {
            message.push_str(", in a thread that the kernel started");
        }
    }

    fn describe_place(&self, message: &mut String, allocations: Option<&Allocations>) {
        let (_, what) = self.name();
        message.push_str(what);
        if !matches!(self.number, libc::SIGSEGV | libc::SIGBUS) {
            let _ = match self.number {
                libc::SIGABRT => Ok(()),
                _ => write!(message, " in the code at {:#x}", self.address),
            };
            return;
        }
        if self.code == SI_KERNEL {
            message.push_str(" at an address that no pointer can have");
            return;
        }
        let access = match self.is_write {
            Some(true) => "writing",
            Some(false) => "reading",
            None => "accessing",
        };
        let _ = write!(message, " {access} {:#x}", self.address);
        match self.address {
            0..4096 => message.push_str(", next to the null pointer"),
            address => match allocations.map(|allocations| allocations.place_of(address)) {
                Some(Some(place)) => {
                    let _ = write!(message, ", {place}");
                }
                Some(None) => message.push_str(", far from any allocation"),
                None => {}
            },
        }
    }

    /// Returns the signal's name and meaning.
    fn name(&self) -> (&'static str, &'static str) {
        match (self.number, self.code) {
            (libc::SIGSEGV, _) => ("SIGSEGV", "segmentation fault"),
            (libc::SIGBUS, _) => ("SIGBUS", "bus error"),
            (libc::SIGILL, _) => ("SIGILL", "illegal instruction"),
            (libc::SIGFPE, FPE_INTDIV) => ("SIGFPE", "integer division by zero"),
            (libc::SIGFPE, _) => ("SIGFPE", "arithmetic trap"),
            (libc::SIGTRAP, _) => ("SIGTRAP", "trap"),
            _ => ("SIGABRT", "abort() was called"),
        }
    }
}

/// `si_code` of a fault without an address.
const SI_KERNEL: i32 = 128;
/// `si_code` of a division by zero.
const FPE_INTDIV: i32 = 1;

impl Failure {
    fn describe(&self, message: &mut String) {
        // SAFETY: device code passes C strings that are constants of its image.
        let text = |text: *const libc::c_char| unsafe {
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy())
        };
        message.push_str(&text(self.what).unwrap_or("trap".into()));
        if let Some(file) = text(self.file) {
            let _ = write!(message, " ({file}:{})", self.line);
        }
    }
}

fn stuck(message: &mut String, items: &[([u32; 3], State); 2]) {
    message.push_str("items of the group wait for each other at different places: ");
    let phrases = items.map(|([x, y, z], state)| {
        let place = match state {
            State::Ready => "runs",
            State::Done => "has returned",
            State::Waiting(Wait::Barrier | Wait::BarrierOfRest) => "waits at a barrier",
            State::Waiting(Wait::Gather | Wait::GatherOf(_)) => "waits at a sub-group operation",
            State::Waiting(Wait::Grid) => "waits at a barrier of the whole grid",
        };
        format!("({x}, {y}, {z}) {place}")
    });
    message.push_str(&phrases.join(", "));
}
