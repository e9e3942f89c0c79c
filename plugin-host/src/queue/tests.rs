//! Tests of a queue's promises, without a host.

use super::*;
use longshore_plugin_api::{Event, Place, abi};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Appends its first argument to the list that its second argument points at.
unsafe extern "C" fn append(arguments: *mut *mut c_void) {
    // SAFETY: only `launch_append` launches this kernel, with these two arguments.
    unsafe {
        let value = (*arguments).cast::<u64>().read();
        let list = (*arguments.add(1)).cast::<*const Mutex<Vec<u64>>>().read();
        (*list).lock().push(value);
    }
}

unsafe extern "C" fn nothing(_: *mut *mut c_void) {}

static APPEND: LazyLock<HostKernel> = LazyLock::new(|| HostKernel::host_form("append", append));
static NOTHING: LazyLock<HostKernel> = LazyLock::new(|| HostKernel::host_form("nothing", nothing));

fn new_queue() -> HostQueue {
    HostQueue::new(Engine::for_tests())
}

fn launch_append(queue: &HostQueue, list: &Mutex<Vec<u64>>, value: u64, wait: bool) -> Result<()> {
    let list = std::ptr::from_ref(list);
    let pointers: [*const c_void; 2] = [(&raw const value).cast(), (&raw const list).cast()];
    // SAFETY: both arguments live during the call; each test keeps `list` until the queue is done.
    let arguments = unsafe { Arguments::from_raw(pointers.as_ptr(), [8, 8].as_ptr(), 2) };
    queue.launch(&APPEND, &shape().with_wait(wait), arguments)
}

fn launch_nothing(queue: &HostQueue, wait: bool) -> Result<()> {
    // SAFETY: the kernel has no arguments.
    let arguments = unsafe { Arguments::from_raw(std::ptr::null(), std::ptr::null(), 0) };
    queue.launch(&NOTHING, &shape().with_wait(wait), arguments)
}

/// Returns a host function that runs a closure.
fn host<F: FnOnce() + Send + 'static>(function: F) -> HostFunction {
    unsafe extern "C" fn call<F: FnOnce()>(context: *mut c_void) {
        // SAFETY: `host` below made the closure, which is called once.
        unsafe { Box::from_raw(context.cast::<F>())() }
    }
    let context = Box::into_raw(Box::new(function)).cast();
    // SAFETY: the closure may run on any thread, once.
    unsafe { HostFunction::from_raw(abi::HostFunction { context, call: call::<F> }) }
}

/// Queues a host function that blocks until the sender is used or dropped.
fn block(queue: &HostQueue) -> mpsc::Sender<()> {
    let (release, blocked) = mpsc::channel::<()>();
    queue
        .host_function(host(move || {
            let _ = blocked.recv();
        }))
        .unwrap();
    release
}

fn span<T>(slice: &mut [T]) -> Span {
    // SAFETY: each test keeps the slice until the queue is done.
    unsafe { Span::new(slice.as_mut_ptr() as u64, size_of_val(slice) as u64) }
}

fn copy(queue: &HostQueue, destination: Span, source: Span, wait: bool) -> Result<()> {
    queue.copy(&CopyRequest::new(destination, Place::Host, source, Place::Host).with_wait(wait))
}

fn shape() -> LaunchShape {
    LaunchShape::new([1; 3], [1; 3])
}

#[test]
fn a_queue_that_was_waited_for_is_idle() {
    let queue = new_queue();
    for _ in 0..5_000 {
        // Ensures that only the queue's thread runs the rest.
        let (started, begun) = mpsc::channel();
        let (release, blocked) = mpsc::channel::<()>();
        let wait = move || {
            started.send(()).unwrap();
            let _ = blocked.recv();
        };
        queue.host_function(host(wait)).unwrap();
        begun.recv().unwrap();
        drop(release);
        queue.synchronize().unwrap();
        assert!(queue.is_idle().unwrap());
    }
}

#[test]
fn commands_run_in_order_and_have_captured_their_arguments() {
    let (queue, list) = (new_queue(), Mutex::default());
    for value in 0..10_000 {
        launch_append(&queue, &list, value, value % 1000 == 999).unwrap();
    }
    queue.synchronize().unwrap();
    assert!(queue.is_idle().unwrap());
    assert_eq!(*list.lock(), (0..10_000).collect::<Vec<_>>());
}

