//! Behaviour of running programs.

use super::folder::{Folder, error_of, is_installed, text};
use longshore_tests::effort;
use longshore_tests::world::command;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Source whose constructors, destructors and exit handlers print a text, also without a final
/// newline. Ends by `exit` if there is an argument.
pub(super) const LIFE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
void other(void);
__attribute__((constructor(200))) static void early(void) { printf("early "); }
__attribute__((constructor)) static void late(int argc, char **argv) { printf("late of %d ", argc); }
__attribute__((destructor(200))) static void last(void) { printf("last"); }
__attribute__((destructor)) static void first(void) { printf("first "); }
static void handler(void) { printf("handler "); }
static void later_handler(void) { printf("later handler "); }
int main(int argc, char **argv) {
    atexit(handler);
    atexit(later_handler);
    other();
    printf("main ");
    if (argc > 1) exit(atoi(argv[1]));
    return 7;
}
"#;

pub(super) const OTHER_LIFE: &str = r#"
#include <stdio.h>
__attribute__((constructor(300))) static void middle(void) { printf("middle "); }
__attribute__((destructor(300))) static void before_last(void) { printf("before last "); }
void other(void) {}
"#;

#[test]
fn constructors_handlers_and_destructors_run_in_the_systems_order_on_return_and_on_exit() {
    let folder = Folder::from_c(&[("life", LIFE), ("other", OTHER_LIFE)]);
    folder.link_as_the_system_does(&["life.o", "other.o"], &[], &[]);
    folder.link_as_the_system_does(&["life.o", "other.o"], &[], &["9"]);
}

#[test]
fn destructors_run_when_another_thread_ends_the_process() {
    let source = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        __attribute__((destructor)) static void end(void) { printf("end"); }
        static void *thread(void *unused) { exit(5); }
        int main(void) {
            pthread_t id;
            pthread_create(&id, 0, thread, 0);
            for (;;) pause();
        }"#;
    Folder::from_c(&[("main", source)]).link_as_the_system_does(&["main.o"], &[], &[]);
}

#[test]
fn remaining_handlers_run_when_a_handler_or_a_destructor_of_a_static_calls_exit() {
    let handlers = r#"
        #include <stdio.h>
        #include <stdlib.h>
        __attribute__((destructor)) static void end(void) { puts("end"); }
        static void first(void) { puts("first"); }
        static void second(void) { puts("second"); exit(7); }
        static void third(void) { puts("third"); exit(6); }
        int main(void) { atexit(first); atexit(second); atexit(third); return 5; }"#;
    let statics = r#"
        #include <stdio.h>
        #include <stdlib.h>
        struct Static { int code; ~Static() { printf("%d\n", code); if (code) exit(code); } };
        static Static first{0}, second{9}, third{0};
        int main() { return 1; }"#;
    let folder = Folder::from_c(&[("handlers", handlers)]);
    folder.compile("g++", "statics.cc", statics, &[]);
    folder.link_as_the_system_does(&["handlers.o"], &[], &[]);
    folder.link_as_the_system_does(&["statics.o"], &["--dylib", "libstdc++.so.6"], &[]);
}

#[test]
fn an_uncaught_exception_calls_the_terminate_handler() {
    let source = r#"
        #include <cstdio>
        #include <exception>
        #include <stdexcept>
        #include <unistd.h>
        struct Local { ~Local() { puts("unwound"); } };
        static void terminate() {
            try { throw; } catch (std::exception &error) { puts(error.what()); }
            fflush(stdout);
            _exit(3);
        }
        int main(int argc, char **) {
            Local local;
            if (argc == 1) std::set_terminate(terminate);
            throw std::runtime_error("of main");
        }"#;
    let folder = Folder::new();
    folder.compile("g++", "main.cc", source, &[]);
    for arguments in [&[][..], &["x"]] {
        folder.link_as_the_system_does(&["main.o"], &["--dylib", "libstdc++.so.6"], arguments);
    }
}

