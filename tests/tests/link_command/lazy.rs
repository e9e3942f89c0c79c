//! Programs whose functions are linked at their first call (`--lazy`). The programs of `runs` are
//! linked so too.

use super::folder::{Folder, error_of, is_installed, text};
use std::fs;
use std::process::{Command, Output};

/// Options for the process of the program.
const PLACES: [&[&str]; 3] = [&[], &["--executor"], &["--executor", "--no-shared-memory"]];

/// Links and runs in each process.
fn everywhere(folder: &Folder, arguments: &[&str], check: impl Fn(&Output, &str)) {
    for place in PLACES {
        let output = folder.link(&[&["--lazy"], place, arguments].concat());
        check(&output, &format!("{place:?}: {output:?}"));
    }
}

/// Asserts that the program has this output and exit code, without an error.
fn prints(folder: &Folder, arguments: &[&str], expected: &str, code: i32) {
    everywhere(folder, arguments, |output, context| {
        assert_eq!(error_of(output), "", "{context}");
        assert_eq!(text(&output.stdout), expected, "{context}");
        assert_eq!(output.status.code(), Some(code), "{context}");
    });
}

#[test]
fn uncalled_functions_are_not_linked() {
    let main = r#"
        #include <stdio.h>
        int one(void), two(void);
        int main(int argc, char **argv) { puts("main"); return argc > 1 ? two() : one(); }"#;
    let sources = [
        ("main", main),
        ("one", "extern int table[]; int one(void) { return table[1]; }"),
        ("table", "int table[] = { 4, 5 };"),
        ("two", "int nowhere(void); int two(void) { return nowhere(); }"),
        ("member", "int member(void) { return 0; }"),
    ];
    let folder = Folder::from_c(&sources);
    folder.archive("lib.a", &["table.o", "member.o"]);
    let given = ["main.o", "one.o", "two.o", "--archive", "lib.a"];
    prints(&folder, &given, "main\n", 5);
    everywhere(&folder, &[&["-v"], &given[..]].concat(), |output, context| {
        let log = error_of(output);
        for linked in ["main.o", "one.o", "lib.a(table.o)"] {
            assert!(log.contains(&format!("] linked {linked}\n")), "{context}");
        }
        assert!(!log.contains("linked two.o") && !log.contains("member"), "{context}");
    });
}

#[test]
fn a_call_that_cannot_be_linked_ends_the_program_with_the_missing_names() {
    let main = r#"
        #include <stdio.h>
        int two(void);
        __attribute__((destructor)) static void end(void) { puts("end"); }
        int main(void) { puts("main"); fflush(stdout); return two(); }"#;
    let folder = Folder::from_c(&[
        ("main", main),
        ("two", "int nowhere(void), there(void); int two(void) { return nowhere() + there(); }"),
    ]);
    folder.archive("lib.a", &["two.o"]);
    let problem = "error: the called function 'two' cannot be linked: undefined symbols:\n  \
                   nowhere (used by lib.a(two.o))\n  there (used by lib.a(two.o))\nhint: add the file that defines them";
    everywhere(&folder, &["main.o", "--archive", "lib.a"], |output, context| {
        assert_eq!(text(&output.stdout), "main\n", "{context}");
        assert!(error_of(output).starts_with(problem), "{context}");
        assert_eq!(output.status.code(), Some(127), "{context}");
    });
}

#[test]
fn a_damaged_member_is_an_error_of_the_call() {
    let folder = Folder::from_c(&[
        ("main", "int two(void); int main(void) { return two(); }"),
        ("two", "int two(void) { return 2; }"),
    ]);
    folder.archive("lib.a", &["two.o"]);
    let mut bytes = folder.read("lib.a");
    let member = bytes.windows(4).position(|bytes| bytes == b"\x7fELF").expect("it has an object");
    // This type is not that of an object file.
    bytes[member + 16] = 3;
    fs::write(folder.0.path().join("lib.a"), bytes).unwrap();
    everywhere(&folder, &["main.o", "--archive", "lib.a"], |output, context| {
        let error = error_of(output);
        assert!(error.starts_with("error: ") && error.contains("lib.a(two.o)"), "{context}");
        assert!(matches!(output.status.code(), Some(1 | 127)), "{context}");
    });
}