#[test]
fn captured_values_are_aligned_to_16() {
    unsafe extern "C" fn check(arguments: *mut *mut c_void) {
        // SAFETY: the launch below passes four arguments, the last a pointer to a counter.
        unsafe {
            let all_aligned = (0..4).all(|i| (*arguments.add(i)).addr() % 16 == 0);
            let good = (*arguments.add(1)).cast::<[u8; 17]>().read() == [7; 17];
            let counter = (*arguments.add(3)).cast::<*const AtomicU64>().read();
            (*counter).fetch_add(u64::from(all_aligned && good), Ordering::Relaxed);
        }
    }
    let (queue, counter) = (new_queue(), AtomicU64::new(0));
    let kernel = HostKernel::host_form("check", check);
    let release = block(&queue);
    for _ in 0..100 {
        let (byte, odd, counter) = (1u8, [7u8; 17], std::ptr::from_ref(&counter));
        let pointers: [*const c_void; 4] = [
            (&raw const byte).cast(),
            (&raw const odd).cast(),
            std::ptr::null(),
            (&raw const counter).cast(),
        ];
        // SAFETY: the four arguments live during the call, and `counter` until the queue is done.
        let arguments =
            unsafe { Arguments::from_raw(pointers.as_ptr(), [1, 17, 0, 8].as_ptr(), 4) };
        queue.launch(&kernel, &shape(), arguments).unwrap();
    }
    drop(release);
    queue.synchronize().unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 100);
}

#[test]
fn patterns_are_captured_and_copies_keep_their_place() {
    let queue = new_queue();
    let (mut a, mut b) = ([0u16; 64], [0u16; 64]);
    let release = block(&queue);
    let mut pattern = [1, 2, 3, 4];
    queue.fill(span(&mut a), &pattern, false).unwrap();
    copy(&queue, span(&mut b), span(&mut a), false).unwrap();
    pattern = [9; 4];
    queue.fill(span(&mut a), &pattern, false).unwrap();
    drop(release);
    queue.synchronize().unwrap();
    assert_eq!(b[..4], [0x0201, 0x0403, 0x0201, 0x0403]);
    assert_eq!(a, [0x0909; 64]);
}

#[test]
fn copies_of_every_size_arrive() {
    let queue = new_queue();
    for bytes in [0, 1, 64, 4096, 4097, 3 << 20] {
        for wait in [false, true] {
            let mut from: Vec<u8> = (0..bytes).map(|i| (i % 253) as u8).collect();
            let mut to = vec![0; bytes];
            copy(&queue, span(&mut to), span(&mut from), wait).unwrap();
            queue.synchronize().unwrap();
            assert_eq!(to, from);
        }
    }
}

#[test]
fn a_host_function_holds_up_later_work_but_not_the_caller() {
    let (queue, list) = (new_queue(), Mutex::default());
    let release = block(&queue);
    launch_append(&queue, &list, 1, false).unwrap();
    thread::sleep(Duration::from_millis(20));
    assert!(list.lock().is_empty());
    assert!(!queue.is_idle().unwrap());
    release.send(()).unwrap();
    queue.synchronize().unwrap();
    assert_eq!(*list.lock(), [1]);
}

#[test]
fn a_host_function_without_waiters_runs_on_the_queues_thread() {
    let queue = new_queue();
    let (sender, receiver) = mpsc::channel();
    let name = move || sender.send(thread::current().name().map(str::to_owned)).unwrap();
    queue.host_function(host(name)).unwrap();
    let name = receiver.recv().unwrap().unwrap();
    assert!(name.starts_with("longshore-q"), "{name}");
}

#[test]
fn functions_of_many_queues_may_wait_for_each_other() {
    const QUEUES: usize = 80;
    let barrier = Arc::new(std::sync::Barrier::new(QUEUES));
    let queues: Vec<HostQueue> = (0..QUEUES).map(|_| new_queue()).collect();
    for queue in &queues {
        let barrier = Arc::clone(&barrier);
        let wait = move || {
            barrier.wait();
        };
        queue.host_function(host(wait)).unwrap();
    }
    for queue in &queues {
        while !queue.is_idle().unwrap() {
            thread::yield_now();
        }
        queue.synchronize().unwrap();
    }
}

#[test]
fn a_queue_goes_on_when_the_event_that_it_waits_for_is_reached_after_a_pause() {
    let (first, second) = (new_queue(), new_queue());
    let list = Mutex::new(Vec::new());
    for round in 0..50 {
        let open = block(&first);
        let event = HostEvent::new(0, false);
        first.record_event(&event).unwrap();
        second.wait_event(&event).unwrap();
        launch_append(&second, &list, round, false).unwrap();
        if round % 2 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        launch_append(&second, &list, round + 1000, false).unwrap();
        assert!(!second.is_idle().unwrap());
        open.send(()).unwrap();
        // The round decides whether a waiting thread helps.
        match round % 3 {
            0 => second.synchronize().unwrap(),
            _ => while !second.is_idle().unwrap() {},
        }
        assert_eq!(std::mem::take(&mut *list.lock()), [round, round + 1000]);
    }
}

