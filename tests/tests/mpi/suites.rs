//! The commands of the project on devices of nodes.

use crate::{TrialResult, not_tried, programs, trial};
use libtest_mimic::{Completion, Trial};
use longshore_tests::effort;
use longshore_tests::mpi::{Implementation, Job};
use longshore_tests::vulkan;
use longshore_tests::world::{check_command, command};

pub(crate) fn trials(implementation: Implementation) -> Vec<Trial> {
    vec![
        trial(implementation, "the conformance suite passes on lavapipe of a node", on_lavapipe),
        trial(implementation, "the conformance suite passes on the CPU of a node", on_a_cpu),
        trial(implementation, "the conformance suite passes without bells", on_a_cpu_apart),
        trial(implementation, "the devices of nodes are listed", devices_are_listed),
        trial(implementation, "a kernel runs on a node", a_kernel_runs),
        trial(implementation, "a job without nodes has the reason", no_nodes),
    ]
}

fn on_a_cpu(implementation: Implementation) -> TrialResult {
    check(Job::new(implementation, check_command()))
}

/// Runs the suite as on machines of their own, whose processes do not wake each other.
fn on_a_cpu_apart(implementation: Implementation) -> TrialResult {
    check(Job::new(implementation, check_command()).env("LONGSHORE_MPI_BELLS", "0"))
}

/// Runs the suite with one implementation in a short test: the CPU's runs with both.
fn on_lavapipe(implementation: Implementation) -> TrialResult {
    if implementation == Implementation::Mpich && !effort::is_all() {
        return not_tried("a long test tries it");
    }
    let Some(manifest) = vulkan::lavapipe() else { return not_tried("not installed: lavapipe") };
    let job = Job::new(implementation, check_command()).env("VK_DRIVER_FILES", manifest);
    check(job.env("LONGSHORE_NODE_BACKEND", "vulkan"))
}

/// Runs the suite on the first of two nodes.
fn check(job: Job) -> TrialResult {
    let outcome = job.arg("--device").arg("mpi:0").nodes(2).run();
    outcome.check()?;
    let passed =
        outcome.printed.lines().find_map(|line| line.trim().split_once(" passed, 0 failed"));
    let passed = passed.and_then(|(passed, _)| passed.parse::<u32>().ok());
    match passed.is_some_and(|passed| passed > 100) {
        true => Ok(Completion::Completed),
        false => Err(outcome.text().into()),
    }
}

fn devices_are_listed(implementation: Implementation) -> TrialResult {
    let outcome = Job::new(implementation, command()).arg("devices").nodes(3).run();
    outcome.check()?;
    let listed = (0..3).all(|index| outcome.printed.contains(&format!("mpi:{index}")));
    match listed && outcome.printed.contains(" on ") {
        true => Ok(Completion::Completed),
        false => Err(outcome.text().into()),
    }
}

fn a_kernel_runs(implementation: Implementation) -> TrialResult {
    let folder = tempfile::tempdir()?;
    let image = programs::image(folder.path(), "basic")?;
    let job = Job::new(implementation, command()).arg("run").arg(&image);
    let job = job.arg("--device").arg("mpi:1").arg("--kernel").arg("iota");
    let outcome = job.arg("--arg").arg("out:u32[4]").arg("--arg").arg("u64=4").nodes(2).run();
    outcome.check()?;
    match outcome.printed.contains("0, 1, 2, 3") || outcome.printed.contains("0 1 2 3") {
        true => Ok(Completion::Completed),
        false => Err(outcome.text().into()),
    }
}

fn no_nodes(implementation: Implementation) -> TrialResult {
    let outcome = Job::new(implementation, command()).arg("plugins").run();
    outcome.check()?;
    let reason = "the launcher of this process has started no 'longshore-node'";
    match outcome.printed.contains(reason) {
        true => Ok(Completion::Completed),
        false => Err(outcome.text().into()),
    }
}
