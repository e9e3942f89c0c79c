//! Profiles of images that real compilers instrumented, read by the `llvm-profdata` of each
//! compiler's version. The tests skip and name missing compilers.

mod compilers;
mod files;
mod variants;
mod versions;
mod work_groups;

use compilers::{COMPILERS, Compiler, FORMS, Form, Instrumentation, output};
use longshore::{Device, FunctionCounters, Grid, Image, UnloadReport};
use longshore_conformance::TrustedImages;
use longshore_tests::world::{World, copy_into, host_plugin};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

/// A kernel whose loop has as many steps as its first argument, with rare steps among them, and a
/// destructor that counts too.
const SOURCE: &str = r"
typedef unsigned long u64;
volatile u64 sink;
__attribute__((noinline)) void step(u64 i) { sink = i; }
__attribute__((noinline)) void rare(u64 i) { sink = ~i; }
void count(void **args) {
    for (u64 i = 0; i < *(u64 *)args[0]; ++i)
        if (i % 100 == 7) rare(i); else step(i);
}
__attribute__((destructor)) void at_end(void) { step(1000); }
";
/// Number of steps, large enough for several threads to run the kernel at once.
const STEPS: u64 = 20_000;
const RARE: u64 = STEPS / 100;
const THREADS: u64 = 4;
const LAUNCHES: u64 = 25;

#[test]
fn counts_of_a_kernel_that_runs_on_several_queues_at_once_are_exact() {
    for compiler in COMPILERS.iter().filter(|compiler| compiler.is_there()) {
        for instrumentation in Instrumentation::BOTH {
            for form in FORMS {
                let counted = ProfiledImage::new(compiler, instrumentation, form, SOURCE);
                let what = &counted.what;
                let report = counted.run(1).pop().unwrap();
                let raw = std::fs::read(&counted.profile).unwrap();
                assert_eq!(raw[8], compiler.raw_version, "{what}: the raw version");
                let shown = counted.shown();
                let runs = THREADS * LAUNCHES;
                assert_eq!(shown["step"][0], runs * (STEPS - RARE) + 1, "{what}: {shown:?}");
                assert_eq!(shown["rare"][0], runs * RARE, "{what}: {shown:?}");
                assert_eq!(shown["at_end"][0], 1, "{what}: {shown:?}");
                let per_block = &shown["count"];
                let blocks = [runs, runs * STEPS, runs * RARE, runs * (STEPS - RARE)];
                assert!(per_block.iter().all(|count| blocks.contains(count)), "{what}: {shown:?}");
                assert!(per_block.contains(&(runs * RARE)), "{what}: {shown:?}");
                assert_eq!(by_name(report.counters().unwrap()), shown, "{what}: the report's");
            }
        }
    }
}

#[test]
fn the_profiles_of_two_loads_of_an_image_add_up() {
    for compiler in COMPILERS.iter().filter(|compiler| compiler.is_there()) {
        for form in [Form::Object, Form::SharedObject] {
            let counted = ProfiledImage::new(compiler, Instrumentation::Ir, form, SOURCE);
            counted.run(2);
            let shown = counted.shown();
            let steps = 2 * (THREADS * LAUNCHES * (STEPS - RARE) + 1);
            assert_eq!((shown["step"][0], shown["at_end"][0]), (steps, 2), "{}", counted.what);
        }
    }
}

#[test]
fn code_compiled_with_a_profile_is_other_code() {
    for compiler in COMPILERS.iter().filter(|compiler| compiler.is_there()) {
        for instrumentation in Instrumentation::BOTH {
            let counted = ProfiledImage::new(compiler, instrumentation, Form::Object, SOURCE);
            counted.run(1);
            let merged = counted.merged();
            let using = format!("{}={}", instrumentation.use_option(), merged.display());
            let strict = ["-Werror=profile-instr-out-of-date", "-Werror=profile-instr-unprofiled"];
            let with = counted.assembly(&[&[using.as_str()][..], &strict].concat());
            assert_ne!(with, counted.assembly(&[]), "{}", counted.what);
            let ir = counted.assembly(&[&using, "-emit-llvm"]);
            // The ratio of the branch to the rare step, in clang's scale, which adds one to each.
            let (rare, step) = (THREADS * LAUNCHES * RARE, THREADS * LAUNCHES * (STEPS - RARE));
            let weights = ir.lines().filter(|line| line.contains("branch_weights")).any(|line| {
                [0, 1]
                    .iter()
                    .any(|more| line.contains(&format!("i32 {}, i32 {}", rare + more, step + more)))
            });
            assert!(weights, "{}: {ir}", counted.what);
        }
    }
}

#[test]
fn an_image_that_has_llvms_runtime_is_read_as_well() {
    for compiler in COMPILERS.iter().filter(|compiler| compiler.is_there()) {
        for instrumentation in Instrumentation::BOTH {
            let form = Form::SharedObjectWithRuntime;
            if !compiler.has_runtime() {
                println!("{} has no profile runtime; it is left out", compiler.name());
                continue;
            }
            let counted = ProfiledImage::new(compiler, instrumentation, form, SOURCE);
            // The runtime of LLVM writes a file of its own.
            let files =
                [("LONGSHORE_PROFILE_FILE", "counted.profraw"), ("LLVM_PROFILE_FILE", "own")];
            run_in_a_process(&counted.world, &counted.image, &files);
            let shown = counted.shown();
            assert_eq!(shown["step"][0], STEPS - RARE + 1, "{}: {shown:?}", counted.what);
            assert!(counted.world.path().join("own").is_file(), "{}", counted.what);
        }
    }
}

/// An instrumented image, and the file of its profile.
struct ProfiledImage {
    what: String,
    compiler: &'static Compiler,
    world: World,
    image: PathBuf,
    profile: PathBuf,
}

