//! Objects and archives that are added lazily.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use longshore_jitlink::Error;
use longshore_jitlink::lazy::LazyFiles;
use longshore_jitlink::session::ProcessSymbols;

use super::World;
use crate::in_process::support::{
    self, archive, c, cpp, define_trace, failure, initialize, note, system_linked, traced, value,
    value_of, variable,
};

/// Returns a world whose library has a file, added lazily.
fn world(name: &str, bytes: Bytes) -> (World, LazyFiles) {
    let world = World::new(&[]);
    let file = world.lazy.add_lazily(&world.library, name, bytes).unwrap();
    (world, file)
}

fn members() -> Bytes {
    archive(&[
        (
            "one.o",
            c("-O1 -fPIC", "long two(long); long one(long n) { return n ? two(n) + 1 : 1; }"),
        ),
        ("two.o", c("-O1 -fPIC", "extern long table[]; long two(long n) { return table[n]; }")),
        (
            "table.o",
            c("-O1 -fPIC", "long table[] = { 100, 200, 300 }; long in_table(void) { return 1; }"),
        ),
        ("never.o", c("-O1 -fPIC", "long nowhere(void); long never(void) { return nowhere(); }")),
    ])
}

#[test]
fn members_of_an_archive_are_linked_when_they_are_called() {
    let (world, _) = world("it.a", members());
    let one = world.library.lookup("one").unwrap();
    assert_eq!(world.linked(), 1);
    // The linked objects are the entries of `one` and `two`, and the member of `one`.
    assert_eq!((value_of(&world.library, "one", 0), world.linked()), (1, 3));
    // The further objects are the member that `one` calls now, and the table that this needs.
    assert_eq!((value_of(&world.library, "one", 2), world.linked()), (301, 5));
    assert_eq!((world.library.lookup("one").unwrap(), world.linked()), (one, 5));
}

#[test]
fn a_variable_is_linked_when_it_is_asked_for_and_is_the_one_that_the_functions_use() {
    let (world, _) = world("it.a", members());
    assert_eq!((variable(&world.library, "table"), world.linked()), (100, 1));
    let writer = c(
        "-O1 -fPIC",
        "extern long table[]; void writer(void) { table[1] = 7; } long write(void) { writer(); return 0; }",
    );
    let _object = world.library.add_object("writer.o", writer).unwrap();
    value(&world.library, "write");
    assert_eq!(value_of(&world.library, "one", 1), 8);
}

#[test]
fn an_object_is_linked_when_one_of_its_functions_is_called() {
    let object = c(
        "-O1 -fPIC",
        "long counter = 40; long bump(void) { return ++counter; } static long s(void) { return 5; } long t(void) { return s(); }",
    );
    let (world, _) = world("it.o", object);
    world.library.lookup("bump").unwrap();
    world.library.lookup("t").unwrap();
    assert_eq!(world.linked(), 2);
    assert_eq!(
        (value(&world.library, "bump"), value(&world.library, "bump"), world.linked()),
        (41, 42, 3)
    );
    assert_eq!(
        (variable(&world.library, "counter"), value(&world.library, "t"), world.linked()),
        (42, 5, 3)
    );
}

#[test]
fn an_archive_without_an_index_is_read_and_works_alike() {
    let mut bytes = members().to_vec();
    // The first member is the index.
    let size: usize = std::str::from_utf8(&bytes[56..66]).unwrap().trim().parse().unwrap();
    bytes.drain(8..8 + 60 + size.next_multiple_of(2));
    let (world, _) = world("it.a", bytes.into());
    assert_eq!((value_of(&world.library, "one", 2), variable(&world.library, "table")), (301, 100));
}

#[test]
fn functions_without_calls_may_need_missing_symbols() {
    let (world, _) = world("it.a", members());
    assert_eq!(value_of(&world.library, "one", 0), 1);
    world.library.lookup("never").unwrap();
    extern "C" fn instead() -> i64 {
        -1
    }
    world.lazy.on_failure(|call| {
        assert_eq!(call.error.to_string(), "undefined symbols: nowhere (used by it.a(never.o))");
        instead as *const () as u64
    });
    assert_eq!(value(&world.library, "never"), -1);
    assert_eq!(failure(world.library.lookup("unheard")), "undefined symbols: unheard");
}

