//! Lazy re-exports of code that an executor runs: the first call is a call back to the linker in
//! this process.

#![cfg(all(feature = "jitlink", target_os = "linux", target_arch = "x86_64"))]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use longshore_executor::controller::{ExecutorProcess, Spawn};
use longshore_jitlink::lazy::{
    LazyReexports, LazyTracker, LinkedRedirectables, LinkedTrampolines, Listener, ProcessWriter,
    Reexport,
};
use longshore_jitlink::process::TargetProcess;
use longshore_jitlink::session::{Generated, MainArguments, ProcessSymbols, Removal, Request};
use longshore_jitlink::{Error, Library, Session};

/// An executor, and a session for it.
struct World {
    session: Session,
    library: Library,
    implementations: Library,
    lazy: LazyReexports,
}

impl World {
    fn new(shares_memory: bool, implementations: &str) -> Self {
        Self::reported(shares_memory, implementations, None)
    }

    fn reported(
        shares_memory: bool,
        implementations: &str,
        listener: Option<Arc<dyn Listener>>,
    ) -> Self {
        let spawn =
            Spawn::new(env!("CARGO_BIN_EXE_longshore-executor")).with_shared_memory(shares_memory);
        let process: Arc<dyn TargetProcess> = ExecutorProcess::spawn(&spawn).unwrap();
        // SAFETY: the objects belong to these tests, and are sound to run in the executor.
        let session =
            unsafe { Session::builder().with_process(Arc::clone(&process)).build() }.unwrap();
        let lazy = match listener {
            None => LazyReexports::for_session(&session),
            listener => {
                let trampolines = LinkedTrampolines::for_process(Arc::clone(&process)).unwrap();
                LazyReexports::new(
                    trampolines,
                    LinkedRedirectables::new(ProcessWriter(process)),
                    listener,
                )
            }
        }
        .unwrap();
        let world = Self {
            library: session.create_library("program"),
            implementations: session.create_library("program.impl"),
            session,
            lazy,
        };
        world.library.add_generator(ProcessSymbols);
        world.implementations.add_generator(ProcessSymbols);
        let _object = world.implementations.add_object("impl.o", c(implementations)).unwrap();
        world
    }

    fn add(&self, names: &[&str]) -> LazyTracker {
        let entries = names.iter().map(|name| Reexport::new(format!("e_{name}"), *name));
        self.lazy.add(&self.library, &self.implementations, entries).unwrap()
    }

    /// Returns the result of a program's `main`.
    fn run(&self, program: &str) -> Result<i32, Error> {
        let _program = self.library.add_object("program.o", c(program))?;
        let main = self.library.lookup("main")?;
        // SAFETY: the symbol is the program's main function.
        unsafe { self.library.run_main(main, MainArguments::default()) }
    }
}

fn c(source: &str) -> bytes::Bytes {
    let directory = tempfile::tempdir().unwrap();
    let object = directory.path().join("it.o");
    let mut command = Command::new("gcc");
    command.args(["-x", "c", "-O1", "-fPIC", "-c", "-", "-o"]).arg(&object);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    std::fs::read(object).unwrap().into()
}

fn archive(members: &[(&str, &str)]) -> bytes::Bytes {
    let directory = tempfile::tempdir().unwrap();
    for (name, source) in members {
        std::fs::write(directory.path().join(name), c(source)).unwrap();
    }
    let names = members.iter().map(|(name, _)| name);
    let mut ar = Command::new("ar");
    let status = ar.args(["rc", "it.a"]).args(names).current_dir(directory.path()).status();
    assert!(status.unwrap().success());
    std::fs::read(directory.path().join("it.a")).unwrap().into()
}

/// Runs a test with shared memory, and with messages alone.
fn both_ways(test: impl Fn(bool)) {
    [true, false].into_iter().for_each(test);
}