#[test]
fn many_threads_share_a_queue_and_each_keeps_its_order() {
    const EACH: u64 = 3000;
    let (queue, list) = (new_queue(), Mutex::default());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (queue, list) = (&queue, &list);
            scope.spawn(move || {
                for i in 0..EACH {
                    launch_append(queue, list, thread << 32 | i, i % 7 == 0).unwrap();
                    if i % 501 == 0 {
                        queue.synchronize().unwrap();
                    }
                }
            });
        }
    });
    queue.synchronize().unwrap();
    let list = list.into_inner();
    for thread in 0..4 {
        let own = list.iter().filter(|value| *value >> 32 == thread).map(|value| value & 0xffff);
        assert!(own.eq(0..EACH), "thread {thread}");
    }
}

#[test]
fn a_chain_of_events_orders_queues() {
    const LINKS: u64 = 2000;
    let queues = [new_queue(), new_queue(), new_queue()];
    let (list, event) = (Mutex::default(), HostEvent::new(0, false));
    let release = block(&queues[0]);
    for link in 0..LINKS {
        let (queue, next) = (&queues[link as usize % 3], &queues[(link as usize + 1) % 3]);
        launch_append(queue, &list, link, false).unwrap();
        queue.record_event(&event).unwrap();
        next.wait_event(&event).unwrap();
    }
    assert!(!event.is_complete().unwrap());
    drop(release);
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap());
    assert_eq!(*list.lock(), (0..LINKS).collect::<Vec<_>>());
    queues.iter().for_each(|queue| queue.synchronize().unwrap());
}

#[test]
fn a_wait_means_the_record_that_was_there_when_it_was_asked_for() {
    let (first, second, waiting) = (new_queue(), new_queue(), new_queue());
    let (event, list) = (HostEvent::new(0, false), Mutex::default());
    let release = block(&first);
    first.record_event(&event).unwrap();
    waiting.wait_event(&event).unwrap();
    launch_append(&waiting, &list, 1, false).unwrap();
    second.record_event(&event).unwrap();
    event.synchronize().unwrap();
    thread::sleep(Duration::from_millis(10));
    assert!(list.lock().is_empty());
    drop(release);
    waiting.synchronize().unwrap();
    assert_eq!(list.lock().len(), 1);
}

#[test]
fn a_dropped_queue_runs_its_queued_work_and_its_events_stay_valid() {
    let (list, event) = (Arc::new(Mutex::default()), HostEvent::new(0, false));
    let queue = new_queue();
    let submissions = Arc::downgrade(&queue.submissions);
    let release = block(&queue);
    for value in 0..100 {
        launch_append(&queue, &list, value, false).unwrap();
    }
    queue.record_event(&event).unwrap();
    drop(queue);
    assert!(!event.is_complete().unwrap());
    drop(release);
    event.synchronize().unwrap();
    assert_eq!(list.lock().len(), 100);
    let begin = Instant::now();
    while submissions.strong_count() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "the queue's thread ends");
        thread::yield_now();
    }
}

#[test]
fn a_host_function_may_use_its_queue_but_not_wait_for_it() {
    let (queue, list) = (Arc::new(new_queue()), Arc::new(Mutex::default()));
    let (sender, receiver) = mpsc::channel();
    let (inner, inner_list) = (Arc::clone(&queue), Arc::clone(&list));
    let function = move || {
        launch_append(&inner, &inner_list, 2, false).unwrap();
        let (mut to, mut from) = ([0u8; 8], [1u8; 8]);
        let waited = [
            inner.synchronize(),
            launch_append(&inner, &inner_list, 9, true),
            copy(&inner, span(&mut to), span(&mut from), true),
        ];
        drop(inner);
        sender.send(waited.map(|result| result.unwrap_err().code())).unwrap();
    };
    queue.host_function(host(function)).unwrap();
    launch_append(&queue, &list, 1, false).unwrap();
    assert_eq!(receiver.recv().unwrap(), [ErrorCode::Unsupported; 3]);
    queue.synchronize().unwrap();
    let mut list = list.lock().clone();
    list.sort_unstable();
    assert_eq!(list, [1, 2]);
}

