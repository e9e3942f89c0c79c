//! `longshore new-plugin`. `tests/tests/hosting/new_plugin.rs` builds its projects.

use crate::support::{Outcome, command, outcome};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

fn new_plugin(folder: &Path, arguments: &[&str]) -> Outcome {
    outcome(command().current_dir(folder).arg("new-plugin").args(arguments))
}

/// Returns the names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_language_has_a_project_with_packages_and_ci() {
    let folder = tempfile::tempdir().unwrap();
    for language in ["rust", "c", "cpp"] {
        let made = new_plugin(folder.path(), &["my_gpu", "--lang", language, "--folder", language]);
        made.assert_succeeds();
        assert!(made.stdout.contains("liblongshore_plugin_my_gpu.so"), "{}", made.stdout);
        let project = folder.path().join(language);
        for file in [
            "README.md",
            ".gitignore",
            ".github/workflows/ci.yml",
            "debian/control",
            "debian/rules",
            "longshore-plugin-my-gpu.spec",
        ] {
            assert!(project.join(file).is_file(), "{language}: {file}");
        }
        let control = fs::read_to_string(project.join("debian/control")).unwrap();
        assert!(control.contains("Package: longshore-plugin-my-gpu\n"), "{control}");
    }
    assert_eq!(names(folder.path()), ["c", "cpp", "rust"]);
    // rpmbuild ends with an error if it finds no debug information for its package.
    for (language, has_debug_information) in [("rust", false), ("c", true), ("cpp", true)] {
        let file = folder.path().join(language).join("longshore-plugin-my-gpu.spec");
        let spec = fs::read_to_string(file).unwrap();
        let is_off = spec.contains("\n%global debug_package %{nil}\n");
        assert_eq!(is_off, !has_debug_information, "{spec}");
        assert_eq!(spec.contains("CMAKE_BUILD_TYPE=RelWithDebInfo"), has_debug_information);
    }
}

#[test]
fn a_project_in_rust_names_the_released_crate_or_a_clone() {
    let folder = tempfile::tempdir().unwrap();
    let manifest =
        |name: &str| fs::read_to_string(folder.path().join(name).join("Cargo.toml")).unwrap();
    new_plugin(folder.path(), &["one", "--lang", "rust"]).assert_succeeds();
    assert!(manifest("one").contains("\nlongshore-plugin-api = \"1.0\"\n"));
    assert!(!manifest("one").contains("[patch"));
    let clone = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    new_plugin(folder.path(), &["two", "--lang", "rust", "--path", clone]).assert_succeeds();
    let line = manifest("two").lines().find(|line| line.contains("path = ")).unwrap().to_owned();
    let path = line.split('"').nth(1).unwrap();
    assert!(Path::new(path).is_absolute() && Path::new(path).ends_with("plugin-api"), "{line}");
}

/// Makes a folder with the manifest of the interface's crate, by which `--path` finds the crate.
fn clone_at(folder: &Path) {
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    let manifest = "[package]\nname = \"longshore-plugin-api\"\nversion = \"1.0.0\"\n[workspace]\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
}

#[test]
fn cargo_reads_the_path_of_a_clone_with_unusual_letters() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["e\u{301}", "\u{202e}\u{a0}", "quote\" \\ \u{1} 'x'"] {
        let project = folder.path().join("project");
        clone_at(&folder.path().join(name));
        let made = ["my", "--lang", "rust", "--folder", "project", "--path", name];
        new_plugin(folder.path(), &made).assert_succeeds();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--format-version", "1", "--offline"]).current_dir(&project);
        let read = outcome(&mut cargo);
        assert_eq!(read.code, 0, "{name:?}: {}", read.stderr);
        let expected = folder.path().join(name).join("Cargo.toml");
        let packages = read.json()["packages"].as_array().unwrap().clone();
        let paths = packages.iter().filter_map(|package| package["manifest_path"].as_str());
        assert!(paths.into_iter().any(|path| Path::new(path) == expected), "{name:?}");
        fs::remove_dir_all(project).unwrap();
    }
}

#[test]
fn a_path_that_is_not_utf_8_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let clone = folder.path().join(OsStr::from_bytes(b"cl\xffne"));
    clone_at(&clone);
    let mut made = command();
    made.current_dir(folder.path()).args(["new-plugin", "my", "--lang", "rust", "--path"]);
    outcome(made.arg(clone)).assert_fails(2, &["which is not UTF-8", "hint: rename the folder"]);
    assert!(!folder.path().join("my").exists());
}

#[test]
fn nothing_is_written_after_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("taken")).unwrap();
    for (arguments, code, expected) in [
        (&["taken", "--lang", "c"][..], 2, "'taken' exists already"),
        (&["My", "--lang", "c"], 2, "hint: 'my' would be one"),
        (&["my-gpu", "--lang", "rust"], 2, "hint: use 'my_gpu'"),
        (&["my", "--lang", "c", "--path", "x"], 2, "-DLONGSHORE_INCLUDE=FOLDER"),
        (&["my", "--lang", "rust", "--path", "taken"], 3, "'taken' has no crate"),
        (&["my", "--lang", "c", "--folder", "a/b"], 3, "is no folder"),
        (&["my"], 2, "--lang <LANG>"),
    ] {
        new_plugin(folder.path(), arguments).assert_fails(code, &[expected]);
        assert_eq!(names(folder.path()), ["taken"], "{arguments:?}");
    }
    assert!(names(&folder.path().join("taken")).is_empty());
}