#[test]
fn hidden_functions_and_variables_of_other_members_are_found_and_not_seen_outside() {
    let bytes = archive(&[
        (
            "outer.o",
            c(
                "-O1 -fPIC",
                "#pragma GCC visibility push(hidden)
            long inner(void); extern long secret;
            #pragma GCC visibility pop
            long outer(void) { return inner() + secret; }",
            ),
        ),
        (
            "inner.o",
            c("-O1 -fPIC -fvisibility=hidden", "long secret = 5; long inner(void) { return 30; }"),
        ),
    ]);
    let (world, _) = world("it.a", bytes);
    assert_eq!(value(&world.library, "outer"), 35);
    assert_eq!(failure(world.library.lookup("inner")), "undefined symbols: inner");
    assert_eq!(failure(world.library.lookup("secret")), "undefined symbols: secret");
}

#[test]
fn the_librarys_own_definitions_come_first_for_members_too() {
    let (world, _) = world("it.a", members());
    let own = c("-O1 -fPIC", "long two(long n) { return -n; } long table[] = { 1 };");
    let _object = world.library.add_object("own.o", own).unwrap();
    assert_eq!((value_of(&world.library, "one", 2), variable(&world.library, "table")), (-1, 1));
}

#[test]
fn a_weak_reference_pulls_no_member_and_finds_an_objects_function() {
    let weak = "__attribute__((weak)) long two(long); long asks(void) { return two != 0; }";
    let (of_archive, _) = world("it.a", members());
    let _object = of_archive.library.add_object("weak.o", c("-O1 -fPIC", weak)).unwrap();
    assert_eq!(value(&of_archive.library, "asks"), 0);
    let (of_object, _) = world("it.o", c("-O1 -fPIC", "long two(long n) { return n; }"));
    let _object = of_object.library.add_object("weak.o", c("-O1 -fPIC", weak)).unwrap();
    assert_eq!(value(&of_object.library, "asks"), 1);
}

#[test]
fn exit_handlers_of_members_are_the_linked_codes_and_not_the_process() {
    let bytes = archive(&[(
        "it.o",
        c("-O1 -fPIC", "#include <stdlib.h>
            void trace(int); static void end(void) { trace(9); } long begin(void) { return atexit(end); }"),
    )]);
    let (world, file) = world("it.a", bytes);
    define_trace(&world.library);
    assert_eq!(value(&world.library, "begin"), 0);
    traced();
    support::deinitialize(file.implementations());
    assert_eq!(traced(), "9 ");
    note(0);
}

#[test]
fn constructors_of_an_object_run_when_its_implementations_are_initialized() {
    let object = cpp("-O1 -fPIC", "extern \"C\" long answer; static long compute() { return 42; } long answer = compute() + 0 * (long)&answer;
        extern \"C\" long get() { return answer; }");
    let (world, file) = world("it.o", object);
    initialize(file.implementations());
    assert_eq!(value(&world.library, "get"), 42);
}

#[test]
fn a_program_of_many_members_prints_the_same_as_with_the_system_linker() {
    let member = |n: usize| {
        let next = n + 1;
        let source = format!(
            "void trace(int); extern int d{next}; int f{next}(int); int d{n} = {n};
             int f{n}(int x) {{ trace(x + d{next}); return f{next}(x + d{n}) + 1; }}"
        );
        (format!("m{n}.o"), c("-O1 -fPIC", &source))
    };
    let mut members: Vec<_> = (0..12).map(member).collect();
    let last = "void trace(int); int d12 = 1; int f12(int x) { trace(x); return x; }";
    members.push(("last.o".to_owned(), c("-O1 -fPIC", last)));
    let start = "int f0(int); long start(void) { return f0(3); }
        __attribute__((constructor)) static void begin(void) { start(); }";
    let objects: Vec<Bytes> = members.iter().map(|(_, object)| object.clone()).collect();
    let named: Vec<(&str, Bytes)> =
        members.iter().map(|(name, object)| (name.as_str(), object.clone())).collect();
    let start = c("-O1 -fPIC", start);
    let (world, _) = world("it.a", archive(&named));
    define_trace(&world.library);
    let _start = world.library.add_object("start.o", start.clone()).unwrap();
    traced();
    initialize(&world.library);
    note(0);
    let system: Vec<Bytes> =
        [c("-O1", support::SYSTEM_TRACE), start].into_iter().chain(objects).collect();
    assert_eq!(traced(), system_linked(&system));
}

#[test]
fn files_of_other_kinds_are_refused() {
    let world = World::new(&[]);
    let refused = |bytes: &'static [u8]| match world.lazy.add_lazily(
        &world.library,
        "it",
        Bytes::from_static(bytes),
    ) {
        Err(error @ (Error::Malformed { .. } | Error::Unsupported { .. })) => error.to_string(),
        other => panic!("{:?}", other.map(drop)),
    };
    assert!(refused(b"").starts_with("it: "));
    assert!(refused(b"!<arch>\nnothing like a member").starts_with("it: "));
    assert!(refused(b"!<thin>\n").contains("thin archive"));
    assert_eq!(failure(world.library.lookup("anything")), "undefined symbols: anything");
    world.library.add_generator(ProcessSymbols);
}