#[test]
fn a_first_call_arrives_with_its_arguments_and_later_ones_send_no_request() {
    let implementation = "struct big { long n[4]; double x; };
        struct big mix(long a, double x, long b, double y, long c, double z, long d, double u, long e, double v, long f, long g)
        { static int calls; calls++; return (struct big){ { a + b, c + d, e + f, g + calls }, x + y + z + u + v }; }";
    let program = "struct big { long n[4]; double x; };
        struct big e_mix(long, double, long, double, long, double, long, double, long, double, long, long);
        int main(void) {
            for (int n = 1; n <= 3; n++) {
                struct big b = e_mix(1, .5, 2, .25, 3, .125, 4, 1, 5, 2, 6, 7);
                if (b.n[0] != 3 || b.n[1] != 7 || b.n[2] != 11 || b.n[3] != 7 + n || b.x != 3.875) return n;
            }
            return 42;
        }";
    both_ways(|shares| {
        let world = World::new(shares, implementation);
        let _entries = world.add(&["mix"]);
        world.library.lookup("e_mix").unwrap();
        let linked = world.session.times().objects;
        assert_eq!(world.run(program).unwrap(), 42);
        // The program, and the implementation once.
        assert_eq!(world.session.times().objects, linked + 2);
    });
}

const ENTRIES: usize = 250;

/// A program of 64 threads that make the first call of each entry at the same time, with integer,
/// floating-point and stack arguments. It returns the number of wrong results.
const FIRST_CALLERS: &str = "#include <pthread.h>
    typedef double function(long, double, long, long, long, long, long, long, double);
    extern function *const functions[];
    static pthread_barrier_t barrier;
    static void *run(void *thread) {
        long a = (long)thread, wrong = 0; double x = a / 4.0;
        for (int n = 0; n < COUNT; n++) {
            pthread_barrier_wait(&barrier);
            wrong += functions[n](a, x, 2, 3, 4, 5, 6, 7, 8.0) != a * 1000000 + 706 + x * 8.0;
        }
        return (void *)wrong;
    }
    int main(void) {
        pthread_t threads[64]; long wrong = 0; void *result;
        pthread_barrier_init(&barrier, 0, 64);
        for (long n = 0; n < 64; n++) pthread_create(&threads[n], 0, run, (void *)n);
        for (long n = 0; n < 64; n++) { pthread_join(threads[n], &result); wrong += (long)result; }
        return wrong;
    }";