#[test]
fn symbols_missing_from_the_start_are_reported_before_anything_runs() {
    let main = "#include <stdio.h>
        int missing(void); __attribute__((constructor)) static void c(void) { puts(\"runs\"); }
        int main(void) { return missing(); }";
    let folder = Folder::from_c(&[("main", main), ("other", "int Main(void) { return 0; }")]);
    everywhere(&folder, &["main.o"], |output, context| {
        assert_eq!(text(&output.stdout), "", "{context}");
        assert!(error_of(output).starts_with("error: undefined symbols:\n  missing"), "{context}");
        assert_eq!(output.status.code(), Some(1), "{context}");
    });
    everywhere(&folder, &["other.o"], |output, context| {
        let error = error_of(output);
        assert!(error.contains("'main' is not defined") && error.contains("'Main'"), "{context}");
        assert_eq!(output.status.code(), Some(1), "{context}");
    });
}

/// Returns the source of an archive member that prints its construction and destruction.
fn says(name: &str, body: &str) -> String {
    format!(
        r#"#include <stdio.h>
        #include <stdlib.h>
        static void handler(void) {{ printf("handler of {name}\n"); }}
        __attribute__((constructor)) static void begin(void) {{ printf("begin {name}\n"); atexit(handler); }}
        __attribute__((destructor)) static void end(void) {{ printf("end {name}\n"); }}
        {body}"#
    )
}

#[test]
fn members_are_constructed_before_the_call_that_links_them_and_end_with_the_program() {
    let main = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int one(void), two(void), three(void);
        static void handler(void) { printf("handler %d\n", three()); }
        __attribute__((constructor)) static void begin(void) { printf("begin main\n"); }
        __attribute__((destructor)) static void end(void) { printf("end main\n"); }
        int main(int argc, char **argv) {
            atexit(handler);
            printf("main\n");
            int sum = one();
            printf("one and two\n");
            if (argc > 1) exit(sum + 10);
            return sum;
        }"#;
    let one = says("one", "int two(void); int one(void) { return two() + 1; }");
    let two = says("two", "int two(void) { return 2; }");
    let three = says("three", "int three(void) { return 3; }");
    let folder = Folder::from_c(&[("main", main), ("one", &one), ("two", &two), ("three", &three)]);
    folder.archive("lib.a", &["one.o", "two.o", "three.o"]);
    // `three` is called, and so linked, at the end of the process.
    let expected = "begin main\nmain\nbegin one\nbegin two\none and two\n\
                    handler of two\nhandler of one\nbegin three\nhandler 3\nhandler of three\n\
                    end three\nend two\nend one\nend main\n";
    let given = ["main.o", "--archive", "lib.a"];
    prints(&folder, &given, expected, 3);
    prints(&folder, &[&given[..], &["--args", "x"]].concat(), expected, 13);
}

#[test]
fn a_destructor_may_link_code_with_destructors() {
    let main = r#"
        #include <stdio.h>
        int one(void);
        __attribute__((constructor)) static void begin(void) { printf("begin main\n"); }
        __attribute__((destructor)) static void end(void) { printf("end main %d\n", one()); }
        int main(void) { return 0; }"#;
    let one = says("one", "int one(void) { return 1; }");
    let folder = Folder::from_c(&[("main", main), ("one", &one)]);
    folder.archive("lib.a", &["one.o"]);
    let expected = "begin main\nbegin one\nend main 1\nhandler of one\nend one\n";
    prints(&folder, &["main.o", "--archive", "lib.a"], expected, 0);
}

#[test]
fn constructors_run_on_the_calling_thread_and_may_call_unlinked_functions() {
    let main = r#"
        #include <pthread.h>
        #include <stdio.h>
        int one(void), of_thread(void);
        static void *other(void *result) { *(int *)result = of_thread(); return 0; }
        int main(void) {
            int here = one(), there;
            pthread_t thread;
            pthread_create(&thread, 0, other, &there);
            pthread_join(thread, 0);
            printf("%d %d %d\n", here, of_thread(), there);
        }"#;
    let one = r#"
        int two(void);
        static __thread int variable = 1;
        __attribute__((constructor)) static void begin(void) { variable = two(); }
        int of_thread(void) { return variable; }
        int one(void) { return variable; }"#;
    let two = r#"
        int three(void);
        static int ready;
        __attribute__((constructor)) static void begin(void) { ready = three(); }
        int two(void) { return ready + 20; }"#;
    let three = "int three(void) { return 300; }";
    let folder = Folder::from_c(&[("main", main), ("one", one), ("two", two), ("three", three)]);
    folder.archive("lib.a", &["one.o", "two.o", "three.o"]);
    prints(&folder, &["main.o", "--archive", "lib.a"], "320 320 1\n", 0);
}

#[test]
fn a_constructor_of_a_first_call_may_end_the_process() {
    let main = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int one(void), two(void);
        static void handler(void) { printf("handler %d\n", two()); }
        __attribute__((destructor)) static void end(void) { printf("end\n"); }
        int main(void) { atexit(handler); return one(); }"#;
    let one = r#"
        #include <stdlib.h>
        __attribute__((constructor)) static void begin(void) { exit(9); }
        int one(void) { return 1; }"#;
    let two = says("two", "int two(void) { return 2; }");
    let folder = Folder::from_c(&[("main", main), ("one", one), ("two", &two)]);
    folder.archive("lib.a", &["one.o", "two.o"]);
    let expected = "begin two\nhandler 2\nhandler of two\nend two\nend\n";
    prints(&folder, &["main.o", "--archive", "lib.a"], expected, 9);
}

#[test]
fn threads_may_call_unlinked_functions_while_the_process_ends() {
    let count = 60;
    let declared: String = (0..count).map(|n| format!("int f{n}(void);\n")).collect();
    let calls: String = (0..count).map(|n| format!("sum += f{n}();\n")).collect();
    let main = format!(
        r#"
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        {declared}
        static void *run(void *unused) {{ int sum = 0; {calls} for (;;) pause(); }}
        int main(void) {{
            pthread_t thread;
            for (int n = 0; n < 4; n++) pthread_create(&thread, 0, run, 0);
            return f0() + 3;
        }}"#
    );
    let folder = Folder::from_c(&[("main", &main)]);
    let mut members = Vec::new();
    for n in 0..count {
        let source = format!(
            "static int ready; __attribute__((constructor)) static void begin(void) {{ ready = {n}; }}
             int f{n}(void) {{ return ready; }}"
        );
        folder.compile("gcc", &format!("f{n}.c"), &source, &[]);
        members.push(format!("f{n}.o"));
    }
    folder.archive("lib.a", &members.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..5 {
        prints(&folder, &["main.o", "--archive", "lib.a"], "", 3);
    }
}

#[test]
fn a_function_has_one_address_wherever_it_is_taken() {
    let one = "
        void one(void) {}
        void *table[] = { one, 0 };
        void *of_one(void) { return one; }
        int same(void *address) { return address == one && table[0] == one; }";
    let main = "
        void one(void), *of_one(void); extern void *table[]; int same(void *);
        static void *(*volatile indirect)(void) = of_one;
        int main(void) {
            return (of_one() == one) + 2 * (table[0] == one) + 4 * same(one) + 8 * (indirect() == one)
                + 16 * (indirect == of_one);
        }";
    for (way, optimization) in [
        ("-fPIC", "-O0"),
        ("-fPIC", "-O2"),
        ("-fPIE", "-O2"),
        ("-fno-pic", "-O0"),
        ("-fno-pic", "-O2"),
    ] {
        let folder = Folder::new();
        folder.compile("gcc", "main.c", main, &[way, optimization]);
        folder.compile("gcc", "one.c", one, &[way, optimization]);
        prints(&folder, &["main.o", "one.o"], "", 31);
        folder.archive("one.a", &["one.o"]);
        prints(&folder, &["main.o", "--archive", "one.a"], "", 31);
    }
}

const CPP_HEADER: &str = r#"
#include <any>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
struct Shape { virtual ~Shape(); virtual int area() const = 0; virtual const char *name() const { return "shape"; } };
struct Loud { const char *name; Loud(const char *n) : name(n) { std::cout << "+" << n << "\n"; } ~Loud() { std::cout << "-" << name << "\n"; } };
extern thread_local Loud of_thread;
inline int &counter() { static int n = 0; return n; }
inline void shared() { counter()++; }
std::unique_ptr<Shape> make(int kind);
std::any any_of(int n);
void (*address_of_shared())();
int thrower(int n);
std::map<std::string, std::function<int(int)>> &registry();
struct Registrar { Registrar(const char *name, std::function<int(int)> f) { registry()[name] = f; } };
"#;

const CPP_PARTS: [(&str, &str); 5] = [
    (
        "main.cc",
        r#"#include "parts.h"
        static Loud of_main("main");
        static Registrar r("a", [](int n) { return n + 1; });
        int main() {
            auto shape = make(1);
            std::cout << registry().size() << shape->name() << shape->area() << make(0)->name() << "\n";
            const std::any any = any_of(7);
            std::cout << *std::any_cast<int>(&any) << (address_of_shared() == &shared) << "\n";
            try { thrower(2); } catch (const std::out_of_range &e) { std::cout << e.what() << "\n"; }
            of_thread.name = "changed";
            std::thread([] { std::cout << of_thread.name << "\n"; shared(); }).join();
            for (auto &[name, f] : registry()) std::cout << name << f(1) << "\n";
            static Loud local("local");
            return counter();
        }"#,
    ),
    (
        "shapes.cc",
        r#"#include "parts.h"
        Shape::~Shape() { std::cout << "~Shape\n"; }
        namespace {
        struct Circle : Shape { int area() const override { return 3; } const char *name() const override { return "circle"; } };
        struct Square : Shape { int area() const override { return 4; } };
        }
        std::unique_ptr<Shape> make(int kind) {
            shared();
            if (kind) return std::make_unique<Circle>();
            return std::make_unique<Square>();
        }
        static Loud of_shapes("shapes");"#,
    ),
    (
        "any.cc",
        r#"#include "parts.h"
        std::any any_of(int n) { return n; }
        void (*address_of_shared())() { return &shared; }"#,
    ),
    (
        "threads.cc",
        r#"#include "parts.h"
        thread_local Loud of_thread("thread");
        int thrower(int n) { Loud l("unwound"); return n ? thrower(n - 1) + 1 : std::string("x").at(5); }"#,
    ),
    (
        "registry.cc",
        r#"#include "parts.h"
        std::map<std::string, std::function<int(int)>> &registry() {
            static std::map<std::string, std::function<int(int)>> functions;
            return functions;
        }
        static Registrar r("e", [](int n) { return n + 100; });"#,
    ),
];

#[test]
fn cpp_programs_of_several_parts_behave_as_with_the_system_linker() {
    let ways =
        [("g++", "-fPIC", "-O0"), ("g++", "-fno-pic", "-O2"), ("clang++-19", "-fPIE", "-O2")];
    for (compiler, way, optimization) in ways.into_iter().filter(|way| is_installed(way.0)) {
        let folder = Folder::new();
        fs::write(folder.0.path().join("parts.h"), CPP_HEADER).unwrap();
        let mut objects = Vec::new();
        for (file, source) in CPP_PARTS {
            folder.compile(compiler, file, source, &["-std=c++17", way, optimization]);
            objects.push(file.replace(".cc", ".o"));
        }
        let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
        let position = if way == "-fno-pic" { "-no-pie" } else { "-pie" };
        folder.run("g++", &[&["-o", "linked", "-pthread", position], &objects[..]].concat());
        let expected = Command::new(folder.0.path().join("linked")).output().unwrap();
        let expected_text = text(&expected.stdout);
        let code = expected.status.code().expect("it ends by itself");
        prints(
            &folder,
            &[&objects[..], &["--dylib", "libstdc++.so.6"]].concat(),
            &expected_text,
            code,
        );
    }
}

#[test]
fn other_options_keep_their_meaning_with_it() {
    let source = "
        extern char at[], data[], end[];
        int alias(int), cosine(void);
        int real(int x) { return x + 1; }
        int main(void) { return alias(1) + (at == (char *)0x1234) * 10 + (end - data) * 100 + data[0]; }";
    let folder = Folder::new();
    folder.compile("gcc", "main.c", source, &["-fPIC"]);
    folder.compile("gcc", "whole.c", "int run(int argc) { return argc + 40; }", &[]);
    folder.archive("whole.a", &["whole.o"]);
    fs::write(folder.0.path().join("data.bin"), [3]).unwrap();
    let options = ["--alias", "alias=another", "--alias", "another=real", "--abs", "at=0x1234"];
    let section = ["--sectcreate", "data,data.bin@data=0,end=1", "--threads", "2"];
    let more = ["--dylib", "libm.so.6", "whole.a", "--show-times", "--dump-memory", "dump.json"];
    everywhere(
        &folder,
        &[&["main.o"], &options[..], &section, &more].concat(),
        |output, context| {
            assert!(error_of(output).contains("objects"), "{context}");
            assert_eq!(output.status.code(), Some(115), "{context}");
            let dump = String::from_utf8(folder.read("dump.json")).unwrap();
            assert!(dump.contains("\"main.o\"") && !dump.contains("whole.o"), "{dump}");
        },
    );
    prints(
        &folder,
        &["main.o", "whole.a", "--abs", "at=1", "--entry", "run", "--args", "x"],
        "",
        42,
    );
    prints(&folder, &["whole.o", "--alias", "walk=run", "--entry", "walk"], "", 41);
}

#[test]
fn options_that_make_no_sense_with_it_are_refused() {
    let folder = Folder::from_c(&[("main", "int main(void) { return 0; }")]);
    for option in [
        &["--link-all"][..],
        &["--gc-sections"],
        &["--phony-externals"],
        &["--no-exec"],
        &["--slab-address", "0x10000000"],
        &["--slab-allocate", "1Mb"],
        &["--slab-page-size", "4096"],
    ] {
        let (code, error) = folder.refused(&[&["--lazy", "main.o"], option].concat());
        assert_eq!(code, Some(2), "{error}");
        assert!(
            error.contains("'--lazy' cannot be used with") && error.contains(option[0]),
            "{error}"
        );
    }
}
