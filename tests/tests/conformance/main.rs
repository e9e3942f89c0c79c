//! The suite for every device of this machine, with one trial for each device, form of its images
//! and way to run its plugin.
//!
//! A trial starts a process that runs all behaviours. If a behaviour ends the process, a further
//! process runs the rest ([`supervised`]). `LONGSHORE_TEST_BEHAVIOURS` contains texts, separated by
//! commas: only behaviours whose "group: name" contains one of them run. `LONGSHORE_TEST_PLUGIN`
//! names the only plugin to test.

mod plugins;
mod runs;
mod supervised;

use libtest_mimic::{Arguments, Failed, Trial};
use longshore_tests::gpus;
use longshore_tests::world::World;
use runs::Run;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { gpus::take_drivers() };
    if let Some(part) = supervised::Part::from_environment() {
        return part.serve(|trial| all_runs().find(|run| run.has(trial)));
    }
    let arguments = Arguments::from_args();
    let runs = all_runs().filter(|run| run.is_wanted(&arguments));
    let mut trials: Vec<_> = runs.flat_map(Run::trials).collect();
    if std::env::var_os(plugins::ONLY).is_none() {
        let name = "a behaviour that ends its process has failed, and the rest is run";
        trials.push(Trial::test(name, rest_is_run));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn all_runs() -> impl Iterator<Item = Run> {
    plugins::all().flat_map(|plugin| runs::for_plugin(&plugin))
}

/// Runs this program on a plugin whose queues end the process.
fn rest_is_run() -> Result<(), Failed> {
    let world = World::new();
    world.add_faulty("faulty");
    world.set_fault("longshore.queue", 0, "segv");
    let mut suite = Command::new(std::env::current_exe()?);
    suite.args(["--exact", "faulty:0"]).env(plugins::ONLY, world.plugin("faulty"));
    let output = suite.env(runs::ONLY, "info: ,memory: ,events: ").output()?;
    let said = String::from_utf8(output.stdout)?;
    let numbers = said.lines().find(|line| line.starts_with("faulty:0: ")).unwrap_or_default();
    let count = |start| said.lines().filter(|line| line.starts_with(start)).count();
    let counted = [count("\u{2713} "), count("\u{2717} "), count("- ")];
    let [passed, failed, skipped] = counted;
    let expected = format!("faulty:0: {passed} passed, {failed} failed, {skipped} skipped");
    assert!(!output.status.success() && numbers == expected, "{said}");
    assert!(passed > 0 && failed > 1 && said.contains("\u{2717} events: "), "{said}");
    assert_eq!(said.matches("its process died of SIGSEGV").count(), failed, "{said}");
    // Every requested behaviour has an outcome.
    let asked = longshore_conformance::behaviours()
        .filter(|behaviour| ["info", "memory", "events"].contains(&behaviour.group));
    assert_eq!(counted.iter().sum::<usize>(), asked.count(), "{said}");
    Ok(())
}
