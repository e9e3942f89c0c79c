//! Random kernels of work-items on the CPU, compared with a scalar interpreter.
//!
//! Variables change the tests:
//!
//! - `LONGSHORE_RANDOM_KERNELS`: number of kernels;
//! - `LONGSHORE_RANDOM_SEED`: the first kernel's seed;
//! - `LONGSHORE_RANDOM_CLANG`: one compiler, such as `clang-19`, in place of all;
//! - `LONGSHORE_RANDOM_FLAGS`: flags such as `-O2 -march=native`, in place of each level.

use longshore_tests::device_code::clangs;
use longshore_tests::effort;
use longshore_tests::items::{Build, Emulator, Execution, wide_vector_flags};
use longshore_tests::random_kernels::{Bench, Kernel, Output, compare_emulated, reduce, source};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];

/// Greatest number of kernels in an image.
const BATCH: u64 = 50;

#[test]
fn random_kernels_have_the_results_of_an_interpreter() {
    let count = if effort::is_all() { 4000 } else { 80 };
    compare(Execution::Fibers, count, Kernel::from_seed);
}

#[test]
fn random_kernels_as_loops_have_the_results_of_an_interpreter() {
    let count = if effort::is_all() { 4000 } else { 120 };
    compare(Execution::Loops, count, Kernel::from_seed);
}

#[test]
fn random_kernels_whose_items_do_not_wait_have_the_results_of_an_interpreter() {
    let count = if effort::is_all() { 4000 } else { 60 };
    compare(Execution::AllLoops, count, Kernel::without_waits);
    let kernels: Vec<Kernel> = (0..30).map(Kernel::without_waits).collect();
    let build = builds_with(Execution::AllLoops, &["-O2"]).pop().unwrap();
    let (_, loops) = build.image(&source(&kernels), "kernels without waits").unwrap();
    assert!(loops.len() >= kernels.len() / 3, "{} of {} became loops", loops.len(), kernels.len());
    println!("{} of {} kernels became loops", loops.len(), kernels.len());
}

#[test]
fn random_kernels_as_loops_from_optimized_bitcode_have_the_results_of_an_interpreter() {
    let count = if effort::is_all() { 2000 } else { 60 };
    compare(Execution::OptimizedLoops, count, Kernel::from_seed);
}

