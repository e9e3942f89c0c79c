//! Constructors, destructors and exit handlers, in the order of a system linker and the C library.

use longshore_jitlink::session::{MainArguments, Removal};
use longshore_jitlink::{Library, Session};

use super::support::{
    SYSTEM_TRACE, add_cpp_runtime, assembly, c, call, cpp, define_trace, deinitialize, failure,
    initialize, library, library_of, session, system_linked, traced, value,
};

/// Runs objects in memory. Traces 0 between constructors and destructors, like `main` of the
/// system-linked program.
fn in_memory(objects: &[bytes::Bytes]) -> String {
    let library = traced_library(objects);
    initialize(&library);
    super::support::note(0);
    deinitialize(&library);
    traced()
}

fn traced_library(objects: &[bytes::Bytes]) -> Library {
    let library = library(objects);
    define_trace(&library);
    add_cpp_runtime(&library);
    library
}

fn assert_same_order(objects: &[bytes::Bytes], expected: &str) {
    let mut all = objects.to_vec();
    all.push(c("", SYSTEM_TRACE));
    assert_eq!(system_linked(&all), expected);
    assert_eq!(in_memory(objects), expected);
}

#[test]
fn constructors_run_by_priority_and_then_in_the_order_of_objects() {
    let object = |n: u32| {
        c(
            "-fPIC",
            &format!(
                "
            void trace(int);
            __attribute__((constructor)) static void a(void) {{ trace({n}); }}
            __attribute__((constructor(300))) static void b(void) {{ trace({n} + 1); }}
            __attribute__((constructor(200))) static void c(void) {{ trace({n} + 2); }}
            __attribute__((constructor)) static void d(void) {{ trace({n} + 3); }}
            __attribute__((destructor)) static void e(void) {{ trace({n} + 4); }}
            __attribute__((destructor(200))) static void f(void) {{ trace({n} + 5); }}
            __attribute__((destructor(300))) static void g(void) {{ trace({n} + 6); }}
            __attribute__((destructor)) static void h(void) {{ trace({n} + 7); }}"
            ),
        )
    };
    assert_same_order(
        &[object(10), object(20)],
        "12 22 11 21 10 13 20 23 0 27 24 17 14 26 16 25 15 ",
    );
}

#[test]
fn global_objects_of_cpp_are_destroyed_in_reverse_order() {
    let object = |n: u32| {
        cpp(
            "-fPIC",
            &format!(
                "
            extern \"C\" void trace(int);
            struct S {{ int n; S(int n) : n(n) {{ trace(n); }} ~S() {{ trace(n + 5); }} }};
            static S one({n}), two({n} + 1);
            __attribute__((init_priority(1000))) static S early({n} + 2);"
            ),
        )
    };
    assert_same_order(&[object(10), object(20)], "12 22 10 11 20 21 0 26 25 16 15 27 17 ");
}

#[test]
fn old_constructor_sections_run_as_a_system_linker_runs_them() {
    // `ld` turns `.ctors` into `.init_array`, reversed: within one object the last runs first.
    let object = |n: u32| {
        assembly(&format!("
            .macro function name, n
            \\name: mov $\\n, %edi; jmp trace@PLT
            .endm
            .text
            function a{n}, {n}; function b{n}, {n} + 1; function c{n}, {n} + 2; function d{n}, {n} + 3
            function e{n}, {n} + 4; function f{n}, {n} + 5
            .section .ctors,\"aw\"; .quad a{n}, b{n}
            .section .ctors.65435,\"aw\"; .quad c{n}
            .section .dtors,\"aw\"; .quad d{n}, e{n}
            .section .dtors.65435,\"aw\"; .quad f{n}
            .section .note.GNU-stack,\"\",@progbits"))
    };
    let objects = [object(10), object(20)];
    let mut all = objects.to_vec();
    all.push(c("", SYSTEM_TRACE));
    let expected = system_linked(&all);
    assert_eq!(in_memory(&objects), expected);
}

#[test]
fn old_and_new_sections_are_ordered_together_by_priority() {
    let new = c(
        "-fPIC",
        "void trace(int);
        __attribute__((constructor(100 + 1))) static void a(void) { trace(1); }
        __attribute__((constructor(200))) static void b(void) { trace(2); }",
    );
    let old = assembly(
        "c: mov $3, %edi; jmp trace@PLT
         .section .ctors.65385,\"aw\"; .quad c
         .section .note.GNU-stack,\"\",@progbits",
    );
    assert_same_order(&[new, old], "1 3 2 0 ");
}

