//! Reports of failed work, and state that failed calls do not change.

use super::*;
use libtest_mimic::Trial;
use longshore_tests::trials;

pub(super) fn trials() -> Vec<Trial> {
    trials![
        an_event_behind_a_failed_kernel_reports_the_failure_each_time,
        a_program_stays_if_destroying_it_meets_a_failed_kernel,
        a_host_function_that_would_wait_for_itself_is_refused_and_harms_nothing,
        errors_about_long_names_are_short,
        the_texts_of_all_errors_have_a_limit,
        queues_that_wait_for_an_event_have_no_threads,
    ]
}

use std::sync::atomic::{AtomicU32, Ordering};

fn an_event_behind_a_failed_kernel_reports_the_failure_each_time() {
    let library = Library::start();
    let device = library.cpu();
    let faulty = program(device, &image("faulty"));
    let (queue, other) = (queue(device), queue(device));
    let before = event(queue);
    launch(queue, device, kernel(faulty, c"fail"));
    let mut behind = event(queue);
    // SAFETY: all handles are live.
    unsafe {
        for _ in 0..2 {
            let waited = olSyncEvent(behind);
            assert_eq!(code(waited), OL_ERRC_BACKEND_FAILURE);
            assert!(said(waited).contains("kernel 'fail'"), "{}", said(waited));
        }
        ok(olSyncEvent(before));
        ok(olWaitEvents(other, &mut behind, 1));
        assert_eq!(code(olSyncQueue(other)), OL_ERRC_BACKEND_FAILURE, "the queue that waited");
        assert_eq!(code(olSyncQueue(queue)), OL_ERRC_BACKEND_FAILURE, "the queue of the kernel");
        ok(olSyncEvent(event(queue)));
        ok(olSyncQueue(other));
    }
}

fn a_program_stays_if_destroying_it_meets_a_failed_kernel() {
    let library = Library::start();
    let device = library.cpu();
    let faulty = program(device, &image("faulty"));
    let fail = kernel(faulty, c"fail");
    let queue = queue(device);
    launch(queue, device, fail);
    // SAFETY: all handles are live.
    unsafe {
        assert_eq!(code(olDestroyProgram(faulty)), OL_ERRC_BACKEND_FAILURE);
        // The program and its symbols still exist.
        assert_eq!(kernel(faulty, c"fail"), fail);
        launch(queue, device, kernel(faulty, c"bump"));
        assert_eq!(code(olSyncEvent(event(queue))), OL_ERRC_BACKEND_FAILURE, "an event");
        assert_eq!(code(olSyncQueue(queue)), OL_ERRC_BACKEND_FAILURE, "the queue's own user");
        ok(olSyncQueue(queue));
        launch(queue, device, fail);
        assert_eq!(code(olDestroyProgram(faulty)), OL_ERRC_BACKEND_FAILURE);
        ok(olDestroyProgram(faulty));
        assert_eq!(code(olDestroyProgram(faulty)), OL_ERRC_INVALID_ARGUMENT);
    }
}

/// The task of a host function, and its result.
struct Inside {
    program: ol_program_handle_t,
    before: ol_event_handle_t,
    /// An event that is set before the host function may run.
    behind: ol_event_handle_t,
    may_run: AtomicU32,
    results: [ol_errc_t; 3],
}

unsafe extern "C" fn waits_for_itself(inside: *mut c_void) {
    // SAFETY: the structure belongs to the test, which waits.
    unsafe {
        let inside = inside.cast::<Inside>();
        while (*inside).may_run.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        (*inside).results = [
            code(olDestroyProgram((*inside).program)),
            code(olSyncEvent((*inside).before)),
            code(olSyncEvent((*inside).behind)),
        ];
    }
}

fn a_host_function_that_would_wait_for_itself_is_refused_and_harms_nothing() {
    let library = Library::start();
    let device = library.cpu();
    let basic = program(device, &image("basic"));
    let bump = kernel(basic, c"bump");
    let queue = queue(device);
    let mut inside = Inside {
        program: basic,
        before: event(queue),
        behind: null_mut(),
        may_run: AtomicU32::new(0),
        results: [OL_ERRC_UNKNOWN; 3],
    };
    let shared = &raw mut inside;
    // SAFETY: the structure lives until the queue is done; the function reads `behind` only after
    // it was set.
    unsafe {
        ok(olLaunchHostFunction(queue, Some(waits_for_itself), shared.cast()));
        (*shared).behind = event(queue);
        (*shared).may_run.store(1, Ordering::Release);
        ok(olSyncQueue(queue));
        let [destroyed, before, behind] = (*shared).results;
        assert_eq!(destroyed, OL_ERRC_UNSUPPORTED);
        assert_eq!(before, OL_ERRC_SUCCESS, "an event in front of the function");
        assert_eq!(behind, OL_ERRC_UNSUPPORTED, "an event behind the function");
        ok(olSyncEvent((*shared).behind));
        launch(queue, device, bump);
        ok(olSyncQueue(queue));
        ok(olDestroyProgram(basic));
    }
}

