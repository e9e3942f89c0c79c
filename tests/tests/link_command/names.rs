//! Names of a program for tools that look for its code among libraries: sanitizers, backtraces, and
//! libraries that it opens.

use super::folder::{Folder, error_of, is_installed, text};
use longshore_tests::world::command;
use std::process::{Command, Output};

#[test]
fn a_library_that_the_program_opens_uses_its_functions_and_variables_with_rdynamic() {
    let main = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int counter = 5;
        int twice(int x) { return 2 * x; }
        __attribute__((visibility("hidden"))) int inner(int x) { return x; }
        int main(void) {
            void *library = dlopen("./plugin.so", RTLD_NOW);
            if (!library) return puts(dlerror()), 1;
            int (*plugin)(void) = (int (*)(void))dlsym(library, "plugin");
            printf("%d", plugin());
            printf(" %d\n", counter);
            printf("%d\n", dlsym(RTLD_DEFAULT, "twice") == (void *)twice);
            printf("%d\n", dlsym(RTLD_DEFAULT, "inner") == 0);
        }"#;
    let side = "int for_plugins(int x) { return x + 100; }";
    let plugin = "extern int counter; int twice(int), for_plugins(int);
        int plugin(void) { counter++; return twice(counter) + for_plugins(1); }";
    let folder = Folder::from_c(&[("side", side)]);
    folder.compile("gcc", "main.c", main, &["-D_GNU_SOURCE"]);
    folder.compile("gcc", "plugin.c", plugin, &["-fPIC"]);
    folder.run("gcc", &["-shared", "plugin.o", "-o", "plugin.so"]);
    folder.run("gcc", &["-rdynamic", "main.o", "side.o", "-o", "linked"]);
    let mut linked = Command::new(folder.0.path().join("linked"));
    let expected = linked.current_dir(folder.0.path()).output().expect("it was linked");
    assert_eq!(text(&expected.stdout), "113 6\n1\n1\n");
    for mode in [&[][..], &["--executor"], &["--gc-sections"]] {
        let output = folder.link(&[&["main.o", "side.o", "-rdynamic"], mode].concat());
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{mode:?}: {output:?}");
        assert_eq!(error_of(&output), "", "{mode:?}");
    }
    let output = folder.link(&["main.o", "side.o"]);
    assert!(text(&output.stdout).contains("undefined symbol"), "{output:?}");
    let (code, error) = folder.refused(&["main.o", "side.o", "-rdynamic", "--lazy"]);
    assert!(code == Some(2) && error.contains("--lazy"), "{error}");
}

const OVERFLOWS: &str = "
    #include <stdlib.h>
    __attribute__((noinline)) static int touch(volatile char *at) { return at[10]; }
    int main(void) { char *block = malloc(10); int byte = touch(block); free(block); return byte; }";

#[test]
fn the_address_sanitizer_names_the_programs_functions() {
    let Some(library) = library_of_gcc("libasan.so") else { return };
    let folder = Folder::new();
    // The distance between the code and libraries fits 32 bits in one case only.
    for way in ["-fPIC", "-fno-pic"] {
        folder.compile("gcc", "main.c", OVERFLOWS, &["-fsanitize=address", way]);
        let output = sanitized(&folder, &library);
        let report = error_of(&output);
        assert!(report.contains("heap-buffer-overflow"), "{report}");
        for (frame, function) in ["touch", "main"].iter().enumerate() {
            let line =
                report.lines().find(|line| line.trim_start().starts_with(&format!("#{frame} ")));
            assert!(
                line.is_some_and(|line| line.contains(&format!(" in {function} "))),
                "{report}"
            );
        }
    }
}

#[test]
fn the_undefined_behaviour_sanitizer_names_the_programs_functions() {
    if library_of_gcc("libubsan.so").is_none() {
        return;
    }
    let folder = Folder::new();
    let source = "int main(int argc, char **argv) { return (0x7fffffff + argc) == 0; }";
    folder.compile("gcc", "main.c", source, &["-fsanitize=undefined"]);
    let mut link = Command::new(command());
    link.args(["link", "main.o", "-lubsan"]).env("UBSAN_OPTIONS", "print_stacktrace=1");
    let output = link.current_dir(folder.0.path()).output().expect("the command is built");
    let report = error_of(&output);
    assert!(report.contains("signed integer overflow") && report.contains(" in main "), "{report}");
}

/// Links and runs with the library of a sanitizer, which must be loaded first.
fn sanitized(folder: &Folder, library: &str) -> Output {
    let mut link = Command::new(command());
    link.args(["link", "main.o"]).env("LD_PRELOAD", library).env("ASAN_OPTIONS", "detect_leaks=0");
    link.current_dir(folder.0.path()).output().expect("the command is built")
}

/// Returns the path of a library of gcc, if it is installed.
fn library_of_gcc(name: &str) -> Option<String> {
    let mut gcc = Command::new("gcc");
    let output = gcc.arg(format!("-print-file-name={name}")).output().ok()?;
    let path = text(&output.stdout).trim().to_owned();
    path.contains('/').then_some(path)
}

#[test]
fn backtraces_of_rust_name_the_programs_functions() {
    if !is_installed("rustc") {
        return;
    }
    let source = r#"
        use std::backtrace::Backtrace;
        #[inline(never)]
        fn inner() { println!("{}", Backtrace::force_capture()); panic!("of inner") }
        mod deep { #[inline(never)] pub fn outer() { crate::inner() } }
        #[unsafe(no_mangle)]
        pub extern "C" fn main() -> i32 { std::panic::catch_unwind(deep::outer).is_err() as i32 }"#;
    let folder = Folder::new();
    std::fs::write(folder.0.path().join("program.rs"), source).expect("the folder can be written");
    folder.run("rustc", &["--edition=2024", "--crate-type=staticlib", "-O", "program.rs"]);
    for mode in ["--threads=1", "--executor"] {
        let mut link = Command::new(command());
        let arguments = ["link", "libprogram.a", "--dylib", "libgcc_s.so.1", mode];
        link.args(arguments).env("RUST_BACKTRACE", "1").current_dir(folder.0.path());
        let output = link.output().expect("the command is built");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        for trace in [text(&output.stdout), error_of(&output)] {
            for name in ["program::inner\n", "program::deep::outer\n", ": main\n"] {
                assert!(trace.contains(name), "{mode}: {name:?} in {trace}");
            }
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files_costs_the_names_and_not_the_program() {
    let folder = Folder::from_c(&[("main", "int main(void) { return 3; }")]);
    let link = command().display().to_string();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 0; \"$0\" link main.o", &link]).current_dir(folder.0.path());
    let output = shell.output().expect("there is a shell");
    assert_eq!((output.status.code(), error_of(&output)), (Some(3), String::new()));
}
