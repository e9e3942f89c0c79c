//! Profiles of images that a real compiler instrumented, read by the real `llvm-profdata`.

use longshore::Grid;
use longshore_tests::world::{World, copy_into, host_plugin};
use std::path::Path;
use std::process::Command;

/// A kernel whose loop runs as often as its first argument says, and a destructor that counts too.
const SOURCE: &str = r"
typedef unsigned long u64;
volatile u64 sink;
__attribute__((noinline)) void step(u64 i) { sink += i; }
void count(void **args) { for (u64 i = 0; i < *(u64 *)args[0]; ++i) step(i); }
__attribute__((destructor)) void at_end(void) { step(1000); }
";

#[test]
fn the_profile_has_the_counts_that_the_destructors_left() {
    // 41 steps of the kernel and one of the destructor; the loop's body ran 41 times.
    let Some(shown) = profile_of_loads(1) else { return };
    assert_eq!(counts(&shown, "step"), "Function count: 42");
    assert_eq!(counts(&shown, "count"), "Function count: 1");
    assert!(shown.contains("Block counts: [41]"), "{shown}");
    assert_eq!(counts(&shown, "at_end"), "Function count: 1");
}

#[test]
fn the_profiles_of_two_loads_of_an_image_add_up() {
    let Some(shown) = profile_of_loads(2) else { return };
    assert_eq!(counts(&shown, "step"), "Function count: 84");
    assert_eq!(counts(&shown, "at_end"), "Function count: 2");
}

/// What `llvm-profdata` shows of an image that was loaded, run and unloaded some times; nothing
/// where that is not installed.
fn profile_of_loads(loads: usize) -> Option<String> {
    let Some(profdata) = tool("llvm-profdata-19") else {
        println!("llvm-profdata-19 is not installed; nothing was tried");
        return None;
    };
    let world = World::new();
    copy_into(&world, &host_plugin());
    let image = world.path().join("counted.so");
    compile(world.path(), &image);
    let profile = world.path().join("counted.profraw");
    let environment =
        longshore::Environment::empty().with("LONGSHORE_PROFILE_FILE", profile.as_os_str());
    let host = world.host().environment(environment).build().unwrap();
    let device = host.default_device().unwrap();
    for _ in 0..loads {
        let program = device.load(longshore::Image::read(&image).unwrap()).unwrap();
        let queue = device.queue().unwrap();
        let count = program.kernel("count").unwrap();
        // SAFETY: the kernel takes one u64.
        unsafe { queue.launch(&count, Grid::default(), (41u64,)).unwrap() };
        drop(count);
        let report = program.unload().unwrap();
        assert_eq!(report.profile_file.as_deref(), Some(profile.as_path()));
    }
    let merged = world.path().join("counted.profdata");
    output(Command::new(profdata).arg("merge").arg(&profile).arg("-o").arg(&merged));
    let show = ["show", "--counts", "--all-functions"];
    Some(output(Command::new(profdata).args(show).arg(&merged)))
}

/// The line with a function's count.
fn counts<'a>(shown: &'a str, function: &str) -> &'a str {
    let head = format!("  {function}:");
    let mut lines = shown.lines().skip_while(|line| *line != head);
    let found = lines.find(|line| line.trim().starts_with("Function count"));
    found.unwrap_or_else(|| panic!("no counts of {function} in\n{shown}")).trim()
}

fn compile(folder: &Path, image: &Path) {
    let source = folder.join("counted.c");
    std::fs::write(&source, SOURCE).unwrap();
    let mut clang = Command::new("clang-19");
    clang.args(["-O1", "-fPIC", "-shared", "-nostdlib", "-fprofile-instr-generate"]);
    // No runtime is linked in: Longshore reads the counters itself.
    clang.arg("-noprofilelib");
    output(clang.arg(&source).arg("-o").arg(image));
}

fn tool(name: &'static str) -> Option<&'static str> {
    Command::new(name).arg("--version").output().is_ok().then_some(name)
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}
