//! Events.

use super::context::{Context, Gate, refused};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use longshore::{ErrorCode, Event, Grid, Result};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

behaviour_list! { "events":
    "an event is complete when its queue has reached it, and not before"
        ["P-51"] completion_is_known;
    "an event of an idle queue completes" ["P-51"] an_idle_queue_reaches_events;
    "an event can be waited for many times, from many threads" ["P-23"] waiting_is_repeatable;
    "a wait for an event with a limit ends when its time is up" ["P-51"] limited_waits_end;
    "a queue waits for an event of another queue" ["P-51"] queues_wait_for_events;
    "a queue that waits for its own event goes on" ["P-51"] own_events_do_not_block;
    "waiting for a complete event changes nothing" ["P-51"] complete_events_do_not_block;
    "events chain queues" ["P-51"] events_chain_queues;
    "an event outlives its queue" ["P-52"] events_outlive_queues;
    "an event behind failed work reports the failure, and one in front of it does not"
        ["P-68"] failures_are_reported;
    "a queue that waits for an event behind failed work takes the failure over"
        ["P-68"] failures_are_taken_over;
    "a host function cannot wait for an event behind it on its own queue"
        ["P-49"] own_functions_are_not_waited_for;
    "events may be dropped before they are reached" ["P-52"] unreached_events_may_be_dropped;
    "elapsed time is that between two events" ["P-53"] elapsed_time_is_measured;
    "elapsed time needs timing" ["P-53"] elapsed_time_needs_timing;
    "elapsed time needs completion" ["P-53"] elapsed_time_needs_completion;
    "elapsed time is not asked across devices" ["P-53"] elapsed_time_is_of_one_device;
    "a queue waits for an event of another device" ["P-51"] queues_wait_for_other_devices;
    "many events can be alive" ["P-51"] many_events_can_be_alive;
}

fn completion_is_known(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let before = queue.record()?;
    let gate = Gate::in_front_of(&queue)?;
    let behind = queue.record()?;
    before.synchronize()?;
    ensure!(before.is_complete()?, "the event before the host function is not complete");
    ensure!(!behind.is_complete()?, "the event behind a blocked host function is complete");
    gate.open();
    behind.synchronize()?;
    ensure!(behind.is_complete()?, "the event is not complete after waiting for it");
    Ok(())
}

fn an_idle_queue_reaches_events(cx: &Context) -> Check {
    for event in [cx.queue()?.record()?, cx.queue()?.record_timed()?] {
        event.synchronize()?;
        ensure!(event.is_complete()?, "the event is not complete");
    }
    Ok(())
}

fn waiting_is_repeatable(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let gate = Gate::in_front_of(&queue)?;
    let event = queue.record()?;
    let wait = || (0..20).try_for_each(|_| event.synchronize());
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
        gate.open();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for result in results {
        result.map_err(|_| Stop::Failed("a thread panicked".to_owned()))??;
    }
    Ok(())
}

fn limited_waits_end(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let gate = Gate::in_front_of(&queue)?;
    let event = queue.record()?;
    for limit in [Duration::ZERO, Duration::from_millis(5)] {
        ensure!(!event.synchronize_for(limit)?, "a blocked event is complete after {limit:?}");
    }
    gate.open();
    ensure!(event.synchronize_for(Duration::MAX)?, "an unlimited wait has timed out");
    ensure!(event.synchronize_for(Duration::ZERO)?, "a complete event needs time");
    Ok(())
}

fn queues_wait_for_events(cx: &Context) -> Check {
    let (basic, first, second) = (cx.basic()?, cx.queue()?, cx.queue()?);
    let out = cx.device().buffer::<u64>(&second, 1)?;
    let gate = Gate::in_front_of(&first)?;
    basic.bump(&first)?;
    let bumped = first.record()?;
    second.wait_for(&bumped)?;
    // SAFETY: `out` lives until `to_vec` has waited.
    unsafe { basic.read_into(&second, &out)? };
    let read = second.record()?;
    thread::sleep(Duration::from_millis(20));
    ensure!(!read.is_complete()?, "the waiting queue went on");
    gate.open();
    ensure_eq!(out.to_vec(&second)?[0], 6, "counter that the waiting queue saw");
    Ok(())
}

