//! Launches with and without helpers.

use super::*;
use crate::kernel::abi::Work;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// The behaviour of groups, and whether a helper ran one.
struct Groups {
    runner: ThreadId,
    are_long: bool,
    is_helped: AtomicBool,
}

/// Runs groups. Each long group takes a while, and the last one waits until a helper has run a
/// group.
unsafe extern "C" fn groups(arguments: *const *const c_void, work: *mut Work) {
    const LIMIT: Duration = Duration::from_secs(20);
    // SAFETY: `run` passes these arguments.
    let (groups, work) = unsafe { (&*(*arguments).cast::<Groups>(), &*work) };
    if thread::current().id() != groups.runner {
        groups.is_helped.store(true, Ordering::Relaxed);
    }
    for group in (work.begin..work.end).filter(|_| groups.are_long) {
        let begin = Instant::now();
        let is_last = group + 1 == u64::from(work.groups[0]);
        while begin.elapsed() < Duration::from_millis(1)
            || is_last && !groups.is_helped.load(Ordering::Relaxed) && begin.elapsed() < LIMIT
        {
            thread::yield_now();
        }
    }
}

/// Runs 64 groups; returns whether a helper ran some.
fn is_helped(engine: &Engine, kernel: &Kernel, are_long: bool) -> bool {
    let is_helped = AtomicBool::new(false);
    let argument = Groups { runner: thread::current().id(), are_long, is_helped };
    let shape = LaunchShape::new([64, 1, 1], [1; 3]).with_wait(true);
    let arguments = [(&raw const argument).cast::<c_void>()];
    // SAFETY: the kernel reads its one argument.
    let result =
        unsafe { engine.run(&engine.new_job(), &Launch::new(kernel, &shape), arguments.as_ptr()) };
    result.unwrap();
    argument.is_helped.into_inner()
}

#[test]
fn a_launch_gets_help_though_the_last_ones_were_short() {
    let engine = Engine::for_tests();
    let kernel = Kernel::work_group_form("groups", groups);
    for _ in 0..50 {
        is_helped(&engine, &kernel, false);
    }
    assert!(is_helped(&engine, &kernel, true));
}
