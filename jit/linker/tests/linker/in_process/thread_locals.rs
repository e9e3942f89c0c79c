//! Thread-local variables in every model, in several threads.

use std::sync::mpsc;
use std::thread;

use longshore_jitlink::session::{DynamicLibrary, Removal};
use longshore_jitlink::{Library, Session};

use super::support::{
    add_cpp_runtime, assembly, c, c_compilers, compile, cpp, define_trace, failure, library,
    library_of, shared_library, traced, value, value_of,
};

/// Returns a library of a session with room for variables at a fixed offset from the thread
/// pointer.
fn with_static_tls(objects: &[bytes::Bytes]) -> Library {
    let reserve = longshore_orc_rt::static_tls_reserve!(4096).unwrap();
    library_of(Session::builder().with_static_tls(reserve), objects)
}

const DEFINES: &str = "
    #include <stdint.h>
    __thread long shared = 5;
    __thread long zero[3];
    static __thread char one = 1;
    static __thread struct { long n; char text[8]; } __attribute__((aligned(64))) local = { 7, \"thread\" };
    __thread long *pointer;
    long change(long n) {
        shared += n; zero[2] += 2 * n; local.n += 3 * n; one++; pointer = &local.n;
        return shared + zero[2] * 10 + *pointer * 100 + (local.text[5] == 'd') * 1000000 + one * 10000000
            + ((uintptr_t)&local % 64) * 1000000000; }
    long *where(void) { return &shared; }";

const USES: &str = "
    extern __thread long shared, zero[3];
    long *where(void);
    long change_from_outside(long n) { shared += n; zero[2] += n; return shared + zero[2] * 10 + (&shared == where()) * 1000; }";

/// Checks the results of [`DEFINES`] and [`USES`] in a thread that has not used them.
fn assert_fresh_values(library: &Library, message: &str) {
    assert_eq!(value_of(library, "change", 1), 21_001_026, "{message}");
    assert_eq!(value_of(library, "change_from_outside", 4), 1070, "{message}");
    assert_eq!(value_of(library, "change", 2), 31_001_712, "{message}");
}

#[test]
fn variables_of_every_model_have_their_initial_values_in_every_thread() {
    for compiler in c_compilers() {
        for (model, is_static) in [
            ("-fPIC -ftls-model=global-dynamic", false),
            ("-fPIC -ftls-model=local-dynamic", false),
            ("-fPIC -ftls-model=initial-exec", true),
            ("-fPIC -ftls-model=local-exec", true),
            ("-fno-pic", true),
            ("-fPIE", true),
            ("-fPIC -fno-plt", false),
            ("-fPIC -mtls-dialect=gnu2", false),
            ("-fPIC -mcmodel=large", false),
        ] {
            if compiler != "gcc"
                && (model.contains("gnu2") || model.contains("exec") || model.contains("local"))
            {
                continue;
            }
            for level in ["-O0", "-O2"] {
                let flags = format!("{level} {model}");
                let message = format!("{compiler} {flags}");
                // Some models are for variables of the same object only.
                let outside = flags
                    .replace("local-dynamic", "global-dynamic")
                    .replace("local-exec", "initial-exec");
                let objects = [
                    compile(compiler, "c", &flags, DEFINES),
                    compile(compiler, "c", &outside, USES),
                ];
                let library = if is_static { with_static_tls(&objects) } else { library(&objects) };
                assert_fresh_values(&library, &message);
                thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| assert_fresh_values(&library, &message));
                    }
                });
            }
        }
    }
}

#[test]
fn models_can_be_mixed() {
    for (defines, uses) in [
        ("-fPIC", "-fPIC -ftls-model=initial-exec"),
        ("-fPIC -ftls-model=initial-exec", "-fPIC"),
        ("-fno-pic", "-fPIC -mtls-dialect=gnu2"),
        ("-fPIC -mtls-dialect=gnu2", "-fno-pic"),
    ] {
        let library = with_static_tls(&[c(defines, DEFINES), c(uses, USES)]);
        // All objects must be in one link, so that the linker knows that the definition's offset
        // has to be fixed.
        library.link_all().unwrap();
        assert_fresh_values(&library, defines);
        thread::scope(|scope| {
            scope.spawn(|| assert_fresh_values(&library, defines));
        });
    }
}

