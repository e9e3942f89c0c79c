//! Futures of events, and copies of the program's memory that do not block.

use super::context::{Context, Gate, bytes, refused};
use super::{Check, Stop, behaviour_list, ensure};
use longshore::{Buffer, ErrorCode, Grid, Queue, Result};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread::{self, Thread};

behaviour_list! { "waits":
    "an event that is awaited wakes its task when it is reached" ["P-23", "P-54"] events_wake_tasks;
    "events are awaited in any order" ["P-23"] events_are_awaited_in_any_order;
    "an awaited event returns the failure in front of it" ["P-68"] awaited_events_report_failures;
    "copies in a scope are done when the scope ends" ["P-54"] scopes_end_behind_their_copies;
    "copies that own their memory are awaited, dropped and forgotten" ["P-49", "P-54"]
        owned_copies_keep_their_memory;
}

/// A task that counts its wakes and unparks a thread.
struct Sleeper {
    thread: Thread,
    wakes: AtomicUsize,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Sleeper {
    fn new() -> Arc<Sleeper> {
        Arc::new(Sleeper { thread: thread::current(), wakes: AtomicUsize::new(0) })
    }

    fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }
}

/// Blocks until a future is complete. Returns the number of polls, too.
fn block_on<F: Future>(future: F) -> (F::Output, usize) {
    let mut future = pin!(future);
    let sleeper = Sleeper::new();
    let waker = Waker::from(Arc::clone(&sleeper));
    let mut polls = 1;
    loop {
        let wakes = sleeper.wakes();
        match future.as_mut().poll(&mut Task::from_waker(&waker)) {
            Poll::Ready(output) => return (output, polls),
            Poll::Pending => {
                while sleeper.wakes() == wakes {
                    thread::park();
                }
            }
        }
        polls += 1;
    }
}

fn events_wake_tasks(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for _ in 0..10 {
        let gate = Gate::in_front_of(&queue)?;
        let event = queue.record()?;
        let sleeper = Sleeper::new();
        let waker = Waker::from(Arc::clone(&sleeper));
        let mut futures = [0, 1].map(|_| Box::pin(IntoFuture::into_future(&event)));
        for future in &mut futures {
            let polled = future.as_mut().poll(&mut Task::from_waker(&waker));
            ensure!(polled.is_pending(), "an event behind a closed gate is {polled:?}");
        }
        // The first future gives its waker back, and the second one is woken.
        let [first, second] = futures;
        drop(first);
        ensure!(sleeper.wakes() == 0, "the task was woken before the event was reached");
        gate.open();
        let (result, polls) = block_on(second);
        result?;
        ensure!(polls <= 2, "the future was polled {polls} times");
        drop(waker);
        ensure!(Arc::strong_count(&sleeper) == 1, "a dropped future keeps its task");
        let (result, polls) = block_on(async { event.await });
        result?;
        ensure!(polls == 1, "a complete event was polled {polls} times");
    }
    Ok(())
}

fn events_are_awaited_in_any_order(cx: &Context) -> Check {
    let queues = [cx.queue()?, cx.queue()?];
    let mut gates = Vec::new();
    let mut events = Vec::new();
    for _ in 0..3 {
        for queue in &queues {
            gates.push(Gate::in_front_of(queue)?);
            events.push(queue.record()?);
        }
    }
    // The last events are awaited first. The threads take the futures over.
    let waits: Vec<_> = events
        .iter()
        .rev()
        .map(|event| {
            let mut future = Box::pin(IntoFuture::into_future(event));
            let polled = future.as_mut().poll(&mut Task::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "an event behind a closed gate is {polled:?}");
            thread::spawn(move || block_on(future).0)
        })
        .collect();
    let mut waits = waits.into_iter().rev();
    for gate in gates {
        gate.open();
        let wait = waits.next().map(|wait| wait.join());
        ensure!(matches!(wait, Some(Ok(Ok(())))), "a wait returned {wait:?}");
    }
    Ok(())
}

fn awaited_events_report_failures(cx: &Context) -> Check {
    let (faulty, queue) = (cx.load("faulty")?, cx.queue()?);
    let fail = faulty.kernel("fail")?;
    let gate = Gate::in_front_of(&queue)?;
    let before = queue.record()?;
    // SAFETY: `fail` takes no arguments.
    unsafe { queue.launch(&fail, Grid::default(), ())? };
    let behind = queue.record()?;
    let waiting = behind.clone();
    let wait = thread::spawn(move || block_on(waiting.into_future()).0);
    gate.open();
    let waited = wait.join().map_err(|_| Stop::Failed("a wait panicked".to_owned()))?;
    refused(waited, ErrorCode::BackendFailure, "an awaited event behind a failure")?;
    refused(block_on(behind.into_future()).0, ErrorCode::BackendFailure, "a complete event")?;
    block_on(before.into_future()).0?;
    refused(queue.synchronize(), ErrorCode::BackendFailure, "the queue of the failure")
}

fn scopes_end_behind_their_copies(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for size in [1usize, 4096, 100_001] {
        let content = bytes(size, 7);
        let (first, second) =
            (cx.device().buffer::<u8>(&queue, size)?, cx.device().buffer::<u8>(&queue, size)?);
        let (mut back, mut part) = (vec![0; size], vec![0; size / 2]);
        queue.scope(|scope| {
            scope.write(&first, &content)?;
            // SAFETY: the buffers live until the scope ends.
            unsafe { queue.copy(second.pointer(), first.pointer(), size as u64)? };
            scope.read(second.slice(size - size / 2..)?, &mut part)?;
            scope.read(&second, &mut back)
        })?;
        ensure!(back == content, "{size} bytes came back changed");
        ensure!(part == content[size - size / 2..], "a part of {size} bytes came back changed");
    }
    let (buffer, mut short) = (cx.device().buffer_of(&queue, &[3u8; 8])?, [0; 9]);
    let refusal = queue.scope(|scope| scope.read(&buffer, &mut short));
    refused(refusal, ErrorCode::InvalidSize, "a read beyond the buffer")?;
    Ok(())
}

fn owned_copies_keep_their_memory(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for size in [1usize, 4096, 100_001] {
        let content = bytes(size, 9);
        let buffer = cx.device().buffer::<u8>(&queue, size)?;
        let gate = Gate::in_front_of(&queue)?;
        let write = queue.write_owned(&buffer, content.clone())?;
        let read = queue.read_owned(&buffer)?;
        dropped_and_forgotten(&queue, &buffer)?;
        gate.open();
        let (awaited, _) = block_on(read.into_future());
        ensure!(awaited? == content, "{size} bytes came back changed");
        ensure!(write.wait()? == content, "the written vector came back changed");
        queue.synchronize()?;
    }
    Ok(())
}

/// Drops and forgets copies that are queued behind a closed gate.
fn dropped_and_forgotten(queue: &Queue, buffer: &Buffer<u8>) -> Result<()> {
    for _ in 0..3 {
        drop(queue.read_owned(buffer)?);
        drop(queue.read_owned(buffer)?.into_future());
    }
    std::mem::forget(queue.read_owned(buffer.slice(..1)?)?);
    Ok(())
}
