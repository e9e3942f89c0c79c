//! Actions: calls made when the memory of linked code has its contents, and calls that undo them
//! before it is given back (JITLink's allocation actions). The owner of the memory runs them, in
//! the process that runs the code.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A call of a function in the executor, with its argument's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionCall {
    function: u64,
    #[serde(with = "serde_bytes")]
    argument: Vec<u8>,
}

impl ActionCall {
    /// Creates a call of the function at an address with these bytes.
    ///
    /// # Safety
    /// In the executor, the address must be that of an [`ActionFunction`] that may be called with
    /// these bytes whenever its allocation is finalized or deallocated.
    pub unsafe fn new(function: u64, argument: Vec<u8>) -> Self {
        Self { function, argument }
    }

    /// Returns the address of the function.
    pub fn function(&self) -> u64 {
        self.function
    }

    /// Returns the argument's bytes.
    pub fn argument(&self) -> &[u8] {
        &self.argument
    }
}

/// The type of an action's function. It returns null for success, otherwise a message allocated by
/// `malloc`, which the caller frees.
pub type ActionFunction = unsafe extern "C" fn(argument: *const u8, size: usize) -> *mut c_char;

/// A call after finalization and the call that undoes it (JITLink's `AllocActionCallPair`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionPair {
    /// The call made when the memory has its final contents and protections.
    pub finalize: Option<ActionCall>,
    /// The call made before the memory is given back.
    pub deallocate: Option<ActionCall>,
}

/// Runs the finalize actions of an allocation in order, and returns the calls that undo them in the
/// same order. `name` is used in messages.
///
/// If an action fails, the earlier ones are undone in reverse order. The error has its message,
/// followed by messages of failed undoing.
pub fn finalize(name: &str, actions: Vec<ActionPair>) -> Result<Vec<ActionCall>> {
    let _running = Running::begin();
    let mut undo = Vec::with_capacity(actions.len());
    for (index, pair) in actions.into_iter().enumerate() {
        if let Some(Err(message)) = pair.finalize.as_ref().map(call) {
            let mut messages = vec![format!("{name}: finalize action {index}: {message}")];
            messages.extend(deallocate(name, &undo));
            return Err(Error::Action(messages));
        }
        undo.extend(pair.deallocate);
    }
    Ok(undo)
}

/// Runs all deallocate actions in reverse order, and returns the messages of failed ones.
pub fn deallocate(name: &str, calls: &[ActionCall]) -> Vec<String> {
    let run = |(index, action)| {
        call(action).err().map(|message| format!("{name}: deallocate action {index}: {message}"))
    };
    calls.iter().enumerate().rev().filter_map(run).collect()
}

/// Returns whether this thread is running finalize actions; a link waits for it then.
pub fn are_finalizing() -> bool {
    RUNNING.get() > 0
}

thread_local!(static RUNNING: Cell<u32> = const { Cell::new(0) });

/// The mark that the thread runs finalize actions, until it is dropped.
struct Running;

impl Running {
    fn begin() -> Self {
        RUNNING.set(RUNNING.get() + 1);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(RUNNING.get() - 1);
    }
}

fn call(action: &ActionCall) -> Result<(), String> {
    let address = usize::try_from(action.function)
        .map_err(|_| format!("{:#x} is no address", action.function))?;
    if address == 0 {
        return Err("its function is null".to_owned());
    }
    // SAFETY: the creator of the action guarantees that its function is an `ActionFunction` (see
    // `ActionCall::new`).
    let function = unsafe {
        std::mem::transmute::<*const (), ActionFunction>(std::ptr::with_exposed_provenance(address))
    };
    // SAFETY: the argument is valid for reads of its length during the call; an `ActionFunction`
    // may require no more.
    let message = unsafe { function(action.argument.as_ptr(), action.argument.len()) };
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: an `ActionFunction` returns a null-terminated string, and leaves it to its caller.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: the string was allocated by `malloc` and belongs to the caller; `text` is a copy.
    unsafe { libc::free(message.cast::<c_void>()) };
    Err(text)
}

