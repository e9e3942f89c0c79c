//! Re-entry: how code that calls a function which is not there yet gets to somebody who provides it (the part of ORC's
//! runtime that is `__orc_rt_reentry`).
//!
//! The code has called a *trampoline*, a few instructions that stand in for the function. It goes on to the function
//! whose address is [`reenter_function`], which keeps all registers (also those that a function may change: a caller that knows
//! the function's code counts on those that it does not change), calls a hook, and continues at
//! the address that the hook returns as if that had been called in the first place: arguments on the stack, results and
//! exceptions are between the caller and the function, as the trampoline leaves no frame.
//!
//! Trampolines are emitted in batches. With each batch lies a [`TrampolineHeader`], so that neither the trampolines nor the
//! hook need to be told anything by whoever has emitted them but a number, the *context*. It is one that is known to a table
//! of the process, as the code passes in nothing else, from any thread; or a tag of the controller, which is called back.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod turn;
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

pub(crate) use turn::in_turn;
pub use turn::turn;

/// What lies with a batch of trampolines, as the code finds it.
///
/// A trampoline arrives at `reenter` with every register as the caller left it, but for these. On x86-64 `r11` has the address of the
/// header, and on the stack, above the return address, lie the number of the trampoline within the batch (its lower 32 bits count)
/// and the caller's `r11`. On AArch64 `x15` has the address of the header and `x17` that of the trampoline, and the caller's `x15` is
/// at `sp`, in 16 bytes of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct TrampolineHeader {
    /// [`reenter_function`] of the process that executes.
    pub reenter: u64,
    /// [`hook_function`] of that process, or another [`Hook`].
    pub hook: u64,
    /// Who is to be asked.
    pub context: u64,
    /// A number of the batch, for who is asked.
    pub batch: u64,
    /// The address of the first trampoline. The others follow, [`TRAMPOLINE_SIZE`] bytes each.
    pub trampolines: u64,
    /// An address, for who is asked: of one slot of 8 bytes for each trampoline.
    pub slots: u64,
}

/// Bytes of a trampoline.
pub const TRAMPOLINE_SIZE: u64 = 16;

/// Says where a call through a trampoline goes on, by the batch's header and the address of the trampoline.
pub type Hook = unsafe extern "C" fn(header: *const TrampolineHeader, trampoline: u64) -> u64;

/// A call through a trampoline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReentryCall {
    /// The number of the batch.
    pub batch: u64,
    /// Which trampoline of the batch it was.
    pub index: u64,
    /// The address of that trampoline's slot.
    pub slot: u64,
    /// Whether a resolver of an indirect function has led to it, so that a link waits for its end.
    pub while_linking: bool,
    /// The [turn] of the thread that made it.
    pub turn: u64,
}

/// What a controller is asked that is called back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Where a call goes on.
    Call(ReentryCall),
    /// The same, after the [constructors](Answer::Construct) that were to run before.
    Constructed(ReentryCall),
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The call goes on.
    Onward(Onward),
    /// Constructors are to run first, on the thread that made the call, which then asks again.
    Construct {
        /// Their addresses, in order.
        functions: Vec<u64>,
        /// What they are called with.
        arguments: Arguments,
    },
}

/// Who provides the functions for which trampolines stand in.
pub trait Reenter: Send + Sync {
    /// Returns where a call goes on that a thread of this process has made. It is called on that thread, several at a time; a panic
    /// ends the process.
    ///
    /// Instead of returning, an implementation may leave the code that made the call, as `longjmp` does: the [`hook_function`] holds
    /// nothing meanwhile.
    ///
    /// # Errors
    /// The message with which the process ends.
    fn reenter(self: Arc<Self>, call: ReentryCall) -> Result<Onward, String>;
}

/// Where a call goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Onward {
    /// The address.
    pub target: u64,
    /// Whether the hook writes it to the trampoline's slot, by one store. It does not if the batch has been [retired](retire) since.
    pub redirect: bool,
}

/// A context: while it lives, calls come to who was given with it. It can be dropped at any time. A call that comes afterwards,
/// or when that one is gone, ends the process.
#[derive(Debug)]
pub struct ReentryContext(u64);

/// Who is asked in each context.
static CONTEXTS: RwLock<Contexts> = RwLock::new(Contexts { last: 0, known: BTreeMap::new() });

/// The batches whose slots are not written any more.
static RETIRED: RwLock<BTreeSet<(u64, u64)>> = RwLock::new(BTreeSet::new());

struct Contexts {
    last: u64,
    known: BTreeMap<u64, Weak<dyn Reenter>>,
}

impl ReentryContext {
    /// A context in which `calls` is asked.
    pub fn new(calls: Weak<dyn Reenter>) -> Self {
        let mut contexts = CONTEXTS.write();
        contexts.last += 1;
        let number = contexts.last;
        contexts.known.insert(number, calls);
        Self(number)
    }