#[test]
fn a_wrong_index_is_an_error_of_the_lookup() {
    let mut bytes = members().to_vec();
    // The place of the first symbol's member, big endian, follows the number of symbols.
    let places = 8 + 60 + 4;
    bytes[places..places + 4].copy_from_slice(&0x7fff_fff0_u32.to_be_bytes());
    let (world, _) = world("it.a", bytes.into());
    assert!(
        failure(world.library.lookup("one")).contains("the member at 0x7ffffff0, by its index")
    );
    assert_eq!(variable(&world.library, "table"), 100);
}

/// Returns an archive whose members trace their constructors, which call each other's functions.
fn constructed() -> Bytes {
    let member = |name: &str, body: &str| {
        let source = format!("void trace(int); static long ready; {body}");
        (format!("{name}.o"), c("-O1 -fPIC", &source))
    };
    let one = member(
        "one",
        "long two(void);
         __attribute__((constructor)) static void begin(void) { trace(1); trace(two()); ready = 10; }
         long one(void) { return ready; } long of_one(void) { return ready + 1; }",
    );
    let two = member(
        "two",
        "long of_one(void);
         __attribute__((constructor)) static void begin(void) { trace(2); ready = 20 + of_one(); }
         long two(void) { return ready; }",
    );
    archive(&[(&one.0, one.1.clone()), (&two.0, two.1.clone())])
}

#[test]
fn constructors_of_members_run_before_the_call_that_links_them_goes_on() {
    let (world, file) = world("it.a", constructed());
    define_trace(&world.library);
    // SAFETY: the sources are sound to run.
    unsafe { file.initialize(Default::default()) }.unwrap();
    traced();
    assert_eq!(value(&world.library, "one"), 10);
    // The first member's constructor calls the second member, whose constructor runs before, and
    // sees the first one unready.
    assert_eq!(traced(), "1 2 21 ");
    assert_eq!((value(&world.library, "two"), value(&world.library, "of_one")), (21, 11));
    assert_eq!(traced(), "");
}

#[test]
fn threads_that_call_first_wait_until_constructors_are_done() {
    let slow = c(
        "-O1 -fPIC",
        "#include <unistd.h>
         static long ready; __attribute__((constructor)) static void begin(void) { usleep(20000); ready = 5; }
         long slow(void) { return ready; } long also(void) { return ready; }",
    );
    let (world, file) = world("it.a", archive(&[("slow.o", slow)]));
    // SAFETY: the source is sound to run.
    unsafe { file.initialize(Default::default()) }.unwrap();
    let entries = ["slow", "also"].map(|name| world.library.lookup(name).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let entry = entries[thread % 2];
            scope.spawn(move || assert_eq!(support::call(entry), 5));
        }
    });
}

