//! The end of a program that closes nothing: no process of its job remains.

use crate::{TrialResult, nodes, part, trial};
use libtest_mimic::{Completion, Trial};
use longshore::Result;
use longshore_tests::mpi::{Implementation, Job, signal};
use std::mem::forget;
use std::time::Duration;

/// The parts of jobs, by name.
pub(crate) const PARTS: [(&str, fn()); 1] = [("end", end)];

/// Variable with the manner of the end.
const HOW: &str = "LONGSHORE_TEST_END";
const MANNERS: [&str; 5] = ["return", "exit", "_exit", "abort", "kill"];

pub(crate) fn trials(implementation: Implementation) -> Vec<Trial> {
    let mut trials: Vec<_> = MANNERS
        .into_iter()
        .map(|how| {
            let name = format!("nothing remains after an end by {how}");
            trial(implementation, &name, move |implementation| leave(implementation, how))
        })
        .collect();
    trials.push(trial(implementation, "a program without devices leaves no node", no_device));
    trials.push(trial(implementation, "rounds of jobs leave nothing", rounds));
    trials.push(trial(implementation, "two jobs at once do not disturb each other", two_jobs));
    trials
}

fn leave(implementation: Implementation, how: &str) -> TrialResult {
    let job = part(implementation, "end").env(HOW, how).nodes(2).limit(Duration::from_secs(40));
    let outcome = job.run();
    println!("{how}: {:?} after the launcher", outcome.leaving);
    match how {
        "return" | "exit" => outcome.check()?,
        _ => outcome.check_end()?,
    }
    Ok(Completion::Completed)
}

/// Runs a program that does not use MPI, so that its nodes wait for it.
fn no_device(implementation: Implementation) -> TrialResult {
    let job = Job::new(implementation, "true").nodes(2).limit(Duration::from_secs(40));
    job.run().check_end()?;
    Ok(Completion::Completed)
}

/// Starts and ends jobs one after the other.
fn rounds(implementation: Implementation) -> TrialResult {
    let rounds = std::env::var("LONGSHORE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    // A job takes longer than the other tests' rounds.
    let rounds = rounds.map_or(5, |rounds: usize| rounds.div_ceil(20));
    for _ in 0..rounds {
        part(implementation, "end").env(HOW, "return").nodes(2).run().check()?;
    }
    Ok(Completion::Completed)
}

fn two_jobs(implementation: Implementation) -> TrialResult {
    let started = ["events", "functions"].map(|name| part(implementation, name).nodes(2).start());
    for running in started {
        running.finish().check()?;
    }
    Ok(Completion::Completed)
}

fn end() {
    leave_work_behind().unwrap();
    match &*std::env::var(HOW).expect("the trial sets it") {
        "exit" => std::process::exit(0),
        // SAFETY: the call ends the process.
        "_exit" => unsafe { libc::_exit(0) },
        "abort" => std::process::abort(),
        "kill" => signal("KILL", std::process::id() as i32),
        _ => {}
    }
}

/// Uses both nodes, and closes nothing.
fn leave_work_behind() -> Result<()> {
    let (host, first, second) = nodes::devices();
    for device in [first, second] {
        let queue = device.queue()?;
        let buffer = device.buffer_of(&queue, &vec![1_u8; 1 << 20])?;
        forget(queue.read_owned(&buffer)?);
        forget((queue, buffer, device));
    }
    forget(host);
    Ok(())
}
