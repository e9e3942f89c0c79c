//! Plugins whose answers come from a seed: the program gets errors, and neither panics nor takes memory that a plugin made up.

mod absurd;
mod seeded;

use absurd::{Absurd, REPLIES};
use longshore::IsolateLimits;
use seeded::{Seeded, Walked};
use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most that is allocated for a list or a text of a plugin at a time.
const MOST_BYTES: usize = 256 << 20;

/// The system's allocator; it notes the largest request and refuses those that no answer within bounds can cause.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: as the system's, or null.
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

/// `SEEDS` says how many, `FIRST_SEED` the first one.
fn seeds(usually: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("LONGSHORE_TEST_FIRST_SEED").unwrap_or(0);
    first..first + number("LONGSHORE_TEST_SEEDS").unwrap_or(usually)
}

/// P-70 to P-77.
#[test]
fn a_plugin_that_answers_anything_costs_errors_and_no_more() {
    let seeded = Seeded::new();
    let seeds = seeds(1000);
    let count = (seeds.end - seeds.start) as usize;
    let sum = sum(seeds, |seed| seeded.walk(&[], seed));
    println!("{sum:?}");
    // Much was tried, and much was refused.
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

/// Returns the executor, in which isolated plugins run. A build of the whole workspace leaves it in the target folder; a
/// build of this package alone does not.
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

/// Limits that a process keeps in which no answer beyond a bound is believed.
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
    // The process with the plugin believes no answer either.
    assert_eq!(sum.losses, 0, "{sum:?}");
}

/// Asserts what the program is told of each answer.
fn are_reported(host: impl Fn(&Absurd) -> longshore::HostBuilder) {
    // A log record and the name of a setting cost nothing, however long.
    for fine in ["none", "log", "setting"] {
        assert_eq!(absurd::first_error(host(&Absurd::new(fine))), Ok(()), "{fine}");
    }
    for (wrong, said) in REPLIES {
        let error = absurd::first_error(host(&Absurd::new(wrong))).expect_err(wrong);
        assert!(format!("{error:?}").contains(said), "{wrong}: {error}");
        // The plugin's own error is kept.
        let is_own = ["message", "vendor"].contains(&wrong);
        assert_eq!(error.is_breach(), !is_own, "{wrong}: {error}");
        assert!(is_own || error.message().contains("plugin 'absurd': "), "{wrong}: {error}");
    }
}

/// P-70 to P-77.
#[test]
fn an_answer_beyond_its_bound_is_an_error_that_names_it() {
    are_reported(|absurd| absurd.host());
    let error = absurd::first_error(Absurd::new("pinned address").host()).unwrap_err();
    let said = "plugin 'absurd': longshore.pinning, pin: address 0, expected a nonzero address";
    assert_eq!(error.message(), said);
}

#[test]
fn such_an_answer_is_an_error_in_a_process_of_its_own_which_takes_no_memory_for_it() {
    let executor = executor();
    for shares_memory in [true, false] {
        are_reported(|absurd| {
            let host = absurd
                .host()
                .with_isolated_backends("all")
                .with_executor(&executor)
                .with_isolate_limits(limits());
            if shares_memory { host } else { host.with_isolate_shared_memory(false) }
        });
    }
}

/// P-33.
#[test]
fn memory_in_use_is_not_handed_out_again() {
    let executor = executor();
    let of_device = "plugin 'absurd': longshore.device, allocate: 65536 bytes at 0x";
    let of_others = "the 16 addresses that plugin 'absurd' offers are those of other devices'";
    for (wrong, device, freed, refused) in [
        ("none", 0, 0, None),
        ("none", 1, 0, None),
        ("same address", 0, 0, Some(of_device)),
        ("address inside", 0, 1, Some(of_device)),
        ("same address", 1, 1, Some(of_device)),
        ("address inside", 1, 1, Some(of_device)),
        ("some addresses inside", 1, 3, None),
        // It is asked three times, as of a device that is short of memory.
        ("addresses inside", 1, 48, Some(of_others)),
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
            assert_eq!(is_breach, refused == Some(of_device), "{wrong} of {device}");
            assert_eq!(given_back, freed, "{wrong} of {device}");
        }
    }
}