fn errors_about_long_names_are_short() {
    let library = Library::start();
    let device = library.cpu();
    let basic = program(device, &image("basic"));
    let mut symbol = null_mut();
    for (bytes, kind) in
        [(1 << 20, OL_SYMBOL_KIND_KERNEL), (64 << 20, OL_SYMBOL_KIND_GLOBAL_VARIABLE)]
    {
        let name = std::ffi::CString::new(vec![b'x'; bytes]).unwrap();
        // SAFETY: the program is live.
        let missing = unsafe { olGetSymbol(basic, name.as_ptr(), kind, &mut symbol) };
        assert_eq!(code(missing), OL_ERRC_NOT_FOUND);
        let said = said(missing);
        assert!(said.len() < 20_000, "{} bytes", said.len());
        assert!(said.contains("counter") || said.contains("bump"), "{said}");
    }
}

fn the_texts_of_all_errors_have_a_limit() {
    let library = Library::start();
    let basic = program(library.cpu(), &image("basic"));
    let mut symbol = null_mut();
    let mut bytes = 0;
    for number in 0..2000 {
        let name = format!("{number:x>12000}\0");
        // SAFETY: the program is live, and the name ends with a NUL.
        let missing =
            unsafe { olGetSymbol(basic, name.as_ptr().cast(), OL_SYMBOL_KIND_KERNEL, &mut symbol) };
        assert_eq!(code(missing), OL_ERRC_NOT_FOUND);
        bytes += said(missing).len();
    }
    assert!(bytes < 10 << 20, "{bytes} bytes");
}

/// Returns the number of threads of queues, of all backends.
fn threads_of_queues() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    let is_ours =
        |name: &String| ["longshore-q", "longshore-vk"].iter().any(|ours| name.starts_with(ours));
    tasks.filter_map(|task| name(task).ok()).filter(is_ours).count()
}

unsafe extern "C" fn waits_for_a_number(number: *mut c_void) {
    // SAFETY: the number belongs to the test, which waits.
    while unsafe { &*number.cast::<AtomicU32>() }.load(Ordering::Acquire) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

unsafe extern "C" fn counts(number: *mut c_void) {
    // SAFETY: as above.
    unsafe { &*number.cast::<AtomicU32>() }.fetch_add(1, Ordering::AcqRel);
}

fn queues_that_wait_for_an_event_have_no_threads() {
    let library = Library::start();
    for device in library.devices() {
        let platform = queries::platform_name(device);
        // The sample plugin in C has queues without threads.
        if !platform.contains("ample") {
            println!("{platform}");
            many_queues_wait_on(device);
        }
    }
}

fn many_queues_wait_on(device: ol_device_handle_t) {
    const QUEUES: usize = 2000;
    let (gate, count) = (AtomicU32::new(0), AtomicU32::new(0));
    let pointer = |number: &AtomicU32| std::ptr::from_ref(number).cast_mut().cast::<c_void>();
    let first = queue(device);
    // SAFETY: the numbers live until all queues are done.
    unsafe {
        ok(olLaunchHostFunction(first, Some(waits_for_a_number), pointer(&gate)));
        let mut opened = event(first);
        let queues: Vec<_> = (0..QUEUES).map(|_| queue(device)).collect();
        let ends: Vec<_> = queues
            .iter()
            .map(|queue| {
                ok(olWaitEvents(*queue, &mut opened, 1));
                ok(olLaunchHostFunction(*queue, Some(counts), pointer(&count)));
                event(*queue)
            })
            .collect();
        let waiting = threads_of_queues();
        assert_eq!(count.load(Ordering::Acquire), 0);
        gate.store(1, Ordering::Release);
        ends.into_iter().for_each(|end| ok(olSyncEvent(end)));
        assert_eq!(count.load(Ordering::Acquire), QUEUES as u32);
        assert!(waiting < 200, "{waiting} threads while {QUEUES} queues wait");
        let later = threads_of_queues();
        assert!(later < 400, "{later} threads after {QUEUES} queues waited");
        queues.into_iter().for_each(|queue| ok(olDestroyQueue(queue)));
        ok(olDestroyQueue(first));
    }
}
