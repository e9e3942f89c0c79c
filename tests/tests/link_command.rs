//! `longshore link`: what programs that it links do, what it tells other tools, and its errors.
//! What the system's linker can do too is compared with it.

use longshore_tests::world::command;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use tempfile::TempDir;

const AARCH64: &str = "aarch64-linux-gnu-gcc";

/// A folder with objects, in which the command runs.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::new().expect("a temporary folder"))
    }

    /// A folder with an object `NAME.o` for each source in C.
    fn of_c(sources: &[(&str, &str)]) -> Folder {
        let folder = Folder::new();
        for (name, source) in sources {
            folder.compile("gcc", &format!("{name}.c"), source, &[]);
        }
        folder
    }

    /// Compiles a source to an object of its name.
    fn compile(&self, compiler: &str, file: &str, source: &str, flags: &[&str]) {
        fs::write(self.0.path().join(file), source).expect("the folder can be written");
        self.run(compiler, &[&["-w", "-c", file], flags].concat());
    }

    /// Makes an archive of objects.
    fn archive(&self, name: &str, objects: &[&str]) {
        self.run("ar", &[&["rc", name], objects].concat());
    }

    /// Runs a tool that must succeed.
    fn run(&self, tool: &str, arguments: &[&str]) {
        let mut command = Command::new(tool);
        let output = command.args(arguments).current_dir(self.0.path()).output();
        let output = output.unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert!(output.status.success(), "{tool} {arguments:?}: {}", error_of(&output));
    }

    /// `longshore link ARGUMENTS...`
    fn link(&self, arguments: &[&str]) -> Output {
        let mut link = Command::new(command());
        link.arg("link").args(arguments).current_dir(self.0.path()).env("FOR_MAIN", "here");
        link.output().expect("the command is built")
    }

    /// The same for a program that does nothing else than to give its exit code.
    fn code(&self, arguments: &[&str]) -> Option<i32> {
        let output = self.link(arguments);
        assert_eq!(error_of(&output), "");
        output.status.code()
    }

    /// Links and runs; what is told must be told by the system's linker's program too.
    fn link_as_the_system_does(&self, objects: &[&str], options: &[&str], arguments: &[&str]) {
        let system = [&["-o", "linked", "-pthread"], objects].concat();
        self.run("g++", &system);
        let linked = self.0.path().join("linked");
        let expected = Command::new(linked).args(arguments).output().expect("it was linked");
        let found = self.link(&[objects, options, &["--args"], arguments].concat());
        assert_eq!(text(&found.stdout), text(&expected.stdout), "{}", error_of(&found));
        assert_eq!(error_of(&found), error_of(&expected));
        assert_eq!(found.status, expected.status);
    }

    /// Links without running, and reads what was linked.
    fn dump(&self, arguments: &[&str]) -> Value {
        let output = self.link(&[arguments, &["--dump-memory", "dump.json"]].concat());
        assert!(output.status.success(), "{}", error_of(&output));
        assert_eq!(text(&output.stdout), "");
        serde_json::from_slice(&self.read("dump.json")).expect("it is JSON")
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.0.path().join(file)).expect("the file is there")
    }

    /// Links in vain: the exit code and the error, which is all there is.
    fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.link(arguments);
        assert_eq!(text(&output.stdout), "");
        (output.status.code(), error_of(&output))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn error_of(output: &Output) -> String {
    text(&output.stderr)
}

