//! Relocatable objects and archives as images for a program: the whole suite, profiles for the real
//! `llvm-profdata`, settings, and many lives.

use longshore::{Acceptance, Device, Environment, ErrorCode, Grid, Image};
use longshore_conformance::TrustedImages;
use longshore_conformance::{Filter, Fixtures, Outcome, Setup};
use longshore_tests::world::{World, copy_into, host_plugin, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the header that gives the suite's kernels LLVM's host form.
const HOST_FORM: &str = "conformance/fixtures/host";

fn device(world: &World, environment: Environment) -> Device {
    copy_into(world, &host_plugin());
    world.host().with_environment(environment).build().unwrap().default_device().unwrap()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Compiles a source in the folder to an object beside it.
fn object(compiler: &str, folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, source).unwrap();
    let object = file.with_extension("o");
    run(Command::new(compiler).args(flags).arg("-c").arg(file).arg("-o").arg(&object));
    object
}

fn archive(folder: &Path, objects: &[PathBuf]) -> PathBuf {
    let archive = folder.join("image.a");
    run(Command::new("ar").arg("rcs").arg(&archive).args(objects));
    archive
}

/// Compiles the suite's images for the CPU to relocatable objects. `include` is the folder of the
/// device header, or of its replacement in the suite.
fn relocatable_fixtures(compiler: &str, include: &str, folder: &Path) -> Fixtures {
    let sources = std::fs::read_dir(root().join("conformance/fixtures")).unwrap();
    let sources = sources.map(|source| source.unwrap().path());
    for source in sources.filter(|source| source.extension().is_some_and(|name| name == "c")) {
        let object = folder.join(source.file_stem().unwrap()).with_extension("o");
        let mut compile = Command::new(compiler);
        compile.args(["-O2", "-fPIC", "-c", "-I"]).arg(root().join(include));
        run(compile.arg("-o").arg(object).arg(source));
    }
    Fixtures::built_in().with_folder(folder).unwrap()
}

fn the_suite_passes(fixtures: Fixtures) {
    let environment = Environment::empty().with("LONGSHORE_HOST_DEVICES", "2");
    let setup =
        Setup::new().with_environment(environment).with_plugin(host_plugin()).with_backends("host");
    let setup = setup.with_fixtures(fixtures);
    let device = setup.devices().unwrap().remove(0);
    let mut failed = Vec::new();
    let report = setup.run_all(&device, &Filter::all(), |behaviour, outcome| {
        if let Outcome::Failed(what) = outcome {
            failed.push(format!("{behaviour}: {what}"));
        }
    });
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(report.passed() > 50, "{} behaviours", report.passed());
}

#[test]
fn the_suite_passes_with_relocatable_images() {
    let folder = tempfile::tempdir().unwrap();
    the_suite_passes(relocatable_fixtures("cc", HOST_FORM, folder.path()));
}

#[test]
fn the_suite_passes_with_work_group_kernels() {
    if !is_installed("clang-19") {
        println!("clang-19 is not installed; nothing was tried");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    the_suite_passes(relocatable_fixtures("clang-19", "include", folder.path()));
}

/// A definition in both members; the linker keeps one copy.
const BOTH: &str = r"
typedef unsigned long u64;
extern volatile u64 sink;
inline __attribute__((noinline)) void both(u64 i) { sink += i; }
";
const STEPS: &str = r#"
extern "C" __attribute__((noinline)) void step(u64 i) { both(i); }
extern "C" __attribute__((destructor)) void at_end(void) { step(1000); }
"#;
const COUNT: &str = r#"
volatile u64 sink;
extern "C" void step(u64 i);
void (*volatile indirect)(u64) = step;
extern "C" void count(void **args) {
    for (u64 i = 0; i < *(u64 *)args[0]; ++i) { indirect(i); both(i); }
}
"#;

#[test]
fn the_profile_of_an_archive_counts_in_all_of_its_members() {
    if !is_installed("clang++-19") || !is_installed("llvm-profdata-19") {
        println!("clang++-19 and llvm-profdata-19 are not installed; nothing was tried");
        return;
    }
    for generate in ["-fprofile-instr-generate", "-fprofile-generate"] {
        for loads in [1, 2] {
            let shown = profile_of_loads(generate, loads);
            let expect = |function: &str, count: usize| {
                let head = format!("  {function}:");
                let mut lines = shown.lines().skip_while(|line| *line != head);
                let is_count = |line: &&str| {
                    line.contains("Function count") || line.contains("Block counts: [")
                };
                let found =
                    lines.find(is_count).unwrap_or_else(|| panic!("no {function}: {shown}"));
                let number = format!("{}", count * loads);
                let is_there = found.split([' ', ',', '[', ']']).any(|word| word == number);
                assert!(is_there, "{generate}, {loads} loads, {function}: {found}");
            };
            expect("step", 42);
            expect("at_end", 1);
            expect("_Z4bothm", 42 + 41);
        }
    }
}

/// Returns the output of `llvm-profdata` for an archive that was loaded, run and unloaded `loads`
/// times.
fn profile_of_loads(generate: &str, loads: usize) -> String {
    let world = World::new();
    let flags = ["-O1", "-fPIC", generate];
    let parts = [("steps.cc", STEPS), ("count.cc", COUNT)].map(|(name, source)| {
        object("clang++-19", world.path(), name, &[BOTH, source].concat(), &flags)
    });
    let image = archive(world.path(), &parts);
    let profile = world.path().join("counted.profraw");
    let environment = Environment::empty().with("LONGSHORE_PROFILE_FILE", profile.as_os_str());
    let device = device(&world, environment);
    for _ in 0..loads {
        let program = device.load_trusted(Image::read(&image).unwrap()).unwrap();
        let (queue, count) = (device.queue().unwrap(), program.kernel("count").unwrap());
        // SAFETY: the kernel takes one u64.
        unsafe { queue.launch(&count, Grid::default(), (41u64,)).unwrap() };
        drop(count);
        let report = program.unload().unwrap();
        assert_eq!(report.profile_file.as_deref(), Some(profile.as_path()));
    }
    let merged = world.path().join("counted.profdata");
    run(Command::new("llvm-profdata-19").arg("merge").arg(&profile).arg("-o").arg(&merged));
    let show = ["show", "--counts", "--all-functions"];
    run(Command::new("llvm-profdata-19").args(show).arg(&merged))
}

#[test]
fn the_user_allows_names_of_the_process_with_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        "#include <stdlib.h>\nvoid k(void **a) { *(int *)*(void **)a[0] = getenv(\"PATH\") != 0; }";
    let image = std::fs::read(object("cc", folder.path(), "asks.c", source, &["-fPIC"])).unwrap();
    let (closed, open) = (World::new(), World::new());
    let refused = device(&closed, Environment::empty()).load_trusted(&image).err().unwrap();
    assert_eq!(refused.code(), ErrorCode::LinkFailure);
    assert!(refused.message().contains("getenv"), "{refused}");
    assert!(refused.message().contains("LONGSHORE_HOST_SYMBOLS"), "{refused}");

    let environment = Environment::empty().with("LONGSHORE_HOST_SYMBOLS", "getenv");
    let device = device(&open, environment);
    let (program, queue) = (device.load_trusted(&image).unwrap(), device.queue().unwrap());
    let out = device.buffer_of(&queue, &[7i32]).unwrap();
    let kernel = program.kernel("k").unwrap();
    // SAFETY: the kernel takes a pointer to an int.
    unsafe { queue.launch(&kernel, Grid::default(), (&out,)).unwrap() };
    assert_eq!(out.to_vec(&queue).unwrap(), [1]);
}

#[test]
fn images_of_other_kinds_are_recognised_before_they_are_loaded() {
    let world = World::new();
    let device = device(&world, Environment::empty());
    let path = object("cc", world.path(), "plain.c", "void k(void **a) {}", &["-fPIC"]);
    let bytes = std::fs::read(&path).unwrap();
    let whole = std::fs::read(archive(world.path(), &[path])).unwrap();
    for image in [&bytes, &whole] {
        assert_eq!(device.accepts(image).unwrap(), Acceptance::Accepted);
    }
    assert_eq!(Image::from(&bytes).format().name(), "elf-o");
    assert_eq!(Image::from(&whole).format().name(), "archive");
    let mut foreign = bytes.clone();
    foreign[18..20].copy_from_slice(&243u16.to_le_bytes());
    for image in [&foreign[..], b"!<arch>\n", b"BC\xc0\xde"] {
        assert_ne!(device.accepts(image).unwrap(), Acceptance::Accepted);
        assert_eq!(device.load_trusted(image).err().unwrap().code(), ErrorCode::InvalidBinary);
    }
}

#[test]
fn a_thousand_rounds_of_load_launch_unload_leave_nothing_behind() {
    const ROUNDS: usize = 1000;
    let world = World::new();
    let device = device(&world, Environment::empty());
    let fixtures = relocatable_fixtures("cc", HOST_FORM, world.path());
    let image = fixtures.image(&device, "basic").unwrap().unwrap();
    assert_eq!(Image::from(&image[..]).format().name(), "elf-o");
    (0..ROUNDS / 5).for_each(|_| round(&device, &image));
    let before = mappings();
    (0..ROUNDS).for_each(|_| round(&device, &image));
    // Other tests map memory meanwhile. A leak of one mapping in each round is a thousand mappings.
    assert!(mappings() <= before + 64, "{} mappings, {before} before", mappings());
    assert!(device.close().unwrap().leaks.is_empty());
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

fn round(device: &Device, image: &[u8]) {
    let (queue, program) = (device.queue().unwrap(), device.load_trusted(image).unwrap());
    let out = device.buffer::<u64>(&queue, 1).unwrap();
    let (bump, read) = (program.kernel("bump").unwrap(), program.kernel("read_counter").unwrap());
    // SAFETY: `bump` takes no arguments, `read_counter` a pointer to a u64.
    unsafe {
        queue.launch(&bump, Grid::default(), ()).unwrap();
        queue.launch(&read, Grid::default(), (&out,)).unwrap();
    }
    assert_eq!(out.to_vec(&queue).unwrap(), [6]);
    drop((bump, read));
    program.unload().unwrap();
}
