//! A process that fails or dies at each step of a program's life.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use longshore_jitlink::process::TargetProcess;
use longshore_jitlink::session::{DynamicLibrary, ProcessSymbols, Removal};
use longshore_jitlink::{Error, Result, Session};

use crate::processes::support::{c, cpp, define_trace, traced};
use crate::processes::watched::{Plan, Watched};

/// A program that throws and catches, with variables that have constructors and destructors, of the
/// program and of its threads.
const CPP: &str = "
    #include <stdexcept>
    extern \"C\" void trace(int);
    extern \"C\" long at_a_fixed_offset(void);
    struct Traced { int n; Traced(int n) : n(n) { trace(n); } ~Traced() { trace(-n); } };
    static Traced global(1);
    thread_local Traced of_thread(2);
    __attribute__((destructor)) static void end() { trace(-4); }
    static void fail(int n) { Traced here(3); throw std::runtime_error(n ? \"thrown\" : \"\"); }
    extern \"C\" int main(int argc, char **argv) {
        try { fail(argc); } catch (const std::exception &error) { trace(error.what()[0] == 't' ? 30 : 31); }
        trace(argv[1][0] - 'a');
        return of_thread.n * 10 + at_a_fixed_offset(); }";

/// A program that requires the first 2 GiB, a fixed offset from the thread pointer, and a copy of
/// data of the process.
const C: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    void trace(int);
    static __thread long variable = 5;
    static void handler(void) { trace(-5); }
    __attribute__((constructor)) static void start(void) { atexit(handler); }
    long at_a_fixed_offset(void) { return stdout ? variable++ : 0; }";

/// The trace of a program from its start to its end.
const TRACE: &str = "1 3 -3 30 1 2 -2 -5 -1 -4 ";

struct Sources {
    cpp: bytes::Bytes,
    c: bytes::Bytes,
}

impl Sources {
    fn compile() -> Self {
        Self { cpp: cpp("-fPIC", CPP), c: c("-fno-pic -mcmodel=small", C) }
    }
}

/// Runs every step of a session's life, and returns the result of `main`.
fn live(process: &Arc<Watched>, sources: &Sources) -> Result<i32> {
    let reserve = longshore_orc_rt::static_tls_reserve!(4096).map_err(Error::from)?;
    let executes: Arc<dyn TargetProcess> = process.clone();
    let builder = Session::builder().with_process(executes.clone()).with_static_tls(reserve);
    // SAFETY: the programs of these tests are sound in this process.
    let session = unsafe { builder.with_rebound_process_data().build() }?;
    let library = session.create_library("program");
    define_trace(&library);
    let object = library.add_object("cpp.o", sources.cpp.clone())?;
    let _other = library.add_object("c.o", sources.c.clone())?;
    library.add_generator(ProcessSymbols);
    // SAFETY: the library's constructors run in every C++ program.
    let cpp = unsafe { DynamicLibrary::open_in(executes, Path::new("libstdc++.so.6")) }?;
    library.add_generator(cpp);
    let arguments = ["program", "b"].map(|argument| CString::new(argument).unwrap());
    let arguments = session.main_arguments(&arguments)?;
    let main = library.lookup("main")?;
    // SAFETY: as above.
    let code = unsafe {
        library.initialize(arguments)?;
        let code = library.run_main(main, arguments)?;
        library.deinitialize()?;
        code
    };
    object.remove(Removal::WithUsers)?;
    Ok(code)
}

#[test]
fn a_program_lives_and_leaves_nothing_behind() {
    let process = Arc::new(Watched::new(Plan::Live));
    assert_eq!(live(&process, &Sources::compile()).unwrap(), 25);
    assert_eq!(traced(), TRACE);
    process.notes().assert_nothing_is_out("at the end");
    process.notes().assert_nothing_is_in_flight("at the end");
}

/// Returns the names of the steps of a session's life.
fn steps(sources: &Sources) -> Vec<String> {
    let process = Arc::new(Watched::new(Plan::Live));
    live(&process, sources).unwrap();
    assert_eq!(traced(), TRACE);
    process.notes().steps()
}

#[test]
fn a_process_that_dies_at_any_step_is_an_error_that_says_how() {
    let sources = Sources::compile();
    let steps = steps(&sources);
    for (step, name) in steps.iter().enumerate() {
        let process = Arc::new(Watched::new(Plan::DieAt(step)));
        let context = format!("step {step} of {}, {name}", steps.len());
        // A failure at the end of the session is returned to no caller.
        if let Err(error) = live(&process, &sources) {
            assert!(matches!(error, Error::ProcessGone { .. }), "{context}: {error}");
            assert!(error.to_string().contains("signal 9"), "{context}: {error}");
        }
        process.notes().assert_nothing_is_in_flight(&context);
        assert!(TRACE.starts_with(&traced()), "{context}");
    }
}

#[test]
fn a_step_that_fails_leaves_nothing_behind() {
    let sources = Sources::compile();
    let steps = steps(&sources);
    for (step, name) in steps.iter().enumerate() {
        let process = Arc::new(Watched::new(Plan::FailAt(step)));
        let context = format!("step {step} of {}, {name}", steps.len());
        let result = live(&process, &sources);
        process.notes().assert_nothing_is_in_flight(&context);
        // Handlers that did not run, and resources that were not released, keep their code.
        if !["__longshore_end_objects", "__longshore_release"].contains(&name.as_str()) {
            process.notes().assert_nothing_is_out(&context);
        }
        if let Err(error) = result {
            assert!(error.to_string().contains("told to fail"), "{context}: {error}");
        }
        traced();
    }
    // The failure does not affect other sessions.
    let process = Arc::new(Watched::new(Plan::Live));
    assert_eq!(live(&process, &sources).unwrap(), 25);
    assert_eq!(traced(), TRACE);
}

#[test]
fn a_link_that_failed_can_be_done_again() {
    let object = c(
        "-fPIC",
        "__thread long x = 6; static int y; void *__dso_handle; long f(void) { return x + y; }",
    );
    let object = [
        object,
        c(
            "-fPIC",
            "#include <stdlib.h>\nstatic void end(void) {} long g(void) { return atexit(end); }",
        ),
    ];
    for step in 0.. {
        let process = Arc::new(Watched::new(Plan::FailAt(step)));
        let builder = Session::builder().with_process(process.clone());
        let session = {
            // SAFETY: as above.
            unsafe { builder.build() }.unwrap()
        };
        let library = session.create_library("program");
        for (index, object) in object.iter().enumerate() {
            let _object = library.add_object(&format!("{index}.o"), object.clone()).unwrap();
        }
        library.add_generator(ProcessSymbols);
        let names = [
            ("f", longshore_jitlink::session::Lookup::Required),
            ("g", longshore_jitlink::session::Lookup::Required),
        ];
        let first = library.lookup_all(&names);
        let is_over = first.is_ok();
        assert_eq!(crate::processes::support::value(&library, "f"), 6, "step {step}");
        assert_eq!(crate::processes::support::value(&library, "g") as i32, 0, "step {step}");
        drop((library, session));
        process.notes().assert_nothing_is_in_flight(&format!("step {step}"));
        if is_over {
            assert!(step >= 4, "{step}");
            return;
        }
    }
}
