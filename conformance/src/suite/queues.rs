//! Queues: order, asynchrony, threads, host functions.

use super::context::{Context, Counter, Gate, or_skip, refused};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use crate::amount;
use longshore::{ErrorCode, Grid, MemoryKind, Queue, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The limit for calls that must not wait for a gate; a gate stays closed for twice that time.
const LIMIT: Duration = Duration::from_secs(5);

behaviour_list! { "queues":
    "a queue runs its kernels in order" ["P-45"] kernels_run_in_order;
    "a kernel behind a blocked host function has not run" ["P-24", "P-49"] launching_does_not_block;
    "copies and fills behind a blocked host function do not block"
        ["P-24", "P-49"] copying_does_not_block;
    "a queue is idle when all is done, and not before" ["P-54"] idleness_is_known;
    "synchronizing waits for queued work" ["P-54"] synchronizing_waits;
    "a wait with a limit ends when its time is up, and cancels nothing"
        ["P-54"] limited_waits_end;
    "a wait with a limit runs nothing on the waiting thread" ["P-54"] limited_waits_run_nothing;
    "queues do not wait for each other" ["P-24"] queues_are_independent;
    "many queues work at once" ["P-23", "P-45"] many_queues_work;
    "queued work runs after its queue is dropped" ["P-52"] dropped_queues_finish;
    "a queue takes work from many threads" ["P-23"] many_threads_share_a_queue;
    "host functions run in the queue's order" ["P-45", "P-49"] host_functions_are_ordered;
    "host functions and kernels see each other's work" ["P-49"] host_functions_share_memory;
    "a host function may queue work elsewhere" ["P-49"] host_functions_may_queue;
    "a host function that panics does not harm its queue" ["P-49", "H-11"] panics_are_caught;
    "a failing kernel is reported once, and the queue goes on"
        ["P-48", "P-54"] failures_are_reported_once;
    "each queue has its own stream of the driver" ["P-81"] streams_of_the_driver_stay_the_same;
    "memory of another device is not filled" ["H-4"] foreign_memory_is_refused;
}

fn streams_of_the_driver_stay_the_same(cx: &Context) -> Check {
    let (queue, other) = (cx.queue()?, cx.queue()?);
    let stream = or_skip(queue.driver_stream())?;
    queue.host_function(|| ())?;
    queue.synchronize()?;
    ensure_eq!(queue.driver_stream()?, stream, "the driver's stream");
    ensure!(other.driver_stream()? != stream, "two queues have the stream {stream:#x}");
    Ok(())
}

fn kernels_run_in_order(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let outs: Vec<_> =
        (0..50).map(|_| cx.device().buffer::<u64>(&queue, 1)).collect::<Result<_>>()?;
    for out in &outs {
        basic.bump(&queue)?;
        // SAFETY: `outs` lives until the queue was synchronized.
        unsafe { basic.read_into(&queue, out)? };
    }
    queue.synchronize()?;
    for (i, out) in outs.iter().enumerate() {
        ensure_eq!(out.to_vec(&queue)?[0], 6 + i as u64, "counter after bump {i}");
    }
    Ok(())
}

fn launching_does_not_block(cx: &Context) -> Check {
    let (basic, queue, observer) = (cx.basic()?, cx.queue()?, cx.queue()?);
    let gate = Gate::in_front_of(&queue)?;
    let called = Instant::now();
    for _ in 0..3 {
        basic.bump(&queue)?;
    }
    let took = called.elapsed();
    ensure!(took < amount::limit(LIMIT), "launching blocked for {took:?}");
    thread::sleep(Duration::from_millis(20));
    ensure_eq!(basic.global(&observer)?, 5, "counter while the queue is blocked");
    gate.open();
    queue.synchronize()?;
    ensure_eq!(basic.global(&observer)?, 8, "counter when the queue is done");
    Ok(())
}

fn copying_does_not_block(cx: &Context) -> Check {
    let (queue, observer) = (cx.queue()?, cx.queue()?);
    let kind = match cx.device().allocate(MemoryKind::Host, 64, 1) {
        Ok(_) => MemoryKind::Host,
        Err(_) => MemoryKind::Device,
    };
    let (from, to) = (cx.device().allocate(kind, 64, 1)?, cx.device().buffer::<u8>(&queue, 64)?);
    to.write(&queue, &[1; 64])?;
    let gate = Gate::in_front_of(&queue)?;
    let called = Instant::now();
    // SAFETY: both live until the queue was synchronized.
    unsafe {
        queue.fill(from.pointer(), &[2], 64)?;
        queue.copy(to.pointer(), from.pointer(), 64)?;
    }
    let took = called.elapsed();
    ensure!(took < amount::limit(LIMIT), "queueing a fill and a copy blocked for {took:?}");
    ensure!(to.to_vec(&observer)? == [1; 64], "the copy has run before the host function");
    gate.open();
    queue.synchronize()?;
    ensure!(to.to_vec(&queue)? == [2; 64], "the copy has not run");
    Ok(())
}

fn idleness_is_known(cx: &Context) -> Check {
    let queue = cx.queue()?;
    ensure!(queue.is_idle()?, "a new queue is not idle");
    let gate = Gate::in_front_of(&queue)?;
    ensure!(!queue.is_idle()?, "a blocked queue is idle");
    gate.open();
    queue.synchronize()?;
    ensure!(queue.is_idle()?, "a synchronized queue is not idle");
    Ok(())
}

fn synchronizing_waits(cx: &Context) -> Check {
    let queue = cx.queue()?;
    queue.synchronize()?;
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..5 {
        let done = Arc::clone(&done);
        queue.host_function(move || {
            thread::sleep(Duration::from_millis(3));
            done.fetch_add(1, Ordering::Relaxed);
        })?;
    }
    queue.synchronize()?;
    ensure_eq!(done.load(Ordering::Relaxed), 5, "host functions that had run");
    queue.synchronize()?;
    Ok(())
}

fn limited_waits_end(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    ensure!(queue.synchronize_for(Duration::ZERO)?, "an idle queue needs time to be idle");
    let gate = Gate::in_front_of(&queue)?;
    basic.bump(&queue)?;
    for limit in [Duration::ZERO, Duration::from_millis(5)] {
        ensure!(!queue.synchronize_for(limit)?, "a blocked queue is idle after {limit:?}");
    }
    gate.open();
    ensure!(queue.synchronize_for(Duration::MAX)?, "an unlimited wait has timed out");
    ensure_eq!(basic.global(&queue)?, 6, "counter");
    Ok(())
}

fn limited_waits_run_nothing(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let ran_on = Arc::new(Mutex::new(None));
    for _ in 0..50 {
        let place = Arc::clone(&ran_on);
        queue.host_function(move || {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
        })?;
        ensure!(queue.synchronize_for(Duration::MAX)?, "an unlimited wait has timed out");
        let ran_on = *ran_on.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(ran_on.is_some(), "the queue was idle before its host function ran");
        ensure!(ran_on != Some(thread::current().id()), "it ran on the waiting thread");
    }
    Ok(())
}

fn queues_are_independent(cx: &Context) -> Check {
    let (basic, blocked, free) = (cx.basic()?, cx.queue()?, cx.queue()?);
    let gate = Gate::in_front_of(&blocked)?;
    basic.bump(&blocked)?;
    let called = Instant::now();
    ensure_eq!(basic.read(&free)?, 5, "counter seen from the other queue");
    let took = called.elapsed();
    ensure!(took < amount::limit(LIMIT), "the other queue waited for {took:?}");
    gate.open();
    blocked.synchronize()?;
    ensure_eq!(basic.read(&free)?, 6, "counter when the first queue is done");
    Ok(())
}

fn many_queues_work(cx: &Context) -> Check {
    let basic = cx.basic()?;
    let queues: Vec<Queue> = (0..32).map(|_| cx.queue()).collect::<Result<_>>()?;
    let buffers: Vec<_> =
        queues.iter().map(|queue| cx.device().buffer::<u32>(queue, 64)).collect::<Result<_>>()?;
    for _ in 0..10 {
        for (i, (queue, buffer)) in queues.iter().zip(&buffers).enumerate() {
            basic.bump(queue)?;
            // SAFETY: the buffer lives until `to_vec` has waited.
            unsafe { queue.fill(buffer.pointer(), &(i as u32).to_le_bytes(), 256)? };
        }
    }
    for (i, (queue, buffer)) in queues.iter().zip(&buffers).enumerate() {
        ensure!(buffer.to_vec(queue)? == [i as u32; 64], "queue {i} filled something else");
    }
    ensure_eq!(basic.global(&queues[0])?, 5 + 320, "counter");
    Ok(())
}

fn dropped_queues_finish(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let gate = Gate::in_front_of(&queue)?;
    basic.bump(&queue)?;
    let reached = queue.record()?;
    drop(queue);
    // The host may reuse a dropped queue, but not while the queue is busy.
    let observer = cx.queue()?;
    ensure_eq!(basic.global(&observer)?, 5, "counter while the dropped queue is blocked");
    gate.open();
    reached.synchronize()?;
    ensure_eq!(basic.global(&observer)?, 6, "counter when the dropped queue is done");
    for _ in 0..50 {
        basic.bump(&cx.queue()?)?;
    }
    drop(basic);
    Ok(())
}

fn many_threads_share_a_queue(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let work = || -> Result<()> {
        for _ in 0..50 {
            basic.bump(&queue)?;
        }
        queue.synchronize()?;
        queue.is_idle().map(drop)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for result in results {
        result.map_err(|_| Stop::Failed("a thread panicked".to_owned()))??;
    }
    ensure_eq!(basic.global(&queue)?, 5 + 400, "counter");
    Ok(())
}

fn host_functions_are_ordered(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    for i in 0..100 {
        let seen = Arc::clone(&seen);
        queue.host_function(move || {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(i);
        })?;
    }
    queue.synchronize()?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(seen.iter().copied().eq(0..100), "the order was {seen:?}");
    Ok(())
}

fn host_functions_share_memory(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let mut before = Box::new(0u64);
    let (value, out) = (Arc::new(AtomicUsize::new(0)), cx.device().buffer::<u64>(&queue, 1)?);
    basic.bump(&queue)?;
    // SAFETY: `out` and `before` live until the queue was synchronized.
    unsafe {
        basic.read_into(&queue, &out)?;
        queue.copy_to_host((&raw mut *before).cast(), out.pointer(), 8)?;
    }
    let (read, write) = ((&raw const *before) as usize, Arc::clone(&value));
    queue.host_function(move || {
        // SAFETY: `before` lives until the queue is synchronized, and the copy before this function
        // has ended.
        let copied = unsafe { (read as *const u64).read_volatile() };
        write.store(copied as usize, Ordering::Release);
    })?;
    basic.bump(&queue)?;
    queue.synchronize()?;
    ensure_eq!(value.load(Ordering::Acquire), 6, "counter that the host function saw");
    ensure_eq!(basic.global(&queue)?, 7, "counter at the end");
    Ok(())
}

fn host_functions_may_queue(cx: &Context) -> Check {
    let (basic, queue) = (Arc::new(cx.basic()?), cx.queue()?);
    let (other, work) = (Arc::new(cx.queue()?), Arc::clone(&basic));
    let failed = Arc::new(AtomicUsize::new(0));
    let (elsewhere, failures) = (Arc::clone(&other), Arc::clone(&failed));
    queue.host_function(move || {
        if work.bump(&elsewhere).is_err() {
            failures.fetch_add(1, Ordering::Relaxed);
        }
        // A host function must not drop the last handle of a program.
        drop((work, elsewhere));
    })?;
    queue.synchronize()?;
    other.synchronize()?;
    if failed.load(Ordering::Relaxed) > 0 {
        return Err(Stop::Skipped("the device does not allow calls from host functions".into()));
    }
    ensure_eq!(basic.global(&queue)?, 6, "counter");
    Ok(())
}

fn panics_are_caught(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    // Unlike `panic!`, this prints nothing on standard error.
    queue.host_function(|| std::panic::resume_unwind(Box::new("on purpose")))?;
    basic.bump(&queue)?;
    queue.synchronize()?;
    ensure_eq!(basic.global(&queue)?, 6, "counter of the kernel behind");
    Ok(())
}

fn failures_are_reported_once(cx: &Context) -> Check {
    let (faulty, queue) = (Counter::new(cx.load("faulty")?)?, cx.queue()?);
    let fail = faulty.program.kernel("fail")?;
    // SAFETY: `fail` takes no arguments.
    let failing = || unsafe { queue.launch(&fail, Grid::default(), ()) };
    failing()?;
    faulty.bump(&queue)?;
    failing()?;
    refused(queue.synchronize(), ErrorCode::BackendFailure, "waiting for a failing kernel")?;
    queue.synchronize()?;
    ensure_eq!(faulty.global(&queue)?, 6, "counter of the kernel behind");
    // SAFETY: as above.
    let waited = unsafe { queue.launch_and_wait(&fail, Grid::default(), ()) };
    refused(waited, ErrorCode::BackendFailure, "a failing launch that waits")?;
    failing()?;
    let waited = queue.synchronize_for(Duration::MAX);
    refused(waited, ErrorCode::BackendFailure, "waiting with a limit for a failing kernel")?;
    queue.synchronize()?;
    Ok(())
}

fn foreign_memory_is_refused(cx: &Context) -> Check {
    let other = cx.other()?;
    let theirs = other.buffer::<u8>(&other.queue()?, 64)?;
    // SAFETY: refused.
    let filled = unsafe { cx.queue()?.fill(theirs.pointer(), &[1], 64) };
    refused(filled, ErrorCode::InvalidDevice, "a fill of another device's memory")
}
