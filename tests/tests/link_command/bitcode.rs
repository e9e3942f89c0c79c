//! Bitcode programs whose functions are compiled at their first call (`--lazy`). The programs of
//! `runs` are compiled so too.

use super::folder::{Folder, error_of, is_installed, text};

/// Returns a folder with `NAME.bc` for each C source, or `None` without the compiler.
fn compile_folder(sources: &[(&str, &str)]) -> Option<Folder> {
    if !is_installed("clang-19") {
        assert!(std::env::var_os("CI").is_none(), "there is no clang-19");
        eprintln!("skipped: there is no clang-19");
        return None;
    }
    let folder = Folder::new();
    for (name, source) in sources {
        folder.compile("clang-19", &format!("{name}.c"), source, &["-emit-llvm", "-O1"]);
    }
    Some(folder)
}

const MAIN: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    __attribute__((noinline)) static int own(int n) { return n + 1; }
    int other(int), missing(void);
    __attribute__((constructor)) static void begin(void) { puts("begin"); }
    __attribute__((destructor)) static void end(void) { puts("end"); }
    __attribute__((noinline)) int lacks(void) { return missing() + 1; }
    __attribute__((noinline)) int never(void) { __asm__("no_such_instruction"); return 1; }
    int main(int argc, char **argv) {
        puts("main");
        fflush(stdout);
        switch (argc) { case 2: return never(); case 3: return lacks(); }
        return own(other(argc));
    }"#;

#[test]
fn a_program_of_bitcode_and_an_object_runs_without_uncalled_functions() {
    let sources = [("main", MAIN), ("other", "int other(int n) { return n + 5; }")];
    let Some(folder) = compile_folder(&sources) else { return };
    folder.run("gcc", &["-c", "other.c"]);
    for place in [&[][..], &["--executor"], &["--executor", "--no-shared-memory"]] {
        for other in ["other.bc", "other.o"] {
            let options = [&["--lazy", "main.bc", other, "-v"], place].concat();
            let output = folder.link(&options);
            let log = error_of(&output);
            assert_eq!(text(&output.stdout), "begin\nmain\nend\n", "{log}");
            assert_eq!(output.status.code(), Some(7), "{log}");
            for linked in ["main.bc(main)", "main.bc(own)", "main.bc"] {
                assert!(log.contains(&format!("] linked {linked}\n")), "{log}");
            }
            assert!(!log.contains("never"), "{log}");
        }
    }
}

#[test]
fn a_call_that_cannot_be_compiled_ends_the_program_with_the_compilers_error() {
    let sources = [("main", MAIN), ("other", "int other(int n) { return n + 5; }")];
    let Some(folder) = compile_folder(&sources) else { return };
    for place in [&[][..], &["--executor"]] {
        let given = [&["--lazy", "main.bc", "other.bc"], place].concat();
        let output = folder.link(&[&given[..], &["--args", "1"]].concat());
        let error = error_of(&output);
        assert_eq!(text(&output.stdout), "begin\nmain\n", "{error}");
        assert_eq!(output.status.code(), Some(127), "{error}");
        let problem = "error: the called function 'never' cannot be linked: main.bc: never could not be made: ";
        assert!(error.starts_with(problem) && error.contains("invalid instruction"), "{error}");
        let output = folder.link(&[&given[..], &["--args", "1", "2"]].concat());
        let error = error_of(&output);
        assert!(error.contains("undefined symbols") && error.contains("missing"), "{error}");
    }
}

#[test]
fn bitcode_that_is_not_compiled_says_what_compiles_it() {
    let Some(folder) = compile_folder(&[("main", "int main(void) { return 0; }")]) else { return };
    folder.archive("lib.a", &["main.bc"]);
    let (code, error) = folder.refused(&["main.bc"]);
    assert!(code == Some(1) && error.contains("expected machine code"), "{error}");
    assert!(error.contains("--lazy"), "{error}");
    for options in [&["lib.a"][..], &["--lazy", "lib.a"]] {
        let (code, error) = folder.refused(options);
        assert!(code == Some(1) && error.contains("lib.a(main.bc)"), "{options:?}: {error}");
        assert!(error.contains("from the archive"), "{options:?}: {error}");
        assert!(error.matches("compiled with -flto").count() <= 1, "{options:?}: {error}");
    }
}

#[test]
fn text_of_llvm_is_compiled_like_bitcode() {
    let Some(folder) = compile_folder(&[("other", "int other(int n) { return n + 5; }")]) else {
        return;
    };
    std::fs::write(folder.0.path().join("main.c"), MAIN).unwrap();
    folder.run("clang-19", &["-w", "-S", "-emit-llvm", "-O1", "main.c"]);
    let output = folder.link(&["--lazy", "main.ll", "other.bc"]);
    assert_eq!(text(&output.stdout), "begin\nmain\nend\n", "{}", error_of(&output));
    assert_eq!(output.status.code(), Some(7));
    let (code, error) = folder.refused(&["main.ll", "other.bc"]);
    assert!(code == Some(1) && error.contains("assembly text"), "{error}");
    assert!(error.contains("--lazy"), "{error}");
    std::fs::write(folder.0.path().join("wrong.ll"), "define i32 @main() { nonsense }").unwrap();
    let (code, error) = folder.refused(&["--lazy", "wrong.ll"]);
    assert!(code == Some(1) && error.contains("wrong.ll") && error.contains("nonsense"), "{error}");
}

#[test]
fn a_program_can_wait_until_it_has_no_children() {
    let source = r#"
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        __attribute__((noinline)) int child(void) { return 5; }
        int main(void) {
            if (!fork()) _exit(child());
            int status, ended = 0;
            while (wait(&status) > 0) ended += WEXITSTATUS(status);
            printf("%d\n", ended);
            return 0;
        }"#;
    let Some(folder) = compile_folder(&[("main", source)]) else { return };
    let output = folder.link(&["--lazy", "main.bc"]);
    assert_eq!(text(&output.stdout), "5\n", "{}", error_of(&output));
}
