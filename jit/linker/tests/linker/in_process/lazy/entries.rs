//! Entries, and the time at which their implementations are linked.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use longshore_jitlink::graph::{Linkage, Scope};
use longshore_jitlink::lazy::{
    LazyReexports, LinkedRedirectables, LinkedTrampolines, Listener, Reexport, ThisProcess,
};
use longshore_jitlink::session::Lookup;

use super::World;
use crate::in_process::support::{
    add_cpp_runtime, archive, c, call, cpp, define_trace, failure, initialize, session, traced,
    value, value_of,
};

#[test]
fn the_first_call_links_the_implementation_and_later_calls_go_there() {
    let world = World::new(&[c(
        "-O1 -fPIC",
        "long twice(long n) { static long calls; return 2 * n + 1000 * calls++; }",
    )]);
    let _entries = world.add(&["twice"]);
    assert_eq!(world.linked(), 0);
    let entry = world.library.lookup("e_twice").unwrap();
    let emitted = world.linked();
    assert_eq!(value_of(&world.library, "e_twice", 3), 6);
    assert_eq!(world.linked(), emitted + 1);
    assert_eq!(value_of(&world.library, "e_twice", 3), 1006);
    assert_eq!((world.linked(), world.library.lookup("e_twice").unwrap()), (emitted + 1, entry));
    assert_ne!(world.implementations.lookup("twice").unwrap(), entry);
}

#[test]
fn entries_of_one_addition_are_one_link_at_the_first_look_up() {
    let world = World::new(&[]);
    let names: Vec<String> = (0..1000).map(|index| format!("f{index}")).collect();
    let _entries = world.try_add(names.iter().map(|name| Reexport::new(name, "missing"))).unwrap();
    assert_eq!(world.linked(), 0);
    let wanted: Vec<_> = names.iter().map(|name| (name.as_str(), Lookup::Required)).collect();
    let mut addresses: Vec<_> = world.library.lookup_all(&wanted).unwrap();
    assert_eq!(world.linked(), 1);
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), names.len());
}

#[test]
fn code_that_is_linked_calls_entries_as_any_function() {
    let world = World::new(&[c("-O1 -fPIC", "long implementation(void) { return 41; }")]);
    let _entries = world.try_add([Reexport::new("entry", "implementation")]).unwrap();
    let caller = c("-O1 -fPIC", "long entry(void); long caller(void) { return entry() + 1; }");
    let _caller = world.library.add_object("caller.o", caller).unwrap();
    let caller = world.library.lookup("caller").unwrap();
    let before = world.linked();
    assert_eq!((call(caller), world.linked()), (42, before + 1));
    assert_eq!((call(caller), world.linked()), (42, before + 1));
}

