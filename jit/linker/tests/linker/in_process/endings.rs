//! Code that runs before an object goes: exit handlers, destructors, and the handlers that these
//! register in turn.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use longshore_jitlink::session::{Object, Removal};
use longshore_jitlink::{Library, Session};

use super::support::{
    add_cpp_runtime, c, call, cpp, define_trace, deinitialize, initialize, library, library_of,
    traced, value, variable,
};

const HANDLERS: &str = "
    extern char __dso_handle;
    int __cxa_atexit(void (*)(void *), void *, void *);
    int __cxa_thread_atexit(void (*)(void *), void *, void *);
    void trace(int);
";

fn traced_library() -> Library {
    let library = library(&[]);
    define_trace(&library);
    library
}

fn add(library: &Library, name: &str, flags: &str, source: &str) -> Object {
    library.add_object(name, c(flags, &format!("{HANDLERS}{source}"))).unwrap()
}

#[test]
fn handlers_that_destructors_register_run() {
    let library = traced_library();
    add_cpp_runtime(&library);
    let source = "
        extern \"C\" void trace(int);
        struct S { int n; S(int n) : n(n) { trace(1); } ~S() { trace(n); } };
        static void use() { static S s(7); }
        __attribute__((destructor)) static void end() { trace(2); use(); }
        extern \"C\" long f() { return 3; }";
    let object = library.add_object("it.o", cpp("-fPIC", source)).unwrap();
    initialize(&library);
    assert_eq!(value(&library, "f"), 3);
    object.remove(Removal::Unused).unwrap();
    assert_eq!(traced(), "2 1 7 ");
    deinitialize(&library);
    assert_eq!(traced(), "", "nothing is left of it");
}

#[test]
fn handlers_that_destructors_of_another_object_register_run() {
    let library = traced_library();
    let one = add(
        &library,
        "one.o",
        "-fPIC",
        "void two(void); int one(void) { return 1; }
        __attribute__((destructor)) static void end(void) { two(); }",
    );
    let two = "int one(void);
        static void handler(void *p) { trace(6); }
        void two(void) { trace(one()); __cxa_atexit(handler, 0, &__dso_handle); }";
    let _two = add(&library, "two.o", "-fPIC", two);
    initialize(&library);
    one.remove(Removal::WithUsers).unwrap();
    assert_eq!(traced(), "1 6 ");
}

#[test]
fn thread_local_variables_live_until_the_destructors_of_all_objects_have_run() {
    let library = traced_library();
    let one = add(
        &library,
        "one.o",
        "-fPIC",
        "int two(void); int one(void) { return 1; }
        __attribute__((destructor)) static void end(void) { trace(two()); }",
    );
    let two = "int one(void); static __thread int x = 4;
        __attribute__((constructor)) static void start(void) { x = 8; }
        int two(void) { return x + one(); }";
    let _two = add(&library, "two.o", "-fPIC", two);
    initialize(&library);
    one.remove(Removal::WithUsers).unwrap();
    assert_eq!(traced(), "9 ");
}

#[test]
fn thread_local_variables_that_only_handlers_use_are_destroyed() {
    let library = traced_library();
    let _other = add(&library, "destroy.o", "-fPIC", "void destroy(void *p) { trace(*(int *)p); }");
    let object = add(
        &library,
        "it.o",
        "-fPIC",
        "void destroy(void *); __thread int x = 5;
        static void at_end(void *p) { __cxa_thread_atexit(destroy, &x, &__dso_handle); }
        long f(void) { return __cxa_atexit(at_end, 0, &__dso_handle); }",
    );
    assert_eq!(value(&library, "f") as i32, 0);
    object.remove(Removal::Unused).unwrap();
    assert_eq!(traced(), "5 ");
}

const STATIC_VARIABLE: &str = "
    void destroy(void *); __thread int x = 5;
    long f(void) { x = 5; return __cxa_thread_atexit(destroy, &x, &__dso_handle); }";

fn with_static_tls() -> Library {
    let reserve = longshore_orc_rt::static_tls_reserve!(4096).unwrap();
    library_of(Session::builder().with_static_tls(reserve), &[])
}

#[test]
fn variables_at_a_fixed_offset_are_destroyed_by_other_objects() {
    for flags in ["-fPIC", "-fno-pic"] {
        let library = with_static_tls();
        define_trace(&library);
        let _other =
            add(&library, "destroy.o", flags, "void destroy(void *p) { trace(*(int *)p); }");
        let object = add(&library, "it.o", flags, STATIC_VARIABLE);
        assert_eq!(value(&library, "f") as i32, 0);
        object.remove(Removal::Unused).unwrap();
        assert_eq!(traced(), "5 ", "{flags}");
    }
}

#[test]
fn variables_at_a_fixed_offset_are_not_destroyed_when_they_are_gone() {
    for flags in ["-fPIC", "-fno-pic"] {
        let library = with_static_tls();
        let destroys = "long destroyed; void destroy(void *p) { destroyed += *(int *)p; }";
        let _other = add(&library, "destroy.o", flags, destroys);
        let object = add(&library, "it.o", flags, STATIC_VARIABLE);
        let f = library.lookup("f").unwrap();
        let ((called, was_called), (go, may_go)) = (channel(), channel::<()>());
        let thread = thread::spawn(move || {
            call(f);
            called.send(()).unwrap();
            may_go.recv().unwrap();
        });
        was_called.recv().unwrap();
        object.remove(Removal::Unused).unwrap();
        go.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(variable(&library, "destroyed"), 0, "{flags}");
    }
}

#[test]
fn handlers_that_handlers_of_other_threads_register_run() {
    static STEP: AtomicU64 = AtomicU64::new(0);
    extern "C" fn step(to: u64) {
        STEP.store(to, SeqCst);
        if to == 1 {
            // Half a second suffices for the removal to find this handler running.
            thread::sleep(Duration::from_millis(500));
        }
    }
    let library = library(&[]);
    library.define_absolute("step", step as *const () as u64).unwrap();
    let object = add(
        &library,
        "it.o",
        "-fPIC",
        "void step(long);
        static void last(void *p) { step(2); }
        static void at_end(void *p) { step(1); __cxa_atexit(last, 0, &__dso_handle); }
        long f(void) { return __cxa_thread_atexit(at_end, 0, &__dso_handle); }",
    );
    let f = library.lookup("f").unwrap();
    let thread = thread::spawn(move || call(f));
    while STEP.load(SeqCst) == 0 {
        thread::yield_now();
    }
    object.remove(Removal::Unused).unwrap();
    assert_eq!(STEP.load(SeqCst), 2);
    thread.join().unwrap();
}
