//! Failing calls of a driver, one at a time.

use super::{Double, Round};
use crate::effort;
use longshore::ErrorCode;

const OUT_OF_MEMORY: u32 = 2;
const UNKNOWN: u32 = 999;
/// Maximum number of calls to one function that are made to fail.
const MOST_CALLS: u64 = 200;
/// Number of first calls to a function that fail when not all do; the last call fails, too.
const FIRST_CALLS: u64 = 2;

/// A function that frees an object which a double has kept after a failure.
pub type GiveBack = fn(&Double);

/// Facts about the functions of a driver.
pub struct Functions {
    /// Common prefix of all names.
    pub start: &'static str,
    /// Minimum number of functions that a round calls.
    pub least: usize,
    /// Hints, and queries with an alternative: their failure need not be reported.
    pub not_needed: &'static [&'static str],
    /// Functions with an alternative when memory is short.
    pub other_way: &'static [&'static str],
    /// Functions that destroy an object. The driver keeps the object if the call fails.
    pub endings: &'static [&'static str],
    /// Queries about a device. The host skips a device without answers if there are other devices.
    pub about_devices: &'static [&'static str],
    /// Functions that are the only way to destroy an object, with the double's name for the object.
    pub only_ends: &'static [(&'static str, &'static str)],
    /// Function whose failure leaves an object behind, and the call that frees the object for the
    /// next rounds.
    pub kept: Option<(&'static str, GiveBack)>,
}

/// Makes each call of a round fail once; where tests do not try [all](effort::is_all), only the
/// first calls and the last call of each function. The failure must be reported with its code,
/// nothing may leak, and the next round must work.
pub fn each_call_fails_once(double: &Double, round: &Round, functions: &Functions) {
    let trial = Trial { double, round, functions, result: UNKNOWN };
    trial.each_call(ErrorCode::BackendFailure);
}

/// Makes each call of a round lack memory, with the same choice of calls.
pub fn each_call_lacks_memory(double: &Double, round: &Round, functions: &Functions) {
    let trial = Trial { double, round, functions, result: OUT_OF_MEMORY };
    trial.each_call(ErrorCode::OutOfResources);
}

struct Trial<'a> {
    double: &'a Double,
    round: &'a Round,
    functions: &'a Functions,
    result: u32,
}

impl Trial<'_> {
    fn each_call(&self, code: ErrorCode) {
        let Trial { double, functions, .. } = *self;
        self.round.run().expect("a round with a driver that works");
        let calls = double.calls();
        self.round.run().expect("another one");
        let count = |name: &str| {
            let before =
                calls.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
            double.calls_of(name) - before
        };
        // The count includes calls on the double's own threads.
        let called = calls.iter().filter(|(name, _)| name.starts_with(functions.start));
        let in_a_round: Vec<_> = called.map(|(name, _)| (name.clone(), count(name))).collect();
        assert!(in_a_round.len() >= functions.least, "{in_a_round:?}");
        for (function, count) in in_a_round {
            let is_tried = |nth: &u64| effort::is_all() || *nth <= FIRST_CALLS || *nth == count;
            for nth in (1..=count.min(MOST_CALLS)).filter(is_tried) {
                self.one_call((&function, count), nth, code);
            }
        }
    }

    /// Makes one call fail. `usually` is the number of calls to the function in a round without
    /// failures.
    fn one_call(&self, (function, usually): (&str, u64), nth: u64, code: ErrorCode) {
        let Trial { double, functions, result, .. } = *self;
        let what = format!("call {nth} of {function} fails with {result}");
        let (before, kept_before) = (double.calls_of(function), double.live());
        double.fail(function, nth, result);
        let failed = self.round.run();
        double.clear();
        // When memory is short, the host frees cached memory and tries again.
        let is_retried = result == OUT_OF_MEMORY && double.calls_of(function) - before > usually;
        assert_eq!(double.violations(), [""; 0], "{what}: {failed:?}");
        if !functions.endings.contains(&function) {
            assert_eq!(double.lost(), [""; 0], "{what}");
        }
        let lists =
            [functions.not_needed, functions.other_way, functions.endings, functions.about_devices];
        let may_pass = lists.concat().contains(&function);
        match failed {
            Ok(()) => assert!(may_pass || is_retried, "{what} of {usually}, without a report"),
            Err(error) => {
                let number = error.vendor().map(|vendor| vendor.number);
                assert_eq!(number, Some(i64::from(result)), "{what}: {error}");
                assert_eq!(error.code(), code, "{what}: {error}");
            }
        }
        if let Some((_, give_back)) = functions.kept.filter(|(kept, _)| *kept == function) {
            give_back(double);
            double.reset();
        }
        let is_only_end = |what: &String| {
            functions.only_ends.iter().any(|(end, of)| *end == function && what.starts_with(of))
        };
        let is_kept = |what: &String| kept_before.contains(what) || is_only_end(what);
        let live: Vec<_> = double.live().into_iter().filter(|what| !is_kept(what)).collect();
        assert_eq!(live, [""; 0], "{what}");
        double.reset();
        self.round.run().unwrap_or_else(|error| panic!("the round after {what}: {error}"));
        assert_eq!(double.violations(), [""; 0], "the round after {what}");
        double.reset();
    }
}