#[test]
fn an_exception_of_a_constructor_or_an_exit_handler_calls_the_terminate_handler() {
    let source = r#"
        #include <cstdio>
        #include <cstdlib>
        #include <exception>
        #include <unistd.h>
        static void terminate() { puts("terminate"); fflush(stdout); _exit(3); }
        static struct First { First() { std::set_terminate(terminate); } } first;
        static struct Second { Second() { if (!AT_EXIT) throw 1; } } second;
        static void at_exit() { throw 2; }
        int main() { puts("main"); atexit(at_exit); }"#;
    let folder = Folder::new();
    for at_exit in ["-DAT_EXIT=0", "-DAT_EXIT=1"] {
        folder.compile("g++", "main.cc", source, &[at_exit]);
        folder.link_as_the_system_does(&["main.o"], &["--dylib", "libstdc++.so.6"], &[]);
    }
}

#[test]
fn destructors_find_thread_local_variables_as_the_program_left_them() {
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        static __thread int left = 4;
        __attribute__((destructor)) static void last(void) { printf("%d", left); }
        static void handler(void) { printf("%d ", left++); }
        int main(void) { atexit(handler); left = 9; }"#;
    let folder = Folder::new();
    for flags in ["-fPIC", "-fPIE"] {
        folder.compile("gcc", "main.c", source, &[flags]);
        folder.link_as_the_system_does(&["main.o"], &[], &[]);
    }
}

/// Source that prints the names that objects have put into a section.
const REGISTRY: &str = r#"
    #include <stdio.h>
    extern const char *__start_names[], *__stop_names[];
    int main(void) {
        for (const char **name = __start_names; name < __stop_names; name++) puts(*name);
    }"#;

#[test]
fn registrations_of_objects_in_sections_are_found() {
    if super::OPTIONS.contains(&"--lazy") {
        // An object without a called function is not linked for its contents of sections.
        return;
    }
    let registered = |name: &str| {
        format!("__attribute__((section(\"names\"), used)) static const char *name = \"{name}\";")
    };
    let (one, two) = (registered("one"), registered("two"));
    let folder = Folder::from_c(&[("main", REGISTRY), ("one", &one), ("two", &two)]);
    let objects = ["main.o", "one.o", "two.o"];
    folder.link_as_the_system_does(&objects, &["--link-all"], &[]);
}

#[test]
fn sections_of_objects_with_constructors_are_between_the_bounds_too() {
    // Each bitcode module has section bounds of its own.
    if super::IS_BITCODE {
        return;
    }
    let registered = |name: &str| {
        format!(
            r#"#include <stdio.h>
            __attribute__((section("names"), used)) static const char *name = "{name}";
            __attribute__((constructor)) static void begin(void) {{ puts("begin {name}"); }}"#
        )
    };
    let (one, two) = (registered("one"), registered("two"));
    let folder = Folder::from_c(&[("main", REGISTRY), ("one", &one), ("two", &two)]);
    folder.link_as_the_system_does(&["two.o", "main.o", "one.o"], &[], &[]);
    if !super::OPTIONS.contains(&"--lazy") {
        folder.link_as_the_system_does(&["one.o", "main.o", "two.o"], &["--gc-sections"], &[]);
        folder.link_as_the_system_does(&["one.o", "main.o", "two.o"], &["--link-all"], &[]);
    }
}

