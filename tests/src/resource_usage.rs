//! Resources that a process holds, by which tests find leaks.
//!
//! Other users share the process: another test, threads of a driver, the allocator of the C
//! library. Their memory is allocated once, or comes and goes. A leak grows with every round.

use std::fs;
use std::thread;
use std::time::Duration;

/// Resident memory in KiB by which a process may grow for other reasons.
const OTHERS_KIB: usize = 1024;
/// Number of mappings by which a process may grow for other reasons. One leaked mapping per round
/// exceeds this.
pub const OTHERS_MAPPINGS: usize = 8;
/// Number of spans into which the rounds are divided; each span ends with a measurement.
const SPANS: usize = 16;
/// Number of repetitions of all rounds; a leak must show in each of them.
const TRIES: usize = 3;
/// Number of measurements before the first round, which has no earlier one to compare with.
const FIRST_LOOKS: usize = 10;
/// Number of measurements after a span, to find a moment without other users' memory.
const LOOKS: usize = 40;
/// Time between two measurements.
const PAUSE: Duration = Duration::from_millis(5);

/// Resources that this process holds.
#[derive(Clone, Copy, Debug)]
pub struct ResourceUsage {
    /// Resident memory in KiB.
    pub resident_kib: usize,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Mappings of memory.
    pub mappings: usize,
    /// Threads.
    pub threads: usize,
}

impl ResourceUsage {
    /// Measures the current resources.
    ///
    /// # Panics
    /// If the numbers are missing in `/proc`.
    pub fn now() -> ResourceUsage {
        let read = |file: &str| fs::read_to_string(format!("/proc/self/{file}")).unwrap();
        let count = |folder: &str| fs::read_dir(format!("/proc/self/{folder}")).unwrap().count();
        // The kernel rounds the number in `status` by some pages for each processor.
        let memory = read("smaps_rollup");
        let resident = memory.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
        ResourceUsage {
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
            descriptors: count("fd"),
            mappings: read("maps").lines().count(),
            threads: count("task"),
        }
    }

    /// Returns the minimum of each resource over several measurements.
    fn low() -> ResourceUsage {
        (1..FIRST_LOOKS).fold(ResourceUsage::now(), |low, _| low.or_later())
    }

    /// Returns the minimum of each resource, from one measurement unless that shows growth.
    fn low_after(before: &ResourceUsage) -> ResourceUsage {
        let mut low = ResourceUsage::now();
        for _ in 1..LOOKS {
            if !low.has_grown_since(before) {
                break;
            }
            low = low.or_later();
        }
        low
    }

    /// Measures after a pause, and returns the minimum of each resource.
    fn or_later(self) -> ResourceUsage {
        thread::sleep(PAUSE);
        let now = ResourceUsage::now();
        ResourceUsage {
            resident_kib: self.resident_kib.min(now.resident_kib),
            descriptors: self.descriptors.min(now.descriptors),
            mappings: self.mappings.min(now.mappings),
            threads: self.threads.min(now.threads),
        }
    }

    fn has_grown_since(&self, before: &ResourceUsage) -> bool {
        self.resident_kib > before.resident_kib + OTHERS_KIB / SPANS
            || self.mappings > before.mappings
            || self.descriptors > before.descriptors
    }
}

/// Asserts that rounds leave no descriptor and no memory behind, and prints the measurements.
///
/// There must be enough rounds that one page or mapping for each exceeds the allowance for other
/// users. Memory that other users take once, or take and free, is no leak: with it, the process
/// grows for good in few spans only. If something seems to be left, all rounds are repeated.
///
/// # Panics
/// If something is left in each repetition.
pub fn assert_nothing_is_left_by(rounds: usize, mut round: impl FnMut()) {
    let left: Vec<_> = (0..TRIES).map_while(|_| left_by(rounds, &mut round)).collect();
    assert!(left.len() < TRIES, "something was left in each of {TRIES} tries: {left:?}");
}

/// Runs the rounds, and describes the resources that they leave behind.
fn left_by(rounds: usize, mut round: impl FnMut()) -> Option<String> {
    let spans = rounds.min(SPANS);
    let mut lows = vec![ResourceUsage::low()];
    for span in 0..spans {
        (rounds * span / spans..rounds * (span + 1) / spans).for_each(|_| round());
        lows.push(ResourceUsage::low_after(&lows[span]));
    }
    let (before, after) = (lows[0], lows[spans]);
    println!("measured: before {before:?}; after {after:?}");
    let growth = |of: fn(&ResourceUsage) -> usize| lasting_growth(lows.iter().map(of));
    [
        (growth(|held| held.resident_kib), "KiB", OTHERS_KIB),
        (growth(|held| held.mappings), "mappings", OTHERS_MAPPINGS),
        (after.descriptors.saturating_sub(before.descriptors), "descriptors", 0),
    ]
    .into_iter()
    .find(|(growth, _, most)| growth > most)
    .map(|(growth, unit, most)| format!("{growth} {unit}, expected at most {most}"))
}

