//! What options add, and what they tell.

use super::folder::{Folder, error_of, text};
use super::runs::{LIFE, OTHER_LIFE};
use std::fs;

#[test]
fn members_of_an_archive_are_linked_when_they_are_needed_and_those_of_a_file_all() {
    let say = |name: &str| {
        format!(
            "#include <stdio.h>\n__attribute__((constructor)) static void c(void) {{ printf(\"{name} \"); }}\n\
             int {name}(void) {{ return 1; }}"
        )
    };
    let main = "int one(void); int main(void) { return one(); }";
    let (one, two) = (say("one"), say("two"));
    let needs = "int two(void); int one(void) { return two() + 1; }";
    let folder = Folder::of_c(&[("main", main), ("one", &one), ("two", &two), ("needs", needs)]);
    folder.archive("both.a", &["one.o", "two.o"]);
    folder.archive("first.a", &["two.o"]);
    folder.archive("second.a", &["needs.o"]);
    let said = |arguments: &[&str]| {
        let output = folder.link(arguments);
        (text(&output.stdout), output.status.code())
    };
    assert_eq!(said(&["main.o", "--archive", "both.a"]), ("one ".into(), Some(1)));
    assert_eq!(said(&["main.o", "both.a"]), ("one two ".into(), Some(1)));
    // The order of archives does not matter.
    let archives = ["main.o", "--archive", "first.a", "--archive", "second.a"];
    assert_eq!(said(&archives), ("two ".into(), Some(2)));
}

#[test]
fn aliases_and_absolute_symbols_are_what_the_options_say() {
    let source = "
        extern char at[];
        int alias(int);
        int real(int x) { return x + 1; }
        int main(void) { return alias(1) + (at == (char *)0x1234) * 10; }";
    let folder = Folder::new();
    folder.compile("gcc", "main.c", source, &["-fPIC"]);
    let options = ["--alias", "alias=another", "--alias", "another=real", "--abs", "at=0x1234"];
    assert_eq!(folder.code(&[&["main.o"], &options[..]].concat()), Some(12));
    let (code, error) =
        folder.refused(&["main.o", "--abs", "at=1", "--alias", "alias=x", "--alias", "x=alias"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("undefined symbols:\n  alias (used by main.o)\n"), "{error}");
}

#[test]
fn options_that_have_no_effect_are_told() {
    let folder = Folder::of_c(&[("main", "int main(void) { return 0; }")]);
    let said = |options: &[&str]| {
        let output = folder.link(&[&["main.o"], options].concat());
        assert_eq!(output.status.code(), Some(0));
        error_of(&output)
    };
    let slab = ["--slab-address", "0x30000000"];
    for options in [
        &["--dylib", "libm.so.6"][..],
        &["--gdb"],
        &["--perf-map"],
        &["--jitdump", "."],
        &["--args", "x"],
    ] {
        let warning = format!("{} has no effect", options[0]);
        let found = said(&[&slab, options].concat());
        assert!(found.starts_with("warn: ") && found.contains(&warning), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
    assert!(said(&["--no-exec", "--args", "x"]).contains("--args has no effect"));
    assert_eq!(said(&["--no-exec", "--dylib", "libm.so.6", "--gdb", "--args"]), "");
}

#[test]
fn the_log_tells_what_was_linked_and_where() {
    let sources = [
        ("main", "int used(void); int main(void) { return used(); }"),
        ("used", "int used(void) { return 0; }"),
        ("unused", "int unused(void) { return 0; }"),
    ];
    let folder = Folder::of_c(&sources);
    folder.archive("lib.a", &["used.o", "unused.o"]);
    let said = |level: &str| {
        let output = folder.link(&[level, "main.o", "--archive", "lib.a", "--dylib", "libm.so.6"]);
        assert_eq!(text(&output.stdout), "");
        error_of(&output)
    };
    let linked = said("-v");
    assert!(linked.contains("] opened libm.so.6\n"), "{linked}");
    for object in ["main.o", "lib.a(used.o)"] {
        assert!(linked.contains(&format!("] linked {object}\n")), "{linked}");
    }
    assert!(!linked.contains("unused") && !linked.contains(".text"), "{linked}");
    let sections = said("-vv");
    assert!(sections.contains("] main.o: .text r-x at 0x"), "{sections}");
    assert!(!sections.contains("main at 0x"), "{sections}");
    let symbols = said("-vvv");
    assert!(symbols.contains("] lib.a(used.o): used at 0x"), "{symbols}");
}

#[test]
fn nothing_runs_with_no_exec() {
    let folder = Folder::of_c(&[("life", LIFE), ("other", OTHER_LIFE)]);
    assert_eq!(folder.code(&["life.o", "other.o", "--no-exec"]), Some(0));
    let output = folder.link(&["life.o", "other.o", "--no-exec"]);
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn graphs_and_times_are_shown_beside_the_programs_output() {
    let folder =
        Folder::of_c(&[("main", "#include <stdio.h>\nint main(void) { puts(\"hello\"); }")]);
    let output = folder.link(&["main.o", "--show-graph", "--show-times"]);
    assert_eq!(text(&output.stdout), "hello\n");
    let error = error_of(&output);
    assert!(error.contains("link graph main.o (") && error.contains("section .text (r-x"));
    for row in ["read", "resolve", "allocate", "fix up", "finalize", "total", "objects", "memory"] {
        assert!(
            error.lines().any(|line| line.trim_start_matches(['│', ' ']).starts_with(row)),
            "{row}: {error}"
        );
    }
}

#[test]
fn profilers_are_told_of_functions() {
    let source = r#"
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        int main(void) {
            char name[64], line[256];
            int found = 0;
            sprintf(name, "/tmp/perf-%d.map", getpid());
            FILE *map = fopen(name, "r");
            while (map && fgets(line, sizeof line, map)) found |= strstr(line, " main\n") != 0;
            unlink(name);
            return found;
        }"#;
    let folder = Folder::of_c(&[("main", source)]);
    assert_eq!(folder.code(&["main.o", "--perf-map"]), Some(1));
    fs::create_dir(folder.0.path().join("dumps")).unwrap();
    assert_eq!(folder.code(&["main.o", "--jitdump", "dumps"]), Some(0));
    assert_ne!(fs::read_dir(folder.0.path().join("dumps")).unwrap().count(), 0);
}
