//! `longshore-check` on faulty plugins.

use longshore_tests::world::{World, check_command};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Faults, with their texts in the report.
const FAULTS: [(&str, &str); 3] = [
    ("segv", "died of SIGSEGV"),
    ("abort", "died of SIGABRT"),
    ("exit", "ended with exit status 7"),
];

pub(crate) fn check(world: &World, options: &[&str]) -> Command {
    let mut command = Command::new(check_command());
    command.arg("--plugin").arg(world.plugin("faulty")).args(options);
    command.env_remove("LONGSHORE_BACKEND").env_remove("LONGSHORE_DEVICES");
    command
}

pub(crate) fn lines(output: &Output) -> Vec<String> {
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

#[test]
fn the_first_failure_names_the_next_function_to_write() {
    let world = World::new();
    world.add_faulty("faulty");
    for (table, index, expected) in [
        ("longshore.platform", 3, "next: basics: a device opens and closes: write `open`"),
        ("longshore.device", 1, "next: basics: device memory is allocated and freed: write `alloc"),
        ("longshore.device", 4, "next: basics: an idle queue has nothing to wait for: write `crea"),
        ("longshore.queue", 1, "next: basics: a copy to the device and back keeps its bytes: wri"),
        ("longshore.event", 1, "next: basics: an event behind a copy completes: write `record_ev"),
    ] {
        world.set_fault(table, index, "abort");
        let output = check(&world, &["--isolated", "basics: "]).output().unwrap();
        let lines = lines(&output);
        let next = lines.iter().find(|line| line.trim_start().starts_with("next: "));
        let next = next.unwrap_or_else(|| panic!("{table} {index}: {lines:#?}"));
        assert!(next.trim_start().starts_with(expected), "{table} {index}: {next}");
        assert!(next.contains(", docs/plugin-interface.md#"), "{next}");
        assert_eq!(output.status.code(), Some(4));
    }
}

#[test]
fn without_a_device_the_next_step_is_in_connect() {
    let world = World::new();
    world.add_faulty("faulty");
    let output = check(&world, &[]).env("LONGSHORE_FAULTY_DEVICES", "0").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the setting DEVICES is 0"), "{said}");
    assert!(said.contains("next: ") && said.contains("(P-15, "), "{said}");
}

#[test]
fn a_file_with_another_name_is_refused_and_no_other_device_is_checked() {
    let world = World::new();
    let file = world.path().join("mine.so");
    std::fs::write(&file, "").unwrap();
    let output = Command::new(check_command()).arg("--plugin").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.starts_with("error: ") && said.contains("is no plugin by its name"), "{said}");
}

#[test]
fn a_malformed_selection_and_a_missing_folder_are_bad_usage() {
    let world = World::new();
    world.add_faulty("faulty");
    for (options, variables, expected) in [
        (&["--device", "!"][..], &[][..], "device term '!'"),
        (&["--device", "host:[a"], &[], "bad pattern"),
        (&["--fixtures", "/missing"], &[], "cannot read the images in '/missing'"),
        (&[], &[("LONGSHORE_DEVICES", ":::")], "device term ':::'"),
        (&[], &[("LONGSHORE_BACKEND", "a,,b")], "is no backend's name"),
    ] {
        let output = check(&world, options).envs(variables.iter().copied()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("error: ") && said.contains(expected), "{options:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
    }
    let output = check(&world, &["--device", "faulty:7"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("no device to check: no device matches 'faulty:7'"), "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
}

#[test]
fn a_behaviour_does_not_fail_by_another_plugin_that_dies() {
    let (world, deadly) = (World::new(), World::new());
    world.add_faulty("faulty");
    deadly.add_faulty("deadly");
    deadly.set_fault("entry", 1, "abort");
    for device in [&[][..], &["--device", "faulty:0"]] {
        let mut check = check(&world, &["--isolated", "basics: "]);
        check.args(device).env("LONGSHORE_PLUGIN_PATH", deadly.path());
        let output = check.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{device:?}: {output:?}");
    }
}

#[test]
fn a_selection_with_devices_of_other_plugins_holds_for_behaviours_too() {
    let world = World::new();
    for backend in ["one", "two"] {
        world.add_sample(backend, &[]);
    }
    let mut check = Command::new(check_command());
    check.arg("--plugin").arg(world.path()).arg("basics: a device opens");
    check.env_remove("LONGSHORE_BACKEND").env("LONGSHORE_DEVICES", "two:0;one:0");
    let output = check.output().unwrap();
    assert_eq!(checked_backends(&output), ["two", "one"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn devices_of_the_plugins_in_a_named_folder_alone_are_checked() {
    let (world, other) = (World::new(), World::new());
    for backend in ["one", "two"] {
        world.add_sample(backend, &[]);
    }
    other.add_sample("other", &[]);
    let check = |folder: &Path| {
        let mut check = Command::new(check_command());
        check.arg("--plugin").arg(folder).arg("basics: a device opens");
        check.env_remove("LONGSHORE_BACKEND").env_remove("LONGSHORE_DEVICES");
        check.env("LONGSHORE_PLUGIN_PATH", other.path()).output().unwrap()
    };
    let output = check(world.path());
    assert_eq!(checked_backends(&output), ["one", "two"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = check(World::new().path());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no plugin"), "{output:?}");
}

/// Returns the backends of the checked devices, in order.
fn checked_backends(output: &Output) -> Vec<String> {
    let lines = lines(output).into_iter().filter(|line| line.starts_with(|c| c != ' '));
    lines.map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
}