    /// Its number, for [`TrampolineHeader::context`]. No other context of the process ever has it.
    pub fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for ReentryContext {
    fn drop(&mut self) {
        CONTEXTS.write().known.remove(&self.0);
    }
}

/// The address at which trampolines of this process re-enter: of the code that keeps the vector registers that this processor
/// has.
pub fn reenter_function() -> u64 {
    arch::reenter_function()
}

/// The address of this process's [`Hook`]: it asks who is known by the context. It preserves `errno`.
pub fn hook_function() -> u64 {
    let hook: Hook = hook;
    hook as usize as u64
}

/// The address of the hook for a controller, which may be another process: it calls back with the context as the tag, a
/// [`Question`] as postcard writes it for the argument, and wants an [`Answer`]. If there is none it ends the process.
pub fn controller_hook_function() -> u64 {
    let hook: Hook = controller_hook;
    hook as usize as u64
}

/// The exit code of a process that [`not_linked_function`] has ended: what the dynamic linker ends one with that calls a function
/// which is not to be found.
pub const NOT_LINKED: i32 = 127;

/// The address of a function that ends the process at once with the code [`NOT_LINKED`], whatever it is called with: in place of one
/// that cannot be linked. Who sends a call there has said why.
pub fn not_linked_function() -> u64 {
    not_linked as *const () as u64
}

extern "C" fn not_linked() -> ! {
    // SAFETY: it may be called anywhere.
    unsafe { libc::_exit(NOT_LINKED) }
}

/// # Safety
/// `header` must be the header of a batch to which the trampoline belongs.
unsafe extern "C" fn hook(header: *const TrampolineHeader, trampoline: u64) -> u64 {
    reach_stack();
    // SAFETY: promised by the caller.
    let header = unsafe { header.read() };
    keeping_errno(|| {
        let calls = CONTEXTS.read().known.get(&header.context).and_then(Weak::upgrade);
        let Some(calls) = calls else {
            end_process(&format!(
                "the trampoline at {trampoline:#x} was called, and who emitted it is gone; keep it while its code is called"
            ))
        };
        let call = header.call_of(trampoline);
        let onward = calls.reenter(call).unwrap_or_else(|problem| end_process(&problem));
        go_on(&header, call, onward)
    })
}

/// The least of a stack that a linker needs.
const LEAST_STACK: usize = 32 << 10;

/// Touches the stack that will be needed. Who has too little of it overflows it here, where nothing is held as yet, so that the thread
/// can be taken out of the call.
#[inline(never)]
fn reach_stack() {
    // All pages of so large a frame are touched when it is made.
    let mut frame = std::mem::MaybeUninit::<[u8; LEAST_STACK]>::uninit();
    std::hint::black_box(&mut frame);
}

/// # Safety
/// As for [`hook`].
unsafe extern "C" fn controller_hook(header: *const TrampolineHeader, trampoline: u64) -> u64 {
    // SAFETY: promised by the caller.
    let header = unsafe { header.read() };
    keeping_errno(|| {
        let call = header.call_of(trampoline);
        let ask = |question| {
            ask_controller(header.context, question).unwrap_or_else(|problem| {
                end_process(&format!(
                    "the trampoline at {trampoline:#x} was called, and the controller does not say where that goes on: {problem}"
                ))
            })
        };
        let mut answer = ask(Question::Call(call));
        loop {
            match answer {
                Answer::Onward(onward) => return go_on(&header, call, onward),
                Answer::Construct { functions, arguments } => {
                    // SAFETY: promised by who emitted the trampoline: the controller has constructors run.
                    unsafe { run_constructors((functions, arguments)) };
                    answer = ask(Question::Constructed(call));
                }
            }
        }
    })
}

fn ask_controller(tag: u64, question: Question) -> Result<Answer, String> {
    let argument = postcard::to_allocvec(&question).expect("numbers are written");
    let answer = callback::call_controller(tag, &argument)?;
    postcard::from_bytes(&answer).map_err(|error| format!("its answer is nowhere: {error}"))
}

/// Redirects later calls, if that is wanted, and gives the address for this one.
fn go_on(header: &TrampolineHeader, call: ReentryCall, onward: Onward) -> u64 {
    if onward.redirect {
        let retired = RETIRED.read();
        if !retired.contains(&(header.context, call.batch)) {
            // SAFETY: the batch's slot, which is there as long as the batch has not been retired: an aligned word that stubs read, and
            // nobody writes otherwise but by one store.
            unsafe { AtomicU64::from_ptr(call.slot as *mut u64) }
                .store(onward.target, Ordering::Release);
        }
    }
    onward.target
}

/// Has hooks write nothing any more to the slots of a batch, known by its context and its number, or write there again. To be called
/// before memory goes to which an [`Onward`] may say to write: when it returns nobody does.
pub fn retire(context: u64, batch: u64, retired: bool) {
    let mut all = RETIRED.write();
    if retired {
        all.insert((context, batch));
    } else {
        all.remove(&(context, batch));
    }
}

/// Does something that the caller of a function knows nothing of.
fn keeping_errno<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: the address of this thread's variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { errno.read() };
    let result = run();
    // SAFETY: as above.
    unsafe { errno.write(kept) };
    result
}

impl TrampolineHeader {
    /// The call that has come through one of the batch's trampolines, on this thread.
    pub fn call_of(&self, trampoline: u64) -> ReentryCall {
        let index = trampoline.wrapping_sub(self.trampolines) / TRAMPOLINE_SIZE;
        let slot = self.slots.wrapping_add(index.wrapping_mul(size_of::<u64>() as u64));
        let (while_linking, turn) = (actions::are_finalizing(), turn());
        ReentryCall { batch: self.batch, index, slot, while_linking, turn }
    }
}

/// A call cannot go on, and nothing can be returned to the caller.
fn end_process(problem: &str) -> ! {
    eprintln!("longshore: {problem}");
    std::process::abort()
}

#[cfg(test)]
mod tests;