#[test]
fn the_bounds_that_a_system_linker_defines_belong_to_the_program() {
    if super::IS_BITCODE {
        return;
    }
    let main = r#"
        #include <stdio.h>
        extern char etext[], _etext[], edata[], _edata[], __bss_start[], end[], _end[], __data_start[];
        extern char __executable_start[];
        extern const char __ehdr_start[] __attribute__((visibility("hidden")));
        typedef void (*function)(void);
        extern function __init_array_start[], __init_array_end[] __attribute__((visibility("hidden")));
        extern function __fini_array_start[], __fini_array_end[] __attribute__((visibility("hidden")));
        extern function __preinit_array_start[], __preinit_array_end[] __attribute__((visibility("hidden")));
        int data[100] = { 1 }, zeroes[100];
        extern int other_data, other_zero;
        extern function first, second;
        static void own(void) {}
        __attribute__((constructor(300))) static void begin(void) {}
        __attribute__((destructor)) static void finish(void) {}
        static int is_data(void *at) { return (char *)at >= __data_start && (char *)at < edata; }
        static int is_zero(void *at) { return (char *)at >= __bss_start && (char *)at < end; }
        int main(void) {
            int places[4] = { -1, -1, -1 }, count = __init_array_end - __init_array_start;
            for (int n = 0; n < count; n++) {
                if (__init_array_start[n] == first) places[0] = n;
                if (__init_array_start[n] == begin) places[1] = n;
                if (__init_array_start[n] == second) places[2] = n;
            }
            printf("%d\n", places[0] >= 0 && places[0] < places[1] && places[1] < places[2]);
            printf("%d\n", (char *)own < etext && (char *)own >= __executable_start);
            printf("%d %d %d\n", etext == _etext, edata == _edata, end == _end);
            printf("%d %d\n", is_data(data), is_data(&other_data));
            printf("%d %d\n", is_zero(zeroes), is_zero(&other_zero));
            printf("%d %d\n", is_zero(data), is_data(zeroes));
            printf("%.3s %d\n", __ehdr_start + 1, __ehdr_start[4]);
            printf("%d\n", (int)(__preinit_array_end - __preinit_array_start));
            function *last = __fini_array_start;
            while (last < __fini_array_end && *last != finish) last++;
            printf("%d\n", last < __fini_array_end);
        }"#;
    let other = r#"
        typedef void (*function)(void);
        int other_data = 5, other_zero;
        __attribute__((constructor(200))) static void a(void) {}
        __attribute__((constructor)) static void b(void) {}
        function first = a, second = b;"#;
    let folder = Folder::from_c(&[("main", main), ("other", other)]);
    folder.link_as_the_system_does(&["main.o", "other.o"], &[], &[]);
    folder.link_as_the_system_does(&["other.o", "main.o"], &[], &[]);
}

#[test]
fn a_name_of_a_bound_is_the_programs_own_if_it_defines_it() {
    let main = r#"
        #include <stdio.h>
        int end(void); extern int edata;
        int main(void) { printf("%d %d\n", end(), edata); }"#;
    let own = "int end(void) { return 1; } int edata = 2;";
    let folder = Folder::from_c(&[("main", main), ("own", own)]);
    folder.link_as_the_system_does(&["main.o", "own.o"], &[], &[]);
}

