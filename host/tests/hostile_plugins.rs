//! Plugins whose answers come from a seed: the program gets errors, and neither panics nor takes memory that a plugin made up.
#![cfg(feature = "command")]

mod command_support;
mod seeded;

use seeded::{Seeded, Walked};
use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
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

#[test]
fn such_a_plugin_in_a_process_of_its_own_costs_the_same() {
    let seeded = Seeded::new();
    let executor = command_support::executor();
    let folder = tempfile::tempdir().unwrap();
    let sum = sum(seeds(60), |seed| {
        let host = seeded.host(seed).isolate("all").executor(&executor);
        let host = if seed % 4 == 3 { host.isolate_without_shared_memory() } else { host };
        seeded::walk(host, folder.path())
    });
    println!("{sum:?}");
    assert!(sum.devices > 20 && sum.kernels > 10 && sum.breaches > 60, "{sum:?}");
}