/// Returns the growth of a number over the spans, as far as a third of the spans share it.
///
/// Growth in a span that is gone after a later span does not count.
fn lasting_growth(numbers: impl DoubleEndedIterator<Item = usize>) -> usize {
    let mut later = usize::MAX;
    let mut growth = Vec::new();
    for number in numbers.rev() {
        let least = number.min(later);
        growth.push(later - least);
        later = least;
    }
    // The last number has no later one.
    growth.drain(..growth.len().min(1));
    growth.sort_unstable_by(|one, other| other.cmp(one));
    let third_part = growth.get(growth.len() / 3).copied().unwrap_or(0);
    growth.iter().sum::<usize>().min(third_part * growth.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use std::thread::JoinHandle;

    const ROUNDS: usize = 400;
    const PAGE: usize = 4096;

    /// Locks out other tests, for tests that leave something behind.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps memory without touching it.
    fn reserve(bytes: usize) -> *mut u8 {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        // SAFETY: new memory.
        let memory =
            unsafe { libc::mmap(null_mut(), bytes, access, flags | libc::MAP_ANONYMOUS, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        memory.cast()
    }

    /// Maps memory, and touches each page.
    fn map(bytes: usize) -> *mut u8 {
        let memory = reserve(bytes);
        // SAFETY: new memory of this size.
        (0..bytes).step_by(PAGE).for_each(|at| unsafe { memory.add(at).write_volatile(1) });
        memory
    }

    fn unmap(memory: *mut u8, bytes: usize) {
        // SAFETY: `map` made it, and nothing uses it.
        assert_eq!(unsafe { libc::munmap(memory.cast(), bytes) }, 0);
    }

    /// Leaves a page behind.
    fn leave_page() {
        map(PAGE);
    }

    /// Leaves memory behind that its neighbours do not merge with, and that is not resident.
    fn leave_mapping() {
        let memory = reserve(2 * PAGE);
        // SAFETY: memory that nothing uses.
        assert_eq!(unsafe { libc::mprotect(memory.cast(), PAGE, libc::PROT_READ) }, 0);
    }

    fn leave_descriptor() {
        std::mem::forget(fs::File::open("/dev/null").unwrap());
    }

    /// Runs a round that leaves nothing behind.
    fn tidy_round() {
        thread::sleep(Duration::from_millis(1));
        unmap(map(16 * PAGE), 16 * PAGE);
    }

    /// A thread that uses the process like a driver, until this object is dropped.
    struct Driver {
        is_over: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    }

    impl Driver {
        fn start() -> Driver {
            let is_over = Arc::new(AtomicBool::new(false));
            let over = Arc::clone(&is_over);
            let run = move || {
                // Irregular, so that the thread does not keep step with the spans.
                for number in (0_usize..).take_while(|_| !over.load(Ordering::Relaxed)) {
                    let bytes = (number * 7 % 5 + 1) * (8 << 20);
                    let files = [(); 3].map(|()| fs::File::open("/dev/null").unwrap());
                    let memory = map(bytes);
                    thread::sleep(Duration::from_millis(number as u64 * 29 % 60));
                    unmap(memory, bytes);
                    drop(files);
                    thread::sleep(Duration::from_millis(number as u64 * 31 % 70));
                }
            };
            Driver { is_over, thread: Some(thread::spawn(run)) }
        }
    }

    impl Drop for Driver {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::Relaxed);
            self.thread.take().unwrap().join().unwrap();
        }
    }

    #[test]
    fn growth_lasts_if_it_stays_in_a_third_of_the_spans() {
        let growth = |numbers: &[usize]| lasting_growth(numbers.iter().copied());
        assert_eq!(growth(&[7, 8, 9, 10]), 3);
        assert_eq!(growth(&[7, 99, 9, 99, 11, 99, 13, 14, 15, 99]), 18);
        assert_eq!(growth(&[99, 7, 7, 7, 99, 7, 99]), 0);
        assert_eq!(growth(&[7, 7, 99, 99, 99]), 0);
        assert_eq!((growth(&[7]), growth(&[])), (0, 0));
    }

    #[test]
    fn memory_and_files_that_other_code_returns_are_no_leak() {
        let _alone = alone();
        let _driver = Driver::start();
        assert_nothing_is_left_by(ROUNDS, tidy_round);
    }

    #[test]
    fn memory_that_other_code_keeps_in_each_try_is_no_leak() {
        let _alone = alone();
        let mut number = 0;
        assert_nothing_is_left_by(ROUNDS, || {
            tidy_round();
            number += 1;
            if number % ROUNDS == ROUNDS / 3 {
                map(64 << 20);
                (0..3 * OTHERS_MAPPINGS).for_each(|_| leave_mapping());
            }
        });
    }

    #[test]
    fn a_leak_of_each_round_is_found_beside_others() {
        let _alone = alone();
        let _driver = Driver::start();
        let leaks: [(&str, fn()); 3] =
            [("KiB", leave_page), ("mappings", leave_mapping), ("descriptors", leave_descriptor)];
        for (unit, leak) in leaks {
            let left = left_by(ROUNDS, || {
                tidy_round();
                leak();
            });
            assert!(left.as_ref().is_some_and(|left| left.contains(unit)), "{unit}: {left:?}");
        }
    }

    #[test]
    fn one_descriptor_of_all_rounds_is_found() {
        let _alone = alone();
        let mut file = None;
        let left = left_by(ROUNDS, || {
            file.get_or_insert_with(|| fs::File::open("/dev/null").unwrap());
        });
        assert_eq!(left.as_deref(), Some("1 descriptors, expected at most 0"));
    }

    #[test]
    fn few_rounds_are_measured_too() {
        let _alone = alone();
        assert_eq!(left_by(0, || unreachable!("there is no round")), None);
        assert_eq!(left_by(3, tidy_round), None);
        assert!(left_by(3, || (0..9).for_each(|_| leave_mapping())).is_some());
    }
}
