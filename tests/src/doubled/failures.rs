//! Calls of a driver that fail, one at a time.

use super::{Double, Round};
use crate::effort;
use longshore::ErrorCode;

const OUT_OF_MEMORY: u32 = 2;
const UNKNOWN: u32 = 999;
/// Calls of a function that are tried, at most.
const MOST_CALLS: u64 = 200;
/// The first calls of a function, which are tried with the last one where not all are.
const FIRST_CALLS: u64 = 2;

/// Gives back what a double has kept.
pub type GiveBack = fn(&Double);

/// What is special about functions of a driver.
pub struct Functions {
    /// How the names of all begin.
    pub start: &'static str,
    /// So many are called in a round, at least.
    pub least: usize,
    /// Hints, and questions to which there is another way: nobody need be told.
    pub not_needed: &'static [&'static str],
    /// Where these say that memory is short, there may be another way.
    pub other_way: &'static [&'static str],
    /// What ends the life of something, which the driver keeps if the call fails.
    pub endings: &'static [&'static str],
    /// Questions about a device; one that does not answer them is passed over if there are others.
    pub about_devices: &'static [&'static str],
    /// Functions that alone can end what they end, and how the double calls that.
    pub only_ends: &'static [(&'static str, &'static str)],
    /// A function, and what gives back what it has kept when it failed, for the rounds that follow.
    pub kept: Option<(&'static str, GiveBack)>,
}

/// Each call of a round fails once, or of each function the first calls and the last where tests do not try
/// [all](effort::is_all): it is told with its code, nothing is lost, and the next round works.
pub fn each_call_fails_once(double: &Double, round: &Round, functions: &Functions) {
    let trial = Trial { double, round, functions, result: UNKNOWN };
    trial.each_call(ErrorCode::BackendFailure);
}

/// Each call of a round lacks memory, with the same choice.
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
        // What the double does on threads of its own, it counts too.
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

    /// `usually` is how often the function is called in a round in which nothing fails.
    fn one_call(&self, (function, usually): (&str, u64), nth: u64, code: ErrorCode) {
        let Trial { double, functions, result, .. } = *self;
        let what = format!("call {nth} of {function} fails with {result}");
        let (before, kept_before) = (double.calls_of(function), double.live());
        double.fail(function, nth, result);
        let failed = self.round.run();
        double.clear();
        // Where memory is short, the host gives back what it keeps, and tries again.
        let is_retried = result == OUT_OF_MEMORY && double.calls_of(function) - before > usually;
        assert_eq!(double.violations(), [""; 0], "{what}: {failed:?}");
        if !functions.endings.contains(&function) {
            assert_eq!(double.lost(), [""; 0], "{what}");
        }
        let lists =
            [functions.not_needed, functions.other_way, functions.endings, functions.about_devices];
        let may_pass = lists.concat().contains(&function);
        match failed {
            Ok(()) => assert!(may_pass || is_retried, "{what} of {usually}, and nobody was told"),
            Err(error) => {
                let reported = error.vendor().map(|vendor| vendor.number);
                assert_eq!(reported, Some(i64::from(result)), "{what}: {error}");
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
