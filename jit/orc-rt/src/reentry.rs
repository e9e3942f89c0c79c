//! Re-entry: the path of a call of a function that is not linked yet, to the code that provides the
//! function (the `__orc_rt_reentry` part of ORC's runtime).
//!
//! The code calls a *trampoline*, a few instructions in place of the function. The trampoline jumps
//! to the function whose address is [`reenter_function`]. That function saves all registers, even
//! caller-saved ones: a caller that knows the function's code relies on registers that the code
//! does not change. It calls a hook, restores the registers, and continues at the address that the
//! hook returns, as if that address had been called directly. Arguments on the stack, results and
//! exceptions pass between the caller and the function, as the trampoline leaves no frame.
//!
//! Trampolines are emitted in batches. Each batch has a [`TrampolineHeader`], so that trampolines
//! and hook need only one number from the code that emitted them, the *context*. The context is a
//! key in a table of the process, as the code passes nothing else, from any thread; or a tag of the
//! controller, which is called back.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod lock_owner;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::service::run::{Arguments, run_constructors};
use crate::{actions, callback};

pub(crate) use lock_owner::as_lock_owner;
pub use lock_owner::lock_owner;

/// The header of a batch of trampolines, in the layout that the code reads.
///
/// A trampoline reaches `reenter` with every register as the caller left it, with the following
/// exceptions. On x86-64, `r11` holds the address of the header. Two words are pushed onto the
/// stack after the return address: the trampoline's number within the batch (in its lower 32 bits),
/// then the caller's `r11`. On AArch64, `x15` holds the address of the header and `x17` that of the
/// trampoline. The caller's `x15` is at `sp`, in its own 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct TrampolineHeader {
    /// The address of [`reenter_function`] in the executor.
    pub reenter: u64,
    /// The address of [`hook_function`] in that process, or of another [`Hook`].
    pub hook: u64,
    /// The context in which a target is requested.
    pub context: u64,
    /// The number of the batch, for the context's handler.
    pub batch: u64,
    /// The address of the first trampoline. The others follow, [`TRAMPOLINE_SIZE`] bytes each.
    pub trampolines: u64,
    /// The address of the slots, 8 bytes for each trampoline, for the context's handler.
    pub slots: u64,
}

/// Bytes of a trampoline.
pub const TRAMPOLINE_SIZE: u64 = 16;

/// The type of a hook: it returns the target of a call, for the batch's header and the address of
/// the trampoline.
pub type Hook = unsafe extern "C" fn(header: *const TrampolineHeader, trampoline: u64) -> u64;

/// A call through a trampoline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReentryCall {
    /// The number of the batch.
    pub batch: u64,
    /// The index of the trampoline in the batch.
    pub index: u64,
    /// The address of that trampoline's slot.
    pub slot: u64,
    /// Whether a resolver of an indirect function has made the call, so that a link waits for its
    /// end.
    pub while_linking: bool,
    /// The [lock owner](lock_owner()) of the calling thread.
    pub lock_owner: u64,
}

/// A request to a controller that is called back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReentryRequest {
    /// A request for the target of a call.
    Call(ReentryCall),
    /// A second request for the target, after running the requested
    /// [constructors](ReentryReply::Construct).
    Constructed(ReentryCall),
}

/// The controller's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReentryReply {
    /// The target at which the call continues.
    Target(ReentryTarget),
    /// The constructors to run first, on the thread that made the call, which then requests the
    /// target again.
    Construct {
        /// Addresses of the constructors, in order.
        functions: Vec<u64>,
        /// Arguments of the constructors.
        arguments: Arguments,
    },
}

/// A provider of the functions that trampolines stand for.
pub trait Reenter: Send + Sync {
    /// Returns the target of a call that a thread of this process has made. Runs on that thread,
    /// several at a time; a panic ends the process.
    ///
    /// Instead of returning, an implementation may leave the calling code, as `longjmp` does: the
    /// [`hook_function`] holds no resource meanwhile.
    ///
    /// # Errors
    /// The message with which the process ends.
    fn reenter(self: Arc<Self>, call: ReentryCall) -> Result<ReentryTarget, String>;
}

