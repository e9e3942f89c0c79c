//! Closing a device: leaks, later use, reopening.

use super::context::{Context, Counter, Gate, refused};
use super::{Check, behaviour_list, ensure, ensure_eq};
use crate::TrustedImages;
use longshore::{ErrorCode, Grid, MemoryKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

behaviour_list! { "close":
    "closing reports unfreed memory, and the place of its allocation" ["H-8"] leaks_are_reported;
    "closing finds no leaks where all was freed" ["P-35"] freed_memory_is_no_leak;
    "closing waits for queued work" ["P-52", "H-8"] closing_waits;
    "use after closing is refused" ["H-4"] use_after_close_is_refused;
    "a closed device can be opened again" ["P-60"] devices_reopen;
    "an open device is opened once" ["H-4"] open_devices_are_shared;
    "dropping the last handle closes the device" ["H-8"] dropping_closes;
    "closing one device leaves the others alone" ["H-4"] others_stay_open;
}

fn leaks_are_reported(cx: &Context) -> Check {
    let device = cx.device().clone();
    let line = line!() + 1;
    let held = device.allocate(MemoryKind::Device, 1000, 1)?;
    let raw = device.allocate(MemoryKind::Device, 77, 64)?.into_raw();
    drop(device.allocate(MemoryKind::Device, 500, 1)?);
    let mut leaks = device.close()?.leaks;
    leaks.sort_by_key(|leak| std::cmp::Reverse(leak.bytes));
    ensure_eq!(leaks.len(), 2, "leaks");
    ensure_eq!((leaks[0].address, leaks[0].bytes), (held.pointer().address(), 1000), "first");
    ensure_eq!((leaks[1].address, leaks[1].bytes), (raw.address(), 77), "second");
    for (leak, line) in leaks.iter().zip(line..) {
        ensure_eq!(leak.kind, MemoryKind::Device, "kind");
        ensure_eq!((leak.location.file(), leak.location.line()), (file!(), line), "location");
    }
    // A handle that outlives the device frees nothing.
    drop(held);
    Ok(())
}

fn freed_memory_is_no_leak(cx: &Context) -> Check {
    let device = cx.device().clone();
    for size in [1, 1000, 1 << 20] {
        drop(device.allocate(MemoryKind::Device, size, 1)?);
        let raw = device.allocate(MemoryKind::Device, size, 1)?.into_raw();
        // SAFETY: `into_raw` gave the memory up, and nothing uses it.
        unsafe { cx.host().free(raw)? };
    }
    ensure_eq!(device.close()?.leaks, [], "leaks");
    Ok(())
}

fn closing_waits(cx: &Context) -> Check {
    let (device, queue) = (cx.device().clone(), cx.queue()?);
    let done = Arc::new(AtomicBool::new(false));
    let gate = Gate::in_front_of(&queue)?;
    let flag = Arc::clone(&done);
    queue.host_function(move || flag.store(true, Ordering::Release))?;
    drop(queue);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            gate.open();
        });
        device.close()
    })?;
    ensure!(done.load(Ordering::Acquire), "it was closed before the queue was done");
    Ok(())
}

fn use_after_close_is_refused(cx: &Context) -> Check {
    let (device, queue) = (cx.device().clone(), cx.queue()?);
    let basic = cx.basic()?;
    let (kernel, counter) = (basic.program.kernel("nop")?, basic.program.global("counter")?);
    let (event, buffer) = (queue.record()?, device.buffer::<u8>(&queue, 16)?);
    let image = cx.image("basic")?;
    device.clone().close()?;
    let gone = ErrorCode::Uninitialized;
    refused(device.queue(), gone, "making a queue")?;
    refused(device.allocate(MemoryKind::Device, 16, 1), gone, "allocating")?;
    refused(device.load_trusted(&*image), gone, "loading")?;
    refused(device.accepts(&image), gone, "asking whether an image is accepted")?;
    refused(device.trim(), gone, "trimming")?;
    refused(queue.synchronize(), gone, "synchronizing a queue")?;
    refused(queue.synchronize_for(Duration::MAX), gone, "waiting for a queue with a limit")?;
    refused(queue.is_idle(), gone, "asking whether a queue is idle")?;
    refused(queue.record(), gone, "recording an event")?;
    refused(queue.host_function(|| ()), gone, "queueing a host function")?;
    // SAFETY: the call is refused.
    let launched = unsafe { queue.launch(&kernel, Grid::default(), ()) };
    refused(launched, gone, "launching")?;
    refused(basic.program.kernel("nop"), gone, "finding a kernel")?;
    refused(counter.read::<u64>(&queue), gone, "reading a global")?;
    refused(event.synchronize(), gone, "waiting for an event")?;
    refused(event.synchronize_for(Duration::MAX), gone, "waiting for an event with a limit")?;
    refused(event.is_complete(), gone, "asking for an event")?;
    refused(buffer.write(&queue, &[1; 16]), gone, "writing a buffer")?;
    refused(buffer.to_vec(&queue), gone, "reading a buffer")?;
    refused(device.close(), gone, "closing again")
}

fn devices_reopen(cx: &Context) -> Check {
    let first = cx.device().id();
    cx.device().clone().close()?;
    for round in 0..5 {
        let device = cx.reopened()?;
        ensure!(device.id() != first, "the reopened device has the id of the closed one");
        let queue = device.queue()?;
        let basic = Counter::new(cx.load_on(&device, "basic")?)?;
        basic.bump(&queue)?;
        ensure_eq!(basic.read(&queue)?, 6, "counter in round {round}");
        drop(basic);
        ensure_eq!(device.close()?.leaks, [], "leaks in round {round}");
    }
    Ok(())
}

fn open_devices_are_shared(cx: &Context) -> Check {
    ensure_eq!(cx.reopened()?.id(), cx.device().id(), "id of a device that is open");
    Ok(())
}

fn dropping_closes(cx: &Context) -> Check {
    cx.device().clone().close()?;
    let device = cx.reopened()?;
    let id = device.id();
    let place = cx.load_on(&device, "basic")?;
    let queue = device.queue()?;
    let basic = Counter::new(place)?;
    basic.bump(&queue)?;
    drop((device, queue));
    let again = cx.reopened()?;
    ensure_eq!(again.id(), id, "id while a program holds the device");
    drop((again, basic));
    let fresh = cx.reopened()?;
    ensure!(fresh.id() != id, "the device was not closed when its last handle was dropped");
    fresh.close()?;
    Ok(())
}

fn others_stay_open(cx: &Context) -> Check {
    let other = cx.other()?;
    let (basic, queue) = (Counter::new(cx.load_on(other, "basic")?)?, other.queue()?);
    cx.device().clone().close()?;
    basic.bump(&queue)?;
    ensure_eq!(basic.read(&queue)?, 6, "counter on the other device");
    Ok(())
}
