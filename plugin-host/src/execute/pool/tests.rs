//! Tests of the pool: it runs every group once, whichever threads steal.

use super::*;
use std::sync::atomic::AtomicU8;

/// Counters of the runs of each group; some groups take longer than others.
struct Counts {
    groups: Vec<AtomicU8>,
    fails_at: Option<u64>,
}

impl Counts {
    fn new(total: u64, fails_at: Option<u64>) -> Counts {
        Counts { groups: (0..total).map(|_| AtomicU8::new(0)).collect(), fails_at }
    }
}

impl Task for Counts {
    fn run(&self, begin: u64, end: u64) -> bool {
        for group in begin..end {
            self.groups[group as usize].fetch_add(1, Ordering::Relaxed);
            if group % 97 == 0 {
                thread::yield_now();
            }
        }
        self.fails_at.is_none_or(|at| !(begin..end).contains(&at))
    }
}

fn pool(threads: usize) -> Arc<Pool> {
    Pool::new(Some(&threads.to_string()), None, 1).unwrap()
}

#[test]
fn settings_that_cannot_be_understood_are_reported_by_the_names_of_their_variables() {
    let refusal = |threads, pin| Pool::new(threads, pin, 1).err().unwrap().message().to_owned();
    for wrong in ["", "0", "x", "100000"] {
        let error = refusal(Some(wrong), None);
        assert!(error.starts_with(&format!("LONGSHORE_HOST_THREADS is '{wrong}'")), "{error}");
    }
    assert_eq!(refusal(None, Some("on")), "LONGSHORE_HOST_PIN is 'on', expected 0 or 1");
}

#[test]
fn every_group_is_run_once() {
    for threads in [1, 2, 3, 8] {
        let pool = pool(threads);
        let job = Job::new(&pool);
        for total in [1, 2, 3, 7, 64, 1000, 100_003] {
            for chunk in [0, 1, 5, 1 << 40] {
                let counts = Counts::new(total, None);
                assert!(pool.run(&job, &counts, total, chunk));
                let is_once = |count: &AtomicU8| count.load(Ordering::Relaxed) == 1;
                assert!(counts.groups.iter().all(is_once), "{threads} {total} {chunk}");
            }
        }
    }
}

#[test]
fn queues_share_the_helpers_and_each_gets_its_own_groups_done() {
    let pool = pool(4);
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let job = Job::new(&pool);
                for round in 0..200 {
                    let counts = Counts::new(500 + round, None);
                    assert!(pool.run(&job, &counts, 500 + round, 3));
                    assert!(counts.groups.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                }
            });
        }
    });
}

#[test]
fn a_failure_ends_the_job_and_not_the_next() {
    let pool = pool(3);
    let job = Job::new(&pool);
    for round in 0..100 {
        let counts = Counts::new(10_000, Some(round * 99));
        assert!(!pool.run(&job, &counts, 10_000, 1));
        assert!(counts.groups.iter().all(|count| count.load(Ordering::Relaxed) <= 1));
        let counts = Counts::new(100, None);
        assert!(pool.run(&job, &counts, 100, 1));
    }
}

#[test]
fn a_panic_on_any_thread_is_a_failure() {
    struct Panics;
    impl Task for Panics {
        fn run(&self, begin: u64, _end: u64) -> bool {
            if begin >= 500 {
                panic!("asked for");
            }
            true
        }
    }
    let pool = pool(4);
    let job = Job::new(&pool);
    for _ in 0..20 {
        assert!(!pool.run(&job, &Panics, 1000, 1));
    }
    assert!(pool.run(&job, &Counts::new(100, None), 100, 1));
}

#[test]
fn helpers_end_with_their_pool() {
    let pool = pool(3);
    let job = Job::new(&pool);
    assert!(pool.run(&job, &Counts::new(1000, None), 1000, 1));
    let signal = Arc::downgrade(&pool.signal);
    drop(pool);
    let begin = Instant::now();
    while signal.strong_count() > 0 && begin.elapsed() < Duration::from_secs(60) {
        thread::yield_now();
    }
    assert_eq!(signal.strong_count(), 0);
}