/// Returns a message in the form that an action returns.
pub(crate) fn message(text: &str) -> *mut c_char {
    let text = CString::new(text).expect("no message contains a zero");
    // SAFETY: the argument is a null-terminated string.
    unsafe { libc::strdup(text.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// The calls of actions, in order. An action is called with the address of its log, whether to
    /// fail, and its name.
    #[derive(Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl Log {
        fn call(&self, name: &str) -> ActionCall {
            self.action(name, false)
        }

        fn failing(&self, name: &str) -> ActionCall {
            self.action(name, true)
        }

        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock())
        }

        fn action(&self, name: &str, fails: bool) -> ActionCall {
            let log = (Arc::as_ptr(&self.0) as u64).to_ne_bytes();
            let argument = [&log[..], &[fails.into()], name.as_bytes()].concat();
            // SAFETY: the function takes the argument that is made here.
            unsafe { ActionCall::new(record as *const () as u64, argument) }
        }
    }

    fn pair(log: &Log, name: &str) -> ActionPair {
        ActionPair {
            finalize: Some(log.call(&format!("+{name}"))),
            deallocate: Some(log.call(&format!("-{name}"))),
        }
    }

    unsafe extern "C" fn record(argument: *const u8, size: usize) -> *mut c_char {
        // SAFETY: the caller of an action passes the size of its argument.
        let argument = unsafe { std::slice::from_raw_parts(argument, size) };
        let (log, rest) = argument.split_first_chunk().unwrap();
        let name = std::str::from_utf8(&rest[1..]).unwrap();
        // SAFETY: `Log::action` has stored the address, and its test still has the log.
        let log = unsafe { &*(u64::from_ne_bytes(*log) as *const Mutex<Vec<String>>) };
        log.lock().push(name.to_owned());
        if rest[0] == 0 { std::ptr::null_mut() } else { message(&format!("{name} failed")) }
    }

    #[test]
    fn finalize_actions_run_in_order_and_their_counterparts_in_reverse() {
        let log = Log::default();
        let undo = finalize("test", vec![pair(&log, "a"), pair(&log, "b")]).unwrap();
        assert_eq!(log.take(), ["+a", "+b"]);
        assert!(deallocate("test", &undo).is_empty());
        assert_eq!(log.take(), ["-b", "-a"]);
    }

    #[test]
    fn a_failing_finalize_action_undoes_earlier_ones() {
        let log = Log::default();
        let failing = ActionPair { finalize: Some(log.failing("+b")), ..pair(&log, "b") };
        let error = finalize("test", vec![pair(&log, "a"), failing, pair(&log, "c")]).unwrap_err();
        assert_eq!(log.take(), ["+a", "+b", "-a"]);
        assert_eq!(error.to_string(), "test: finalize action 1: +b failed");
    }

    #[test]
    fn a_failure_while_undoing_is_reported_after_its_cause() {
        let log = Log::default();
        let first = ActionPair { deallocate: Some(log.failing("-a")), ..pair(&log, "a") };
        let failing = ActionPair { finalize: Some(log.failing("+b")), ..pair(&log, "b") };
        let Err(Error::Action(messages)) = finalize("test", vec![first, failing]) else {
            panic!("must fail")
        };
        assert_eq!(
            messages,
            ["test: finalize action 1: +b failed", "test: deallocate action 0: -a failed"]
        );
    }

    #[test]
    fn a_failing_deallocate_action_stops_nothing() {
        let log = Log::default();
        let messages = deallocate("test", &[log.call("-a"), log.failing("-b"), log.call("-c")]);
        assert_eq!(log.take(), ["-c", "-b", "-a"]);
        assert_eq!(messages, ["test: deallocate action 1: -b failed"]);
    }

    #[test]
    fn a_pair_may_lack_either_half() {
        let log = Log::default();
        let only_undo = ActionPair { finalize: None, ..pair(&log, "a") };
        let only_do = ActionPair { deallocate: None, ..pair(&log, "b") };
        let undo = finalize("test", vec![only_undo, only_do, ActionPair::default()]).unwrap();
        deallocate("test", &undo);
        assert_eq!(log.take(), ["+b", "-a"]);
    }

    #[test]
    fn a_null_function_is_an_error() {
        // SAFETY: a null function is not called.
        let null = unsafe { ActionCall::new(0, Vec::new()) };
        assert!(
            finalize("test", vec![ActionPair { finalize: Some(null), deallocate: None }]).is_err()
        );
    }
}