#[test]
fn an_implementation_that_is_called_first_calls_other_entries_first() {
    let chain = |index: i32| {
        let next = index + 1;
        let source = format!(
            "long e_f{next}(long); long f{index}(long n) {{ return n ? e_f{next}(n - 1) + 1 : {index}; }}"
        );
        c("-O1 -fPIC", &source)
    };
    let objects: Vec<_> = (0..20).map(chain).collect();
    let world = World::new(&objects);
    world.implementations.set_link_order(&[&world.library]);
    let names: Vec<String> = (0..20).map(|index| format!("f{index}")).collect();
    let _entries = world.add(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(value_of(&world.library, "e_f0", 10), 20);
    // Eleven functions, and the entries as one more object.
    assert_eq!(world.linked(), 12);
}

#[test]
fn an_entry_that_calls_itself_is_redirected_once_it_is_known() {
    let source = "long e_sum(long); long sum(long n) { return n ? n + e_sum(n - 1) : 0; }";
    let world = World::new(&[c("-O1 -fPIC", source)]);
    world.implementations.set_link_order(&[&world.library]);
    let _entries = world.add(&["sum"]);
    assert_eq!(value_of(&world.library, "e_sum", 100), 5050);
}

#[test]
fn a_constructor_calls_entries_first() {
    let world = World::new(&[c("-O1 -fPIC", "void trace(int); void noting(void) { trace(7); }")]);
    define_trace(&world.implementations);
    let _entries = world.add(&["noting"]);
    let source =
        "void e_noting(void); __attribute__((constructor)) static void begin(void) { e_noting(); }";
    let _object = world.library.add_object("begin.o", c("-O1 -fPIC", source)).unwrap();
    traced();
    initialize(&world.library);
    assert_eq!(traced(), "7 ");
}

#[test]
fn a_resolver_that_calls_an_entry_during_its_link_gets_an_error() {
    let world = World::new(&[c("-O1 -fPIC", "long slow(void) { return 5; }")]);
    let _entries = world.add(&["slow"]);
    let failures: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = Arc::clone(&failures);
    extern "C" fn none() -> i64 {
        -1
    }
    world.lazy.on_failure(move |call| {
        list.lock().unwrap().push(call.to_string());
        none as *const () as u64
    });
    let source = "long e_slow(void);
        static long minus(void) { return -100; }
        static long plus(void) { return 100; }
        static void *resolve(void) { return e_slow() < 0 ? minus : plus; }
        long chosen(void) __attribute__((ifunc(\"resolve\")));
        long choose(void) { return chosen(); }";
    let _object = world.library.add_object("chosen.o", c("-O1 -fPIC", source)).unwrap();
    assert_eq!(value(&world.library, "choose"), -100);
    let failures = std::mem::take(&mut *failures.lock().unwrap());
    assert_eq!(
        failures,
        [
            "e_slow was called, and its implementation slow is not available: a function that is called while objects are linked: \
          it needs code that is not linked yet, and cannot wait for the link under way; look it up before"
        ]
    );
    assert_eq!(value(&world.library, "e_slow"), 5);
    // A call of an entry that has been called before needs no link.
    let again = source.replace("choose", "again").replace("chosen", "chosen_again");
    let _object = world.library.add_object("again.o", c("-O1 -fPIC", &again)).unwrap();
    assert_eq!(value(&world.library, "again"), 100);
}

#[test]
fn an_exception_of_an_implementation_is_its_callers_at_the_first_call_and_later() {
    let thrower = cpp(
        "-O1 -fPIC",
        "extern \"C\" long thrower(long n, double x) { if (x > 2) throw n; return 0; }",
    );
    let catcher = cpp(
        "-O1 -fPIC",
        "extern \"C\" long e_thrower(long, double);
         static long unwound;
         struct Counts { ~Counts() { unwound++; } };
         extern \"C\" long catcher(long n) {
             try { Counts counts; return e_thrower(n, 2.5); } catch (long caught) { return caught * 10 + unwound; }
         }",
    );
    let world = World::new(&[thrower]);
    let _entries = world.add(&["thrower"]);
    let _catcher = world.library.add_object("catcher.o", catcher).unwrap();
    add_cpp_runtime(&world.library);
    add_cpp_runtime(&world.implementations);
    assert_eq!(value_of(&world.library, "catcher", 4), 41);
    assert_eq!(value_of(&world.library, "catcher", 5), 52);
}

#[test]
fn weak_entries_give_way_and_hidden_ones_are_the_librarys() {
    let world = World::new(&[c("-O1 -fPIC", "long one(void) { return 1; }")]);
    let reexport = |name: &str| Reexport::new(name, "one");
    let weak = Reexport { linkage: Linkage::Weak, ..reexport("weak") };
    let hidden = Reexport { scope: Scope::Hidden, ..reexport("hidden") };
    let _entries = world.try_add([weak, hidden]).unwrap();
    let strong = c(
        "-O1 -fPIC",
        "long weak(void) { return 2; } __attribute__((visibility(\"hidden\"))) long hidden(void);
        long inner(void) { return hidden(); }",
    );
    let _object = world.library.add_object("strong.o", strong).unwrap();
    assert_eq!((value(&world.library, "weak"), value(&world.library, "inner")), (2, 1));
    let other = world.session.create_library("other");
    other.set_link_order(&[&world.library]);
    assert_eq!(failure(other.lookup("hidden")), "undefined symbols: hidden");
}

#[test]
fn an_invalid_entry_is_refused_and_nothing_has_changed() {
    let world = World::new(&[]);
    let refused = |reexports: Vec<Reexport>| failure(world.try_add(reexports));
    let good = || Reexport::new("good", "it");
    let data = Reexport { callable: false, ..Reexport::new("table", "it") };
    assert_eq!(
        refused(vec![good(), data]),
        "lazy entry table: it is not a function: only a call can be noticed; define an alias, or look it up where it is"
    );
    let local = Reexport { scope: Scope::Local, ..Reexport::new("local", "it") };
    assert_eq!(
        refused(vec![good(), local]),
        "lazy entry local: it would not be visible; expected an entry that is hidden at most"
    );
    assert_eq!(
        failure(world.lazy.add(&world.library, &world.library, [Reexport::new("same", "same")])),
        "lazy entry same: it would be its own implementation; expected one of another name or in another library"
    );
    world.library.define_absolute("known", 1).unwrap();
    assert!(
        refused(vec![good(), Reexport::new("known", "it")])
            .starts_with("symbol known is defined in")
    );
    assert_eq!(
        refused(vec![good(), Reexport::new("with\0zero", "it")]),
        "lazy entries, batch 2: the name of symbol \"with\\0zero\" has a zero in it, expected a name without one"
    );
    let _entries = world.try_add([good()]).unwrap();
}

#[test]
fn a_session_that_executes_nothing_has_no_entries() {
    let nowhere = longshore_jitlink::Session::builder().build_without_execution().unwrap();
    assert_eq!(
        failure(LazyReexports::for_session(&nowhere).map(drop)),
        "lazy entries: nothing executes the session's code, so they are never called"
    );
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, what: &str, names: &mut dyn Iterator<Item = &str>) {
        let names: Vec<&str> = names.collect();
        self.0.lock().unwrap().push(format!("{what} {}", names.join(" ")));
    }
}

impl Listener for Notes {
    fn reexports_created(&self, names: &mut dyn Iterator<Item = &str>) {
        self.note("created", names);
    }

    fn reexport_called(&self, name: &str) {
        self.note("called", &mut [name].into_iter());
    }

    fn reexports_removed(&self, names: &mut dyn Iterator<Item = &str>) {
        self.note("removed", names);
    }
}

#[test]
fn a_listener_is_informed_of_entries_and_of_first_calls() {
    let notes = Arc::new(Notes::default());
    let listener: Arc<dyn Listener> = Arc::clone(&notes) as _;
    let symbols = LinkedRedirectables::new(ThisProcess);
    let lazy = LazyReexports::new(LinkedTrampolines::new(), symbols, Some(listener)).unwrap();
    let object = c("-O1 -fPIC", "long a(void) { return 1; } long b(void) { return 2; }");
    let world = World::with(session(), lazy, &[object]);
    let entries = world.add(&["a", "b"]);
    assert_eq!(value(&world.library, "e_b") + value(&world.library, "e_b"), 4);
    entries.remove(longshore_jitlink::session::Removal::Unused).unwrap();
    let notes = std::mem::take(&mut *notes.0.lock().unwrap());
    assert_eq!(notes, ["created e_a e_b", "called e_b", "removed e_a e_b"]);
}

#[test]
fn entries_that_a_link_wanted_that_failed_are_the_same_when_it_is_tried_again() {
    let notes = Arc::new(Notes::default());
    let listener: Arc<dyn Listener> = Arc::clone(&notes) as _;
    let symbols = LinkedRedirectables::new(ThisProcess);
    let lazy = LazyReexports::new(LinkedTrampolines::new(), symbols, Some(listener)).unwrap();
    let world = World::with(session(), lazy, &[]);
    world.lazy.on_failure(|_| instead as *const () as u64);
    let needs =
        "long two(void); long nowhere(void); long needs(void) { return two() + nowhere(); }";
    let members = archive(&[
        ("needs.o", c("-O1 -fPIC", needs)),
        ("two.o", c("-O1 -fPIC", "long two(void) { return 2; }")),
    ]);
    let _file = world.lazy.add_lazily(&world.library, "it.a", members).unwrap();
    assert_eq!([0; 3].map(|_| value(&world.library, "needs")), [-7; 3]);
    let nowhere = c("-O1 -fPIC", "long nowhere(void) { return 40; }");
    let _object = world.library.add_object("nowhere.o", nowhere).unwrap();
    assert_eq!([0; 3].map(|_| value(&world.library, "needs")), [42; 3]);
    let notes = std::mem::take(&mut *notes.0.lock().unwrap());
    let created: Vec<_> = notes.iter().filter(|note| note.starts_with("created")).collect();
    assert_eq!(created, ["created needs", "created two"]);
}

extern "C" fn instead() -> i64 {
    -7
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Returns the return addresses of the callers.
fn backtrace() -> Vec<u64> {
    extern "C" fn each(context: *mut c_void, addresses: *mut c_void) -> i32 {
        let addresses = addresses.cast::<Vec<u64>>();
        // SAFETY: the arguments are the unwinder's context, and the vector below.
        unsafe { (*addresses).push(_Unwind_GetIP(context) as u64) };
        0
    }
    let mut addresses = Vec::new();
    // SAFETY: the function takes the vector.
    unsafe { _Unwind_Backtrace(each, (&raw mut addresses).cast()) };
    addresses
}

#[test]
fn a_backtrace_of_what_a_first_call_does_leads_to_the_caller() {
    let world = World::new(&[]);
    let _entries = world.add(&["missing"]);
    let caller = c(
        "-O1 -fPIC",
        "long e_missing(long, double); long caller(void) { return e_missing(1, 2.0) + 1; } long end(void) { return 0; }",
    );
    let _caller = world.library.add_object("caller.o", caller).unwrap();
    let [caller, end] = ["caller", "end"].map(|name| world.library.lookup(name).unwrap());
    let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
    let frames = Arc::clone(&seen);
    extern "C" fn none() -> i64 {
        0
    }
    world.lazy.on_failure(move |_| {
        *frames.lock().unwrap() = backtrace();
        none as *const () as u64
    });
    assert_eq!(value(&world.library, "caller"), 1);
    let seen = seen.lock().unwrap();
    let of_caller = seen.iter().position(|address| (caller + 1..end).contains(address));
    // The backtrace continues to this test and its callers.
    assert!(of_caller.is_some_and(|at| seen.len() > at + 3), "{seen:x?}, {caller:x}..{end:x}");
}

#[test]
fn entries_work_in_a_session_that_takes_out_what_nothing_reaches() {
    // SAFETY: the object is a program of this test.
    let session = unsafe { longshore_jitlink::Session::builder().with_pruning().build() }.unwrap();
    let lazy = LazyReexports::for_session(&session).unwrap();
    let object =
        c("-O1 -fPIC -ffunction-sections", "long a(void) { return 1; } long b(void) { return 2; }");
    let world = World::with(session, lazy, &[object]);
    let _entries = world.add(&["a", "a_again", "b"]);
    assert_eq!(value(&world.library, "e_a"), 1);
    // The object is linked, and `b` was pruned from it.
    world.lazy.on_failure(|call| {
        assert_eq!(call.error.to_string(), "undefined symbols: b");
        extern "C" fn none() -> i64 {
            -1
        }
        none as *const () as u64
    });
    assert_eq!(value(&world.library, "e_b"), -1);
}

#[test]
fn a_listener_may_link_the_next_function() {
    /// A listener that looks up the known callees of a function (speculation).
    struct Speculates(Mutex<Option<longshore_jitlink::Library>>);
    impl Listener for Speculates {
        fn reexport_called(&self, name: &str) {
            let library = self.0.lock().unwrap().clone().unwrap();
            if name == "e_first" {
                std::thread::spawn(move || library.lookup("next").unwrap()).join().unwrap();
            }
        }
    }
    let listener = Arc::new(Speculates(Mutex::default()));
    let notified: Arc<dyn Listener> = Arc::clone(&listener) as _;
    let symbols = LinkedRedirectables::new(ThisProcess);
    let lazy = LazyReexports::new(LinkedTrampolines::new(), symbols, Some(notified)).unwrap();
    let objects = ["long first(void) { return 1; }", "long next(void) { return 2; }"]
        .map(|source| c("-O1 -fPIC", source));
    let world = World::with(session(), lazy, &objects);
    *listener.0.lock().unwrap() = Some(world.implementations.clone());
    let _entries = world.add(&["first", "next"]);
    assert_eq!(value(&world.library, "e_first"), 1);
    let linked = world.linked();
    assert_eq!((value(&world.library, "e_next"), world.linked()), (2, linked));
}
