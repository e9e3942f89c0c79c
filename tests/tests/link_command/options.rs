//! Effects and messages of options.

use super::folder::{Folder, error_of, is_installed, text};
use super::runs::{LIFE, OTHER_LIFE};
use std::fs;

#[test]
fn members_of_an_archive_are_linked_when_needed_and_objects_always() {
    let say = |name: &str| {
        format!(
            "#include <stdio.h>\n__attribute__((constructor)) static void c(void) {{ printf(\"{name} \"); }}\n\
             int {name}(void) {{ return 1; }}"
        )
    };
    let main = "int one(void); int main(void) { return one(); }";
    let (one, two) = (say("one"), say("two"));
    let needs = "int two(void); int one(void) { return two() + 1; }";
    let folder = Folder::from_c(&[("main", main), ("one", &one), ("two", &two), ("needs", needs)]);
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
fn aliases_and_absolute_symbols_follow_the_options() {
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
fn options_that_have_no_effect_are_reported() {
    let folder = Folder::from_c(&[("main", "int main(void) { return 0; }")]);
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
fn the_log_lists_linked_objects_and_their_places() {
    let sources = [
        ("main", "int used(void); int main(void) { return used(); }"),
        ("used", "int used(void) { return 0; }"),
        ("unused", "int unused(void) { return 0; }"),
    ];
    let folder = Folder::from_c(&sources);
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
    let folder = Folder::from_c(&[("life", LIFE), ("other", OTHER_LIFE)]);
    assert_eq!(folder.code(&["life.o", "other.o", "--no-exec"]), Some(0));
    let output = folder.link(&["life.o", "other.o", "--no-exec"]);
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn graphs_and_times_are_shown_beside_the_programs_output() {
    let folder =
        Folder::from_c(&[("main", "#include <stdio.h>\nint main(void) { puts(\"hello\"); }")]);
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
fn profilers_are_informed_of_functions() {
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
    let folder = Folder::from_c(&[("main", source)]);
    assert_eq!(folder.code(&["main.o", "--perf-map"]), Some(1));
    fs::create_dir(folder.0.path().join("dumps")).unwrap();
    assert_eq!(folder.code(&["main.o", "--jitdump", "dumps"]), Some(0));
    assert_ne!(fs::read_dir(folder.0.path().join("dumps")).unwrap().count(), 0);
}

#[test]
fn libraries_are_found_by_their_names() {
    let main = "int from_archive(void), from_shared(void), puts(const char *);
        int main(void) { return from_archive() + from_shared(); }";
    let sources = [("main", main), ("part", "int from_archive(void) { return 30; }")];
    let folder = Folder::from_c(&sources);
    std::fs::create_dir(folder.0.path().join("lib")).unwrap();
    folder.archive("lib/libpart.a", &["part.o"]);
    std::fs::write(folder.0.path().join("so.c"), "int from_shared(void) { return 12; }").unwrap();
    folder.run("gcc", &["-shared", "-fPIC", "-o", "lib/libshared.so.7", "so.c"]);
    let given = ["main.o", "-L", "lib", "-lpart", "-lshared"];
    assert_eq!(folder.code(&given), Some(42));
    // A linker script, with a library without a name of its own.
    std::fs::write(folder.0.path().join("lib/liball.so"), "GROUP ( -lpart libshared.so.7 )")
        .unwrap();
    assert_eq!(folder.code(&["main.o", "-Llib", "-l", "all"]), Some(42));
    assert_eq!(folder.code(&["main.o", "-Llib", "-l:libpart.a", "-l:libshared.so.7"]), Some(42));
    // A system linker finds these too.
    assert_eq!(folder.code(&["main.o", "-Llib", "-lall", "-lm", "-lc", "-lpthread"]), Some(42));
    let (code, error) = folder.refused(&["main.o", "-L", "lib", "-lnowhere"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("cannot find -lnowhere") && error.contains("'lib'"), "{error}");
}

#[test]
fn response_files_stand_for_their_words() {
    let main = "#include <stdio.h>
        int part(void); int main(int argc, char **argv) { puts(argv[1]); return part(); }";
    let folder = Folder::from_c(&[("main", main), ("part", "int part(void) { return 3; }")]);
    std::fs::write(folder.0.path().join("objects.txt"), "main.o\n\"part.o\"\n").unwrap();
    let output = folder.link(&["@objects.txt", "--args", "@objects.txt"]);
    assert_eq!(text(&output.stdout), "@objects.txt\n", "{}", error_of(&output));
    assert_eq!(output.status.code(), Some(3));
    let (code, error) = folder.refused(&["@missing.txt"]);
    assert!(code == Some(1) && error.contains("@missing.txt"), "{error}");
}

#[test]
fn a_member_that_nothing_refers_to_is_linked_for_an_undefined_symbol() {
    let folder = Folder::from_c(&[
        ("main", "int main(void) { return 0; }"),
        (
            "member",
            "#include <stdio.h>
            int wanted; __attribute__((constructor)) static void begin(void) { puts(\"begin\"); }",
        ),
    ]);
    folder.archive("lib.a", &["member.o"]);
    for mode in [&[][..], &["--lazy"], &["--executor"], &["--gc-sections"]] {
        let given = [&["main.o", "--archive", "lib.a", "-u", "nowhere"], mode].concat();
        assert_eq!(text(&folder.link(&given).stdout), "");
        let output = folder.link(&[&given[..], &["-u", "wanted"]].concat());
        assert_eq!((text(&output.stdout), error_of(&output)), ("begin\n".into(), String::new()));
    }
}

#[test]
fn counters_of_clang_are_written_as_the_system_linkers_program_does() {
    if !is_installed("clang-19") {
        return;
    }
    let folder = Folder::new();
    let main = "int twice(int); int main(void) { return twice(1) + twice(2) - 6; }";
    let counted = ["-fprofile-instr-generate", "-O1"];
    folder.compile("clang-19", "main.c", main, &counted);
    let twice = "int twice(int x) { return x > 1 ? 2 * x : x + x; }";
    folder.compile("clang-19", "twice.c", twice, &counted);
    let path = |file: &str| folder.0.path().join(file).display().to_string();
    folder.run("clang-19", &["main.o", "twice.o", "-fprofile-instr-generate", "-o", "linked"]);
    let profile = |file: &str| format!("LLVM_PROFILE_FILE={}", path(file));
    folder.run("env", &[&profile("theirs.profraw"), "./linked"]);
    let printed = std::process::Command::new("clang-19")
        .arg("-print-file-name=libclang_rt.profile.a")
        .output()
        .expect("clang says where its runtime is");
    let printed = text(&printed.stdout);
    let runtime = match printed.trim() {
        // Some distributions have the architecture in the name.
        "libclang_rt.profile.a" => {
            "/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.profile-x86_64.a"
        }
        path => path,
    };
    let shown = |file: &str| {
        let merged = path(&format!("{file}.merged"));
        folder.run("llvm-profdata-19", &["merge", "-o", &merged, &path(file)]);
        let mut show = std::process::Command::new("llvm-profdata-19");
        let output = show.args(["show", "--counts", "--all-functions", &merged]).output().unwrap();
        text(&output.stdout)
    };
    for (mode, option) in [("plain", "-v"), ("pruned", "--gc-sections"), ("there", "--executor")] {
        let file = format!("{mode}.profraw");
        let link = longshore_tests::world::command();
        let link = link.display().to_string();
        let arguments = ["link", option, "main.o", "twice.o", "--archive", runtime];
        folder.run("env", &[&[&*profile(&file), &link], &arguments[..]].concat());
        assert_eq!(shown(&file), shown("theirs.profraw"), "{mode}");
    }
    let output = folder.link(&["main.o", "twice.o", "--no-exec"]);
    assert!(error_of(&output).contains("no runtime writes their profile"), "{}", error_of(&output));
}

#[test]
fn code_for_gprof_is_reported_to_count_nothing() {
    let folder = Folder::new();
    folder.compile("gcc", "main.c", "int main(void) { return 3; }", &["-pg"]);
    let output = folder.link(&["main.o"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(error_of(&output).contains("-pg has no effect"), "{}", error_of(&output));
}

#[test]
fn a_wrapper_stands_between_a_function_and_its_references() {
    let main = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int own(int);
        int main(void) { void *block = malloc(10); printf("%d\n", own(1)); return block == 0; }"#;
    let wrap = r#"
        #include <stdio.h>
        #include <stdlib.h>
        void *__real_malloc(size_t);
        int __real_own(int);
        void *__wrap_malloc(size_t size) {
            if (size == 10) fputs("malloc\n", stderr), fflush(stderr);
            return __real_malloc(size);
        }
        int __wrap_own(int x) { return 100 + __real_own(x); }"#;
    let folder = Folder::from_c(&[
        ("main", main),
        ("wrap", wrap),
        ("own", "int own(int x) { return x + 1; } int inner(void) { return own(5); }"),
    ]);
    folder
        .run("gcc", &["-Wl,--wrap=malloc,--wrap=own", "-o", "linked", "main.o", "wrap.o", "own.o"]);
    let theirs = std::process::Command::new(folder.0.path().join("linked")).output().unwrap();
    let aliases = ["malloc=__wrap_malloc", "__real_malloc=malloc"];
    let by_alias = ["--alias", aliases[0], "--alias", aliases[1], "--wrap", "own"];
    for mode in [&[][..], &["--lazy"], &["--executor"], &["--gc-sections"]] {
        for wraps in [&["--wrap", "malloc", "--wrap", "own"][..], &by_alias] {
            let output = folder.link(&[&["main.o", "wrap.o", "own.o"], mode, wraps].concat());
            assert_eq!(text(&output.stdout), text(&theirs.stdout), "{mode:?} {wraps:?}");
            assert_eq!(error_of(&output), text(&theirs.stderr), "{mode:?} {wraps:?}");
        }
    }
    let (code, error) = folder.refused(&["main.o", "own.o", "--wrap", "own"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("\n  __wrap_own (used by main.o)"), "{error}");
}
