//! The kernels of this repository whose items wait for each other, by stacks and by loops.
//!
//! Variables change the tests: `LONGSHORE_ITEMS_CLANG` is one compiler in place of all, and
//! `LONGSHORE_ITEMS_FLAGS` has its flags.

use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs, threads};
use longshore_tests::effort;
use longshore_tests::items::{
    Argument, Build, Emulator, Ending, Execution, Launch, wide_vector_flags,
};
use longshore_tests::world::root;
use longshore_work_items::Outcome;

const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];
/// Sizes of groups, and other ones for kernels that need a power of two.
const SIZES: [u32; 10] = [1, 2, 7, 32, 33, 64, 100, 256, 512, 1024];
/// Shapes of groups, in one to three dimensions.
const SHAPES: [[u32; 3]; 22] = [
    [1, 1, 1],
    [2, 1, 1],
    [31, 1, 1],
    [32, 1, 1],
    [33, 1, 1],
    [100, 1, 1],
    [256, 1, 1],
    [1024, 1, 1],
    [1, 7, 1],
    [3, 5, 1],
    [16, 16, 1],
    [32, 8, 1],
    [64, 16, 1],
    [1, 1024, 1],
    [7, 33, 1],
    [1, 1, 9],
    [1, 1, 64],
    [2, 3, 4],
    [8, 8, 8],
    [33, 3, 2],
    [64, 4, 4],
    [5, 7, 29],
];

/// Returns words that are the same in each run, below `end`.
fn words(count: usize, end: u32) -> Argument {
    let mut state = 12_345_u32;
    let word = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % end
    };
    Argument::Buffer((0..count).map(word).flat_map(u32::to_ne_bytes).collect())
}

/// Returns numbers between 1 and 4 that are the same in each run.
fn floats(count: usize) -> Argument {
    let Argument::Buffer(bytes) = words(count, 3_000_000) else { unreachable!() };
    let word = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("a word has 4 bytes"));
    let float = |bytes: &[u8]| (1.0 + word(bytes) as f32 / 1e6).to_ne_bytes();
    Argument::Buffer(bytes.chunks_exact(4).flat_map(float).collect())
}

fn zeros(count: usize) -> Argument {
    Argument::Buffer(vec![0; 4 * count])
}

fn long(value: u64) -> Argument {
    Argument::Value(value.to_ne_bytes().to_vec())
}

fn word(value: u32) -> Argument {
    Argument::Value(value.to_ne_bytes().to_vec())
}

fn launch(kernel: &str, groups: u32, items: [u32; 3], arguments: Vec<Argument>) -> Launch {
    let (groups, kernel) = ([groups, 1, 1], kernel.to_owned());
    Launch { kernel, groups, items, shared_bytes: 0, arguments }
}

/// Returns launches of the kernels of `kernels.c` for groups of `size` items.
fn fixed(size: u32) -> Vec<Launch> {
    let (group, items) = (size as usize, [size, 1, 1]);
    let count = 5 * group + 3;
    let n = || long(count as u64);
    let linear = |kernel, groups, arguments| launch(kernel, groups, items, arguments);
    let mut all = vec![
        linear("reduce_items", 3, vec![floats(count), zeros(3), n()]),
        linear("prefix_sum_parts_items", 2, vec![words(count, 999), zeros(2), n()]),
        linear("prefix_sum_items", 2, vec![words(count, 999), zeros(count), words(2, 99), n()]),
        linear("tree_sum_items", 6, vec![floats(count), zeros(6), n()]),
        linear("nbody_items", 6, vec![floats(4 * count), zeros(4 * count), n()]),
    ];
    // The first items read the neighbours of the group's ends.
    if size >= 4 {
        all.push(linear("stencil_shared_items", 6, vec![floats(count), zeros(count), n()]));
    }
    // The table of the histogram has an element for each byte.
    if size <= 256 {
        let bytes = Argument::Buffer((0..count).map(|at| (at * at % 251) as u8).collect());
        all.push(linear("histogram_items", 2, vec![bytes, zeros(256), n()]));
    }
    if size.is_power_of_two() {
        let arguments = vec![words(count, u32::MAX), zeros(count), n()];
        all.push(linear("bitonic_sort_items", 3, arguments));
    }
    let sides = [37, 50, 41].map(word);
    let matrices = [floats(37 * 41), floats(41 * 50), zeros(37 * 50)];
    let arguments = matrices.into_iter().chain(sides).collect();
    all.push(Launch { groups: [4, 3, 1], ..launch("matmul_items", 1, [16, 16, 1], arguments) });
    all
}

