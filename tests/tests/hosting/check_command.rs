//! `longshore-check` on faulty plugins.

use longshore_tests::world::{World, check_command};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

/// Faults, with their texts in the report.
const FAULTS: [(&str, &str); 3] = [
    ("segv", "died of SIGSEGV"),
    ("abort", "died of SIGABRT"),
    ("exit", "ended with exit status 7"),
];

fn check(world: &World, options: &[&str]) -> Command {
    let mut command = Command::new(check_command());
    command.arg("--plugin").arg(world.plugin("faulty")).args(options);
    command.env_remove("LONGSHORE_BACKEND").env_remove("LONGSHORE_DEVICES");
    command
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_behaviour_that_dies_has_failed_with_its_signal_and_the_others_run() {
    let world = World::new();
    world.add_faulty("faulty");
    for (fault, end) in FAULTS {
        world.set_fault("longshore.queue", 0, fault);
        let output = check(&world, &["--isolated", "info: ", "events: "]).output().unwrap();
        let lines = lines(&output);
        assert_eq!(output.status.code(), Some(4), "{fault}: {lines:#?}");
        let dead: Vec<_> = lines.iter().filter(|line| line.ends_with(end)).collect();
        assert!(!dead.is_empty(), "{fault}: {lines:#?}");
        let passed = lines.iter().filter(|line| line.trim().starts_with('✓')).count();
        assert!(passed > 0, "{fault}: {lines:#?}");
        let last = lines.iter().rfind(|line| !line.is_empty()).unwrap();
        let numbers = format!("  {passed} passed, ");
        assert!(last.starts_with(&numbers) && last.contains("failed"), "{fault}: {last}");
    }
}

#[test]
fn isolated_or_not_the_report_of_a_sound_plugin_is_the_same() {
    let world = World::new();
    world.add_faulty("faulty");
    let [alone, together] = [&["--isolated", "info: ", "copies: "][..], &["info: ", "copies: "]]
        .map(|options| check(&world, options).output().unwrap());
    assert_eq!(lines(&alone), lines(&together));
    assert_eq!((alone.status.code(), together.status.code()), (Some(0), Some(0)));
}

#[test]
fn a_suite_that_is_cut_short_has_reported_how_far_it_came() {
    let world = World::new();
    world.add_faulty("faulty");
    world.set_fault("longshore.queue", 0, "hang");
    let mut child = check(&world, &["info: ", "events: "]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The first behaviour with a queue hangs; the report already contains the earlier ones.
    let is_reported =
        lines.take_while(|line| !line.contains("events")).any(|line| line.contains('✓'));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_reported);
}