fn is_installed(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Constructors, destructors and exit handlers say that they run, also in text that is not flushed
/// by a newline. Ends by `exit` if there is an argument.
const LIFE: &str = r#"
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

const OTHER_LIFE: &str = r#"
#include <stdio.h>
__attribute__((constructor(300))) static void middle(void) { printf("middle "); }
__attribute__((destructor(300))) static void before_last(void) { printf("before last "); }
void other(void) {}
"#;

#[test]
fn constructors_handlers_and_destructors_run_in_the_systems_order_on_return_and_on_exit() {
    let folder = Folder::of_c(&[("life", LIFE), ("other", OTHER_LIFE)]);
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
    Folder::of_c(&[("main", source)]).link_as_the_system_does(&["main.o"], &[], &[]);
}

#[test]
fn what_was_still_to_run_runs_when_a_handler_or_a_destructor_of_a_static_calls_exit() {
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
    let folder = Folder::of_c(&[("handlers", handlers)]);
    folder.compile("g++", "statics.cc", statics, &[]);
    folder.link_as_the_system_does(&["handlers.o"], &[], &[]);
    folder.link_as_the_system_does(&["statics.o"], &["--dylib", "libstdc++.so.6"], &[]);
}

#[test]
fn an_exception_that_nobody_catches_calls_the_terminate_handler() {
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
    let folder = Folder::of_c(&[("main", source)]);
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
    Folder::of_c(&[("main", source)]).link_as_the_system_does(&["main.o"], &[], &[]);
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
    let folder = Folder::of_c(&[("main", source)]);
    let output = folder.link(&["main.o", "--args", "--no-exec", "-v", "", "--", "a b"]);
    assert_eq!(text(&output.stdout), "<main.o><--no-exec><-v><><--><a b> 1 found here");
    assert_eq!(output.status.code(), Some(6));
    let output = folder.link(&["main.o", "--args"]);
    assert_eq!(text(&output.stdout), "<main.o> 1 found here");
}

#[test]
fn another_entry_can_be_chosen() {
    let folder = Folder::of_c(&[("run", "int run(int argc) { return argc + 10; }")]);
    assert_eq!(folder.code(&["run.o", "--entry", "run", "--args", "x"]), Some(12));
}

#[test]
fn a_program_that_crashes_ends_by_the_signal() {
    let folder = Folder::of_c(&[
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
fn a_file_becomes_a_section_with_symbols() {
    let source = "
        extern const char start[], middle[], end[];
        int main(void) { return start[0] + middle[0] + (end - start); }";
    let folder = Folder::of_c(&[("main", source)]);
    fs::write(folder.0.path().join("data.bin"), [1, 2, 3, 40, 5]).unwrap();
    let section = "numbers,data.bin@start=0,middle=0x3,end=5";
    assert_eq!(folder.code(&["main.o", "--sectcreate", section]), Some(1 + 40 + 5));
    let slab = ["--slab-address", "0x40000000"];
    let dump = folder.dump(&[&["main.o", "--sectcreate", section], &slab[..]].concat());
    let section = &file(&dump, "data.bin")["sections"][0];
    assert_eq!(section["blocks"][0]["bytes"], "0102032805");
    assert_eq!((&section["name"], &section["prot"]), (&"numbers".into(), &"r--".into()));
    let (code, error) = folder.refused(&["main.o", "--sectcreate", "numbers,data.bin@start=6"]);
    assert_eq!(code, Some(2), "{error}");
}

/// References of many kinds, within an object and between two.
const REFERENCES: [(&str, &str); 2] = [
    (
        "main",
        r#"
        extern int numbers[4];
        extern __thread int of_thread;
        int next(int *);
        static int here = 3;
        int *pointer = &here, *other = &numbers[2];
        int zeroes[100];
        _Thread_local int mine = 4;
        __attribute__((weak)) int nowhere(void);
        int main(int argc, char **argv) {
            switch (argc) { case 1: return next(pointer); case 2: return *other; case 3: return 5;
                            case 4: return zeroes[7]; case 5: return nowhere ? nowhere() : 1; }
            return mine;
        }"#,
    ),
    (
        "next",
        "int numbers[4] = {1, 2, 3, 4}; const char *text = \"a string\";
         int next(int *x) { return *x + numbers[1]; }",
    ),
];

fn references(compiler: &str, flags: &[&str]) -> Folder {
    let folder = Folder::new();
    for (name, source) in REFERENCES {
        folder.compile(compiler, &format!("{name}.c"), source, flags);
    }
    folder
}

const SLAB: [&str; 6] =
    ["--slab-allocate", "100Kb", "--slab-address", "0x30000000", "--slab-page-size", "0x4000"];

/// Lays [`REFERENCES`] out in the slab.
fn dump_of_slab(folder: &Folder, options: &[&str]) -> Value {
    let needed = ["--abs", "__tls_get_addr=0x30000000"];
    folder.dump(&[&["main.o", "next.o"], &SLAB[..], &needed, options].concat())
}

#[test]
fn a_dump_of_a_slab_is_consistent_for_each_architecture() {
    let triples = [("gcc", "x86_64-unknown-linux-gnu"), (AARCH64, "aarch64-unknown-linux-gnu")];
    let installed = triples.into_iter().filter(|(compiler, _)| is_installed(compiler));
    for (compiler, triple) in installed {
        for flags in [["-O0", "-fPIC", "-g"], ["-O2", "-fPIE", "-g"], ["-O2", "-fno-pic", "-g"]] {
            let folder = references(compiler, &flags);
            let dump = dump_of_slab(&folder, &[]);
            assert_eq!((&dump["version"], &dump["triple"]), (&1.into(), &triple.into()));
            assert_eq!(names(&dump["files"]), ["main.o", "next.o"]);
            check_sections(&dump);
            check_symbols(&dump);
            check_pointers(&dump);
        }
    }
}

/// Every block lies in its section, every section in the slab in pages of its protection, and each
/// block has as many bytes as it says.
fn check_sections(dump: &Value) {
    let mut pages: Vec<(u64, String)> = Vec::new();
    for section in list(dump, "files").flat_map(|file| list(file, "sections")) {
        let size = number(&section["size"]);
        let lifetime = section["lifetime"].as_str().unwrap();
        for block in list(section, "blocks") {
            match block["bytes"].as_str() {
                Some(bytes) => assert_eq!(bytes.len() as u64, 2 * number(&block["size"])),
                None => assert_eq!(block["zero_fill"], true),
            }
        }
        if lifetime == "noalloc" {
            assert!(section.get("addr").is_none() && section["prot"] == "r--", "{section}");
            continue;
        }
        let start = number(&section["addr"]);
        assert!(start >= 0x3000_0000 && start + size <= 0x3000_0000 + (100 << 10), "{section}");
        for block in list(section, "blocks") {
            let at = number(&block["addr"]);
            assert!(at >= start && at + number(&block["size"]) <= start + size, "{section}");
        }
        if size > 0 {
            let used = start / 0x4000..=(start + size - 1) / 0x4000;
            let protection = section["prot"].as_str().unwrap();
            pages.extend(used.map(|page| (page, protection.to_owned())));
        }
    }
    pages.sort();
    pages.dedup();
    assert!(pages.windows(2).all(|pages| pages[0].0 != pages[1].0), "{pages:?}");
}

fn check_symbols(dump: &Value) {
    let [main, next] = [file(dump, "main.o"), file(dump, "next.o")];
    let facts = |file: &Value, name: &str| {
        let symbol = symbol(file, name);
        let keys = ["scope", "linkage"].map(|key| symbol[key].as_str().unwrap().to_owned());
        (keys.join(" "), symbol["callable"] == true, number(&symbol["size"]) > 0)
    };
    assert_eq!(facts(main, "main"), ("default strong".into(), true, true));
    assert_eq!(facts(main, "here"), ("local strong".into(), false, true));
    assert_eq!(facts(next, "numbers"), ("default strong".into(), false, true));
    assert_eq!(symbol(main, "zeroes")["size"], 400);
    assert_eq!(dump["externals"], serde_json::json!({ "nowhere": 0 }));
    assert_eq!(dump["absolutes"], serde_json::json!({ "__tls_get_addr": 0x3000_0000 }));
}

/// Pointers in data and in the global offset table are the addresses of what they are for.
fn check_pointers(dump: &Value) {
    let address = |name: &str| number(&any_symbol(dump, name)["addr"]);
    assert_eq!(word(dump, address("pointer")), address("here"));
    assert_eq!(word(dump, address("other")), address("numbers") + 8);
    assert_eq!(&bytes(dump, word(dump, address("text")), 9), b"a string\0");
    for entry in list(dump, "files").flat_map(|file| list(file, "got")) {
        let target = entry["target"].as_str().unwrap();
        let expected = if target == "nowhere" { 0 } else { address(target) };
        if target != "mine" {
            assert_eq!(word(dump, number(&entry["addr"])), expected, "{target}");
        }
    }
}

#[test]
fn dumps_of_the_same_slab_are_the_same_whatever_the_threads() {
    let folder = references("gcc", &["-O2", "-fPIC", "-g"]);
    let first = dump_of_slab(&folder, &[]);
    assert_eq!(dump_of_slab(&folder, &[]), first);
    let dumped = folder.read("dump.json");
    dump_of_slab(&folder, &["--threads", "4"]);
    assert!(folder.read("dump.json") == dumped);
}

#[test]
fn sections_without_memory_are_dumped_with_their_fields() {
    let folder = references("gcc", &["-O2", "-fPIC", "-g"]);
    let dump = dump_of_slab(&folder, &[]);
    let main = file(&dump, "main.o");
    let addresses = section(main, ".debug_addr").or(section(main, ".debug_info")).unwrap();
    let address = number(&symbol(main, "main")["addr"]).to_le_bytes();
    let bytes = from_hex(addresses["blocks"][0]["bytes"].as_str().unwrap());
    assert!(bytes.windows(8).any(|word| word == address), "no address of main");
}

#[test]
fn phony_externals_are_in_the_dump_and_reached_by_stubs() {
    let folder = Folder::new();
    let source = "int elsewhere(void); extern int data; int *at = &data;
                  int main(void) { return elsewhere() + *at; }";
    folder.compile("gcc", "main.c", source, &["-fPIC"]);
    let far = ["--slab-address", "0xfff00000", "--slab-allocate", "1Mb", "--phony-externals"];
    let dump = folder.dump(&[&["main.o", "--abs", "data=0x77"], &far[..]].concat());
    assert_eq!(dump["externals"], serde_json::json!({ "elsewhere": 0xbad }));
    assert_eq!(dump["absolutes"], serde_json::json!({ "data": 0x77 }));
    assert_eq!(word(&dump, number(&any_symbol(&dump, "at")["addr"])), 0x77);
    let main = file(&dump, "main.o");
    let [slot, stub] = ["got", "stubs"].map(|table| {
        let entry = list(main, table).find(|entry| entry["target"] == "elsewhere");
        number(&entry.unwrap_or_else(|| panic!("none in {table}"))["addr"])
    });
    assert_eq!(word(&dump, slot), 0xbad);
    bytes(&dump, stub, 6);
}

#[test]
fn unneeded_objects_and_sections_are_left_out_as_the_options_say() {
    let folder = Folder::new();
    folder.compile(
        "gcc",
        "main.c",
        "int main(void) { return 0; } int spare(void) { return 1; }",
        &["-ffunction-sections"],
    );
    folder.compile("gcc", "other.c", "int other(void) { return 2; }", &[]);
    let dumped = |options: &[&str]| {
        let objects = ["main.o", "other.o", "--slab-address", "0x30000000"];
        let dump = folder.dump(&[&objects, options].concat());
        let symbols = list(&dump, "files").flat_map(|file| list(file, "symbols"));
        symbols.map(|symbol| symbol["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(dumped(&[]), ["main", "spare"]);
    assert_eq!(dumped(&["--link-all"]), ["main", "spare", "other"]);
    assert_eq!(dumped(&["--gc-sections"]), ["main"]);
}

#[test]
fn a_dump_is_written_before_the_program_runs() {
    let source = "#include <stdlib.h>\nint main(void) { abort(); }";
    let folder = Folder::of_c(&[("main", source)]);
    let output = folder.link(&["main.o", "--dump-memory", "dump.json"]);
    assert_eq!(output.status.signal(), Some(6));
    let dump: Value = serde_json::from_slice(&folder.read("dump.json")).unwrap();
    assert_ne!(number(&dump["externals"]["abort"]), 0);
    assert_ne!(number(&any_symbol(&dump, "main")["addr"]), 0);
}

#[test]
fn a_dump_does_not_replace_what_is_linked() {
    let folder = Folder::of_c(&[("main", "int main(void) { return 0; }"), ("lib", "int lib;")]);
    folder.archive("lib.a", &["lib.o"]);
    fs::write(folder.0.path().join("data.bin"), "data").unwrap();
    fs::hard_link(folder.0.path().join("main.o"), folder.0.path().join("same.json")).unwrap();
    let all = ["main.o", "--archive", "lib.a", "--sectcreate", "data,data.bin", "--dump-memory"];
    for (file, replaced) in [
        ("./main.o", "main.o"),
        ("same.json", "main.o"),
        ("lib.a", "lib.a"),
        ("data.bin", "data.bin"),
    ] {
        let before = folder.read(file);
        let (code, error) = folder.refused(&[&all, &[file][..]].concat());
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(&format!("'{file}' would replace '{replaced}'")), "{error}");
        assert!(folder.read(file) == before);
    }
    // Earlier dumps are replaced, and what is no file of its own is no obstacle.
    for file in ["dump.json", "dump.json", "/dev/null"] {
        assert_eq!(folder.code(&[&all, &[file][..]].concat()), Some(0));
    }
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
    let ways = [["-O0", "-fPIC"], ["-O2", "-fPIE"], ["-O0", "-fno-pic"], ["-O2", "-fno-pic"]];
    for compiler in ["g++", "clang++-19"].into_iter().filter(|compiler| is_installed(compiler)) {
        for way in ways {
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

#[test]
fn what_is_missing_is_told_with_all_names_and_runs_nothing() {
    let source = "#include <stdio.h>\nvoid one(void); void two(void);
        __attribute__((constructor)) static void c(void) { puts(\"runs\"); }
        int main(void) { one(); two(); return 0; }";
    let folder = Folder::of_c(&[("main", source), ("lib", "int Main(void) { return 0; }")]);
    let (code, error) = folder.refused(&["main.o"]);
    assert_eq!(code, Some(1));
    let lines = "error: undefined symbols:\n  one (used by main.o)\n  two (used by main.o)\nhint: ";
    assert!(error.starts_with(lines), "{error}");
    let (code, error) = folder.refused(&["lib.o"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("entry 'main' is not defined") && error.contains("'Main'"), "{error}");
    assert_eq!(folder.code(&["lib.o", "--link-all", "--slab-address", "0x30000000"]), Some(0));
}

#[test]
fn a_missing_library_of_the_language_is_told_in_the_hint() {
    let source = "#include <stdexcept>\nint main() { throw std::runtime_error(\"\"); }";
    let folder = Folder::new();
    folder.compile("g++", "main.cc", source, &[]);
    let (code, error) = folder.refused(&["main.o"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("hint: a program in C++ needs --dylib libstdc++.so.6\n"), "{error}");
}

#[test]
fn the_processs_symbols_can_be_left_out() {
    let folder = Folder::of_c(&[("main", "int puts(char *); int main(void) { puts(\"\"); }")]);
    let (code, error) = folder.refused(&["main.o", "--no-process-symbols"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("undefined symbols:\n  puts (used by main.o)\n"), "{error}");
}

#[test]
fn files_that_cannot_be_linked_are_errors_that_name_them() {
    let folder = Folder::of_c(&[("main", "int main(void) { return 0; }")]);
    fs::write(folder.0.path().join("text.o"), "not an object").unwrap();
    fs::write(folder.0.path().join("empty.o"), "").unwrap();
    folder.run("gcc", &["main.o", "-o", "program"]);
    let full = folder.read("main.o");
    fs::write(folder.0.path().join("cut.o"), &full[..full.len() / 2]).unwrap();
    for file in ["missing.o", "text.o", "empty.o", "program", "cut.o", "."] {
        let (code, error) = folder.refused(&["main.o", file]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.starts_with("error: ") && error.contains(file), "{file}: {error}");
    }
    let (code, error) = folder.refused(&["main.o", "main.o"]);
    assert!(code == Some(1) && error.contains("main is defined in main.o and again"), "{error}");
    let (code, error) = folder.refused(&["main.o", "--dump-memory", "no/such/folder.json"]);
    assert!(code == Some(1) && error.contains("no/such/folder.json"), "{error}");
}

#[test]
fn files_given_as_something_else_than_they_are_get_a_hint_that_fits() {
    let folder = Folder::of_c(&[("main", "int main(void) { return 0; }")]);
    folder.compile("gcc", "lib.c", "int lib(void) { return 0; }", &["-fPIC"]);
    folder.run("gcc", &["-shared", "lib.o", "-o", "lib.so"]);
    folder.run("gcc", &["main.o", "-o", "program"]);
    folder.run("ar", &["rcT", "thin.a", "lib.o"]);
    folder.archive("lib.a", &["lib.o"]);
    folder.run("objcopy", &["-O", "elf32-x86-64", "lib.o", "x32.o"]);
    fs::write(folder.0.path().join("script.a"), "/* GNU ld script */ GROUP(/x/lib-1.a)").unwrap();
    fs::write(folder.0.path().join("text.a"), "no archive").unwrap();
    for (arguments, problem, hint) in [
        (["--link-all", "lib.so"], "shared library", "--dylib ./lib.so"),
        (["--link-all", "program"], "executable", "objects"),
        (["--link-all", "thin.a"], "thin archive", "ar rcs"),
        (["--link-all", "x32.o"], "x32", "-m64"),
        (["--link-all", "script.a"], "linker script", "/x/lib-1.a"),
        (["--archive", "lib.o"], "is an object", "as a FILE"),
        (["--archive", "lib.so"], "shared library", "--dylib ./lib.so"),
        (["--archive", "script.a"], "linker script", "/x/lib-1.a"),
        (["--archive", "thin.a"], "thin archive", "ar rcs"),
        (["--archive", "text.a"], "not a static archive", "`ar`"),
    ] {
        let (code, error) = folder.refused(&[&["main.o"], &arguments[..]].concat());
        assert_eq!(code, Some(1), "{error}");
        assert!(error.starts_with(&format!("error: {}: ", arguments[1])), "{error}");
        let (message, rest) = error.split_once("\nhint: ").expect("a hint");
        assert!(message.contains(problem) && rest.contains(hint), "{error}");
    }
}

#[test]
fn a_library_that_cannot_be_opened_is_told_with_the_dynamic_linkers_reason() {
    let folder = Folder::of_c(&[("main", "int main(void) { return 0; }")]);
    folder.archive("main.a", &["main.o"]);
    folder.compile("gcc", "lib.c", "int no(void); int lib(void) { return no(); }", &["-fPIC"]);
    folder.run("gcc", &["-shared", "lib.o", "-o", "lib.so"]);
    fs::write(folder.0.path().join("script.so"), "GROUP ( /lib/libx.so.6 /lib/libx.a )").unwrap();
    for (library, reason, hint) in [
        ("libnowhere.so", "No such file", "a name such as 'libm.so.6'"),
        ("lib.so", "No such file", "--dylib ./lib.so"),
        ("./lib.so", "undefined symbol: no", "a --dylib before this one"),
        ("./main.o", "cannot open './main.o'", "'./main.o' as a FILE"),
        ("./main.a", "cannot open './main.a'", "--archive ./main.a"),
        ("./script.so", "cannot open './script.so'", "--dylib /lib/libx.so.6"),
    ] {
        let (code, error) = folder.refused(&["main.o", "--dylib", library]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.starts_with(&format!("error: cannot open '{library}': ")), "{error}");
        let (message, rest) = error.split_once("\nhint: ").expect("a hint");
        assert!(message.contains(reason) && rest.contains(hint), "{error}");
    }
}

#[test]
fn what_does_not_fit_gets_the_hint_that_helps() {
    let variable = "__thread char big[20000]; int main(void) { return big[19999]; }";
    let far = "extern char far[]; int main(void) { return far[0]; }";
    let folder = Folder::new();
    folder.compile("gcc", "fixed.c", variable, &["-fno-pic"]);
    folder.compile("gcc", "free.c", variable, &["-fPIC"]);
    folder.compile("gcc", "far.c", far, &["-fno-pic"]);
    let (code, error) = folder.refused(&["fixed.o"]);
    assert!(code == Some(1) && error.contains("hint: compile with -fPIC, then"), "{error}");
    assert_eq!(folder.code(&["free.o"]), Some(0));
    let (code, error) = folder.refused(&["far.o", "--abs", "far=0x123456789a"]);
    assert!(code == Some(1) && error.contains("-fPIC, or choose addresses that are"), "{error}");
    if is_installed(AARCH64) {
        let load = "extern long at; int main(void) { return at; }";
        folder.compile(AARCH64, "load.c", load, &["-O1", "-fno-pic"]);
        let (code, error) =
            folder.refused(&["load.o", "--slab-address", "0x10000000", "--abs", "at=0x10000003"]);
        assert!(code == Some(1) && error.contains("is not a multiple of"), "{error}");
        assert!(!error.contains("hint"), "{error}");
    }
}

#[test]
fn options_that_cannot_be_understood_are_bad_usage() {
    let folder = Folder::of_c(&[("main", "int main(void) { return 0; }")]);
    for options in [
        &["--abs", "x"][..],
        &["--abs", "x=y"],
        &["--alias", "=b"],
        &["--sectcreate", "name"],
        &["--slab-allocate", "1Tb"],
        &["--slab-address", "here"],
        &["--slab-address", "0x1001"],
        &["--slab-page-size", "3000"],
        &["--threads", "many"],
        &["--nonsense"],
    ] {
        let (code, error) = folder.refused(&[&["main.o"], options].concat());
        assert_eq!(code, Some(2), "{options:?}: {error}");
        assert!(error.starts_with("error: "), "{error}");
    }
    assert_eq!(folder.refused(&[]).0, Some(2));
}

#[test]
fn a_slab_that_is_too_small_is_an_error() {
    let folder = Folder::of_c(&[("main", "char big[100000]; int main(void) { return big[0]; }")]);
    let slab = ["--slab-allocate", "10Kb", "--slab-address", "0x30000000"];
    let (code, error) = folder.refused(&[&["main.o"], &slab[..]].concat());
    assert_eq!(code, Some(1));
    assert!(error.contains("do not fit") && error.contains("--slab-allocate"), "{error}");
}

#[test]
fn code_of_another_architecture_is_linked_and_not_run() {
    if !is_installed(AARCH64) {
        return;
    }
    let folder = Folder::of_c(&[("native", "int native(void) { return 0; }")]);
    folder.compile(AARCH64, "main.c", "int main(void) { return 0; }", &[]);
    let (code, error) = folder.refused(&["main.o"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("aarch64") && error.contains("--no-exec"), "{error}");
    assert_eq!(folder.code(&["main.o", "--no-exec"]), Some(0));
    let (code, error) = folder.refused(&["main.o", "native.o", "--no-exec"]);
    let plainly =
        "native.o: it is for x86_64-unknown-linux-gnu, others for aarch64-unknown-linux-gnu";
    assert!(code == Some(1) && error.contains(plainly), "{error}");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key}")).iter()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

fn named<'a>(value: &'a Value, key: &str, name: &str) -> Option<&'a Value> {
    list(value, key).find(|item| item["name"] == name)
}

fn file<'a>(dump: &'a Value, name: &str) -> &'a Value {
    named(dump, "files", name).unwrap_or_else(|| panic!("no file {name}"))
}

fn section<'a>(file: &'a Value, name: &str) -> Option<&'a Value> {
    named(file, "sections", name)
}

fn symbol<'a>(file: &'a Value, name: &str) -> &'a Value {
    named(file, "symbols", name).unwrap_or_else(|| panic!("no symbol {name}"))
}

/// The symbol of whichever file has it.
fn any_symbol<'a>(dump: &'a Value, name: &str) -> &'a Value {
    let found = list(dump, "files").find_map(|file| named(file, "symbols", name));
    found.unwrap_or_else(|| panic!("no symbol {name}"))
}

/// Bytes at an address, from the block that has them.
fn bytes(dump: &Value, address: u64, count: u64) -> Vec<u8> {
    let sections = list(dump, "files").flat_map(|file| list(file, "sections"));
    let mut blocks = sections.flat_map(|section| list(section, "blocks"));
    let found = blocks.find_map(|block| {
        let start = block["addr"].as_u64()?;
        let within = address >= start && address + count <= start + number(&block["size"]);
        let offset = usize::try_from(within.then(|| address - start)?).unwrap();
        Some(from_hex(block["bytes"].as_str()?)[offset..][..count as usize].to_vec())
    });
    found.unwrap_or_else(|| panic!("no block at {address:#x}"))
}

fn word(dump: &Value, address: u64) -> u64 {
    u64::from_le_bytes(bytes(dump, address, 8).try_into().unwrap())
}

fn from_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let pairs = pairs.map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
