//! Lazily loaded images, in this process and in one of their own: the time at which members are
//! linked, and equal behaviour otherwise.

use longshore::{
    Buffer, Device, Environment, ErrorCode, Grid, Image, Program, Queue, Result, SymbolKind,
};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs};
use longshore_tests::world::{World, command, copy_into, executor, host_plugin};
use std::path::PathBuf;
use std::process::Command;

/// A folder with the plugin of the CPU and an archive made there.
struct Site(World);

impl Site {
    fn new() -> Site {
        let world = World::new();
        copy_into(&world, &host_plugin());
        Site(world)
    }

    /// Returns the CPU's device in this process, or in a process of its own.
    fn device(&self, is_isolated: bool) -> Device {
        let builder = self.0.host();
        let builder = match is_isolated {
            true => builder.with_isolated_backends("all").with_executor(executor()),
            false => builder,
        };
        builder.build().unwrap().default_device().unwrap()
    }

    /// Returns the object file that `cc` compiles from a source.
    fn object(&self, name: &str, source: &str) -> PathBuf {
        let file = self.0.path().join(name).with_extension("c");
        std::fs::write(&file, source).unwrap();
        let object = file.with_extension("o");
        run(Command::new("cc")
            .args(["-c", "-fPIC", "-O1", "-w"])
            .arg(&file)
            .arg("-o")
            .arg(&object));
        object
    }

    /// Returns an archive of one object for each source.
    fn archive(&self, sources: &[&str]) -> Image {
        let objects: Vec<_> = (0..)
            .zip(sources)
            .map(|(n, source)| self.object(&format!("part{n}"), source))
            .collect();
        self.archive_of(&objects)
    }

