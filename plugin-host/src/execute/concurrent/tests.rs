//! Cooperative launches whose groups wait for each other's memory.

use crate::execute::{Engine, Launch, Pool};
use crate::kernel::Kernel;
use crate::kernel::abi::Work;
use longshore_plugin_api::{Error, ErrorCode, LaunchShape};
use std::ffi::c_void;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a kernel, whose argument is a counter, cooperatively on an engine of this many threads.
fn launch(
    threads: &str,
    groups: u32,
    entry: unsafe extern "C" fn(*const *const c_void, *mut Work),
) -> Result<(), Error> {
    let pool = Pool::new(Some(threads), None, 1).unwrap();
    let engine = Engine::new(pool, Arc::default(), None);
    let (kernel, counter) = (Kernel::work_group_form("waiting", entry), AtomicU32::new(0));
    let shape = LaunchShape::new([groups, 1, 1], [1; 3]).with_cooperative(true).with_wait(true);
    let arguments = [(&raw const counter).cast::<c_void>()];
    // SAFETY: the kernel reads its one argument.
    unsafe { engine.run(&engine.new_job(), &Launch::new(&kernel, &shape), arguments.as_ptr()) }
}

/// Waits in each group until all groups have come.
unsafe extern "C" fn meet(arguments: *const *const c_void, work: *mut Work) {
    // SAFETY: `launch` passes these arguments.
    let (come, work) = unsafe { (&*(*arguments).cast::<AtomicU32>(), &*work) };
    for _ in work.begin..work.end {
        come.fetch_add(1, Ordering::Relaxed);
        while come.load(Ordering::Relaxed) < work.groups[0] {
            spin_loop();
        }
    }
}

#[test]
fn groups_that_spin_on_memory_of_others_come_to_their_ends() {
    for threads in ["1", "2", "5"] {
        for groups in [2, 3, 16] {
            launch(threads, groups, meet).unwrap();
        }
    }
}

/// Fails in the last group. The other groups wait for ever.
unsafe extern "C" fn fail_in_the_last(arguments: *const *const c_void, work: *mut Work) {
    // SAFETY: `launch` passes these arguments. No frame has anything to drop.
    let done = unsafe {
        (*work).group = (*work).begin;
        if (*work).group + 1 == u64::from((*work).groups[0]) {
            ((*work).calls.fail)(work, c"on purpose".as_ptr(), std::ptr::null(), 0, 0);
        }
        &*(*arguments).cast::<AtomicU32>()
    };
    while done.load(Ordering::Relaxed) == 0 {
        spin_loop();
    }
}

#[test]
fn a_group_that_fails_ends_the_groups_that_wait_for_it() {
    for threads in ["1", "4"] {
        let error = launch(threads, 8, fail_in_the_last).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BackendFailure);
        let message = error.message();
        assert!(message.contains("group (7, 0, 0)") && message.contains("on purpose"), "{error}");
    }
}