/// Returns launches of the kernels of `shapes.c` for groups of each shape.
fn shaped() -> Vec<Launch> {
    let of_shape = |items: [u32; 3]| {
        let count = 3 * items.iter().product::<u32>() as usize;
        let n = count as u32 - items[0] / 2;
        ["scan", "turns", "neighbours_of_items", "subgroups", "occurrences"].map(|kernel| {
            let arguments = vec![words(count, 10_000), zeros(count), word(n)];
            Launch { shared_bytes: 256, ..launch(kernel, 3, items, arguments) }
        })
    };
    SHAPES.into_iter().flat_map(of_shape).collect()
}

/// Returns launches of the kernels of `loops.c` for groups of each shape.
fn looping() -> Vec<Launch> {
    let of_shape = |items: [u32; 3]| {
        let count = 3 * items.iter().product::<u32>() as usize;
        let n = count as u32 - items[0] / 2;
        LOOPING.into_iter().chain(OWN_LOOPS).map(move |kernel| {
            launch(kernel, 3, items, vec![words(count, 10_000), zeros(count), word(n)])
        })
    };
    let step = if effort::is_all() { 1 } else { 3 };
    SHAPES.into_iter().step_by(step).flat_map(of_shape).collect()
}

/// The kernels of `loops.c` whose loops contain the loops over items.
const LOOPING: [&str; 7] =
    ["windows", "quotients", "strides", "late", "turning", "grids", "middle"];
/// The kernels of `loops.c` whose loops stay inside the loop over items.
const OWN_LOOPS: [&str; 6] =
    ["broken", "scattered", "collatz", "ordered", "rows_of_items", "inner"];

/// A source with its launches.
struct Case {
    file: &'static str,
    flags: String,
    launches: Vec<Launch>,
    /// Whether items wait for each other.
    waits: bool,
}

/// Returns the cases; `sizes` are for groups of a fixed size.
fn cases(sizes: &[u32]) -> Vec<Case> {
    let of_size = |size: &u32| Case {
        file: "kernels.c",
        flags: format!("-DGROUP={size}"),
        launches: fixed(*size),
        waits: true,
    };
    let of_shapes = |file, launches, waits| Case { file, flags: String::new(), launches, waits };
    let shapes = of_shapes("shapes.c", shaped(), true);
    let loops = of_shapes("loops.c", looping(), false);
    sizes.iter().map(of_size).chain([shapes, loops]).collect()
}

impl Case {
    fn source(&self) -> String {
        std::fs::read_to_string(root().join("tests/kernels").join(self.file)).unwrap()
    }

    fn build(&self, execution: Execution, clang: &str, flags: &str) -> Build {
        let include = format!("-I{}", root().join("tests/kernels").display());
        let flags = flags.split(' ').chain(self.flags.split(' ')).filter(|flag| !flag.is_empty());
        let flags = flags.map(String::from).chain([include]).collect();
        Build { execution, clang: clang.to_owned(), flags }
    }

    /// Checks that all kernels became loops. The optimizer may merge a condition of the items with
    /// one of the group; this then keeps the stacks, and is printed. Kernels whose items do not
    /// wait become loops if that is better, and never without optimization.
    fn check_outcomes(&self, build: &Build, outcomes: &[Outcome]) {
        if build.execution == Execution::Fibers {
            return;
        }
        if !self.waits {
            let is_plain = build.flags.iter().any(|flag| flag == "-O0");
            let made: Vec<&str> = outcomes.iter().map(|outcome| outcome.kernel.as_str()).collect();
            let is_wrong = made.iter().any(|kernel| OWN_LOOPS.contains(kernel));
            let is_forced = build.execution == Execution::AllLoops;
            assert_eq!(is_wrong, is_forced && !is_plain, "{build:?}: {made:?}");
            assert!(!is_plain || made.is_empty(), "{build:?}: {made:?}");
            if build.execution == Execution::Loops && !is_plain {
                assert_eq!(made, LOOPING, "{build:?}");
            }
            return;
        }
        for launch in &self.launches {
            let outcome = outcomes.iter().find(|outcome| outcome.kernel == launch.kernel);
            let outcome = outcome.unwrap_or_else(|| panic!("{} was not found", launch.kernel));
            let is_loop = outcome.result.is_ok() || build.execution == Execution::OptimizedLoops;
            assert!(is_loop, "{build:?}: {outcome:?}");
        }
    }

    /// Returns the contents of the buffers of each launch.
    fn results(&self, bench: &Bench, build: &Build) -> Vec<Vec<Vec<u8>>> {
        let built = build.image(&self.source(), self.file);
        let (image, outcomes) = built.unwrap_or_else(|error| panic!("{error}"));
        self.check_outcomes(build, &outcomes);
        let program = bench.device.load_trusted(image).unwrap();
        let run = |launch: &Launch| {
            // SAFETY: the buffers have the numbers of elements of the arguments.
            let results = unsafe { launch.run(&program, &bench.queue) };
            results.unwrap_or_else(|error| panic!("{build:?}, {}: {error}", launch.kernel))
        };
        self.launches.iter().map(run).collect()
    }
}