impl ProfiledImage {
    fn new(
        compiler: &'static Compiler,
        instrumentation: Instrumentation,
        form: Form,
        source: &str,
    ) -> ProfiledImage {
        ProfiledImage::with_flags(compiler, instrumentation, form, source, &[])
    }

    /// Returns an image without the compiler's instrumentation.
    fn plain(compiler: &'static Compiler, form: Form, source: &str) -> ProfiledImage {
        let flags = form.flags(Instrumentation::FrontEnd);
        ProfiledImage::compiled(compiler, &flags, source, format!("{} {form:?}", compiler.name()))
    }

    fn with_flags(
        compiler: &'static Compiler,
        instrumentation: Instrumentation,
        form: Form,
        source: &str,
        flags: &[&str],
    ) -> ProfiledImage {
        let flags = [&compiler.exact(instrumentation)[..], &form.flags(instrumentation), flags];
        let what = format!("{} {instrumentation:?} {form:?}", compiler.name());
        ProfiledImage::compiled(compiler, &flags.concat(), source, what)
    }

    fn compiled(
        compiler: &'static Compiler,
        flags: &[&str],
        source: &str,
        what: String,
    ) -> ProfiledImage {
        let world = World::new();
        copy_into(&world, &host_plugin());
        let (input, image) = (world.path().join("counted.c"), world.path().join("counted.image"));
        std::fs::write(&input, source).unwrap();
        let mut clang = compiler.clang();
        clang.args(flags);
        output(clang.args(["-O2", "-g0"]).arg(&input).arg("-o").arg(&image));
        let profile = world.path().join("counted.profraw");
        ProfiledImage { what, compiler, world, image, profile }
    }

    /// Loads the image `loads` times, each time runs its kernel on several queues at once, and
    /// unloads it.
    fn run(&self, loads: usize) -> Vec<UnloadReport> {
        let environment = longshore::Environment::empty()
            .with("LONGSHORE_PROFILE_FILE", self.profile.as_os_str());
        let host = self.world.host().with_environment(environment).build().unwrap();
        let device = host.default_device().unwrap();
        (0..loads).map(|_| self.run_once(&device)).collect()
    }

    fn run_once(&self, device: &Device) -> UnloadReport {
        let program = device.load_trusted(Image::read(&self.image).unwrap());
        let program = program.unwrap_or_else(|error| panic!("{}: {error}", self.what));
        let count = program.kernel("count").unwrap();
        let start = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let queue = device.queue().unwrap();
                    start.wait();
                    for _ in 0..LAUNCHES {
                        // SAFETY: the kernel takes one u64.
                        unsafe { queue.launch(&count, Grid::default(), (STEPS,)).unwrap() };
                    }
                    queue.synchronize().unwrap();
                });
            }
        });
        drop(count);
        let report = program.unload().unwrap_or_else(|error| panic!("{}: {error}", self.what));
        assert_eq!(report.profile_file.as_deref(), Some(self.profile.as_path()), "{}", self.what);
        report
    }

    /// Returns the merged profile for `clang -fprofile-use`.
    fn merged(&self) -> PathBuf {
        let merged = self.world.path().join("counted.profdata");
        output(self.compiler.profdata().arg("merge").arg(&self.profile).arg("-o").arg(&merged));
        merged
    }

    /// Returns the counts of each function from `llvm-profdata`.
    fn shown(&self) -> BTreeMap<String, Vec<u64>> {
        let mut show = self.compiler.profdata();
        let show = show.args(["show", "--counts", "--all-functions"]).arg(self.merged());
        counts(&output(show))
    }

    /// Returns the compiler's assembly of the uninstrumented source.
    fn assembly(&self, flags: &[&str]) -> String {
        let (input, into) = (self.image.with_extension("c"), self.image.with_extension("s"));
        let mut clang = self.compiler.clang();
        clang.args(["-O2", "-fPIC", "-S"]).args(flags).arg(&input).arg("-o").arg(&into);
        output(&mut clang);
        std::fs::read_to_string(into).unwrap()
    }
}

/// Reads the output of `llvm-profdata show --counts --all-functions`. For functions of the front
/// end, the first count has a line of its own.
fn counts(shown: &str) -> BTreeMap<String, Vec<u64>> {
    let mut functions = BTreeMap::<String, Vec<u64>>::new();
    let mut current = None;
    for line in shown.lines() {
        let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '));
        if let Some(name) = name.and_then(|line| line.strip_suffix(':')) {
            current = Some(functions.entry(name.to_owned()).or_default());
        }
        let line = line.trim();
        let heads = ["Function count: ", "Block counts: ["];
        let numbers = heads.iter().find_map(|head| line.strip_prefix(head));
        if let (Some(counts), Some(numbers)) = (current.as_mut(), numbers) {
            let numbers = numbers.trim_end_matches(']').split(", ").filter(|text| !text.is_empty());
            counts.extend(numbers.map(|number| number.parse::<u64>().unwrap()));
        }
    }
    functions
}

fn by_name(functions: Vec<FunctionCounters>) -> BTreeMap<String, Vec<u64>> {
    functions.into_iter().map(|function| (function.name.unwrap(), function.counts)).collect()
}

/// Runs `longshore run` on an image, which the command unloads at its end. Returns the standard
/// error of the command.
fn run_in_a_process(world: &World, image: &Path, variables: &[(&str, &str)]) -> String {
    let mut run = Command::new(longshore_tests::world::command());
    run.arg("run").arg(image).args(["--kernel", "count", "--arg", &format!("u64={STEPS}")]);
    run.arg("--plugin").arg(world.path()).args(["--backend", "host"]);
    run.envs(variables.iter().copied()).current_dir(world.path());
    let ran = run.output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{run:?}: {said}");
    said
}