#[test]
fn a_descriptor_finds_variables_at_fixed_and_other_offsets() {
    let source = "__thread long x = 40; long f(void) { return ++x; }";
    let object = c("-O2 -fPIC -mtls-dialect=gnu2", source);
    let fixed = c("-O2 -fno-pic", "extern __thread long x; long g(void) { return x + 1000; }");
    let dynamic = library(std::slice::from_ref(&object));
    let both = with_static_tls(&[object, fixed]);
    both.link_all().unwrap();
    assert_eq!(value(&both, "g"), 1040);
    assert_eq!(value(&dynamic, "f"), 41);
    assert_eq!(value(&both, "f"), 41);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!((value(&dynamic, "f"), value(&both, "f")), (41, 41)));
    });
}

#[test]
fn a_thread_that_runs_already_has_the_initial_values_of_what_is_linked_later() {
    let (to_thread, from_test) = mpsc::channel::<u64>();
    let (to_test, from_thread) = mpsc::channel::<i64>();
    let thread = thread::spawn(move || {
        for address in from_test {
            to_test.send(super::support::call(address)).unwrap();
        }
    });
    let library = library(&[c("-fPIC", "__thread long x = 40; long f(void) { return ++x; }")]);
    let f = library.lookup("f").unwrap();
    assert_eq!(value(&library, "f"), 41);
    for expected in [41, 42] {
        to_thread.send(f).unwrap();
        assert_eq!(from_thread.recv().unwrap(), expected);
    }
    drop(to_thread);
    thread.join().unwrap();
}

#[test]
fn fixed_offsets_without_a_reserve_are_an_error_that_says_what_to_do() {
    let library = library(&[c(
        "-fPIC -ftls-model=initial-exec",
        "__thread long x = 1; long f(void) { return x; }",
    )]);
    let error = failure(library.lookup("f"));
    assert!(error.contains("0.o(.text+"), "{error}");
    assert!(error.contains(" against x: ") && error.contains("compile with -fPIC"), "{error}");
}

#[test]
fn more_variables_than_the_reserve_holds_are_an_error() {
    let library =
        with_static_tls(&[c("-fno-pic", "__thread long x[100000]; long f(void) { return x[3]; }")]);
    let error = failure(library.lookup("f"));
    assert!(error.contains("of a reserve of 0x1000"), "{error}");
}

#[test]
fn the_reserve_is_used_again_after_removal() {
    let library = with_static_tls(&[]);
    for round in 0..10 {
        let source = format!(
            "__thread long x[300] = {{ {round} }}; long f(void) {{ return x[0]++ + x[299]; }}"
        );
        let object = library.add_object("it.o", c("-fno-pic", &source)).unwrap();
        assert_eq!(value(&library, "f"), round);
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(value(&library, "f"), round));
        });
        object.remove(Removal::Unused).unwrap();
    }
}

#[test]
fn destructors_of_thread_local_objects_run_when_their_thread_ends() {
    let library = library(&[cpp(
        "-fPIC",
        "
        #include <atomic>
        std::atomic<long> destroyed{0};
        struct S { long n; S() : n(5) {} ~S() { destroyed += n; } };
        thread_local S s, other;
        extern \"C\" long f(long n) { other.n = 100; return s.n += n; }
        extern \"C\" long count() { return destroyed; }",
    )]);
    add_cpp_runtime(&library);
    let f = library.lookup("f").unwrap();
    let count = library.lookup("count").unwrap();
    assert!(f != 0);
    for (round, argument) in [(0, 1), (1, 2)] {
        let before = super::support::call(count);
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                assert_eq!(value_of(&library, "f", argument), 5 + argument, "{round}");
                assert_eq!(super::support::call(count), before);
            });
            thread.join().unwrap();
        });
        assert_eq!(super::support::call(count), before + 100 + 5 + argument);
    }
}

