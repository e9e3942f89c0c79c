//! `longshore check`, with a stand-in for the suite.

use crate::support::{alone, outcome};
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const STAND_IN: &str = "#!/bin/sh
for argument; do echo \"<$argument>\"; done
echo \"backend $LONGSHORE_BACKEND devices $LONGSHORE_DEVICES log $LONGSHORE_LOG\"
exit 4
";

fn install(folder: &Path) {
    let suite = folder.join("longshore-check");
    write(&suite, STAND_IN).unwrap();
    set_permissions(&suite, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_suite_gets_the_options_and_its_exit_code_is_passed_on() {
    let (folder, mut check) = alone();
    install(folder.path());
    check.args(["check", "--device", "host:0", "--plugin", "/x.so", "--fixtures", "/images"]);
    check.args(["--report", "r.json"]);
    let ended = outcome(check.args(["memory", "queue", "--backend", "host", "-v", "--isolated"]));
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    let expected = "<--plugin>\n</x.so>\n<--device>\n<host:0>\n<--fixtures>\n</images>\n<--report>\n<r.json>\n<--isolated>\n<-->\n\
                    <memory>\n<queue>\nbackend host devices  log info\n";
    assert_eq!(ended.stdout, expected);
}

#[test]
fn the_suite_is_found_on_path() {
    let (_folder, mut check) = alone();
    let elsewhere = tempfile::tempdir().unwrap();
    install(elsewhere.path());
    let ended = outcome(check.args(["check", "--list"]).env("PATH", elsewhere.path()));
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(ended.stdout.starts_with("<--list>\n"), "{}", ended.stdout);
}

#[test]
fn without_the_suite_the_message_says_how_to_build_it() {
    let (_folder, mut check) = alone();
    let failed = outcome(check.arg("check").env("PATH", ""));
    failed.assert_fails(3, &["error: ", "longshore-check", "cargo build -p longshore-conformance"]);
}
