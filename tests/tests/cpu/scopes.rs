//! Scopes of queues, copies that own their memory, and futures at unusual moments: panics, closed
//! devices, host functions.

use longshore::{Device, ErrorCode, Queue};
use longshore_tests::world::{World, copy_into, host_plugin};
use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;

const LEN: usize = 100_000;

fn device() -> (World, Device) {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let device = world.host().build().unwrap().default_device().unwrap();
    (world, device)
}

/// Blocks the queue until the sender sends or is dropped.
fn gate(queue: &Queue) -> Sender<()> {
    let (open, opened) = channel();
    queue
        .host_function(move || {
            let _ = opened.recv();
        })
        .unwrap();
    open
}

/// Opens a gate on another thread, after some time that no assertion depends on.
fn open_later(gate: Sender<()>) {
    thread::spawn(move || {
        thread::sleep(std::time::Duration::from_millis(20));
        drop(gate);
    });
}

#[test]
fn a_scope_that_panics_waits_for_its_copies() {
    let (_world, device) = device();
    let queue = device.queue().unwrap();
    let buffer = device.buffer_of(&queue, &vec![7u8; LEN]).unwrap();
    let mut values = vec![0; LEN];
    let gate = gate(&queue);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        queue.scope(|scope| -> longshore::Result<()> {
            scope.read(&buffer, &mut values)?;
            open_later(gate);
            panic!("asked for")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(values, vec![7; LEN]);
}

#[test]
fn a_scope_that_fails_waits_for_its_copies_and_returns_its_error() {
    let (_world, device) = device();
    let queue = device.queue().unwrap();
    let buffer = device.buffer_of(&queue, &vec![7u8; LEN]).unwrap();
    let mut values = vec![0; LEN];
    let gate = gate(&queue);
    let failed = queue.scope(|scope| {
        scope.read(&buffer, &mut values)?;
        open_later(gate);
        buffer.slice(LEN + 1..).map(drop)
    });
    assert_eq!(failed.unwrap_err().code(), ErrorCode::InvalidSize);
    assert_eq!(values, vec![7; LEN]);
}

#[test]
fn a_device_that_is_closed_in_a_scope_has_done_the_copies_when_the_scope_ends() {
    for on_another_thread in [false, true] {
        let (_world, device) = device();
        let queue = device.queue().unwrap();
        let buffer = device.buffer_of(&queue, &vec![7u8; LEN]).unwrap();
        let mut values = vec![0; LEN];
        let gate = gate(&queue);
        let close = || device.close().map(drop);
        let closing = thread::scope(|threads| {
            let closed = queue.scope(|scope| {
                scope.read(&buffer, &mut values)?;
                if on_another_thread {
                    let closing = threads.spawn(close);
                    open_later(gate);
                    return Ok(Some(closing));
                }
                drop(gate);
                close()?;
                Ok(None)
            });
            closed.map(|thread| thread.map(|thread| thread.join().unwrap()))
        });
        closing.unwrap().unwrap_or(Ok(())).unwrap();
        assert_eq!(values, vec![7; LEN]);
    }
}

#[test]
fn scopes_and_futures_in_front_of_themselves_are_refused() {
    let (_world, device) = device();
    let queue = Arc::new(device.queue().unwrap());
    let (results, received) = channel();
    let own = Arc::clone(&queue);
    queue
        .host_function(move || {
            let scope = own.scope(|_| Ok(()));
            let event = own.record().unwrap();
            let mut future = Box::pin(event.into_future());
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            results.send((scope, polled)).unwrap();
        })
        .unwrap();
    queue.synchronize().unwrap();
    let (scope, polled) = received.recv().unwrap();
    assert_eq!(scope.unwrap_err().code(), ErrorCode::Unsupported);
    let Poll::Ready(Err(refused)) = polled else { panic!("{polled:?}") };
    assert_eq!(refused.code(), ErrorCode::Unsupported);
}

#[test]
fn one_thread_waits_for_all_events_of_a_queue() {
    let (_world, device) = device();
    let queue = device.queue().unwrap();
    let gate = gate(&queue);
    let mut futures: Vec<_> =
        (0..1000).map(|_| Box::pin(queue.record().unwrap().into_future())).collect();
    let mut context = Context::from_waker(Waker::noop());
    // The earliest event first, so that the thread for it serves the others.
    for future in &mut futures {
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(waiting_threads(), 1);
    drop(gate);
    for future in futures {
        pollster::block_on(future).unwrap();
    }
}

/// Returns the number of threads of the library that wait for events.
fn waiting_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| {
        // A thread may end meanwhile.
        std::fs::read_to_string(task.unwrap().path().join("comm")).ok()
    });
    names.filter(|name| name.trim_end() == "longshore-await").count()
}

#[test]
fn memory_of_a_copy_that_is_dropped_in_a_host_function_is_freed_behind_the_copy() {
    let (_world, device) = device();
    let queue = device.queue().unwrap();
    let buffer = device.buffer_of(&queue, &vec![7u8; LEN]).unwrap();
    let gate = gate(&queue);
    let (copies, received) = channel::<longshore::OwnedCopy<u8>>();
    queue.host_function(move || drop(received.recv())).unwrap();
    copies.send(queue.read_owned(&buffer).unwrap()).unwrap();
    drop(gate);
    queue.synchronize().unwrap();
}

#[test]
fn a_copy_outlives_its_queue_and_its_device() {
    let (_world, device) = device();
    let queue = device.queue().unwrap();
    let buffer = device.buffer_of(&queue, &vec![7u8; LEN]).unwrap();
    let gate = gate(&queue);
    let copies = [0; 3].map(|_| queue.read_owned(&buffer).unwrap());
    drop((queue, buffer));
    drop(gate);
    let [waited, dropped, uninitialized] = copies;
    assert_eq!(waited.wait().unwrap(), vec![7; LEN]);
    device.close().unwrap();
    drop(dropped);
    assert_eq!(uninitialized.wait().unwrap_err().code(), ErrorCode::Uninitialized);
}