#[test]
fn destructors_of_thread_local_objects_of_this_thread_run_at_the_end() {
    let library = library(&[cpp(
        "-fPIC",
        "
        extern \"C\" void trace(int);
        struct S { int n; ~S() { trace(n); } };
        thread_local S s{5};
        extern \"C\" long f() { return s.n++; }",
    )]);
    define_trace(&library);
    add_cpp_runtime(&library);
    assert_eq!(value(&library, "f"), 5);
    super::support::deinitialize(&library);
    assert_eq!(traced(), "6 ");
}

#[test]
fn variables_of_a_library_of_the_process_are_used() {
    let directory = shared_library(
        "",
        "__thread long of_library = 30; long *where(void) { return &of_library; }",
    );
    let source = "extern __thread long of_library; long *where(void);
        long f(void) { return ++of_library + (where() == &of_library) * 100; }";
    for flags in ["-fPIC", "-fPIC -mtls-dialect=gnu2", "-fPIC -mcmodel=large"] {
        let library = library(&[c(flags, source)]);
        // SAFETY: the library has no constructors.
        let opened = unsafe { DynamicLibrary::open(&directory.path().join("it.so")) };
        library.add_generator(opened.unwrap());
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!((value(&library, "f"), value(&library, "f")), (131, 132)));
            scope.spawn(|| assert_eq!(value(&library, "f"), 131));
        });
    }
}

#[test]
fn offsets_within_the_module_are_computed() {
    let library = library(&[assembly("
        .section .tdata,\"awT\"; .quad 1; x: .quad 2
        .text; .globl f; f: sub $8, %rsp; lea x@TLSLD(%rip), %rdi; call __tls_get_addr@PLT
            add $8, %rsp; mov x@DTPOFF(%rax), %rcx; add offset(%rip), %rax; mov (%rax), %rax; imul $10, %rcx; add %rcx, %rax; ret
        .data; offset: .quad x@DTPOFF")]);
    assert_eq!(value(&library, "f"), 22);
}

#[test]
fn offsets_from_the_thread_pointer_are_computed() {
    let library = with_static_tls(&[assembly(
        "
        .section .tdata,\"awT\"; .quad 1; x: .quad 2
        .text; .globl f; f: mov %fs:0, %rax; add offset(%rip), %rax; mov (%rax), %rax
            mov %fs:x@TPOFF, %rcx; imul $10, %rcx; add %rcx, %rax
            mov x@GOTTPOFF(%rip), %rcx; mov %fs:(%rcx), %rcx; imul $100, %rcx; add %rcx, %rax; ret
        .data; offset: .quad x@TPOFF",
    )]);
    assert_eq!(value(&library, "f"), 222);
}

#[test]
fn variables_of_the_run_time_library_of_cpp_are_used() {
    // `std::call_once` passes its function in thread-local variables of libstdc++. This program
    // opens that library, so they are at no fixed offset, and code that is not position-independent
    // could not use them.
    let source = "
        #include <mutex>
        static std::once_flag flag;
        static long calls;
        extern \"C\" long f() { std::call_once(flag, [] { calls += 7; }); return calls; }";
    for flags in ["-fPIC", "-fPIC -O2 -fno-plt", "-fPIC -mtls-dialect=gnu2"] {
        let library = library(&[cpp(flags, source)]);
        add_cpp_runtime(&library);
        assert_eq!((value(&library, "f"), value(&library, "f")), (7, 7), "{flags}");
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(value(&library, "f"), 7));
        });
    }
}

#[test]
fn a_link_that_is_laid_out_again_needs_room_for_its_variables_once() {
    let library = with_static_tls(&[
        c("-fPIC", "long g(void) { return 3; }"),
        c(
            "-fno-pic",
            "__thread long x[300] = {2}; static long y = 0; long g(void);
            long f(void) { return g() + x[0] + *(volatile long *)&y; }",
        ),
    ]);
    assert_eq!(value(&library, "g"), 3);
    assert_eq!(value(&library, "f"), 5);
}
