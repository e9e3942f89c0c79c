//! Calls of the driver's functions: how many there were, which ones fail, and which are slow.

use crate::Settings;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts of calls and rules about them, by the names of functions.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    functions: Mutex<BTreeMap<String, Function>>,
}

#[derive(Debug, Default)]
struct Function {
    calls: u64,
    /// Calls left up to the one that fails, and the code that this call returns.
    fails: Vec<(u64, u32)>,
    delay: Duration,
}

impl Calls {
    /// Reads the settings `fail` and `slow`. With `fail=cuMemAlloc_v2:3:2,...` the third call
    /// returns the code 2. With `slow=cuLaunchKernel:500us,...` each call takes 500 µs longer.
    ///
    /// # Panics
    /// For a malformed rule, as a test that sets one relies on it.
    pub(crate) fn new(settings: &Settings) -> Calls {
        let calls = Calls::default();
        for rule in settings.list("fail") {
            let parts: Vec<&str> = rule.split(':').collect();
            let [name, nth, code] = parts[..] else { panic!("'fail={rule}'") };
            let numbers = nth.parse().ok().zip(code.parse().ok());
            let (nth, code) = numbers.unwrap_or_else(|| panic!("'fail={rule}'"));
            calls.fail(name, nth, code);
        }
        for rule in settings.list("slow") {
            let parts = rule.split_once(':').and_then(|(name, delay)| {
                Some((name, Duration::from_micros(delay.strip_suffix("us")?.parse().ok()?)))
            });
            let (name, delay) = parts.unwrap_or_else(|| panic!("'slow={rule}'"));
            calls.set_delay(name, delay);
        }
        calls
    }

    /// Counts a call and waits for the set delay. Returns the code with which the call has to fail,
    /// if any.
    pub(crate) fn enter(&self, name: &str) -> Option<u32> {
        let mut functions = self.functions.lock();
        if !functions.contains_key(name) {
            functions.insert(name.to_owned(), Function::default());
        }
        let function = functions.get_mut(name).expect("it was just inserted");
        function.calls += 1;
        let mut code = None;
        function.fails.retain_mut(|(left, returned)| {
            *left -= 1;
            if *left == 0 {
                code = Some(*returned);
            }
            *left > 0
        });
        let delay = function.delay;
        drop(functions);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        code
    }

    /// Makes the `nth` call from now on return `code`; 1 is the next call.
    pub(crate) fn fail(&self, name: &str, nth: u64, code: u32) {
        self.with(name, |function| function.fails.push((nth.max(1), code)));
    }

    /// Makes each call take `delay` longer.
    pub(crate) fn set_delay(&self, name: &str, delay: Duration) {
        self.with(name, |function| function.delay = delay);
    }

    /// Removes all rules for failures and delays.
    pub(crate) fn clear(&self) {
        for function in self.functions.lock().values_mut() {
            function.fails.clear();
            function.delay = Duration::ZERO;
        }
    }

    /// Returns the called functions with their numbers of calls.
    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let functions = self.functions.lock();
        let called = functions.iter().filter(|(_, function)| function.calls > 0);
        called.map(|(name, function)| (name.clone(), function.calls)).collect()
    }

    fn with(&self, name: &str, change: impl FnOnce(&mut Function)) {
        change(self.functions.lock().entry(name.to_owned()).or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_from_now_on_fails_once() {
        let calls = Calls::new(&Settings::parse("fail=a:2:7;slow=b:1us"));
        let results: Vec<_> = (0..4).map(|_| calls.enter("a")).collect();
        assert_eq!(results, [None, Some(7), None, None]);
        calls.fail("a", 1, 9);
        assert_eq!(calls.enter("a"), Some(9));
        calls.fail("a", 1, 9);
        calls.clear();
        assert_eq!(calls.enter("a"), None);
        assert_eq!(calls.enter("b"), None);
        assert_eq!(calls.counts(), [("a".to_owned(), 6), ("b".to_owned(), 1)]);
    }
}
