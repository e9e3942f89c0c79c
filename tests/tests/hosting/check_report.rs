//! Reports of `longshore-check`.

use crate::check_command::{check, lines};
use longshore_tests::world::{World, check_command};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs behaviours of the faulty plugin with a report, and returns the report's file.
fn report(world: &World, filter: &[&str]) -> PathBuf {
    let file = world.path().join("report.json");
    let output = check(world, &["--isolated", "--report", text(&file)]).args(filter).output();
    let output = output.unwrap();
    assert!(file.is_file(), "{output:?}");
    file
}

fn verify(report: &Path) -> Command {
    let mut command = Command::new(check_command());
    command.arg("--verify").arg(report);
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_report_is_written_whether_checks_fail_or_not_and_is_verified() {
    let world = World::new();
    let plugin = world.add_faulty("faulty");
    let file = world.path().join("report.json");
    let written = ["--isolated", "--report", text(&file), "basics: ", "info: "];
    let verify = |plugin: &Path| verify(&file).arg("--plugin").arg(plugin).output().unwrap();
    for (status, outcome) in [(0, "passed"), (4, "failed")] {
        if status != 0 {
            world.set_fault("longshore.queue", 2, "abort");
        }
        let output = check(&world, &written).env("SOURCE_DATE_EPOCH", "86400").output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{:#?}", lines(&output));
        let report = std::fs::read_to_string(&file).unwrap();
        for text in [
            "\"date\": \"1970-01-02T00:00:00Z\"".to_owned(),
            "\"image_formats\": [\"ops\"]".to_owned(),
            format!("\"number\": \"P-45\", \"outcome\": \"{outcome}\""),
        ] {
            assert!(compact(&report).contains(&compact(&text)), "no {text} in {report}");
        }
        let verified = verify(&plugin);
        assert_eq!(verified.status.code(), Some(0), "{verified:?}");
        let other = world.add_file("other", b"other");
        assert_eq!(verify(&other).status.code(), Some(4));
    }
    let report = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, report.replace("\"failed\"", "\"passed\"")).unwrap();
    let edited = verify(&plugin);
    assert_eq!(edited.status.code(), Some(4));
    assert!(said(&edited).contains("the report was edited"));
}

/// Returns JSON without blanks.
fn compact(json: &str) -> String {
    json.split_whitespace().collect()
}

#[test]
fn a_plugin_that_dies_or_hangs_on_images_has_a_report_without_them() {
    let world = World::new();
    world.add_faulty("faulty");
    // No behaviour of the filter asks `accepts` for an image.
    for (fault, isolated, why) in [
        ("abort", &[][..], "its process died of SIGABRT"),
        ("exit", &["--isolated"], "its process ended with exit status 7"),
        ("hang", &["--isolated"], "its process did not end, and was killed"),
    ] {
        world.set_fault("longshore.device", 0, fault);
        let file = world.path().join(fault);
        let mut check = check(&world, &["--report", text(&file), "basics: a device"]);
        let output = check.args(isolated).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{fault}: {output:?}");
        let report = compact(&std::fs::read_to_string(&file).unwrap());
        for text in ["\"images\": []", &format!("\"unread\": \"{why}\""), "\"Vendor\": "] {
            assert!(report.contains(&compact(text)), "{fault}: no {text} in {report}");
        }
        assert!(verify(&file).status().unwrap().success());
    }
}

#[test]
fn a_plugin_that_changes_during_the_run_has_no_report() {
    let world = World::new();
    let plugin = world.add_faulty("faulty");
    let [file, new] = ["report.json", "new"].map(|name| world.path().join(name));
    std::fs::write(&new, [std::fs::read(&plugin).unwrap(), b"more".to_vec()].concat()).unwrap();
    let mut check = check(&world, &["--isolated", "--report", text(&file), "basics: ", "copies: "]);
    let mut child = check.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains('✓')));
    std::fs::rename(new, plugin).unwrap();
    assert!(lines.any(|line| line.contains(" 0 failed")));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).contains("changed during the run: its SHA-256 was "), "{output:?}");
    assert!(!file.exists());
}

#[test]
fn reports_are_written_through_links_and_into_special_files() {
    let world = World::new();
    world.add_faulty("faulty");
    let [target, link, fifo] = ["target", "link", "fifo"].map(|name| world.path().join(name));
    std::fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink("target", &link).unwrap();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let written = |file: &Path| {
        check(&world, &["--report", text(file), "basics: a device"]).stdout(Stdio::null()).spawn()
    };
    assert!(written(&link).unwrap().wait().unwrap().success());
    assert!(link.is_symlink());
    assert!(verify(&target).status().unwrap().success());
    let mut child = written(&fifo).unwrap();
    let read = std::fs::read_to_string(&fifo).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(fifo.metadata().unwrap().file_type().is_fifo());
    std::fs::write(&target, read).unwrap();
    assert!(verify(&target).status().unwrap().success());
}

#[test]
fn a_report_that_cannot_be_written_ends_the_run_before_its_first_behaviour() {
    let world = World::new();
    world.add_faulty("faulty");
    let [file, link] = ["report.json", "link"].map(|name| world.path().join(name));
    std::os::unix::fs::symlink("missing", &link).unwrap();
    for (file, epoch, expected) in [
        (text(&file), "soon", "SOURCE_DATE_EPOCH is 'soon', expected seconds since 1970"),
        ("/missing/report.json", "0", "'/missing' is no folder; create it first"),
        ("/proc/report.json", "0", "/proc/"),
        (text(world.path()), "0", "it is a folder"),
        (text(&link), "0", "it is a symbolic link to a missing file"),
    ] {
        let mut check = check(&world, &["--report", file, "basics: a device"]);
        let output = check.env("SOURCE_DATE_EPOCH", epoch).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
        let begin = format!("error: the report cannot be written to '{file}': ");
        assert!(said(&output).starts_with(&begin), "{output:?}");
        assert!(said(&output).contains(expected), "{output:?}");
    }
    assert!(!file.exists());
}

#[test]
fn verification_tells_of_a_filter() {
    let world = World::new();
    world.add_faulty("faulty");
    let verified = verify(&report(&world, &["basics: a device", "a\nb"])).output().unwrap();
    let lines = lines(&verified);
    let line = "not the whole suite: only behaviours with 'basics: a device' or 'a\\nb' in their \
                names ran";
    assert_eq!((lines.len(), lines[1].as_str()), (3, line), "{lines:#?}");
    assert_eq!(verified.status.code(), Some(0));
}

#[test]
fn verification_bears_a_closed_pipe_and_reports_a_full_device() {
    let world = World::new();
    world.add_faulty("faulty");
    let file = report(&world, &["basics: a device"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = verify(&file).stdout(writer).output().unwrap();
    assert_eq!((closed.status.code(), said(&closed).as_str()), (Some(0), ""));
    for option in [&["--verify", text(&file)][..], &["--list"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = Command::new(check_command()).args(option).stdout(full).output().unwrap();
        assert_eq!(full.status.code(), Some(1), "{option:?}: {full:?}");
        assert!(said(&full).starts_with("error: cannot write to standard output: "), "{full:?}");
    }
}