#[test]
fn a_common_symbol_has_its_definition_from_an_archive() {
    let main = "#include <stdio.h>
        int cc, only[4]; int main(void) { printf(\"%d %d\\n\", cc, only[1]); }";
    let folder = Folder::new();
    folder.compile("gcc", "main.c", main, &["-fcommon"]);
    folder.compile("gcc", "cc.c", "int cc = 6;", &[]);
    // A member whose symbol is also common is not linked.
    let common = "int only[4]; int nowhere(void); int f(void) { return nowhere(); }";
    folder.compile("gcc", "only.c", common, &["-fcommon"]);
    folder.archive("lib.a", &["cc.o", "only.o"]);
    folder.run("gcc", &["-o", "linked", "main.o", "lib.a"]);
    let expected = std::process::Command::new(folder.0.path().join("linked")).output().unwrap();
    let found = folder.link(&["main.o", "--archive", "lib.a"]);
    assert_eq!(text(&found.stdout), text(&expected.stdout), "{}", error_of(&found));
    assert_eq!((text(&found.stdout), error_of(&found)), ("6 0\n".to_owned(), String::new()));
}

#[test]
fn block_data_of_fortran_is_found_in_an_archive() {
    if super::IS_BITCODE || !is_installed("gfortran") {
        return;
    }
    let main = "
      program main
      integer a, b
      common /shared/ a, b
      if (a .eq. 4 .and. b .eq. 7) stop 3
      stop 5
      end program";
    let data = "
      block data values
      integer a, b
      common /shared/ a, b
      data a, b /4, 7/
      end block data";
    let folder = Folder::new();
    folder.compile("gfortran", "main.f90", main, &[]);
    folder.compile("gfortran", "values.f90", data, &[]);
    folder.archive("lib.a", &["values.o"]);
    let arguments = ["main.o", "--archive", "lib.a", "--dylib", "libgfortran.so.5"];
    let output = folder.link(&arguments);
    assert_eq!(output.status.code(), Some(3), "{}", error_of(&output));
}

#[test]
fn an_entry_that_is_data_is_an_error_and_runs_nothing() {
    let folder = Folder::from_c(&[("main", "int main[3] = { 5 }; int other(void) { return 1; }")]);
    let (code, error) = folder.refused(&["main.o"]);
    assert_eq!(code, Some(1), "{error}");
    let name = if super::IS_BITCODE { "main.o" } else { "main.o: the entry main is data" };
    assert!(error.contains(name) && error.contains("expected a function to call"), "{error}");
}

#[test]
fn inline_functions_of_objects_with_constructors_are_linked_once() {
    if super::OPTIONS.contains(&"--lazy") || super::IS_BITCODE {
        // Nothing is omitted there.
        return;
    }
    let inline = "inline int f(int x) { return x * 3; }";
    let main = format!("{inline} int (*volatile fp1)(int) = f; int main() {{ return fp1(1); }}");
    let other = format!(
        "#include <cstdio>\n{inline} int (*volatile fp2)(int) = f;
        struct Begin {{ Begin() {{ printf(\"%d\\n\", fp2(2)); }} }} begin;
        int unused() {{ return fp2(3); }}"
    );
    let folder = Folder::new();
    for compiler in ["g++", "clang++-19"].into_iter().filter(|compiler| is_installed(compiler)) {
        folder.compile(compiler, "main.cc", &main, &["-ffunction-sections"]);
        folder.compile(compiler, "other.cc", &other, &["-ffunction-sections"]);
        let options = ["--gc-sections", "--dylib", "libstdc++.so.6"];
        for objects in [["main.o", "other.o"], ["other.o", "main.o"]] {
            folder.link_as_the_system_does(&objects, &options, &[]);
        }
        // One archive is linked completely; of the other, `-u` requests the member.
        folder.archive("other.a", &["other.o"]);
        for archive in [&["other.a"][..], &["--archive", "other.a", "-u", "begin"]] {
            let output = folder.link(&[&["main.o"], archive, &options].concat());
            assert_eq!((text(&output.stdout), error_of(&output)), ("6\n".into(), String::new()));
            assert_eq!(output.status.code(), Some(3));
        }
    }
}

#[test]
fn the_main_thread_can_end_before_the_others() {
    let source = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        static pthread_t main_thread;
        static void cleanup(void *unused) { puts("cleanup"); }
        static void *thread(void *cancels) {
            if (cancels) pthread_cancel(main_thread);
            pthread_join(main_thread, 0);
            puts("thread");
            return 0;
        }
        int main(int argc, char **argv) {
            pthread_t id;
            main_thread = pthread_self();
            pthread_cleanup_push(cleanup, 0);
            pthread_create(&id, 0, thread, argc > 1 ? argv : 0);
            if (argc == 1) pthread_exit(0);
            for (;;) pause();
            pthread_cleanup_pop(0);
        }"#;
    let folder = Folder::from_c(&[("main", source)]);
    for arguments in [&[][..], &["cancelled"]] {
        folder.link_as_the_system_does(&["main.o"], &[], arguments);
    }
}

#[test]
fn messages_of_the_c_library_and_lists_of_processes_have_the_programs_name() {
    let source = r#"
        #include <assert.h>
        #include <err.h>
        #include <error.h>
        #include <stdio.h>
        #include <sys/prctl.h>
        int main(int argc, char **argv) {
            char name[16];
            prctl(PR_GET_NAME, name);
            puts(name);
            fflush(stdout);
            error(0, 0, "error");
            warnx("warning");
            assert(!argc);
        }"#;
    let folder = Folder::new();
    fs::create_dir(folder.0.path().join("folder")).unwrap();
    folder.compile("gcc", "a_name_that_is_long.c", source, &["-o", "folder/a_name_that_is_long.o"]);
    let output = folder.link(&["folder/a_name_that_is_long.o"]);
    assert_eq!(text(&output.stdout), "a_name_that_is_\n");
    let error = error_of(&output);
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[0], "folder/a_name_that_is_long.o: error");
    assert_eq!(lines[1], "a_name_that_is_long.o: warning");
    assert!(
        lines[2].starts_with("a_name_that_is_long.o: a_name_that_is_long.c:14: main:"),
        "{error}"
    );
    assert_eq!(output.status.signal(), Some(6));
}

#[test]
fn signals_and_their_stack_are_as_in_any_program() {
    let source = r#"
        #include <signal.h>
        #include <stdio.h>
        int main(void) {
            stack_t stack;
            sigaltstack(0, &stack);
            printf("%d", stack.ss_flags);
            for (int signal = 1; signal < 32; signal++) {
                struct sigaction action = {0};
                sigaction(signal, 0, &action);
                printf(" %d", action.sa_handler == SIG_DFL);
            }
            return 0;
        }"#;
    Folder::from_c(&[("main", source)]).link_as_the_system_does(&["main.o"], &[], &[]);
}

#[test]
fn the_program_gets_its_arguments_and_the_environment() {
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int main(int argc, char **argv, char **envp) {
            while (*envp && (*envp)[0] != 'F') envp++;
            for (int i = 0; i < argc; i++) printf("<%s>", argv[i]);
            printf(" %d %s %s", argv[argc] == 0, *envp ? "found" : "lost", getenv("FOR_MAIN"));
            return argc;
        }"#;
    let folder = Folder::from_c(&[("main", source)]);
    let output = folder.link(&["main.o", "--args", "--no-exec", "-v", "", "--", "a b"]);
    assert_eq!(text(&output.stdout), "<main.o><--no-exec><-v><><--><a b> 1 found here");
    assert_eq!(output.status.code(), Some(6));
    let output = folder.link(&["main.o", "--args"]);
    assert_eq!(text(&output.stdout), "<main.o> 1 found here");
}

#[test]
fn another_entry_can_be_chosen() {
    let folder = Folder::from_c(&[("run", "int run(int argc) { return argc + 10; }")]);
    assert_eq!(folder.code(&["run.o", "--entry", "run", "--args", "x"]), Some(12));
}

#[test]
fn a_program_that_crashes_ends_by_the_signal() {
    let folder = Folder::from_c(&[
        ("segv", "int main(void) { return *(volatile int *)8; }"),
        ("deep", "int main(int n) { volatile char a[4096]; a[0] = n; return main(n + 1) + a[0]; }"),
        ("pipe", "int main(void) { for (;;) puts(\"y\"); }"),
    ]);
    for object in ["segv.o", "deep.o"] {
        let output = folder.link(&[object]);
        assert_eq!(output.status.signal(), Some(11), "{}", error_of(&output));
        assert_eq!(error_of(&output), "");
    }
    let mut link = Command::new(command());
    link.args(["link", "pipe.o"]).current_dir(folder.0.path());
    let mut child = link.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").signal(), Some(13));
}

const THROWS: &str = r#"
    #include <iostream>
    #include <mutex>
    #include <stdexcept>
    #include <string>
    #include <thread>
    struct Loud { const char *name; ~Loud() { std::cout << "end of " << name << "\n"; } };
    thread_local Loud of_thread{"thread"};
    static Loud of_process{"process"};
    int thrower(int);
    extern thread_local int counter;
    int caught(int n) {
        try { Loud local{"local"}; return thrower(n); }
        catch (const std::out_of_range &error) { std::cout << "caught " << error.what() << "\n"; }
        return -1;
    }
    int main() {
        std::cout << caught(1) << caught(20) << "\n";
        counter += 5;
        std::thread([] { of_thread.name = "other thread"; std::cout << counter++ << "\n"; }).join();
        std::cout << counter << " " << of_thread.name << std::endl;
        std::cerr << "to stderr\n";
        std::once_flag once;
        for (int i = 0; i < 2; i++) std::call_once(once, [] { std::cout << "once\n"; });
        try { throw std::string("text"); } catch (std::string &text) { std::cout << text; }
        return counter;
    }"#;

const THROWER: &str = r#"
    #include <string>
    thread_local int counter = 3;
    int thrower(int n) { return std::string("short").at(n); }"#;

#[test]
fn exceptions_streams_and_thread_locals_of_cpp_work_wherever_the_code_may_lie() {
    let ways = [["-O0", "-fPIC"], ["-O2", "-fno-pic"], ["-O2", "-fPIE"], ["-O0", "-fno-pic"]];
    // The place and time of linking change few effects of compiler options.
    let is_plain = super::OPTIONS.is_empty() && !super::IS_BITCODE;
    let count = if is_plain || effort::is_all() { ways.len() } else { 1 };
    let compilers = ["g++", "clang++-19"].into_iter().zip([0, 1]);
    for (compiler, first) in compilers.filter(|(compiler, _)| is_installed(compiler)) {
        for &way in ways.iter().cycle().skip(first).take(count) {
            let folder = Folder::new();
            folder.compile(compiler, "throws.cc", THROWS, &way);
            folder.compile(compiler, "thrower.cc", THROWER, &way);
            let system = if way[1] == "-fno-pic" { "-no-pie" } else { "-pie" };
            folder.run("g++", &["throws.o", "thrower.o", system, "-pthread", "-o", "linked"]);
            let expected = Command::new(folder.0.path().join("linked")).output().unwrap();
            let found = folder.link(&["throws.o", "thrower.o", "--dylib", "libstdc++.so.6"]);
            assert_eq!(
                text(&found.stdout),
                text(&expected.stdout),
                "{compiler} {way:?}: {found:?}"
            );
            assert_eq!(error_of(&found), error_of(&expected), "{compiler} {way:?}");
            assert_eq!(found.status, expected.status, "{compiler} {way:?}");
        }
    }
}

#[test]
fn variables_of_threads_are_found_across_objects_by_every_model() {
    let main = "
        extern __attribute__((visibility(\"hidden\"))) __thread int x, y;
        __thread int z = 3;
        int main(void) { x += 2; y += 3; z += 1; return x + y + z; }";
    let parts = [("x", "__thread int x = 10;"), ("y", "__thread int y = 20; __thread int w = 9;")];
    for model in ["global-dynamic", "local-dynamic", "initial-exec", "local-exec"] {
        let folder = Folder::new();
        let flag = format!("-ftls-model={model}");
        let position = if model == "local-exec" { "-fPIE" } else { "-fPIC" };
        folder.compile("gcc", "main.c", main, &["-O1", position, &flag]);
        for (name, source) in parts {
            folder.compile("gcc", &format!("{name}.c"), source, &["-fPIC"]);
        }
        assert_eq!(folder.code(&["main.o", "x.o", "y.o"]), Some(12 + 23 + 4), "{model}");
    }
}