#[test]
fn sixty_four_threads_call_entries_first_and_each_is_made_once() {
    let object =
        c("double NAME(long a, double x, long b, long c, long d, long e, long f, long g, double y)
         { return a * 1000000 + g * 100 + f + x * y; }");
    let names: Vec<String> = (0..ENTRIES).map(|n| format!("F{n:03}")).collect();
    let declared: String = names.iter().map(|name| format!("function e_{name};")).collect();
    let listed: String = names.iter().map(|name| format!("e_{name},")).collect();
    let count = format!("enum {{ COUNT = {ENTRIES} }};\n");
    let program =
        format!("{count}{FIRST_CALLERS} {declared} function *const functions[] = {{ {listed} }};");
    both_ways(|shares| {
        let world = World::new(shares, "");
        let (object, made) = (object.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&made);
        // Makes an object for each requested function, as a compiler would.
        world.implementations.add_generator(move |requests: &[Request<'_>]| {
            let functions = requests.iter().filter(|request| request.name.starts_with('F'));
            let make = |request: &Request<'_>| {
                counted.fetch_add(1, Ordering::Relaxed);
                Generated::Object {
                    name: request.name.to_owned(),
                    bytes: renamed(&object, request.name),
                }
            };
            Ok(functions.map(make).collect())
        });
        let entries = world.add(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(world.run(&program).unwrap(), 0);
        assert_eq!(made.load(Ordering::Relaxed), ENTRIES);
        assert!(matches!(entries.remove(Removal::Unused), Err(Error::InUse { .. })));
    });
}

/// Returns the object with the name of its function, of 4 bytes, replaced.
fn renamed(object: &[u8], name: &str) -> bytes::Bytes {
    let mut object = object.to_vec();
    let places: Vec<usize> =
        object.windows(4).enumerate().filter(|(_, w)| w == b"NAME").map(|(at, _)| at).collect();
    for place in places {
        object[place..place + 4].copy_from_slice(name.as_bytes());
    }
    object.into()
}

#[test]
fn a_call_that_cannot_go_on_ends_the_executor_and_not_the_linker() {
    both_ways(|shares| {
        let world = World::new(shares, "");
        let _entries = world.add(&["missing"]);
        let error =
            world.run("int e_missing(void); int main(void) { return e_missing(); }").unwrap_err();
        assert!(matches!(error, Error::ProcessGone { .. }), "{error}");
    });
}

#[test]
fn a_handler_gives_an_address_of_the_executor_also_to_a_resolver_that_a_link_waits_for() {
    let implementations = "int late(void) { return 5; } int instead(void) { return -1; }";
    let program = "int e_late(void);
        static int minus(void) { return 100; } static int plus(void) { return 200; }
        static void *resolve(void) { return e_late() < 0 ? minus : plus; }
        int chosen(void) __attribute__((ifunc(\"resolve\")));
        int main(void) { return chosen() + e_late(); }";
    both_ways(|shares| {
        let world = World::new(shares, implementations);
        let _entries = world.add(&["late"]);
        let instead = world.implementations.lookup("instead").unwrap();
        world.lazy.on_failure(move |_| instead);
        assert_eq!(world.run(program).unwrap(), 105);
    });
}

#[test]
fn members_of_an_archive_are_linked_and_constructed_when_they_are_called() {
    let member =
        "int constructed; __attribute__((constructor)) static void begin(void) { constructed = 7; }
        int get(void) { return constructed; }";
    both_ways(|shares| {
        let world = World::new(shares, "");
        let file = world.lazy.add_lazily(&world.library, "it.o", c(member)).unwrap();
        // SAFETY: the source is sound to run.
        unsafe { file.initialize(MainArguments::default()) }.unwrap();
        assert_eq!(world.run("int get(void); int main(void) { return get(); }").unwrap(), 7);
    });
}

#[test]
fn constructors_may_make_first_calls_on_either_side() {
    let object = "long member(void), late(void); static long ready;
        __attribute__((constructor)) static void begin(void) { ready = member(); }
        int get(void) { return ready; }
        int get_late(void) { return late() + late(); }";
    let member = "long other(void); static long ready;
        __attribute__((constructor)) static void begin(void) { ready = other() + 10; }
        long member(void) { return ready; }";
    let late = "long member(void), last(void); static __thread long of_thread;
        __attribute__((constructor)) static void begin(void) { of_thread = member() + last(); }
        long late(void) { return of_thread; }";
    let archive = archive(&[
        ("member.o", member),
        ("other.o", "long other(void) { return 5; }"),
        ("late.o", late),
        ("last.o", "long last(void) { return 100; }"),
    ]);
    both_ways(|shares| {
        let world = World::new(shares, "");
        let addition = world.lazy.lazily(&world.library, "it").object("it.o", c(object)).unwrap();
        let files = addition.archive("it.a", archive.clone()).unwrap().add().unwrap();
        // SAFETY: the sources are sound to run.
        unsafe { files.initialize(MainArguments::default()) }.unwrap();
        files.link("other").unwrap();
        let program =
            "int get(void), get_late(void); int main(void) { return get() + get_late(); }";
        assert_eq!(world.run(program).unwrap(), 15 + 2 * 115);
    });
}

#[test]
fn a_call_that_waits_goes_on_when_the_entries_are_gone_and_writes_nothing_there() {
    /// A listener that holds calls until they may go on.
    #[derive(Default)]
    struct Gate(AtomicBool, AtomicBool);
    fn wait_for(flag: &AtomicBool) {
        while !flag.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
    impl Listener for Gate {
        fn reexport_called(&self, _: &str) {
            self.0.store(true, Ordering::Release);
            wait_for(&self.1);
        }
    }
    both_ways(|shares| {
        let gate = Arc::new(Gate::default());
        let listener: Arc<dyn Listener> = Arc::clone(&gate) as _;
        let world = World::reported(shares, "int it(void) { return 3; }", Some(listener));
        let entries = world.add(&["it"]);
        let entry = world.library.lookup("e_it").unwrap();
        std::thread::scope(|scope| {
            let (library, opened) = (&world.library, &gate.1);
            // SAFETY: the implementation may be called as a main function.
            let call =
                scope.spawn(move || unsafe { library.run_main(entry, MainArguments::default()) });
            wait_for(&gate.0);
            entries.remove(Removal::Unused).unwrap();
            opened.store(true, Ordering::Release);
            assert_eq!(call.join().unwrap().unwrap(), 3);
        });
        let again = world.add(&["it"]);
        assert_eq!(
            world.run("int e_it(void); int main(void) { return e_it() + e_it(); }").unwrap(),
            6
        );
        drop(again);
    });
}
