//! The first steps of a new plugin, in the order in which an author takes them. Each behaviour
//! needs one function more than the ones before, so the first failure names the next function.

use super::context::Context;
use super::{Check, behaviour_list, ensure};
use longshore::{MemoryKind, Result};

behaviour_list! { "basics":
    "a device opens and closes" ["P-60"] a_device_opens;
    "device memory is allocated and freed" ["P-32", "P-35"] memory_is_allocated;
    "an idle queue has nothing to wait for" ["P-54"] an_idle_queue_is_synchronized;
    "a copy to the device and back keeps its bytes" ["P-50"] a_copy_comes_back;
    "a fill repeats its pattern" ["P-45"] a_fill_repeats_its_pattern;
    "a host function is called" ["P-49"] a_host_function_is_called;
    "an event behind a copy completes" ["P-51"] an_event_completes;
}

const BYTES: u64 = 4096;

/// Does nothing: the runner opens and closes the device.
fn a_device_opens(_: &Context) -> Check {
    Ok(())
}

fn memory_is_allocated(cx: &Context) -> Check {
    let pointer = cx.device().allocate(MemoryKind::Device, BYTES, 16)?.into_raw();
    let address = pointer.address();
    ensure!(address != 0 && address % 16 == 0, "the address is {address:#x}");
    // SAFETY: no work uses the memory.
    unsafe { cx.host().free(pointer)? };
    Ok(())
}

fn an_idle_queue_is_synchronized(cx: &Context) -> Check {
    let queue = cx.queue()?;
    ensure!(queue.is_idle()?, "a new queue is not idle");
    Ok(queue.synchronize()?)
}

/// Calls `work` with device memory, then copies the memory to the host.
fn contents_after(
    cx: &Context,
    work: impl FnOnce(&longshore::Queue, &longshore::Allocation) -> Result<()>,
) -> Result<Vec<u8>> {
    let queue = cx.queue()?;
    let allocation = cx.device().allocate(MemoryKind::Device, BYTES, 16)?;
    work(&queue, &allocation)?;
    let mut back = vec![0; BYTES as usize];
    // SAFETY: both live until the queue is synchronized.
    unsafe { queue.copy_to_host(back.as_mut_ptr().cast(), allocation.pointer(), BYTES)? };
    queue.synchronize()?;
    Ok(back)
}

fn a_copy_comes_back(cx: &Context) -> Check {
    let content: Vec<_> = (0..BYTES).map(|byte| (byte % 251) as u8).collect();
    // SAFETY: the content lives until the queue is synchronized.
    let back = contents_after(cx, |queue, to| unsafe {
        queue.copy_from_host(to.pointer(), content.as_ptr().cast(), BYTES)
    })?;
    ensure!(back == content, "other bytes came back");
    Ok(())
}

fn a_fill_repeats_its_pattern(cx: &Context) -> Check {
    // SAFETY: the memory lives until the queue is synchronized.
    let back =
        contents_after(cx, |queue, to| unsafe { queue.fill(to.pointer(), &[1, 2, 3, 4], BYTES) })?;
    ensure!(back == [1, 2, 3, 4].repeat(BYTES as usize / 4), "other bytes came back");
    Ok(())
}

fn a_host_function_is_called(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let (called, calls) = std::sync::mpsc::channel();
    queue.host_function(move || {
        // The receiver lives until the end of the behaviour.
        let _ = called.send(());
    })?;
    queue.synchronize()?;
    ensure!(calls.try_recv().is_ok(), "synchronizing has not waited for the function");
    Ok(())
}

fn an_event_completes(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let event = queue.record()?;
    event.synchronize()?;
    ensure!(event.is_complete()?, "the event is not complete");
    Ok(())
}
