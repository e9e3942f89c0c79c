//! Runs actions in this process.

use std::ffi::{CStr, c_void};

use super::{ActionCall, ActionFunction, ActionPair};
use crate::{Error, Result};

/// Runs finalize actions in order, and gives the calls that undo them, in the same order.
///
/// If one fails, those before it are undone in reverse order; the error has its message, and those of undoing after it.
pub(crate) fn finalize(name: &str, actions: Vec<ActionPair>) -> Result<Vec<ActionCall>> {
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

/// Runs deallocate actions in reverse order, all of them, and gives the messages of those that failed.
pub(crate) fn deallocate(name: &str, calls: &[ActionCall]) -> Vec<String> {
    let run = |(index, action)| {
        call(action).err().map(|message| format!("{name}: deallocate action {index}: {message}"))
    };
    calls.iter().enumerate().rev().filter_map(run).collect()
}

fn call(action: &ActionCall) -> Result<(), String> {
    let address = usize::try_from(action.function)
        .map_err(|_| format!("{:#x} is no address", action.function))?;
    if address == 0 {
        return Err("its function is null".to_owned());
    }
    // SAFETY: whoever made the action promises that its function is an `ActionFunction` (see `ActionCall::new`).
    let function = unsafe {
        std::mem::transmute::<*const (), ActionFunction>(std::ptr::with_exposed_provenance(address))
    };
    // SAFETY: the argument is valid for reads of its length during the call, all that an `ActionFunction` may ask for.
    let message = unsafe { function(action.argument.as_ptr(), action.argument.len()) };
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: an `ActionFunction` returns a string that ends with zero, and leaves it to its caller.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: as above; it was allocated by `malloc`, and `text` is a copy.
    unsafe { libc::free(message.cast::<c_void>()) };
    Err(text)
}

#[cfg(test)]
mod tests {
    use super::super::support::{Log, pair};
    use super::*;

    #[test]
    fn finalize_actions_run_in_order_and_their_counterparts_in_reverse() {
        let log = Log::default();
        let undo = finalize("test", vec![pair(&log, "a"), pair(&log, "b")]).unwrap();
        assert_eq!(log.take(), ["+a", "+b"]);
        assert!(deallocate("test", &undo).is_empty());
        assert_eq!(log.take(), ["-b", "-a"]);
    }

    #[test]
    fn a_failing_finalize_action_undoes_those_before_it() {
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