#[test]
fn a_panic_is_reported_once_and_the_queue_goes_on() {
    let (queue, list) = (new_queue(), Mutex::default());
    queue.submissions.push(|batch| batch.panic()).unwrap();
    launch_append(&queue, &list, 1, false).unwrap();
    let error = queue.synchronize().unwrap_err();
    assert_eq!(error.code(), ErrorCode::BackendFailure);
    assert!(error.message().contains("asked for"));
    assert_eq!(queue.synchronize(), Ok(()));
    assert_eq!(*list.lock(), [1]);
    queue.submissions.push(|batch| batch.panic()).unwrap();
    let begin = Instant::now();
    while !queue.is_idle().unwrap() {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    assert!(launch_nothing(&queue, true).is_err(), "a launch that waits tells it too");
}

#[test]
fn time_goes_forward_between_events() {
    let queue = new_queue();
    let events = [HostEvent::new(0, true), HostEvent::new(0, true), HostEvent::new(0, true)];
    queue.record_event(&events[0]).unwrap();
    queue.host_function(host(|| thread::sleep(Duration::from_millis(5)))).unwrap();
    queue.record_event(&events[1]).unwrap();
    let early = events[0].elapsed_ns(&events[1]).map_err(|error| error.code());
    assert!(early.is_ok_and(|ns| ns > 0) || early == Err(ErrorCode::InvalidEvent));
    queue.record_event(&events[2]).unwrap();
    queue.synchronize().unwrap();
    assert!(events[0].elapsed_ns(&events[1]).unwrap() >= 5_000_000);
    assert!(events[1].elapsed_ns(&events[2]).unwrap() >= 0);
    assert!(events[1].elapsed_ns(&events[0]).unwrap() < 0);
}

#[test]
fn elapsed_time_names_the_error() {
    let queue = new_queue();
    let (timed, untimed) = (HostEvent::new(0, true), HostEvent::new(0, false));
    let (other_device, never) = (HostEvent::new(1, true), HostEvent::new(0, true));
    for event in [&timed, &untimed, &other_device] {
        queue.record_event(event).unwrap();
    }
    let code = |start: &HostEvent, end| start.elapsed_ns(end).unwrap_err().code();
    assert_eq!(code(&timed, &untimed), ErrorCode::InvalidArgument);
    assert_eq!(code(&untimed, &other_device), ErrorCode::InvalidArgument);
    assert_eq!(code(&timed, &other_device), ErrorCode::InvalidDevice);
    assert_eq!(code(&timed, &never), ErrorCode::InvalidEvent);
    let release = block(&queue);
    queue.record_event(&never).unwrap();
    assert_eq!(code(&timed, &never), ErrorCode::InvalidEvent);
    drop(release);
    queue.synchronize().unwrap();
}

#[test]
fn an_event_that_was_never_recorded_is_complete() {
    let (queue, event) = (new_queue(), HostEvent::new(0, false));
    assert!(event.is_complete().unwrap());
    event.synchronize().unwrap();
    queue.wait_event(&event).unwrap();
    assert!(queue.is_idle().unwrap());
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let code = |shape: LaunchShape| check_shape(&NOTHING, &shape).unwrap_err();
    let error = code(LaunchShape::new([1, 0, 1], [1; 3]));
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.message().contains("0 groups in y"), "{error}");
    let error = code(LaunchShape::new([1; 3], [1, 1, 0]));
    assert!(error.message().contains("0 items in z"), "{error}");
    let error = code(shape().with_dynamic_shared_bytes(SHARED_BYTES + 1));
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    let error = code(LaunchShape::new([2, 1, 1], [1; 3]).with_cooperative(true));
    assert_eq!(error.code(), ErrorCode::Unsupported);
    let allowed = shape().with_cooperative(true).with_dynamic_shared_bytes(SHARED_BYTES);
    assert_eq!(check_shape(&NOTHING, &allowed), Ok(()));
    assert!(is_plain(&NOTHING, &shape()) && !is_plain(&NOTHING, &allowed));
}

#[test]
fn fills_and_copies_that_do_not_fit_are_refused() {
    let (queue, mut memory) = (new_queue(), [0u8; 10]);
    let whole = span(&mut memory);
    let part = span(&mut memory[..5]);
    for pattern in [&[][..], &[1, 2, 3]] {
        assert_eq!(queue.fill(whole, pattern, false).unwrap_err().code(), ErrorCode::InvalidSize);
    }
    let result = copy(&queue, whole, part, true);
    assert_eq!(result.unwrap_err().code(), ErrorCode::InvalidSize);
}

#[test]
fn synchronizing_from_many_threads_sees_all_that_each_queued() {
    let queue = new_queue();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..500u64 {
                    let (mut to, mut from) = ([0; 2], [i, i]);
                    let release = (i % 50 == 0).then(|| block(&queue));
                    copy(&queue, span(&mut to), span(&mut from), false).unwrap();
                    drop(release);
                    queue.synchronize().unwrap();
                    assert_eq!(to, from);
                }
            });
        }
    });
    assert!(queue.is_idle().unwrap());
}