#[test]
fn random_kernels_as_loops_for_aarch64_have_the_results_of_an_interpreter() {
    let emulator = match Emulator::find() {
        Ok(emulator) => emulator,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let count = number("LONGSHORE_RANDOM_KERNELS").unwrap_or(24);
    let first = number("LONGSHORE_RANDOM_SEED").unwrap_or(0);
    let builds = builds_with(Execution::Loops, &["-O2", "-O3 -march=armv8.2-a+sve"]);
    let size = count.div_ceil(builds.len() as u64).clamp(1, BATCH);
    let (mut same, mut stacks, mut rejected) = (0, 0, 0);
    for (number, begin) in (0..count).step_by(size as usize).enumerate() {
        let (kernels, undefined) =
            interpreted(first + begin..first + count.min(begin + size), Kernel::from_seed);
        let build = &builds[number % builds.len()];
        let endings =
            compare_emulated(&emulator, build, &kernels).unwrap_or_else(|error| panic!("{error}"));
        for (ending, (kernel, _)) in endings.into_iter().zip(&kernels) {
            match ending {
                Ok(true) => same += 1,
                Ok(false) => stacks += 1,
                Err(difference) => {
                    panic!("{build:?}, {kernel}: {difference}\n{}", source([kernel]))
                }
            }
        }
        rejected += undefined;
    }
    println!("{same} kernels without a difference, {stacks} not as loops, {rejected} undefined");
    // The pass refuses a tenth of the kernels: their items may take different ways to a barrier.
    assert!(stacks + rejected <= count as usize / 6 + 2, "too few kernels were compared");
}

/// Function that makes the kernel of a seed.
type Make = fn(u64) -> Kernel;

/// Compares this number of kernels, unless a variable says otherwise.
fn compare(execution: Execution, count: u64, make: Make) {
    let count = number("LONGSHORE_RANDOM_KERNELS").unwrap_or(count);
    let first = number("LONGSHORE_RANDOM_SEED").unwrap_or(0);
    let (next, builds) = (AtomicU64::new(0), builds(execution));
    let size = count.div_ceil(builds.len() as u64).clamp(1, BATCH);
    let totals = Mutex::new((0, 0));
    let workers = available_parallelism().map_or(1, usize::from);
    let failure = std::thread::scope(|scope| {
        let work = || {
            let bench = Bench::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let begin = number * size;
                if begin >= count {
                    return None;
                }
                let build = &builds[number as usize % builds.len()];
                let seeds = first + begin..first + count.min(begin + size);
                match batch(&bench, build, interpreted(seeds, make)) {
                    Ok((compared, rejected)) => {
                        let mut totals = totals.lock().unwrap();
                        *totals = (totals.0 + compared, totals.1 + rejected);
                    }
                    Err(failure) => {
                        next.store(count, Ordering::Relaxed);
                        return Some(failure);
                    }
                }
            }
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().filter_map(|worker| worker.join().unwrap()).next()
    });
    let (compared, rejected) = *totals.lock().unwrap();
    println!("{compared} kernels without a difference, {rejected} without a defined result");
    if let Some(failure) = failure {
        panic!("{failure}");
    }
    assert!(rejected <= (compared + rejected) / 20 + 2, "too few kernels have a defined result");
}

/// Compares kernels. Returns the number of compared kernels, and the number of kernels without a
/// defined result.
fn batch(
    bench: &Bench,
    build: &Build,
    (kernels, rejected): (Vec<(Kernel, Output)>, usize),
) -> Result<(usize, usize), String> {
    let differences = bench.compare(build, &kernels)?;
    let different = differences.into_iter().zip(&kernels);
    let mut different =
        different.filter_map(|(difference, (kernel, _))| Some((kernel, difference?)));
    let Some((kernel, difference)) = different.next() else {
        return Ok((kernels.len(), rejected));
    };
    let (smaller, still) = reduce(bench, build, kernel.clone(), difference.clone());
    Err(format!(
        "{build:?}, {kernel}: {difference}\n{}\n\nreduced: {still}\n{}",
        source([kernel]),
        source([&smaller])
    ))
}

/// Returns the kernels of some seeds with their results, and the number of kernels without a
/// defined result.
fn interpreted(seeds: std::ops::Range<u64>, make: Make) -> (Vec<(Kernel, Output)>, usize) {
    let all = (seeds.end - seeds.start) as usize;
    let interpret = |kernel: Kernel| kernel.interpret().ok().map(|output| (kernel, output));
    let kernels: Vec<_> = seeds.map(make).filter_map(interpret).collect();
    let rejected = all - kernels.len();
    (kernels, rejected)
}

fn builds(execution: Execution) -> Vec<Build> {
    let wide = ["-O2", "-O3", "-O2"].into_iter().zip(wide_vector_flags());
    let wide: Vec<String> = wide.map(|(level, flags)| format!("{level} {flags}")).collect();
    let flags: Vec<&str> = LEVELS.into_iter().chain(wide.iter().map(String::as_str)).collect();
    builds_with(execution, &flags)
}

/// Returns builds with each compiler and these flags, unless a variable says otherwise.
fn builds_with(execution: Execution, flags: &[&str]) -> Vec<Build> {
    let variable = |name| std::env::var(name).ok();
    let clangs = match variable("LONGSHORE_RANDOM_CLANG") {
        Some(clang) => vec![clang],
        None => clangs().into_iter().map(String::from).collect(),
    };
    let flags = match variable("LONGSHORE_RANDOM_FLAGS") {
        Some(flags) => vec![flags],
        None => flags.iter().copied().map(String::from).collect(),
    };
    let each = flags.iter().flat_map(|flags| clangs.iter().map(move |clang| (clang, flags)));
    let build = |(clang, flags): (&String, &String)| {
        let flags = flags.split_whitespace().map(String::from).collect();
        Build { execution, clang: clang.clone(), flags }
    };
    each.map(build).collect()
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}