fn own_events_do_not_block(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let gate = Gate::in_front_of(&queue)?;
    let event = queue.record()?;
    queue.wait_for(&event)?;
    basic.bump(&queue)?;
    gate.open();
    queue.synchronize()?;
    ensure_eq!(basic.global(&queue)?, 6, "counter");
    Ok(())
}

fn complete_events_do_not_block(cx: &Context) -> Check {
    let (basic, first, second) = (cx.basic()?, cx.queue()?, cx.queue()?);
    let event = first.record()?;
    event.synchronize()?;
    for _ in 0..10 {
        second.wait_for(&event)?;
        basic.bump(&second)?;
    }
    ensure_eq!(basic.global(&second)?, 15, "counter");
    Ok(())
}

fn events_chain_queues(cx: &Context) -> Check {
    let basic = cx.basic()?;
    let queues: Vec<_> = (0..8).map(|_| cx.queue()).collect::<Result<_>>()?;
    let outs: Vec<_> =
        queues.iter().map(|queue| cx.device().buffer::<u64>(queue, 1)).collect::<Result<_>>()?;
    let gate = Gate::in_front_of(&queues[0])?;
    let mut last: Option<Event> = None;
    for (queue, out) in queues.iter().zip(&outs) {
        if let Some(event) = &last {
            queue.wait_for(event)?;
        }
        basic.bump(queue)?;
        // SAFETY: `outs` lives until `to_vec` has waited.
        unsafe { basic.read_into(queue, out)? };
        last = Some(queue.record()?);
    }
    gate.open();
    for (i, (queue, out)) in queues.iter().zip(&outs).enumerate() {
        ensure_eq!(out.to_vec(queue)?[0], 6 + i as u64, "counter in queue {i}");
    }
    Ok(())
}

fn failures_are_reported(cx: &Context) -> Check {
    let (faulty, queue) = (cx.load("faulty")?, cx.queue()?);
    let fail = faulty.kernel("fail")?;
    let before = queue.record()?;
    // SAFETY: `fail` takes no arguments.
    unsafe { queue.launch(&fail, Grid::default(), ())? };
    let behind = [queue.record()?, queue.record()?];
    for event in behind.iter().chain(&behind) {
        refused(event.synchronize(), ErrorCode::BackendFailure, "an event behind a failure")?;
        ensure!(event.is_complete()?, "the event behind a failure is not complete");
        let waited = event.synchronize_for(Duration::MAX);
        refused(waited, ErrorCode::BackendFailure, "an event behind a failure, with a limit")?;
    }
    before.synchronize()?;
    refused(queue.synchronize(), ErrorCode::BackendFailure, "the queue of the failure")?;
    refused(behind[0].synchronize(), ErrorCode::BackendFailure, "an event, later")?;
    queue.record()?.synchronize()?;
    Ok(())
}

fn failures_are_taken_over(cx: &Context) -> Check {
    let (faulty, first, second) = (cx.load("faulty")?, cx.queue()?, cx.queue()?);
    let fail = faulty.kernel("fail")?;
    let gate = Gate::in_front_of(&first)?;
    // SAFETY: `fail` takes no arguments.
    unsafe { first.launch(&fail, Grid::default(), ())? };
    let failed = first.record()?;
    // `second` waits both before the failure and after it.
    second.wait_for(&failed)?;
    let behind = second.record()?;
    gate.open();
    refused(behind.synchronize(), ErrorCode::BackendFailure, "an event behind the wait")?;
    refused(second.synchronize(), ErrorCode::BackendFailure, "the queue that waited")?;
    second.wait_for(&failed)?;
    refused(second.synchronize(), ErrorCode::BackendFailure, "the queue that waited late")?;
    second.synchronize()?;
    refused(first.synchronize(), ErrorCode::BackendFailure, "the queue of the failure")?;
    first.wait_for(&failed)?;
    first.synchronize()?;
    Ok(())
}

fn own_functions_are_not_waited_for(cx: &Context) -> Check {
    let queue = Arc::new(cx.queue()?);
    let gate = Gate::in_front_of(&queue)?;
    let before = queue.record()?;
    let behind = Arc::new(OnceLock::<Event>::new());
    let results = Arc::new(Mutex::new(Vec::new()));
    let (seen, filled) = (Arc::clone(&behind), Arc::clone(&results));
    queue.host_function(move || {
        let events = [Some(&before), seen.get()];
        let waited = events.into_iter().flatten().map(Event::synchronize);
        *filled.lock().unwrap_or_else(PoisonError::into_inner) = waited.collect();
    })?;
    let _ = behind.set(queue.record()?);
    gate.open();
    queue.synchronize()?;
    let results = results.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure_eq!(results.len(), 2, "waits in the host function");
    results[0].clone()?;
    refused(results[1].clone(), ErrorCode::Unsupported, "an event behind the function")
}

