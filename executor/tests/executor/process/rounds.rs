//! Repeated starts of executors, which leave nothing behind.

use std::fs;
use std::sync::Arc;

use crate::process::support::{ECHO, NoService, children, open_files, spawn, status};

/// Greatest number of mappings of stacks that the C library keeps of ended threads: it keeps 40 MiB
/// of them, two mappings for each 2 MiB.
const STACKS: usize = 40;
/// Rounds before the counting begins.
const FIRST_ROUNDS: u32 = 100;
/// Number of counted rounds, unless `LONGSHORE_ROUNDS` sets another.
const ROUNDS: u32 = 10_000;

#[test]
fn rounds_leave_no_process_no_descriptor_and_no_memory() {
    let rounds = std::env::var("LONGSHORE_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    assert!(rounds as usize > STACKS, "a mapping that each round left behind would not be seen");
    let round = |number: u32| {
        let executor =
            spawn().with_shared_memory(number % 4 != 3).start(Arc::new(NoService)).unwrap();
        let argument = vec![number as u8; 1 + (number as usize * 37) % 9000];
        assert_eq!(executor.peer().call(ECHO, &argument).unwrap(), argument);
        if let Some(arena) = executor.arena() {
            let mapped = Arc::new(arena.take(1 << 16, 1).unwrap()).map().unwrap();
            // SAFETY: the mapping has that byte.
            unsafe { mapped.address().as_ptr().add(4095).write(1) };
        }
        if number % 5 == 4 {
            executor.child().kill();
        }
    };
    let threads = threads();
    (0..FIRST_ROUNDS).for_each(round);
    wait_for_threads(threads);
    let (files, mappings) = (open_files(std::process::id()), mappings());
    (0..rounds).for_each(round);
    assert!(children().is_empty());
    wait_for_threads(threads);
    assert_eq!(open_files(std::process::id()), files);
    let after = self::mappings();
    assert!(after <= mappings + STACKS, "{mappings} mappings, then {after}");
    let shared = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!shared.contains("memfd:longshore"), "{shared}");
}

fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

fn threads() -> u32 {
    status(std::process::id(), "Threads").unwrap().parse().unwrap()
}

/// Waits for the threads of connections, which end by themselves soon.
fn wait_for_threads(threads: u32) {
    let start = std::time::Instant::now();
    while self::threads() > threads {
        assert!(start.elapsed().as_secs() < 30, "threads are left");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