#[test]
fn preinit_functions_run_first() {
    let late = c(
        "-fPIC",
        "void trace(int); __attribute__((constructor(101))) static void a(void) { trace(2); }",
    );
    let early = c(
        "-fPIC",
        "void trace(int); static void b(void) { trace(1); }
        __attribute__((section(\".preinit_array\"), used)) static void (*p)(void) = b;",
    );
    assert_same_order(&[late, early], "1 2 0 ");
}

#[test]
fn exit_handlers_run_before_destructors_in_reverse_order() {
    let object = c(
        "-fPIC",
        "
        #include <stdlib.h>
        void trace(int);
        static void one(void) { trace(1); } static void two(void) { trace(2); }
        __attribute__((constructor)) static void start(void) { atexit(one); atexit(two); }
        __attribute__((destructor)) static void end(void) { trace(3); }",
    );
    assert_same_order(&[object], "0 2 1 3 ");
}

#[test]
fn an_exit_handler_may_register_another() {
    let object = c(
        "-fPIC",
        "
        #include <stdlib.h>
        void trace(int);
        static void inner(void) { trace(5); } static void one(void) { trace(1); }
        static void two(void) { trace(2); atexit(inner); }
        __attribute__((constructor)) static void start(void) { atexit(one); atexit(two); }",
    );
    assert_same_order(&[object], "0 2 5 1 ");
}

#[test]
fn constructors_are_called_with_the_arguments_of_main() {
    let library = library(&[c(
        "-fPIC",
        "
        long count; char **arguments, **environment;
        __attribute__((constructor)) static void f(int argc, char **argv, char **envp) {
            count = argc; arguments = argv; environment = envp; }",
    )]);
    let argv = [c"one".as_ptr(), c"two".as_ptr(), std::ptr::null()];
    let environment = [c"A=1".as_ptr(), std::ptr::null()];
    let arguments =
        MainArguments { argc: 2, argv: argv.as_ptr(), environment: environment.as_ptr() };
    // SAFETY: the source above only stores the arguments.
    unsafe { library.initialize(arguments) }.unwrap();
    let variable = |name| super::support::variable(&library, name);
    assert_eq!(variable("count"), 2);
    assert_eq!(variable("arguments"), argv.as_ptr() as i64);
    assert_eq!(variable("environment"), environment.as_ptr() as i64);
}

const ONE_CONSTRUCTOR: &str = "
    void trace(int);
    __attribute__((constructor)) static void a(void) { trace(1); }
    __attribute__((destructor)) static void b(void) { trace(2); }";

#[test]
fn constructors_run_once_and_later_objects_constructors_run_later() {
    let library = traced_library(&[c("-fPIC", ONE_CONSTRUCTOR)]);
    initialize(&library);
    initialize(&library);
    assert_eq!(traced(), "1 ");
    let later = ONE_CONSTRUCTOR.replace('1', "3").replace('2', "4");
    let _later = library.add_object("later.o", c("-fPIC", &later)).unwrap();
    initialize(&library);
    assert_eq!(traced(), "3 ");
    deinitialize(&library);
    deinitialize(&library);
    assert_eq!(traced(), "4 2 ");
}

#[test]
fn destructors_do_not_run_where_constructors_have_not() {
    let library =
        traced_library(&[c("-fPIC", &format!("{ONE_CONSTRUCTOR} long f(void) {{ return 1; }}"))]);
    assert_eq!(value(&library, "f"), 1);
    deinitialize(&library);
    assert_eq!(traced(), "");
}

#[test]
fn no_constructor_runs_when_the_link_fails() {
    let library = traced_library(&[
        c("-fPIC", ONE_CONSTRUCTOR),
        c(
            "-fPIC",
            "long nowhere(void); long x; __attribute__((constructor)) static void c(void) { x = nowhere(); }",
        ),
    ]);
    // SAFETY: the sources are sound to run.
    let error = failure(unsafe { library.initialize(MainArguments::default()) });
    assert_eq!(error, "undefined symbols: nowhere (used by 1.o)");
    assert_eq!(traced(), "");
    library.define_absolute("nowhere", seven as *const () as u64).unwrap();
    initialize(&library);
    assert_eq!(traced(), "1 ");
    assert_eq!(super::support::variable(&library, "x"), 7);
}

extern "C" fn seven() -> i64 {
    7
}

#[test]
fn each_library_has_exit_handlers_of_its_own() {
    let session = session();
    let source = "int atexit(void (*)(void)); void trace(int); static void one(void) { trace(N); } long f(void) { return atexit(one); }";
    let libraries = ["1", "2"].map(|number| {
        let library = session.create_library(number);
        let _object = library.add_object("it.o", c("-fPIC", &source.replace('N', number))).unwrap();
        define_trace(&library);
        assert_eq!(value(&library, "f"), 0);
        library
    });
    deinitialize(&libraries[1]);
    assert_eq!(traced(), "2 ");
    deinitialize(&libraries[0]);
    assert_eq!(traced(), "1 ");
}

#[test]
fn removal_runs_the_destructors_of_that_object_only() {
    let library = traced_library(&[]);
    let add = |name: &str, numbers: [&str; 2]| {
        let source = ONE_CONSTRUCTOR.replace('1', numbers[0]).replace('2', numbers[1]);
        let source = format!(
            "{source} int atexit(void (*)(void)); static void x(void) {{ trace({}0); }}
            __attribute__((constructor)) static void y(void) {{ atexit(x); }}",
            numbers[1]
        );
        library.add_object(name, c("-fPIC", &source)).unwrap()
    };
    let first = add("first.o", ["1", "2"]);
    let _second = add("second.o", ["3", "4"]);
    initialize(&library);
    assert_eq!(traced(), "1 3 ");
    first.remove(Removal::Unused).unwrap();
    assert_eq!(traced(), "20 2 ");
    deinitialize(&library);
    assert_eq!(traced(), "40 4 ");
}

#[test]
fn objects_that_take_the_place_of_removed_ones_are_constructed_last() {
    let library = traced_library(&[]);
    let add = |number: &str| {
        let source =
            ONE_CONSTRUCTOR.replace('1', number).replace("trace(2)", &format!("trace({number})"));
        library.add_object(number, c("-fPIC", &source)).unwrap()
    };
    let first = add("1");
    let _second = add("2");
    first.remove(Removal::Unused).unwrap();
    let _third = add("3");
    initialize(&library);
    deinitialize(&library);
    assert_eq!(traced(), "2 3 3 2 ");
}

thread_local! {
    static LOOKED_UP: std::cell::RefCell<Option<Library>> = const { std::cell::RefCell::new(None) };
}

extern "C" fn look_up_later() -> i64 {
    LOOKED_UP.with(|library| value(library.borrow().as_ref().unwrap(), "later"))
}

#[test]
fn constructors_and_destructors_may_look_symbols_up() {
    let library = traced_library(&[
        c(
            "-fPIC",
            "long look_up(void); void trace(int);
            __attribute__((constructor)) static void start(void) { trace(look_up()); }
            __attribute__((destructor)) static void end(void) { trace(look_up() + 1); }",
        ),
        c("-fPIC", "long later(void) { return 6; }"),
    ]);
    library.define_absolute("look_up", look_up_later as *const () as u64).unwrap();
    LOOKED_UP.set(Some(library.clone()));
    initialize(&library);
    deinitialize(&library);
    LOOKED_UP.set(None);
    assert_eq!(traced(), "6 7 ");
}

#[test]
fn static_variables_of_functions_are_destroyed() {
    let library = traced_library(&[cpp(
        "-fPIC",
        "
        extern \"C\" void trace(int);
        struct S { long n; S() : n(5) { trace(1); } ~S() { trace(2); } };
        extern \"C\" long f() { static S s; return s.n++; }",
    )]);
    let f = library.lookup("f").unwrap();
    assert_eq!((call(f), call(f)), (5, 6));
    assert_eq!(traced(), "1 ");
    deinitialize(&library);
    assert_eq!(traced(), "2 ");
}

#[test]
fn preinit_functions_run_before_init_functions_of_every_priority() {
    let object = |number: u32, section: &str| {
        c(
            "-fPIC",
            &format!(
                "void trace(int); static void f(void) {{ trace({number}); }}
                 __attribute__((used, section(\"{section}\"))) static void (*p)(void) = f;"
            ),
        )
    };
    let library = library(&[object(2, ".init_array.00000"), object(1, ".preinit_array")]);
    define_trace(&library);
    initialize(&library);
    assert_eq!(traced(), "1 2 ");
}

/// Returns an object that traces a number from `.init` and another one from `.fini`.
fn with_fragments(init: u32, fini: u32) -> bytes::Bytes {
    assembly(&format!(
        ".section .init,\"ax\"; mov ${init}, %edi; call trace@PLT
        .section .fini,\"ax\"; mov ${fini}, %edi; call trace@PLT"
    ))
}

#[test]
fn code_in_init_runs_before_constructors_and_code_in_fini_after_destructors() {
    let others = c(
        "-fPIC",
        "void trace(int);
        __attribute__((constructor(101))) static void begin(void) { trace(3); }
        __attribute__((destructor(101))) static void end(void) { trace(4); }",
    );
    let only_init = assembly(".section .init,\"ax\"; mov $2, %edi; call trace@PLT");
    assert_same_order(&[others, with_fragments(1, 9), only_init], "1 2 3 0 4 9 ");
}

#[test]
fn code_in_init_is_called_with_an_aligned_stack_and_is_not_pruned() {
    let source = ".section .init,\"ax\"; call inside
        .section .text.inside,\"ax\"; inside: lea 8(%rsp), %rdi; and $15, %edi; add $5, %edi; jmp trace@PLT
        .text; .globl f; f: mov $1, %eax; ret";
    let library = library_of(Session::builder().with_pruning(), &[assembly(source)]);
    define_trace(&library);
    assert_eq!(value(&library, "f"), 1);
    initialize(&library);
    assert_eq!(traced(), "5 ");
}

#[test]
fn start_files_are_refused() {
    let error =
        failure(library(&[assembly(".section .init,\"ax\"; .globl _init; _init: nop")]).link_all());
    assert!(error.contains("leave these out"), "{error}");
}
