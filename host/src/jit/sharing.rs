//! Results that programs of this process share.
//!
//! Threads that load the same image at the same time compile the image once: one thread compiles,
//! and the other threads block until its result or its error. A result lives as long as a program
//! holds it.

use super::key::Key;
use longshore_plugin_api::Result;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock, Weak};

type Code = Arc<Vec<u8>>;
type Outcome = Arc<OnceLock<Result<Code>>>;

enum Known {
    /// A compilation under way, or one whose result was not entered yet.
    Running(Outcome),
    /// A result, alive while a program holds it.
    Done(Weak<Vec<u8>>),
}

static KNOWN: LazyLock<Mutex<HashMap<Key, Known>>> = LazyLock::new(Mutex::default);

/// Returns the result of a key: one that a program holds, the result of a compilation that is under
/// way in another thread, or that of `compile`. Blocks.
///
/// # Errors
/// Errors of `compile`, which all waiting threads get. A later call compiles again.
pub(super) fn once(key: Key, compile: impl FnOnce() -> Result<Vec<u8>>) -> Result<Code> {
    let outcome = match found(key) {
        Ok(code) => return Ok(code),
        Err(outcome) => outcome,
    };
    let result = outcome.get_or_init(|| compile().map(Arc::new)).clone();
    let mut known = KNOWN.lock();
    if matches!(known.get(&key), Some(Known::Running(running)) if Arc::ptr_eq(running, &outcome)) {
        match &result {
            Ok(code) => known.insert(key, Known::Done(Arc::downgrade(code))),
            Err(_) => known.remove(&key),
        };
    }
    result
}

/// Returns the live result of a key, or, as the error, the place of the result to come.
fn found(key: Key) -> std::result::Result<Code, Outcome> {
    let mut known = KNOWN.lock();
    match known.get(&key) {
        Some(Known::Running(outcome)) => return Err(Arc::clone(outcome)),
        Some(Known::Done(code)) => {
            if let Some(code) = code.upgrade() {
                return Ok(code);
            }
        }
        None => {}
    }
    known.retain(|_, known| match known {
        Known::Running(_) => true,
        Known::Done(code) => code.strong_count() > 0,
    });
    let outcome = Outcome::default();
    known.insert(key, Known::Running(Arc::clone(&outcome)));
    Err(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_plugin_api::{Error, ErrorCode};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn threads_that_load_the_same_image_compile_it_once() {
        let (key, begin, count) =
            (Key::from_parts(&[b"once"]), Barrier::new(16), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let load = || {
                begin.wait();
                let code = once(key, || {
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(b"code".to_vec())
                });
                // The result of each thread lives until all threads have one.
                begin.wait();
                assert_eq!(**code.as_ref().unwrap(), b"code");
                begin.wait();
            };
            (0..16).for_each(|_| drop(scope.spawn(load)));
        });
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_result_goes_with_its_last_program_and_an_error_is_not_kept() {
        let key = Key::from_parts(&[b"goes"]);
        let code = once(key, || Ok(vec![1])).unwrap();
        assert!(Arc::ptr_eq(&code, &once(key, || Ok(vec![2])).unwrap()));
        drop(code);
        assert_eq!(*once(key, || Ok(vec![3])).unwrap(), [3]);
        let error = || Err(Error::new(ErrorCode::CompileFailure, "wrong"));
        assert!(once(key, error).is_err());
        assert_eq!(*once(key, || Ok(vec![4])).unwrap(), [4]);
    }
}