fn events_outlive_queues(cx: &Context) -> Check {
    let (queue, waiting) = (cx.queue()?, cx.queue()?);
    let gate = Gate::in_front_of(&queue)?;
    let event = queue.record()?;
    drop(queue);
    ensure!(!event.is_complete()?, "the event is complete before its queue reached it");
    waiting.wait_for(&event)?;
    gate.open();
    event.synchronize()?;
    waiting.synchronize()?;
    ensure!(event.is_complete()?, "the event of a dropped queue is not complete");
    Ok(())
}

fn unreached_events_may_be_dropped(cx: &Context) -> Check {
    let (basic, first, second) = (cx.basic()?, cx.queue()?, cx.queue()?);
    let out = cx.device().buffer::<u64>(&second, 1)?;
    let gate = Gate::in_front_of(&first)?;
    basic.bump(&first)?;
    second.wait_for(&first.record()?)?;
    drop(first.record_timed()?);
    drop(first);
    // SAFETY: `out` lives until `to_vec` has waited.
    unsafe { basic.read_into(&second, &out)? };
    gate.open();
    ensure_eq!(out.to_vec(&second)?[0], 6, "counter that the waiting queue saw");
    Ok(())
}

fn elapsed_time_is_measured(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let pause = Duration::from_millis(5);
    let start = queue.record_timed()?;
    queue.host_function(move || thread::sleep(pause))?;
    let end = queue.record_timed()?;
    end.synchronize()?;
    let (forth, back) = (start.elapsed_ns(&end)?, end.elapsed_ns(&start)?);
    // The clocks of device and host differ: a fifth of tolerance, and no close upper bound.
    let least = pause.as_nanos() as i64 * 4 / 5;
    ensure!(forth >= least, "{forth} ns elapsed while {pause:?} passed");
    ensure!(back <= -least, "{back} ns elapsed backwards while {pause:?} passed");
    ensure!(forth < 10_000_000_000, "{forth} ns elapsed while {pause:?} passed");
    Ok(())
}

fn elapsed_time_needs_timing(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let (with, without) = (queue.record_timed()?, queue.record()?);
    queue.synchronize()?;
    let wrong = ErrorCode::InvalidArgument;
    refused(with.elapsed_ns(&without), wrong, "the end has no timing")?;
    refused(without.elapsed_ns(&with), wrong, "the start has no timing")
}

fn elapsed_time_needs_completion(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let start = queue.record_timed()?;
    let gate = Gate::in_front_of(&queue)?;
    let end = queue.record_timed()?;
    refused(start.elapsed_ns(&end), ErrorCode::InvalidEvent, "the end is not complete")?;
    gate.open();
    end.synchronize()?;
    start.elapsed_ns(&end)?;
    Ok(())
}

fn elapsed_time_is_of_one_device(cx: &Context) -> Check {
    let (ours, theirs) = (cx.queue()?.record_timed()?, cx.other()?.queue()?.record_timed()?);
    ours.synchronize()?;
    theirs.synchronize()?;
    refused(ours.elapsed_ns(&theirs), ErrorCode::InvalidDevice, "events of two devices")
}

fn queues_wait_for_other_devices(cx: &Context) -> Check {
    let (ours, theirs) = (cx.queue()?, cx.other()?.queue()?);
    let gate = Gate::in_front_of(&theirs)?;
    ours.wait_for(&theirs.record()?)?;
    let behind = ours.record()?;
    thread::sleep(Duration::from_millis(20));
    ensure!(!behind.is_complete()?, "the queue did not wait for the other device");
    gate.open();
    behind.synchronize()?;
    Ok(())
}

fn many_events_can_be_alive(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let events: Vec<_> = (0..1000).map(|_| queue.record()).collect::<Result<_>>()?;
    queue.synchronize()?;
    for (i, event) in events.iter().enumerate() {
        ensure!(event.is_complete()?, "event {i} of 1000 is not complete");
    }
    Ok(())
}
