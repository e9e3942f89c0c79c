//! Constructors, destructors and profiles that clang makes.

use super::{Check, Setting};
use longshore::Grid;
use longshore_tests::{cuda, doubled};

pub(super) const CHECKS: &[Check] = &[
    ("one destructor alone is run", one_destructor_is_run),
    ("constructors run by priority, in PTX and in cubins", constructors_run_by_priority),
    ("llvm-profdata reads the profile of PTX", the_profile_of_ptx_is_read),
    ("llvm-profdata reads the profile of a cubin", the_profile_of_a_cubin_is_read),
];

const COUNTED: &str = "
LONGSHORE_GLOBAL volatile uint64_t total;
__attribute__((noinline)) void longshore_counted(uint64_t i) { if (i % 3 == 0) total += i; }
LONGSHORE_KERNEL(count, (uint64_t n)) {
  (void)longshore_self;
  for (uint64_t i = 0; i < n; i++) longshore_counted(i);
}
";
/// What clang 19 has in place of `-fprofile-generate` for NVPTX.
const INSTRUMENT: [&str; 6] = [
    "-Xclang",
    "-fprofile-instrument=llvm",
    "-mllvm",
    "-instrprof-atomic-counter-update-all",
    "-mllvm",
    "-disable-vp",
];
const FOR_NVPTX: [&str; 2] = ["-mllvm", "-profile-correlate=binary"];

fn one_destructor_is_run(setting: &Setting<'_>) {
    const SOURCE: &str = "
LONGSHORE_GLOBAL uint64_t *volatile place;
LONGSHORE_KERNEL(remember, (uint64_t *p)) { place = p; }
__attribute__((destructor)) static void only(void) { *place = 77; }
";
    let Some(ptx) = setting.ptx(SOURCE, &[]) else { return };
    let cubin = cuda::assembled(&ptx, &setting.arch, &[]);
    for image in [Some(ptx), cubin].into_iter().flatten() {
        let queue = setting.device.queue().unwrap();
        let out = setting.device.buffer_of(&queue, &[0u64]).unwrap();
        let program = setting.device.load(&image[..]).unwrap();
        let remember = program.kernel("remember").unwrap();
        // SAFETY: `remember` keeps the pointer until the program is unloaded; `out` outlives that.
        unsafe { queue.launch_and_wait(&remember, Grid::default(), (&out,)).unwrap() };
        drop(remember);
        program.unload().unwrap();
        assert_eq!(out.to_vec(&queue).unwrap(), [77]);
    }
}

fn constructors_run_by_priority(setting: &Setting<'_>) {
    const SOURCE: &str = "
LONGSHORE_GLOBAL volatile uint64_t order;
static void add(uint64_t digit) { order = order * 10 + digit; }
__attribute__((constructor)) static void last(void) { add(4); }
__attribute__((constructor(300))) static void third(void) { add(3); }
__attribute__((constructor(101))) static void first(void) { add(1); }
__attribute__((constructor(102))) static void second(void) { add(2); }
LONGSHORE_KERNEL(nop, (void)) { (void)longshore_self; }
";
    let Some(ptx) = setting.ptx(SOURCE, &[]) else { return };
    let cubin = cuda::assembled(&ptx, &setting.arch, &[]);
    let object = cuda::assembled(&ptx, &setting.arch, &["-c"]);
    for image in [Some(ptx), cubin, object].into_iter().flatten() {
        let queue = setting.device.queue().unwrap();
        let program = setting.device.load(&image[..]).unwrap();
        assert_eq!(program.global("order").unwrap().read::<u64>(&queue).unwrap(), 1234);
        program.unload().unwrap();
    }
}

fn the_profile_of_ptx_is_read(setting: &Setting<'_>) {
    let Some(ptx) = instrumented(setting) else { return };
    counts_are_right(setting, &ptx);
}

fn the_profile_of_a_cubin_is_read(setting: &Setting<'_>) {
    let Some(ptx) = instrumented(setting) else { return };
    let Some(cubin) = cuda::assembled(&ptx, &setting.arch, &[]) else { return };
    counts_are_right(setting, &cubin);
}

/// PTX with counters, and the twin of what the driver gets: the backend shows it the profile.
fn instrumented(setting: &Setting<'_>) -> Option<Vec<u8>> {
    let source = setting.source(COUNTED);
    let options = [&INSTRUMENT[..], &FOR_NVPTX[..]].concat();
    let ptx = cuda::compiled_without_twin(&source, &setting.arch, &options)?;
    doubled::twin(&ptx, &source, &INSTRUMENT);
    let text = String::from_utf8(ptx.clone()).expect("PTX is text");
    let is_of_profile = |line: &&str| {
        line.starts_with(".global")
            && ["__profc_", "__profd_", "__llvm_prf_nm"].iter().any(|name| line.contains(name))
    };
    let shown = |line: &str| match is_of_profile(&line) {
        true => format!(".visible {line}\n"),
        false => format!("{line}\n"),
    };
    let shown: String = text.lines().map(shown).collect();
    doubled::twin(shown.as_bytes(), &source, &INSTRUMENT);
    Some(ptx)
}

/// `longshore_counted` is called 30 times, 10 of them with a multiple of three.
fn counts_are_right(setting: &Setting<'_>, image: &[u8]) {
    let queue = setting.device.queue().unwrap();
    let program = setting.device.load(image).unwrap();
    let count = program.kernel("count").unwrap();
    // SAFETY: `count` takes a number.
    unsafe { queue.launch_and_wait(&count, Grid::default(), (30u64,)).unwrap() };
    drop(count);
    program.unload().unwrap();
    let Some(shown) = doubled::profile_shown(&setting.folder.join("profile.profraw")) else {
        return;
    };
    let (_, ours) = shown.split_once("longshore_counted:\n").unwrap_or_else(|| panic!("{shown}"));
    let counts = ours.lines().find_map(|line| line.trim().strip_prefix("Block counts: "));
    let mut counts: Vec<u64> = numbers(counts.unwrap_or_else(|| panic!("{shown}")));
    counts.sort_unstable();
    // One of the two branches has a counter.
    assert!(counts == [10, 20] || counts == [10, 30] || counts == [20, 30], "{shown}");
}

fn numbers(list: &str) -> Vec<u64> {
    let list = list.trim_matches(['[', ']']);
    list.split(',').map(|number| number.trim().parse().expect("a number")).collect()
}
