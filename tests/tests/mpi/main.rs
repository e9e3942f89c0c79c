//! Programs with devices of nodes, under the launchers of Open MPI and MPICH.
//!
//! A trial starts a job. Its program is a command of the project, a program in C, or this test
//! program with the name of a part in a variable: see [`part`].

mod ends;
mod link;
mod losses;
mod namespaces;
mod nodes;
mod programs;
mod ranks;
mod suites;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use longshore_tests::mpi::{Implementation, Job};
use std::fmt::Display;
use std::process::ExitCode;

/// The result of a trial.
type TrialResult = Result<Completion, Failed>;

/// Variable with the part of a job that this process plays.
const PART: &str = "LONGSHORE_TEST_PART";

fn main() -> ExitCode {
    if let Ok(part) = std::env::var(PART) {
        let parts = nodes::PARTS.iter().chain(&losses::PARTS).chain(&ends::PARTS);
        let parts = parts.chain(&link::PARTS);
        let found = parts.into_iter().find(|(name, _)| *name == part);
        let (_, run) = found.unwrap_or_else(|| panic!("'{part}' is no part of a job"));
        run();
        return ExitCode::SUCCESS;
    }
    let trials = [suites::trials, programs::trials, nodes::trials, ranks::trials];
    let trials = trials.into_iter().chain([losses::trials, ends::trials, namespaces::trials]);
    let trials = trials.flat_map(|trials| Implementation::ALL.into_iter().flat_map(trials));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Returns a trial that is skipped without the implementation.
fn trial(
    implementation: Implementation,
    name: &str,
    run: impl FnOnce(Implementation) -> TrialResult + Send + 'static,
) -> Trial {
    Trial::ignorable_test(format!("{implementation}: {name}"), move || {
        match implementation.missing() {
            Some(why) => not_tried(why),
            None => run(implementation),
        }
    })
}

/// Returns the result of a skipped trial.
fn not_tried(why: impl Display) -> TrialResult {
    Ok(Completion::ignored_with(why))
}

/// Returns a job of a part of this program.
fn part(implementation: Implementation, name: &str) -> Job {
    let program = std::env::current_exe().expect("an executable has a path");
    Job::new(implementation, program).env(PART, name)
}

/// Runs a job, which must end well.
fn run(job: &Job) -> TrialResult {
    job.run().check()?;
    Ok(Completion::Completed)
}
