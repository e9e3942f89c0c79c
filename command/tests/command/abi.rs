//! `longshore abi`.

use crate::support::{Outcome, command, longshore, outcome, toy_plugin, toy_plugin_with};
use std::path::{Path, PathBuf};
use std::process::Command;

const ENTRY: &str = "CONNECT=return 0;";

fn abi(files: &[&Path], options: &[&str]) -> Outcome {
    outcome(command().arg("abi").args(files).args(options))
}

/// Compiles a file of C into a library.
fn library(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, library) = (folder.join("source.c"), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(file);
    assert!(compiler.status().unwrap().success());
    library
}

#[test]
fn the_cpus_plugin_is_compatible_and_has_all_tables() {
    let plugin =
        Path::new(crate::support::EXECUTABLE).with_file_name("liblongshore_plugin_host.so");
    let shown = abi(&[&plugin], &[]);
    shown.assert_succeeds();
    for text in
        ["  backend      host\n", "  interface    1.0\n", "longshore.pinning 1", "compatible"]
    {
        assert!(shown.stdout.contains(text), "no '{text}' in: {}", shown.stdout);
    }
    let json = abi(&[&plugin], &["--json"]).json();
    let plugin = &json["plugins"][0];
    assert_eq!(plugin["note"]["backend"], "host");
    assert_eq!(plugin["other_symbols"], serde_json::json!([]));
    assert_eq!(plugin["opened"]["tables"]["longshore.queue"]["versions"], serde_json::json!([1]));
    assert_eq!(json["compatible"], true);
}

#[test]
fn without_loading_no_code_of_the_plugin_runs() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = toy_plugin(folder.path(), "toy", "return 0;");
    let shown = abi(&[&plugin], &["--no-load"]);
    assert!(
        shown.stdout.contains("its tables are unknown: --no-load was given"),
        "{}",
        shown.stdout
    );
    assert!(!shown.stdout.contains("  tables"), "{}", shown.stdout);
}

#[test]
fn a_plugin_that_dies_when_it_is_opened_is_incompatible() {
    let folder = tempfile::tempdir().unwrap();
    let definition =
        "CONNECT=return 0; } __attribute__((constructor)) static void die(void) { abort();";
    let plugin = toy_plugin_with(folder.path(), "toy", definition);
    let shown = abi(&[&plugin], &[]);
    let line = "incompatible: hosts cannot open it: its process died of signal 6 (P-3)";
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
    assert_eq!(shown.code, 1);
}

#[test]
fn removed_abilities_break_programs_and_new_ones_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let [few, many] = ["few", "many"].map(|name| folder.path().join(name));
    for folder in [&few, &many] {
        std::fs::create_dir(folder).unwrap();
    }
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/plugin-c");
    for (folder, defines) in [(&few, "DEFINES=-DFEWER_TABLES"), (&many, "DEFINES=")] {
        let file = folder.join("liblongshore_plugin_sample.so");
        let mut make = Command::new("make");
        make.args(["--silent", "-C", sample, "CFLAGS=-O0", defines]);
        if !make.arg(format!("LIBRARY={}", file.display())).status().is_ok_and(|it| it.success()) {
            return println!("not tried: there is no make");
        }
    }
    let [few, many] = [few, many].map(|folder| folder.join("liblongshore_plugin_sample.so"));
    let more = abi(&[&few, &many], &[]);
    more.assert_succeeds();
    let line = "  + table longshore.instrumentation 1 is new\n";
    assert!(more.stdout.contains(line), "{}", more.stdout);
    let fewer = abi(&[&many, &few], &[]);
    assert_eq!(fewer.code, 1, "{}", fewer.stdout);
    let line = "incompatible: table longshore.instrumentation 1 is gone";
    assert!(fewer.stdout.contains(line), "{}", fewer.stdout);
    let same = abi(&[&many, &many], &["--json"]).json();
    assert_eq!((&same["changes"], &same["compatible"]), (&serde_json::json!([]), &true.into()));
}

#[test]
fn a_library_without_a_note_is_incompatible_and_other_files_are_no_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let other = abi(&[&library(folder.path(), "other.so", "int x;")], &[]);
    assert_eq!(other.code, 1);
    assert!(other.stdout.contains("no note of owner 'Longshore' (P-2)"), "{}", other.stdout);
    let text = folder.path().join("text");
    std::fs::write(&text, "no ELF").unwrap();
    abi(&[&text], &[]).assert_fails(2, &["is no shared library: it is no 64-bit ELF file", "hint"]);
    longshore(&["abi", "/missing.so"]).assert_fails(3, &["'/missing.so' cannot be read"]);
}

#[test]
fn exported_symbols_beside_the_entry_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let plugin =
        toy_plugin_with(folder.path(), "toy", &format!("{ENTRY} }} int leaked(void) {{ return 1;"));
    let shown = abi(&[&plugin], &["--json", "--no-load"]).json();
    let names = shown["plugins"][0]["other_symbols"].as_array().unwrap();
    assert!(names.contains(&"leaked".into()), "{names:?}");
    assert!(shown["warnings"].to_string().contains("symbols beside 'longshore_plugin'"));
}

#[test]
fn names_with_newlines_forge_no_lines() {
    let folder = tempfile::tempdir().unwrap();
    let needed = folder.path().join("libneeded.so");
    let source = folder.path().join("needed.c");
    std::fs::write(&source, "int needed(void) { return 1; }").unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,-soname,x\ncompatible: it is\n", "-o"]);
    assert!(compiler.arg(&needed).arg(&source).status().unwrap().success());
    std::fs::write(&source, "int needed(void); int other(void) { return needed(); }").unwrap();
    let other = folder.path().join("other.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]).arg(&other).arg(&source);
    assert!(compiler.arg(&needed).status().unwrap().success());
    let plain = library(folder.path(), "plain.so", "int x;");
    for files in [&[&*other][..], &[&other, &plain], &[&plain, &other]] {
        let shown = abi(files, &[]);
        assert!(shown.stdout.contains("x\\ncompatible: it is\\n"), "{}", shown.stdout);
        assert!(!shown.stdout.contains("\ncompatible"), "{}", shown.stdout);
    }
    let json = abi(&[&other], &["--json"]).json();
    assert!(json["plugins"][0]["needed"].to_string().contains("x\\ncompatible: it is\\n"));
}

#[test]
fn a_first_plugin_with_unknown_tables_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let new = toy_plugin(folder.path(), "toy", "return 0;");
    let old = folder.path().join("old");
    std::fs::create_dir(&old).unwrap();
    let dying = "CONNECT=return 0; } __attribute__((constructor)) static void die(void) { abort();";
    let dying = toy_plugin_with(&old, "toy", dying);
    let other = library(&old, "other.so", "int x;");
    let tables = "warning: the tables of the first plugin are unknown, and were not compared: ";
    for (first, expected) in [
        (&dying, &[&*format!("{tables}its process died of signal 6\n")][..]),
        (&other, &["warning: the first plugin has no note", &format!("{tables}it is no plugin")]),
    ] {
        let shown = abi(&[first, &new], &[]);
        for text in expected {
            assert!(shown.stdout.contains(text), "no '{text}' in: {}", shown.stdout);
        }
    }
    let shown = abi(&[&new, &new], &[]);
    assert!(!shown.stdout.contains("first plugin"), "{}", shown.stdout);
}
