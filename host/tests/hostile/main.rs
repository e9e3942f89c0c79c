//! Plugins with hostile answers: the program gets errors, does not panic, and allocates no memory
//! for invented sizes.

mod absurd;
mod seeded;

use absurd::{Absurd, WRONG_ANSWERS};
use longshore::IsolateLimits;
use seeded::{Seeded, Walked};
use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes that the host allocates at a time for a list or a text of a plugin.
const MOST_BYTES: usize = 256 << 20;

/// The system's allocator. It records the largest request, and refuses requests that no answer
/// within bounds can cause.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: each call goes to the system's allocator, or returns null.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        if layout.size() > MOST_BYTES {
            return std::ptr::null_mut();
        }
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

fn sum(seeds: impl IntoIterator<Item = u64>, walk: impl Fn(u64) -> Walked) -> Walked {
    let mut sum = Walked::default();
    for seed in seeds {
        LARGEST.store(0, Ordering::Relaxed);
        let walked = catch_unwind(AssertUnwindSafe(|| walk(seed)));
        let walked = walked.unwrap_or_else(|_| panic!("with the seed {seed}"));
        let largest = LARGEST.load(Ordering::Relaxed);
        assert!(largest <= MOST_BYTES, "{largest} bytes at once with the seed {seed}");
        sum.devices += walked.devices;
        sum.kernels += walked.kernels;
        sum.launches += walked.launches;
        sum.unloads += walked.unloads;
        sum.breaches += walked.breaches;
        sum.losses += walked.losses;
    }
    sum
}

/// Returns the seeds to test. `LONGSHORE_TEST_SEEDS` sets their number, `LONGSHORE_TEST_FIRST_SEED`
/// the first one.
fn seeds(usually: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("LONGSHORE_TEST_FIRST_SEED").unwrap_or(0);
    first..first + number("LONGSHORE_TEST_SEEDS").unwrap_or(usually)
}

/// Holds the promises P-70 to P-77.
#[test]
fn a_plugin_that_answers_anything_costs_errors_and_no_more() {
    let seeded = Seeded::new();
    let seeds = seeds(1000);
    let count = (seeds.end - seeds.start) as usize;
    let sum = sum(seeds, |seed| seeded.walk(&[], seed));
    println!("{sum:?}");
    // The walks reach most calls, and many answers are refused.
    assert!(sum.devices > count / 2 && sum.kernels > count / 4, "{sum:?}");
    assert!(sum.launches > count / 8 && sum.unloads > count / 8, "{sum:?}");
    assert!(sum.breaches > count, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_walk() {
    let seeded = Seeded::new();
    for seed in 0..20 {
        assert_eq!(seeded.walk(b"given", seed), seeded.walk(b"given", seed));
    }
}

/// Returns the executor, in which isolated plugins run. Builds it if needed: a build of this
/// package alone does not contain the executor, a build of the whole workspace does.
fn executor() -> PathBuf {
    const NAME: &str = "longshore-executor";
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).expect("tests lie in deps/ below the folder of programs");
    let executor = built.join(NAME);
    if !executor.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--package", NAME, "--target-dir"]).arg(built.parent().unwrap());
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        if built.ends_with(Path::new("release")) {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
    }
    executor
}

/// Returns the limits of an isolated process. A process that allocates memory for an answer beyond
/// a bound exceeds them.
fn limits() -> IsolateLimits {
    IsolateLimits::default().with_memory_bytes(MOST_BYTES as u64)
}

#[test]
fn such_a_plugin_in_a_process_of_its_own_costs_the_same() {
    let seeded = Seeded::new();
    let executor = executor();
    let folder = tempfile::tempdir().unwrap();
    let sum = sum(seeds(60), |seed| {
        let host = seeded
            .host(seed)
            .with_isolated_backends("all")
            .with_executor(&executor)
            .with_isolate_limits(limits());
        let host = if seed % 4 == 3 { host.with_isolate_shared_memory(false) } else { host };
        seeded::walk(host, folder.path())
    });
    println!("{sum:?}");
    assert!(sum.devices > 20 && sum.kernels > 10 && sum.breaches > 60, "{sum:?}");
    // The plugin's process allocates no memory for such answers either, so none has ended.
    assert_eq!(sum.losses, 0, "{sum:?}");
}

/// Asserts the error that the program gets for each answer.
fn assert_errors(host: impl Fn(&Absurd) -> longshore::HostBuilder) {
    // A log record or the name of a setting of any length is no error.
    for fine in ["none", "log", "setting"] {
        assert_eq!(absurd::first_error(host(&Absurd::new(fine))), Ok(()), "{fine}");
    }
    for (wrong, said) in WRONG_ANSWERS {
        let error = absurd::first_error(host(&Absurd::new(wrong))).expect_err(wrong);
        assert!(format!("{error:?}").contains(said), "{wrong}: {error}");
        // The plugin's own error is kept.
        let is_own = ["message", "vendor"].contains(&wrong);
        assert_eq!(error.is_breach(), !is_own, "{wrong}: {error}");
        assert!(is_own || error.message().contains("plugin 'absurd': "), "{wrong}: {error}");
    }
}

/// Holds the promises P-70 to P-77.
#[test]
fn an_answer_beyond_its_bound_is_an_error_that_names_it() {
    assert_errors(|absurd| absurd.host());
    let error = absurd::first_error(Absurd::new("pinned address").host()).unwrap_err();
    let said = "plugin 'absurd': longshore.pinning, pin: address 0, expected a nonzero address";
    assert_eq!(error.message(), said);
}

#[test]
fn such_an_answer_is_an_error_in_a_process_of_its_own_which_takes_no_memory_for_it() {
    let executor = executor();
    for shares_memory in [true, false] {
        assert_errors(|absurd| {
            let host = absurd
                .host()
                .with_isolated_backends("all")
                .with_executor(&executor)
                .with_isolate_limits(limits());
            if shares_memory { host } else { host.with_isolate_shared_memory(false) }
        });
    }
}

/// Holds the promise P-33.
#[test]
fn memory_in_use_is_not_handed_out_again() {
    let executor = executor();
    let own = "plugin 'absurd': longshore.device, allocate: 65536 bytes at 0x";
    let foreign = "all 16 blocks that plugin 'absurd' allocated overlap memory of other devices";
    for (wrong, device, freed, refused) in [
        ("none", 0, 0, None),
        ("none", 1, 0, None),
        ("same address", 0, 0, Some(own)),
        ("address inside", 0, 1, Some(own)),
        ("same address", 1, 1, Some(own)),
        ("address inside", 1, 1, Some(own)),
        ("some addresses inside", 1, 3, None),
        // The host requests 16 blocks three times, as from a device that is short of memory.
        ("addresses inside", 1, 48, Some(foreign)),
    ] {
        let absurd = Absurd::new(wrong);
        let isolated = absurd.host().with_isolated_backends("all").with_executor(&executor);
        for host in [absurd.host(), isolated] {
            let (second, given_back) = absurd::second_allocation(host, device);
            let said = second.as_ref().err().map(|error| error.message());
            let fits = said.zip(refused).is_some_and(|(said, refused)| said.starts_with(refused));
            assert_eq!(fits, refused.is_some(), "{wrong} of {device}: {second:?}");
            assert_eq!(said.is_some(), fits, "{wrong} of {device}: {second:?}");
            let is_breach = second.as_ref().is_err_and(|error| error.is_breach());
            assert_eq!(is_breach, refused == Some(own), "{wrong} of {device}");
            assert_eq!(given_back, freed, "{wrong} of {device}");
        }
    }
}
