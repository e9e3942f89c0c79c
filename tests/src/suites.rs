//! Test programs of several suites of trials, each with an environment of its own.
//!
//! The variables of a suite decide which drivers its process finds, so a process runs one suite:
//! the suite whose kind begins the exact name of a trial. For several suites, the program starts
//! itself once for each.

use libtest_mimic::{Arguments, Trial};
use std::process::{Command, ExitCode};

/// Trials that need the same environment.
pub struct Suite {
    /// Kind of the trials: their names begin with `[name] `.
    pub name: &'static str,
    /// Function that sets the variables of the process.
    ///
    /// # Safety
    /// No other thread runs yet.
    pub prepare: unsafe fn(),
    /// Function that does the work of a process started by a trial. Returns whether this process is
    /// one.
    pub child: fn() -> bool,
    /// Function that returns the trials for the devices of this process.
    pub trials: fn() -> Vec<Trial>,
    /// Whether trials of one process run one after the other.
    pub is_sequential: bool,
}

/// Makes trials of functions without arguments, with their names.
#[macro_export]
macro_rules! trials {
    ($($function:ident),* $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($function), || {
            $function();
            Ok(())
        })),*]
    };
}

/// Variable with the suite of a process.
const SUITE: &str = "LONGSHORE_TEST_SUITE";

impl Suite {
    /// Returns a suite with these trials, which start no process of this program.
    pub const fn new(name: &'static str, trials: fn() -> Vec<Trial>) -> Suite {
        Suite { name, prepare: || {}, child: || false, trials, is_sequential: false }
    }

    /// Runs the suite in this process. Blocks.
    fn run(&self, mut arguments: Arguments) -> ExitCode {
        // SAFETY: `main` calls this first, and processes of trials inherit the suite's name.
        unsafe {
            std::env::set_var(SUITE, self.name);
            (self.prepare)();
        }
        if (self.child)() {
            return ExitCode::SUCCESS;
        }
        if self.is_sequential {
            arguments.test_threads = Some(1);
        }
        let trials = (self.trials)().into_iter().map(|trial| trial.with_kind(self.name));
        libtest_mimic::run(&arguments, trials.collect()).exit_code()
    }

    /// Runs the suite in a process of its own, with the arguments of this one. Blocks.
    fn run_apart(&self) -> bool {
        let program = std::env::current_exe().expect("an executable has a path");
        let mut suite = Command::new(program);
        let status = suite.args(std::env::args_os().skip(1)).env(SUITE, self.name).status();
        status.expect("this program can be started").success()
    }

    /// Returns whether a filter may select trials of the suite.
    fn is_wanted(&self, filter: &str) -> bool {
        let Some(kind) = filter.strip_prefix('[') else { return true };
        match kind.split_once(']') {
            Some((kind, _)) => kind == self.name,
            None => self.name.starts_with(kind),
        }
    }
}

/// Runs these suites, as the `main` function of their program. Blocks until all trials have ended.
pub fn main(suites: &[Suite]) -> ExitCode {
    let arguments = Arguments::from_args();
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let own = match std::env::var(SUITE) {
        Ok(name) => suites.iter().find(|suite| suite.name == name),
        Err(_) => suites.iter().find(|suite| arguments.exact && suite.is_wanted(filter)),
    };
    if let Some(suite) = own {
        return suite.run(arguments);
    }
    let wanted = suites.iter().filter(|suite| suite.is_wanted(filter));
    // All suites run, even after a failure.
    let failed = wanted.filter(|suite| !suite.run_apart()).count();
    ExitCode::from(u8::from(failed > 0))
}

#[cfg(test)]
mod tests {
    use super::Suite;

    #[test]
    fn a_filter_by_kind_admits_suites_whose_names_begin_with_it() {
        let suite = Suite::new("cuda_images", Vec::new);
        let wanted = ["", "cuda:0", "[cuda", "[cuda_images] cuda:0: a name", "[cuda_images]"];
        assert!(wanted.into_iter().all(|filter| suite.is_wanted(filter)));
        let unwanted = ["[cuda]", "[cuda_driver] a name", "[vulkan"];
        assert!(!unwanted.into_iter().any(|filter| suite.is_wanted(filter)));
    }
}