#[test]
fn cxx_members_share_inline_functions_their_statics_types_and_variables_of_threads() {
    let common = "
        #include <typeinfo>
        struct Base { virtual ~Base() {} virtual int number() const = 0; };
        struct Derived : Base { int number() const override { return 7; } };
        inline int &counter() { static int count = 100; return count; }
        template <typename T> T twice(T value) { return value + value; }
        extern thread_local int own;
        Base *make();
        void thrower(const Base &);
    ";
    let member =
        |name: &str, body: &str| (name.to_owned(), cpp("-O1 -fPIC", &format!("{common}\n{body}")));
    let members = [
        member("make.o", "Base *make() { counter()++; own += twice(10); return new Derived; }"),
        member("throw.o", "void thrower(const Base &b) { counter() += twice(5); throw Derived(dynamic_cast<const Derived &>(b)); }"),
        member("own.o", "thread_local int own = 1000;"),
        member(
            "start.o",
            "extern \"C\" long start() {
                Base *made = make();
                long result = typeid(*made) == typeid(Derived);
                try { thrower(*made); } catch (const Base &caught) { result += 10 * caught.number(); }
                delete made;
                return result + 1000 * counter() + 1000000 * own;
            }",
        ),
    ];
    let named: Vec<(&str, Bytes)> =
        members.iter().map(|(name, object)| (name.as_str(), object.clone())).collect();
    let (world, _file) = world("it.a", archive(&named));
    support::add_cpp_runtime(&world.library);
    // The sum contains 100, 1 of `make`, and 10 of `thrower`.
    assert_eq!(value(&world.library, "start"), 1_020_000_000 + 111_000 + 71);
}

#[test]
fn names_that_are_asked_for_together_have_their_entries_in_one_link() {
    let (world, _) = world("it.a", members());
    let wanted = ["one", "two", "in_table", "one", "never"]
        .map(|name| (name, longshore_jitlink::session::Lookup::Required));
    let found = world.library.lookup_all(&wanted).unwrap();
    assert_eq!((found[0], world.linked()), (found[3], 1));
}

#[test]
fn a_resolver_does_not_wait_for_a_thread_that_waits_for_its_link() {
    static LINKED: AtomicBool = AtomicBool::new(false);
    static CONSTRUCTING: AtomicBool = AtomicBool::new(false);
    extern "C" fn wait_for_the_link() {
        CONSTRUCTING.store(true, Ordering::Release);
        while !LINKED.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
    extern "C" fn none() -> i64 {
        -1
    }
    let first = "void wait_for_the_link(void); long second(void); static long ready;
        __attribute__((constructor)) static void begin(void) { wait_for_the_link(); ready = second(); }
        long first(void) { return ready; }";
    let bytes = archive(&[
        ("first.o", c("-O1 -fPIC", first)),
        ("second.o", c("-O1 -fPIC", "long second(void) { return 2; }")),
        ("third.o", c("-O1 -fPIC", "long third(void) { return 3; }")),
    ]);
    let (world, file) = world("it.a", bytes);
    let wait = wait_for_the_link as *const () as u64;
    world.library.define_absolute("wait_for_the_link", wait).unwrap();
    // SAFETY: the sources are sound to run.
    unsafe { file.initialize(Default::default()) }.unwrap();
    world.lazy.on_failure(|_| none as *const () as u64);
    let first = world.library.lookup("first").unwrap();
    let resolving = "long third(void);
        static long minus(void) { return -100; } static long plus(void) { return 100; }
        static void *resolve(void) { return third() < 0 ? minus : plus; }
        long chosen(void) __attribute__((ifunc(\"resolve\"))); long choose(void) { return chosen(); }";
    let _object = world.library.add_object("it.o", c("-O1 -fPIC", resolving)).unwrap();
    std::thread::scope(|scope| {
        // The thread holds the initializer lock, and needs the session after the other thread has
        // linked.
        let calls = scope.spawn(move || support::call(first));
        while !CONSTRUCTING.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        assert_eq!(value(&world.library, "choose"), -100);
        LINKED.store(true, Ordering::Release);
        assert_eq!(calls.join().unwrap(), 2);
    });
}

#[test]
fn damaged_archives_are_errors_or_keep_their_intact_members() {
    let bytes = members();
    let try_all = |bytes: Bytes| {
        let world = World::new(&[]);
        if world.lazy.add_lazily(&world.library, "it.a", bytes).is_ok() {
            for name in ["one", "two", "table", "never", "in_table"] {
                _ = world.library.lookup(name);
            }
        }
    };
    (0..bytes.len()).step_by(13).for_each(|size| try_all(bytes.slice(..size)));
    for place in (0..bytes.len()).step_by(11) {
        let mut damaged = bytes.to_vec();
        damaged[place] ^= 0x81;
        try_all(damaged.into());
    }
}