/// The target of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReentryTarget {
    /// The address.
    pub target: u64,
    /// Whether the hook writes the address to the trampoline's slot, by one store. A hook does not
    /// write if the batch was [retired](retire) since.
    pub redirect: bool,
}

/// A context: while it lives, its handler receives the calls. It can be dropped at any time. A call
/// after the end of the context or its handler ends the process.
#[derive(Debug)]
pub struct ReentryContext(u64);

/// The handlers of the contexts.
static CONTEXTS: RwLock<Contexts> = RwLock::new(Contexts { last: 0, known: BTreeMap::new() });

/// The batches whose slots are not written any more.
static RETIRED: RwLock<BTreeSet<(u64, u64)>> = RwLock::new(BTreeSet::new());

struct Contexts {
    last: u64,
    known: BTreeMap<u64, Weak<dyn Reenter>>,
}

impl ReentryContext {
    /// Creates a context with `calls` as its handler.
    pub fn new(calls: Weak<dyn Reenter>) -> Self {
        let mut contexts = CONTEXTS.write();
        contexts.last += 1;
        let number = contexts.last;
        contexts.known.insert(number, calls);
        Self(number)
    }

    /// Returns the context's number, for [`TrampolineHeader::context`]. No other context of the
    /// process ever has it.
    pub fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for ReentryContext {
    fn drop(&mut self) {
        CONTEXTS.write().known.remove(&self.0);
    }
}

/// Returns the address of the code that trampolines of this process jump to. It saves the vector
/// registers that this processor has.
pub fn reenter_function() -> u64 {
    arch::reenter_function()
}

/// Returns the address of this process's [`Hook`]: it calls the context's handler. It preserves
/// `errno`.
pub fn hook_function() -> u64 {
    let hook: Hook = hook;
    hook as usize as u64
}

/// Returns the address of the hook for a controller, which may be another process. The hook calls
/// back with the context as the tag and a [`ReentryRequest`] in postcard's format as the argument.
/// The reply must be a [`ReentryReply`]; without one the hook ends the process.
pub fn controller_hook_function() -> u64 {
    let hook: Hook = controller_hook;
    hook as usize as u64
}

/// Exit code of a process ended by [`not_linked_function`]. The dynamic linker uses the same code
/// for a process that calls a missing function.
pub const NOT_LINKED: i32 = 127;

/// Returns the address of a function that ends the process at once with the code [`NOT_LINKED`],
/// whatever its arguments. It takes the place of a function that cannot be linked. The code that
/// directs a call to it has reported the reason.
pub fn not_linked_function() -> u64 {
    not_linked as *const () as u64
}

extern "C" fn not_linked() -> ! {
    // SAFETY: the call is valid anywhere.
    unsafe { libc::_exit(NOT_LINKED) }
}

/// # Safety
/// `header` must be the header of the batch to which the trampoline belongs.
unsafe extern "C" fn hook(header: *const TrampolineHeader, trampoline: u64) -> u64 {
    reach_stack();
    // SAFETY: guaranteed by the caller.
    let header = unsafe { header.read() };
    keeping_errno(|| {
        let calls = CONTEXTS.read().known.get(&header.context).and_then(Weak::upgrade);
        let Some(calls) = calls else {
            end_process(&format!(
                "the trampoline at {trampoline:#x} was called, and its emitter is gone; keep the emitter while its code is called"
            ))
        };
        let call = header.call_of(trampoline);
        let destination = calls.reenter(call).unwrap_or_else(|problem| end_process(&problem));
        go_on(&header, call, destination)
    })
}

/// Least number of bytes of stack that a linker needs.
const LEAST_STACK: usize = 32 << 10;

/// Touches the stack that will be needed. With too little stack the overflow happens here, before
/// any resource is held, so that the thread can be taken out of the call.
#[inline(never)]
fn reach_stack() {
    // Entering a function with so large a frame touches all of its pages.
    let mut frame = std::mem::MaybeUninit::<[u8; LEAST_STACK]>::uninit();
    std::hint::black_box(&mut frame);
}

/// # Safety
/// As for [`hook`].
unsafe extern "C" fn controller_hook(header: *const TrampolineHeader, trampoline: u64) -> u64 {
    // SAFETY: guaranteed by the caller.
    let header = unsafe { header.read() };
    keeping_errno(|| {
        let call = header.call_of(trampoline);
        let ask = |request| {
            ask_controller(header.context, request).unwrap_or_else(|problem| {
                end_process(&format!(
                    "the trampoline at {trampoline:#x} was called, but the controller gave no target for the call: {problem}"
                ))
            })
        };
        let mut reply = ask(ReentryRequest::Call(call));
        loop {
            match reply {
                ReentryReply::Target(destination) => return go_on(&header, call, destination),
                ReentryReply::Construct { functions, arguments } => {
                    // SAFETY: guaranteed by the code that emitted the trampoline: the controller
                    // lists constructors.
                    unsafe { run_constructors((functions, arguments)) };
                    reply = ask(ReentryRequest::Constructed(call));
                }
            }
        }
    })
}

fn ask_controller(tag: u64, request: ReentryRequest) -> Result<ReentryReply, String> {
    let argument = postcard::to_allocvec(&request).expect("numbers are written");
    let reply = callback::call_controller(tag, &argument)?;
    postcard::from_bytes(&reply).map_err(|error| format!("its reply is malformed: {error}"))
}

/// Redirects later calls if that is requested, and returns the target of this one.
fn go_on(header: &TrampolineHeader, call: ReentryCall, destination: ReentryTarget) -> u64 {
    if destination.redirect {
        let retired = RETIRED.read();
        if !retired.contains(&(header.context, call.batch)) {
            // SAFETY: the slot exists until its batch is retired, and is an aligned word. Stubs
            // read it, and it is written only by single stores.
            unsafe { AtomicU64::from_ptr(call.slot as *mut u64) }
                .store(destination.target, Ordering::Release);
        }
    }
    destination.target
}

/// Stops hooks from writing to the slots of a batch, named by its context and its number, or
/// permits it again. Must be called before the slots' memory is freed: no hook writes there after
/// the return.
pub fn retire(context: u64, batch: u64, retired: bool) {
    let mut all = RETIRED.write();
    if retired {
        all.insert((context, batch));
    } else {
        all.remove(&(context, batch));
    }
}

/// Runs a function, and restores `errno` afterwards for a caller that does not expect the call.
fn keeping_errno<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: the function returns the address of this thread's variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address is that of this thread's variable.
    let kept = unsafe { errno.read() };
    let result = run();
    // SAFETY: the address is that of this thread's variable.
    unsafe { errno.write(kept) };
    result
}

impl TrampolineHeader {
    /// Returns the call that has come through one of the batch's trampolines, on this thread.
    pub fn call_of(&self, trampoline: u64) -> ReentryCall {
        let index = trampoline.wrapping_sub(self.trampolines) / TRAMPOLINE_SIZE;
        let slot = self.slots.wrapping_add(index.wrapping_mul(size_of::<u64>() as u64));
        let (while_linking, lock_owner) = (actions::are_finalizing(), lock_owner());
        ReentryCall { batch: self.batch, index, slot, while_linking, lock_owner }
    }
}

/// Ends the process: the call has no target, and nothing can be returned to the caller.
fn end_process(problem: &str) -> ! {
    eprintln!("longshore: {problem}");
    std::process::abort()
}

#[cfg(test)]
mod tests;
