//! Generators: the sources of names that no object defines.

use std::path::Path;
use std::sync::{Arc, Mutex};

use longshore_jitlink::session::{
    DynamicLibrary, Generated, ProcessSymbols, Request, StaticArchive,
};
use longshore_jitlink::{Error, Session};

use crate::in_process::support::{
    archive, assembly, c, failure, generator_of, library, session, shared_library, value,
};

const F_IS_1: &str = "long f(void) { return 1; }";
const F_IS_2: &str = "long f(void) { return 2; }";
const G_CALLS_F: &str = "long f(void); long g(void) { return f(); }";

extern "C" fn five() -> i64 {
    5
}

#[test]
fn generators_receive_only_missing_names() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let session = session();
    let library = session.create_library("program");
    let _g = library
        .add_object(
            "g.o",
            c(
                "-fPIC",
                "long f(void), missing(void), maybe(void) __attribute__((weak));
        long g(void) { return f() + missing() + (maybe ? 1000 : 0); }",
            ),
        )
        .unwrap();
    let _f = library.add_object("f.o", c("-fPIC", F_IS_1)).unwrap();
    library.add_generator(generator_of("no such name", 1));
    library.add_generator(move |requests: &[Request<'_>]| {
        noted.lock().unwrap().extend(requests.iter().map(|request| request.name.to_owned()));
        generator_of("missing", five as *const () as u64)(requests)
    });
    library.add_generator(|requests: &[Request<'_>]| {
        assert!(requests.iter().all(|request| request.name == "maybe"));
        Ok(Vec::<Generated>::new())
    });
    assert_eq!(value(&library, "g"), 6);
    let mut names = asked.lock().unwrap().clone();
    names.sort();
    assert_eq!(names, ["maybe", "missing"]);
}

#[test]
fn a_generator_that_fails_fails_the_look_up() {
    let library = session().create_library("program");
    library.add_generator(|_: &[Request<'_>]| {
        Err(Error::Open { path: "x".into(), problem: "gone".into() })
    });
    assert_eq!(failure(library.lookup("f")), "x: gone");
}

#[test]
fn a_generator_can_give_an_object() {
    let library = session().create_library("program");
    let _g = library.add_object("g.o", c("-fPIC", G_CALLS_F)).unwrap();
    let object = c("-fPIC", "long f(void) { return 31; }");
    library.add_generator(move |requests: &[Request<'_>]| {
        let wanted = requests.iter().any(|request| request.name == "f");
        let object = Generated::Object { name: "made.o".into(), bytes: object.clone() };
        Ok(if wanted { vec![object] } else { Vec::new() })
    });
    assert_eq!(value(&library, "g"), 31);
}

#[test]
fn an_object_takes_the_place_of_what_a_generator_gave() {
    let library = session().create_library("program");
    library.add_generator(generator_of("f", five as *const () as u64));
    assert_eq!(value(&library, "f"), 5);
    let _f = library.add_object("f.o", c("-fPIC", F_IS_1)).unwrap();
    assert_eq!(value(&library, "f"), 1);
}

#[test]
fn an_archive_gives_the_members_that_are_needed_and_no_others() {
    let members = archive(&[
        ("unused.o", c("-fPIC", "extern long nowhere; long unused(void) { return nowhere; }")),
        (
            "f.o",
            c(
                "-fPIC",
                "long helper(void), back(void); long f(void) { return helper(); } long ten = 10; long unused_f(void) { return back(); }",
            ),
        ),
        (
            "helper.o",
            c(
                "-fPIC",
                "extern long ten; long back(void) { return 0; } long helper(void) { return ten + 1; }",
            ),
        ),
    ]);
    let library = library(&[c("-fPIC", G_CALLS_F)]);
    library.add_generator(StaticArchive::new("it.a", members.clone()).unwrap());
    assert_eq!(value(&library, "g"), 11);
    assert_eq!(
        failure(library.lookup("unused")),
        "undefined symbols: nowhere (used by it.a(unused.o))"
    );

    let whole = self::library(&[]);
    whole.add_whole_archive("it.a", &members).unwrap();
    assert_eq!(value(&whole, "f"), 11);
    assert_eq!(failure(whole.link_all()), "undefined symbols: nowhere (used by it.a(unused.o))");
}