struct Bench {
    device: longshore::Device,
    queue: longshore::Queue,
}

impl Bench {
    fn new() -> Bench {
        let device = Workshop::new().device(threads(2));
        let queue = device.queue().unwrap();
        Bench { device, queue }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns compilers with flags: each level and each kind of vectors, or a choice among them.
fn ways() -> Vec<(String, String)> {
    let clangs: Vec<String> = match variable("LONGSHORE_ITEMS_CLANG") {
        Some(clang) => vec![clang],
        None => clangs().into_iter().map(String::from).collect(),
    };
    let wide = wide_vector_flags();
    let vectors = ["", "-march=haswell", "-march=skylake-avx512 -mprefer-vector-width=512"];
    let works = |vectors: &&str| vectors.is_empty() || wide.contains(vectors);
    let flags: Vec<String> = match variable("LONGSHORE_ITEMS_FLAGS") {
        Some(flags) => vec![flags],
        None if effort::is_all() => LEVELS
            .into_iter()
            .flat_map(|level| {
                let vectors = vectors.into_iter().filter(works);
                vectors.map(move |vectors| format!("{level} {vectors}").trim().to_owned())
            })
            .collect(),
        None => {
            let last = vectors.into_iter().rfind(works).unwrap_or_default();
            vec!["-O0".to_owned(), format!("-O3 {last}").trim().to_owned()]
        }
    };
    let newest = clangs.last();
    let is_chosen = |clang: &String, flags: &String| {
        effort::is_all() || flags != "-O0" || Some(clang) == newest
    };
    let each = flags.iter().flat_map(|flags| clangs.iter().map(move |clang| (clang, flags)));
    let each = each.filter(|(clang, flags)| is_chosen(clang, flags));
    each.map(|(clang, flags)| (clang.clone(), flags.clone())).collect()
}

/// Sizes of groups for the kernels of a fixed size.
fn sizes() -> &'static [u32] {
    if effort::is_all() { &SIZES } else { &SIZES[6..8] }
}

#[test]
fn kernels_of_items_have_the_same_results_by_stacks_and_by_loops() {
    let bench = Bench::new();
    let (mut compared, mut differences) = (0, Vec::new());
    for case in cases(sizes()) {
        for (clang, flags) in ways() {
            let by_stacks = case.results(&bench, &case.build(Execution::Fibers, &clang, &flags));
            let executions: &[Execution] = match case.waits {
                true => &[Execution::Loops, Execution::OptimizedLoops],
                false if effort::is_all() => {
                    &[Execution::Loops, Execution::OptimizedLoops, Execution::AllLoops]
                }
                false => &[Execution::Loops],
            };
            for execution in executions.iter().copied() {
                let build = case.build(execution, &clang, &flags);
                let by_loops = case.results(&bench, &build);
                for ((launch, expected), got) in case.launches.iter().zip(&by_stacks).zip(by_loops)
                {
                    compared += 1;
                    if *expected != got {
                        let items = launch.items;
                        differences.push(format!("{}, items {items:?}, {build:?}", launch.kernel));
                    }
                }
            }
        }
    }
    println!("{compared} launches by stacks and by loops");
    assert!(differences.is_empty(), "{} differences: {differences:#?}", differences.len());
}

#[test]
fn kernels_of_items_have_the_same_results_by_loops_for_aarch64() {
    let emulator = match Emulator::find() {
        Ok(emulator) => emulator,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let bench = Bench::new();
    let levels = if effort::is_all() { &LEVELS[..] } else { &LEVELS[2..3] };
    let mut compared = 0;
    for case in cases(sizes()) {
        let stacks = case.build(Execution::Fibers, clangs().last().unwrap(), "-O0");
        let expected = case.results(&bench, &stacks);
        let each = clangs().into_iter().flat_map(|clang| levels.iter().map(move |it| (clang, it)));
        for (clang, level) in each {
            let build = case.build(Execution::Loops, clang, level);
            let endings = emulator.run(&build, &case.source(), &case.launches, case.file);
            let endings = endings.unwrap_or_else(|error| panic!("{error}"));
            for ((launch, ending), expected) in case.launches.iter().zip(endings).zip(&expected) {
                let (kernel, items) = (&launch.kernel, launch.items);
                let same = ending == Ending::Results(expected.clone());
                assert!(same, "{kernel}, items {items:?}, {build:?}");
                compared += 1;
            }
        }
    }
    println!("{compared} launches by loops of AArch64");
}
