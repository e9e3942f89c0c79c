//! Calls of the driver's functions: how many there were, which ones fail, and which are slow.

use crate::Settings;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known and what was told of calls, by the names of functions.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    functions: Mutex<BTreeMap<String, Function>>,
}

#[derive(Debug, Default)]
struct Function {
    calls: u64,
    /// How many more calls there are up to the one that fails, and what that returns.
    fails: Vec<(u64, u32)>,
    delay: Duration,
}

impl Calls {
    /// What the settings `fail` and `slow` say: `fail=cuMemAlloc_v2:3:2,...` has the third call return 2,
    /// `slow=cuLaunchKernel:500us,...` has each take so long.
    ///
    /// # Panics
    /// If they cannot be understood: a test that sets them means them.
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

    /// Counts a call. The code with which it is to fail, if it is, after the delay that was set.
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

    /// Has the `nth` call from now on return `code`; 1 is the next one.
    pub(crate) fn fail(&self, name: &str, nth: u64, code: u32) {
        self.with(name, |function| function.fails.push((nth.max(1), code)));
    }

    /// Has each call take that much longer.
    pub(crate) fn set_delay(&self, name: &str, delay: Duration) {
        self.with(name, |function| function.delay = delay);
    }

    /// Forgets which calls fail and are slow.
    pub(crate) fn clear(&self) {
        for function in self.functions.lock().values_mut() {
            function.fails.clear();
            function.delay = Duration::ZERO;
        }
    }

    /// The functions that were called, and how often.
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