#[test]
fn a_definition_of_the_program_keeps_the_archives_member_out() {
    let members =
        archive(&[("f.o", c("-fPIC", "extern long nowhere; long f(void) { return nowhere; }"))]);
    let library = library(&[c("-fPIC", G_CALLS_F), c("-fPIC", F_IS_2)]);
    library.add_generator(StaticArchive::new("it.a", members).unwrap());
    assert_eq!(value(&library, "g"), 2);
}

#[test]
fn a_member_is_given_again_after_its_link_has_failed() {
    let members =
        archive(&[("f.o", c("-fPIC", "long later(void); long f(void) { return later(); }"))]);
    let library = library(&[c("-fPIC", G_CALLS_F)]);
    library.add_generator(StaticArchive::new("it.a", members).unwrap());
    assert_eq!(failure(library.lookup("g")), "undefined symbols: later (used by it.a(f.o))");
    library.define_absolute("later", five as *const () as u64).unwrap();
    assert_eq!(value(&library, "g"), 5);
}

#[test]
fn adding_an_archive_with_a_conflict_changes_nothing() {
    let members = archive(&[
        ("new.o", c("-fPIC", "long n(void) { return 1; }")),
        ("f.o", c("-fPIC", F_IS_2)),
    ]);
    let library = library(&[c("-fPIC", F_IS_1)]);
    let error = failure(library.add("it.a", members));
    assert_eq!(error, "symbol f is defined in 0.o and again in it.a(f.o)");
    assert_eq!(failure(library.lookup("n")), "undefined symbols: n");
}

#[test]
fn a_dynamic_library_gives_its_functions_and_data() {
    let directory = shared_library("", "long number = 70; long of_library(void) { return 7; }");
    let library = session().create_library("program");
    let user =
        "long of_library(void); extern long number; long g(void) { return of_library() + number; }";
    let _user = library.add_object("g.o", c("-fPIC", user)).unwrap();
    assert!(library.lookup("g").is_err());
    // SAFETY: the library has no constructors.
    let opened = unsafe { DynamicLibrary::open(&directory.path().join("it.so")) };
    library.add_generator(opened.unwrap());
    assert_eq!(value(&library, "g"), 77);
    assert_eq!(failure(library.lookup("not_of_library")), "undefined symbols: not_of_library");
}

#[test]
fn a_dynamic_library_that_does_not_exist_is_an_error_with_its_path() {
    // SAFETY: no library is opened.
    let error = unsafe { DynamicLibrary::open(Path::new("/no/such/library.so")) };
    let Err(Error::Open { path, problem }) = error else { panic!() };
    assert_eq!(path, "/no/such/library.so");
    assert!(problem.contains("No such file"), "{problem}");
}

#[test]
fn versioned_names_of_the_process_are_found() {
    let library = library(&[assembly(
        ".globl f; f: .symver len, strlen@GLIBC_2.2.5; mov len@GOTPCREL(%rip), %rax; ret",
    )]);
    assert_eq!(value(&library, "f"), libc_strlen());
}

fn libc_strlen() -> i64 {
    let library = session().create_library("process");
    library.add_generator(ProcessSymbols);
    library.lookup("strlen").unwrap() as i64
}

#[test]
fn undefined_symbols_can_have_a_phony_address() {
    // SAFETY: the object is a program of this test.
    let session = unsafe { Session::builder().with_phony_externals(0x1234).build() }.unwrap();
    let library = session.create_library("program");
    let _f = library
        .add_object("f.o", c("-fPIC", "extern char x; char *f(void) { return &x; }"))
        .unwrap();
    assert_eq!(value(&library, "f"), 0x1234);
}

#[test]
fn a_symbol_of_the_object_itself_wins_over_a_generator() {
    let source = "long strlen(const char *s) { return 99; } long g(void) { return strlen(\"a\"); }";
    let library = library(&[c("-fPIC -fno-builtin", source)]);
    assert_eq!(value(&library, "g"), 99);
}