    fn archive_of(&self, objects: &[PathBuf]) -> Image {
        let archive = self.0.path().join("image.a");
        _ = std::fs::remove_file(&archive);
        run(Command::new("ar").arg("rcs").arg(&archive).args(objects));
        Image::read(&archive).unwrap()
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a test with a device in this process, and with a device in another process.
fn here_and_isolated(test: impl Fn(&Site, &Device)) {
    for is_isolated in [false, true] {
        println!("isolated: {is_isolated}");
        let site = Site::new();
        test(&site, &site.device(is_isolated));
    }
}

/// Launches a kernel that takes a pointer and a number, and waits for it.
fn launch(queue: &Queue, program: &Program, kernel: &str, out: &Buffer<i32>, n: i32) -> Result<()> {
    let kernel = program.kernel(kernel)?;
    // SAFETY: all kernels here take these arguments; only `UNUSED` has others.
    unsafe { queue.launch(&kernel, Grid::default(), (out, n))? };
    queue.synchronize()
}

const SQUARE: &str = "void square(void **a) { **(int **)a[0] = *(int *)a[1] * *(int *)a[1]; }";
/// Source of a member that cannot be linked.
const BROKEN: &str = "void nowhere(void); int beside = 9;
    void broken(void **a) { nowhere(); } void also_broken(void **a) { }";
/// Source of a kernel that calls functions of another member, depending on its argument.
const CALLER: &str = "void broken(void **a); int twice(int); void square(void **a);
    void caller(void **a) { int n = *(int *)a[1]; if (n < 0) broken(a); **(int **)a[0] = twice(n); }
    void passes(void **a) { square(a); }";
const TWICE: &str = "int twice(int n) { return 2 * n; }";

#[test]
fn a_member_is_linked_when_a_kernel_of_it_is_first_launched() {
    here_and_isolated(|site, device| {
        let image = site.archive(&[SQUARE, BROKEN, CALLER, TWICE]);
        let whole = device.load_trusted(image.clone()).err().unwrap();
        assert_eq!(whole.code(), ErrorCode::LinkFailure);

        let (program, queue) =
            (device.load_trusted_lazily(image).unwrap(), device.queue().unwrap());
        let out = device.buffer_of(&queue, &[0]).unwrap();
        for name in ["broken", "also_broken"] {
            let error = launch(&queue, &program, name, &out, 1).err().unwrap();
            assert_eq!(error.code(), whole.code(), "{error}");
            for part in ["nowhere", "LONGSHORE_HOST_SYMBOLS", name] {
                assert!(error.message().contains(part), "{error}");
            }
        }
        launch(&queue, &program, "square", &out, 9).unwrap();
        assert_eq!(out.to_vec(&queue).unwrap(), [81]);
        program.unload().unwrap();
    });
}

#[test]
fn functions_of_another_member_are_linked_at_their_call() {
    here_and_isolated(|site, device| {
        let image = site.archive(&[SQUARE, BROKEN, CALLER, TWICE]);
        let (program, queue) =
            (device.load_trusted_lazily(image).unwrap(), device.queue().unwrap());
        let out = device.buffer_of(&queue, &[0]).unwrap();
        for n in [4, -1, 5, -1, -2, 6] {
            let went = launch(&queue, &program, "caller", &out, n);
            if n > 0 {
                went.unwrap();
                assert_eq!(out.to_vec(&queue).unwrap(), [2 * n]);
                continue;
            }
            let error = went.err().unwrap();
            assert_eq!(error.code(), ErrorCode::LinkFailure, "{error}");
            for part in ["kernel 'caller'", "nowhere"] {
                assert!(error.message().contains(part), "{error}");
            }
        }
        launch(&queue, &program, "passes", &out, 7).unwrap();
        assert_eq!(out.to_vec(&queue).unwrap(), [49]);
    });
}

#[test]
fn items_and_helpers_of_the_pool_call_unlinked_functions() {
    const HELPER: &str = "int twice(int n); int twice(int n) { return 2 * n; }";
    const GOOD: &str = r#"
        #include "longshore_device.h"
        int twice(int); int missing(int);
        LONGSHORE_KERNEL(loops, (int *out, int bad)) {
            uint32_t i = (uint32_t)longshore_global_id(0);
            out[i] = bad && i == 77 ? missing(1) : twice((int)i);
        }
        LONGSHORE_KERNEL(waits, (int *out, int bad)) {
            uint32_t i = (uint32_t)longshore_global_id(0);
            longshore_barrier();
            out[i] = bad && i == 77 ? missing(1) : twice((int)i);
        }"#;
    const BAD: &str =
        "int nowhere(void); int missing(int); int missing(int n) { return n + nowhere(); }";
    const GROUPS: u32 = 64;
    let Some(clang) = clangs().pop() else { return };
    let (site, workshop) = (Site::new(), Workshop::new());
    let parts = [("good", GOOD), ("helper", HELPER), ("bad", BAD)]
        .map(|(name, source)| workshop.object(clang, name, source, &["-O2"]));
    let image = site.archive_of(&parts);
    let device = workshop.device(Environment::empty().with("LONGSHORE_HOST_THREADS", "4"));
    for name in ["loops", "waits"] {
        let (program, queue) =
            (device.load_trusted_lazily(image.clone()).unwrap(), device.queue().unwrap());
        let out = device.buffer::<i32>(&queue, GROUPS as usize * 64).unwrap();
        let kernel = program.kernel(name).unwrap();
        let grid = || Grid::linear(GROUPS, 64);
        let launch = |bad: i32| {
            // SAFETY: the kernel takes these arguments, and writes one number for each item.
            unsafe { queue.launch(&kernel, grid(), (&out, bad))? };
            queue.synchronize()
        };
        let error = launch(1).err().unwrap();
        assert_eq!(error.code(), ErrorCode::LinkFailure, "{error}");
        assert!(error.message().contains("nowhere"), "{error}");
        launch(0).unwrap();
        let doubled: Vec<_> = (0..GROUPS as i32 * 64).map(|n| 2 * n).collect();
        assert_eq!(out.to_vec(&queue).unwrap(), doubled, "{name}");
    }
}

#[test]
fn a_first_call_for_which_an_item_has_left_no_stack_is_an_overflow_of_its_stack() {
    // An item that waits for others has a stack of its own, on any thread.
    const DEEP: &str = r#"
        #include "longshore_device.h"
        int twice(int);
        static __attribute__((noinline)) int go(volatile char *above, int n, int calls) {
            volatile char here[200]; here[0] = above[0];
            if (n > 0) return go(here, n - 1, calls) + here[0];
            return calls ? twice(n) : 0;
        }
        LONGSHORE_KERNEL(goes, (int *out, int n, int calls)) {
            volatile char c = 1;
            longshore_barrier();
            out[0] = go(&c, n, calls);
        }"#;
    let Some(clang) = clangs().pop() else { return };
    let (site, workshop) = (Site::new(), Workshop::new());
    let parts = [("deep", DEEP), ("twice", "int twice(int n); int twice(int n) { return 2 * n; }")]
        .map(|(name, source)| workshop.object(clang, name, source, &["-O1"]));
    let device = workshop.device(Environment::empty());
    let program = device.load_trusted_lazily(site.archive_of(&parts)).unwrap();
    let queue = device.queue().unwrap();
    let out = device.buffer::<i32>(&queue, 1).unwrap();
    let kernel = program.kernel("goes").unwrap();
    let overflows = |depth: i32, calls: i32| {
        // SAFETY: the kernel takes these arguments, and writes one number.
        let launched = unsafe { queue.launch(&kernel, Grid::linear(1, 2), (&out, depth, calls)) };
        match launched.and_then(|()| queue.synchronize()) {
            Ok(()) => false,
            Err(error) => {
                assert!(error.message().contains("overflowed"), "{depth}: {error}");
                true
            }
        }
    };
    let (mut fits, mut too_deep) = (1, 1 << 16);
    while too_deep - fits > 1 {
        let middle = fits + (too_deep - fits) / 2;
        *(if overflows(middle, 0) { &mut too_deep } else { &mut fits }) = middle;
    }
    // Each round leaves a few hundred bytes less of the stack.
    let failed = (0..400).take_while(|less| overflows(fits - less, 1)).count();
    assert!((100..400).contains(&failed), "{failed} of 400 depths were too much");
    assert!(!overflows(fits, 1), "what is linked needs no more stack");
}

/// Source of a log of calls, whose address `begin` sets.
const LOG: &str = "static int own, *log = &own; static int at;
    void note(int what) { log[at++] = what; }
    void begin(void **a) { int *old = log; log = *(int **)a[0]; for (int n = 0; n < at; n++) log[n] = old[n]; }";
fn noting(name: &str, number: i32) -> String {
    format!(
        "void note(int);
        __attribute__((constructor(300))) static void late(void) {{ note({number} + 1); }}
        __attribute__((constructor(200))) static void early(void) {{ note({number}); }}
        __attribute__((destructor)) static void end(void) {{ note({number} + 9); }}
        void {name}(void **a) {{ note(*(int *)a[1]); }}"
    )
}

#[test]
fn constructors_of_a_member_run_once_before_its_first_function_and_its_destructors_when_it_is_unloaded()
 {
    here_and_isolated(|site, device| {
        let [one, two, three] =
            [("one", 10), ("two", 20), ("three", 30)].map(|(n, i)| noting(n, i));
        let image = site.archive(&[LOG, &one, &two, &three]);
        let (program, queue) =
            (device.load_trusted_lazily(image).unwrap(), device.queue().unwrap());
        let out = device.buffer_of(&queue, &[0; 32]).unwrap();
        launch(&queue, &program, "begin", &out, 0).unwrap();
        for (name, n) in [("two", 1), ("one", 2), ("two", 3), ("one", 4)] {
            launch(&queue, &program, name, &out, n).unwrap();
        }
        program.unload().unwrap();
        let expected = [20, 21, 1, 10, 11, 2, 3, 4, 19, 29, 0];
        assert_eq!(out.to_vec(&queue).unwrap()[..expected.len()], expected);
    });
}

#[test]
fn a_single_object_is_linked_when_it_is_loaded_if_it_has_constructors_and_else_when_it_is_called() {
    here_and_isolated(|site, device| {
        let load = |source: &str| {
            device.load_trusted_lazily(Image::read(site.object("alone", source)).unwrap())
        };
        let queue = device.queue().unwrap();
        let out = device.buffer_of(&queue, &[0]).unwrap();
        let constructs = "static volatile int at = 1; __attribute__((constructor)) static void c(void) { at = 5; }";
        let good = format!("{constructs} void k(void **a) {{ **(int **)a[0] = at; }}");
        launch(&queue, &load(&good).unwrap(), "k", &out, 0).unwrap();
        assert_eq!(out.to_vec(&queue).unwrap(), [5]);
        let uses = "void nowhere(void); void k(void **a) { nowhere(); }";
        let error = load(&format!("{constructs} {uses}")).err().unwrap();
        assert_eq!(error.code(), ErrorCode::LinkFailure, "{error}");
        let error = launch(&queue, &load(uses).unwrap(), "k", &out, 0).err().unwrap();
        assert_eq!(error.code(), ErrorCode::LinkFailure, "{error}");
    });
}

#[test]
fn symbols_are_found_and_listed_without_a_link_and_a_global_is_linked_when_it_is_asked_for() {
    here_and_isolated(|site, device| {
        let globals =
            "int four = 4; __thread int own; __attribute__((visibility(\"hidden\"))) int hidden;
            unsigned __longshore_arguments_square[] = {8, 4};";
        let program = device.load_trusted_lazily(site.archive(&[SQUARE, BROKEN, globals])).unwrap();
        let all = program.symbols().unwrap();
        let all: Vec<_> = all.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        let (kernel, global) = (SymbolKind::Kernel, SymbolKind::Global);
        let expected = [
            ("also_broken", kernel),
            ("beside", global),
            ("broken", kernel),
            ("four", global),
            ("square", kernel),
        ];
        assert_eq!(all, expected);
        let code = |error: longshore::Error| error.code();
        assert_eq!(program.kernel("broken").unwrap().name(), "broken");
        assert_eq!(program.kernel("four").err().map(code), Some(ErrorCode::SymbolKind));
        assert_eq!(program.global("square").err().map(code), Some(ErrorCode::SymbolKind));
        assert_eq!(program.global("hidden").err().map(code), Some(ErrorCode::NotFound));
        assert_eq!(program.global("beside").err().map(code), Some(ErrorCode::LinkFailure));
        let sizes = program.kernel("square").unwrap().attributes().argument_sizes.clone();
        assert_eq!(sizes, Some(vec![8, 4]));
        let queue = device.queue().unwrap();
        assert_eq!(program.global("four").unwrap().read::<i32>(&queue).unwrap(), 4);
        program.unload().unwrap();
    });
}

#[test]
fn an_image_of_which_nothing_was_called_is_unloaded() {
    here_and_isolated(|site, device| {
        let report =
            device.load_trusted_lazily(site.archive(&[SQUARE, BROKEN])).unwrap().unload().unwrap();
        assert!(report.profile.is_empty() && report.tracker.is_none());
        assert!(device.clone().close().unwrap().leaks.is_empty());
    });
}

#[test]
fn the_profile_has_the_counters_of_what_was_linked() {
    let Some(clang) = clangs().pop() else { return };
    let (site, workshop) = (Site::new(), Workshop::new());
    let parts = [("square", SQUARE), ("caller", CALLER), ("twice", TWICE), ("broken", BROKEN)].map(
        |(name, source)| {
            workshop.object(
                clang,
                name,
                source,
                &["-O1", "-fprofile-instr-generate", "-Wno-everything"],
            )
        },
    );
    let image = site.archive_of(&parts);
    let profile = site.0.path().join("lazy.profraw");
    let environment = Environment::empty().with("LONGSHORE_PROFILE_FILE", profile.as_os_str());
    let host = site.0.host().with_environment(environment).build().unwrap();
    let device = host.default_device().unwrap();
    let (program, queue) = (device.load_trusted_lazily(image).unwrap(), device.queue().unwrap());
    let out = device.buffer_of(&queue, &[0]).unwrap();
    (1..=3).for_each(|n| launch(&queue, &program, "caller", &out, n).unwrap());
    // The failed link has left nothing behind.
    launch(&queue, &program, "broken", &out, 1).unwrap_err();
    let mut counted: Vec<_> =
        program.unload().unwrap().counters().unwrap().into_iter().map(|f| f.counts).collect();
    counted.sort();
    println!("{counted:?}");
    let sums: Vec<u64> = counted.iter().filter_map(|counters| counters.first().copied()).collect();
    assert_eq!(sums, [0, 3, 3], "caller and twice are called, passes is not: {counted:?}");
}

#[test]
fn a_damaged_member_is_the_error_of_what_needs_it() {
    here_and_isolated(|site, device| {
        let _ = site.archive(&[SQUARE, TWICE, CALLER]);
        let mut bytes = std::fs::read(site.0.path().join("image.a")).unwrap();
        // The second member's header names a wrong place of its sections.
        let members: Vec<_> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\x7fELF")).collect();
        bytes[members[1] + 0x28..members[1] + 0x30].fill(0xff);
        let whole = device.load_trusted(bytes.clone()).err().unwrap();
        assert_eq!(whole.code(), ErrorCode::InvalidBinary);
        let (program, queue) =
            (device.load_trusted_lazily(bytes).unwrap(), device.queue().unwrap());
        let out = device.buffer_of(&queue, &[0]).unwrap();
        let error = launch(&queue, &program, "caller", &out, 1).err().unwrap();
        assert_eq!(error.code(), whole.code(), "{error}");
        launch(&queue, &program, "square", &out, 3).unwrap();
        assert_eq!(out.to_vec(&queue).unwrap(), [9]);
    });
}

#[test]
fn many_threads_launch_first_and_constructors_run_once() {
    const THREADS: usize = 8;
    here_and_isolated(|site, device| {
        let counts = "static int runs; __attribute__((constructor)) static void c(void) { runs++; }
            void k(void **a) { (*(int **)a[0])[*(int *)a[1]] = runs; }";
        let image = site.archive(&[counts, SQUARE]);
        for _ in 0..50 {
            let program = device.load_trusted_lazily(image.clone()).unwrap();
            let queue = device.queue().unwrap();
            let out = device.buffer_of(&queue, &[0; THREADS]).unwrap();
            std::thread::scope(|scope| {
                for n in 0..THREADS as i32 {
                    let (program, out) = (&program, &out);
                    scope.spawn(move || {
                        launch(&device.queue().unwrap(), program, "k", out, n).unwrap();
                    });
                }
            });
            assert_eq!(out.to_vec(&queue).unwrap(), [1; THREADS]);
        }
    });
}

#[test]
fn the_command_runs_a_kernel_of_an_image_that_cannot_be_loaded_whole() {
    let site = Site::new();
    site.archive(&[SQUARE, BROKEN]);
    let run = |lazily: &[&str]| {
        let mut run = Command::new(command());
        run.env("LONGSHORE_PLUGIN_PATH", site.0.path()).env("LONGSHORE_BACKEND", "host").arg("run");
        run.arg(site.0.path().join("image.a")).args([
            "-k",
            "square",
            "-a",
            "out:i32[1]",
            "-a",
            "i32=6",
        ]);
        run.args(lazily).output().unwrap()
    };
    let (whole, lazily) = (run(&[]), run(&["--lazy"]));
    assert!(!whole.status.success());
    let said = String::from_utf8_lossy(&lazily.stdout);
    assert!(lazily.status.success() && said.contains("36"), "{lazily:?}");
}
