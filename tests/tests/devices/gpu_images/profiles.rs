//! Profiles of images from clang.

use super::Setting;
use longshore::Grid;
use longshore_conformance::TrustedImages;
use longshore_tests::doubled;

pub(crate) const COUNTED: &str = "
LONGSHORE_GLOBAL volatile uint64_t total;
__attribute__((noinline)) void longshore_counted(uint64_t i) { if (i % 3 == 0) total += i; }
LONGSHORE_KERNEL(count, (uint64_t n)) {
  (void)longshore_self;
  for (uint64_t i = 0; i < n; i++) longshore_counted(i);
}
";

/// Options of clang 19 for GPUs in place of `-fprofile-generate`.
pub(crate) const INSTRUMENT: [&str; 6] = [
    "-Xclang",
    "-fprofile-instrument=llvm",
    "-mllvm",
    "-instrprof-atomic-counter-update-all",
    "-mllvm",
    "-disable-vp",
];

/// Checks the counts: `longshore_counted` is called 30 times, 10 times with a multiple of three.
pub(crate) fn counts_are_right(setting: &Setting<'_>, image: &[u8]) {
    let queue = setting.device.queue().unwrap();
    let program = setting.device.load_trusted(image).unwrap();
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
    // The compiler counts two of three places: the function and its two branches.
    assert!(counts == [10, 20] || counts == [10, 30] || counts == [20, 30], "{shown}");
}

fn numbers(list: &str) -> Vec<u64> {
    let list = list.trim_matches(['[', ']']);
    list.split(',').map(|number| number.trim().parse().expect("a number")).collect()
}
