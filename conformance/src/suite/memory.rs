//! Memory: kinds, sizes, alignment, lookup of addresses, freeing, pinning.

use super::context::{Context, Gate, bytes, if_supported, or_skip, refused};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use longshore::{
    Allocation, AllocationOwner, DevicePointer, ErrorCode, Grid, MemoryKind, PrefetchTarget, Queue,
    Result,
};
use std::ffi::c_void;
use std::ops::Range;
use std::thread;
use std::time::Duration;

behaviour_list! { "memory":
    "allocations of any size are apart and keep their contents"
        ["P-32", "P-33"] sizes_are_kept_apart;
    "addresses have the requested alignment" ["P-32"] alignment_is_kept;
    "sizes of zero and beyond the device are refused" ["P-36"] impossible_sizes_are_refused;
    "alignments that are no power of two are refused" ["H-5"] odd_alignments_are_refused;
    "alignments that no memory can hold are refused" ["P-36"] huge_alignments_are_refused;
    "the host reaches host memory by its address" ["P-34"] host_memory_is_the_hosts;
    "the host reads managed memory right after synchronizing" ["P-34"] managed_memory_is_readable;
    "an address is known by its allocation" ["P-33"] an_address_is_known;
    "only the first address of a live allocation can be freed" ["P-35"] freeing_is_checked;
    "the memory report counts live allocations" ["P-35"] live_memory_is_counted;
    "freed memory can be allocated again, many times" ["P-35"] memory_comes_back;
    "pinned memory can be unpinned once" ["P-55"] pinning_is_undone_once;
    "pinned memory is copied like any other" ["P-55"] pinned_memory_is_copied;
    "an allocation lives on after it was pinned, or refused to be" ["P-35", "P-55"]
        pinning_leaves_allocations;
    "a new buffer is zeros, also in memory that was used before" ["P-45"] new_buffers_are_zeros;
    "the zeros of a buffer precede what other queues write to it" ["P-45"] zeros_come_first;
    "memory freed under queued work is handed out when that is done" ["H-10"]
        freed_memory_waits_for_work;
    "a queue has memory that was freed under its own work at once" ["P-45"] own_memory_comes_at_once;
    "memory freed under work of another device is handed out when that is done" ["H-10"]
        freed_memory_waits_for_other_devices;
    "the host reaches device memory by its address if the device says so" ["P-79"]
        device_memory_is_the_hosts;
    "a kernel reaches memory of the process if the device says so" ["P-79"] memory_is_unified;
    "prefetching is a hint" ["P-57"] prefetching_is_a_hint;
}

/// Skips the behaviour unless the device answers a query with yes.
fn needs_yes(answer: Result<bool>) -> Check {
    match if_supported(answer) {
        Ok(Some(true)) => Ok(()),
        Ok(_) => Err(Stop::Skipped("the device says no".to_owned())),
        Err(error) if error.code() == ErrorCode::Unimplemented => {
            Err(Stop::Skipped(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

fn device_memory_is_the_hosts(cx: &Context) -> Check {
    needs_yes(cx.device().supports_host_access())?;
    let queue = cx.queue()?;
    for size in [8u64, 4096, 1 << 20] {
        let allocation = cx.device().allocate(MemoryKind::Device, size, 8)?;
        let (here, content) = (allocation.pointer().address() as *mut u8, bytes(size as usize, 3));
        write(&queue, &allocation, &content)?;
        // SAFETY: the device promises that the host reaches its memory; no work is queued.
        let found = unsafe { std::slice::from_raw_parts_mut(here, size as usize) };
        ensure!(*found == *content, "the host reads other bytes of {size}");
        found.copy_from_slice(&bytes(size as usize, 77));
        ensure!(read(&queue, &allocation)? == bytes(size as usize, 77), "the device reads others");
    }
    let program = cx.load("basic")?;
    let counter = program.global("counter")?;
    let here = counter.pointer().address() as *mut u64;
    // SAFETY: as above; the global has 8 bytes, and its program is loaded.
    unsafe {
        ensure_eq!(here.read(), counter.read::<u64>(&queue)?, "counter");
        here.write(1234);
    }
    ensure_eq!(counter.read::<u64>(&queue)?, 1234, "counter after the host wrote it");
    Ok(())
}

fn memory_is_unified(cx: &Context) -> Check {
    needs_yes(cx.device().supports_unified_memory())?;
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let iota = program.kernel("iota")?;
    let mut heap = vec![9u32; 5000];
    let mut stack = [9u32; 16];
    for memory in [&mut heap[..], &mut stack[..]] {
        let (to, count) = (DevicePointer(memory.as_mut_ptr() as u64), memory.len() as u64 - 1);
        // SAFETY: iota (out, u64) writes all elements but the last, before the call returns.
        unsafe { queue.launch_and_wait(&iota, Grid::default(), (to, count))? };
        let (last, others) = memory.split_last().expect("there are elements");
        ensure!(others.iter().copied().eq(0..count as u32), "the elements are wrong");
        ensure_eq!(*last, 9, "element behind the last");
    }
    Ok(())
}

const SIZES: [u64; 9] = [1, 3, 7, 8, 255, 257, 4097, 65_537, (1 << 20) + 3];

fn sizes_are_kept_apart(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let mut live: Vec<(Allocation, Vec<u8>)> = Vec::new();
    for (seed, size) in SIZES.into_iter().cycle().take(3 * SIZES.len()).enumerate() {
        let allocation = cx.device().allocate(MemoryKind::Device, size, 1)?;
        ensure_eq!(allocation.bytes(), size, "size");
        let content = bytes(size as usize, seed as u8);
        write(&queue, &allocation, &content)?;
        live.push((allocation, content));
    }
    let mut ranges: Vec<_> = live.iter().map(|(allocation, _)| range(allocation)).collect();
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        ensure!(pair[0].end <= pair[1].start, "{:#x?} and {:#x?} overlap", pair[0], pair[1]);
    }
    for (allocation, content) in &live {
        ensure!(read(&queue, allocation)? == *content, "{} bytes were changed", content.len());
    }
    Ok(())
}

fn new_buffers_are_zeros(cx: &Context) -> Check {
    let (queue, other) = (cx.queue()?, cx.queue()?);
    for size in SIZES {
        for reader in [&queue, &other] {
            drop(cx.device().buffer_of(&queue, &vec![0xab; size as usize])?);
            let buffer = cx.device().buffer::<u8>(&queue, size as usize)?;
            let content = buffer.to_vec(reader)?;
            ensure!(content.iter().all(|byte| *byte == 0), "{size} bytes are not all zero");
        }
    }
    Ok(())
}

fn zeros_come_first(cx: &Context) -> Check {
    let (queue, other) = (cx.queue()?, cx.queue()?);
    let gate = Gate::in_front_of(&queue)?;
    let [written, filled] = [(); 2].map(|()| cx.device().buffer::<u32>(&queue, 1000));
    let (written, filled) = (written?, filled?);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            gate.open();
        });
        written.write(&other, &[7; 1000])?;
        filled.fill(&other, 8)
    })?;
    queue.synchronize()?;
    ensure!(written.to_vec(&other)? == [7; 1000], "the written bytes were zeroed");
    ensure!(filled.to_vec(&other)? == [8; 1000], "the filled bytes were zeroed");
    Ok(())
}

fn freed_memory_waits_for_work(cx: &Context) -> Check {
    let (busy, other) = (cx.queue()?, cx.queue()?);
    for size in [64, 65_537, 1 << 20] {
        handed_out_behind_work(cx, &busy, &other, size)?;
    }
    Ok(())
}

fn freed_memory_waits_for_other_devices(cx: &Context) -> Check {
    let (busy, other) = (cx.other()?.queue()?, cx.queue()?);
    handed_out_behind_work(cx, &busy, &other, 65_537)
}

/// Frees memory that `busy` still has to write. Then uses new allocations on another queue.
fn handed_out_behind_work(cx: &Context, busy: &Queue, other: &Queue, size: usize) -> Check {
    let kept = vec![0xee; size];
    let freed = [0, 1].map(|_| cx.device().allocate(MemoryKind::Device, size as u64, 1));
    let gate = Gate::in_front_of(busy)?;
    for (index, allocation) in freed.into_iter().enumerate() {
        let allocation = allocation?;
        // SAFETY: `kept` lives until the queue is synchronized. The host keeps the memory, which
        // this test checks.
        unsafe { busy.copy_from_host(allocation.pointer(), kept.as_ptr().cast(), size as u64)? };
        if index == 0 {
            // SAFETY: as above.
            unsafe { cx.host().free(allocation.into_raw())? };
        }
    }
    let written = cx.device().buffer_of(other, &vec![5u8; size])?;
    let zeroed = cx.device().buffer::<u8>(other, size)?;
    let raw = cx.device().allocate(MemoryKind::Device, size as u64, 1)?;
    write(other, &raw, &vec![6; size])?;
    gate.open();
    busy.synchronize()?;
    ensure!(written.to_vec(other)? == vec![5; size], "{size} bytes in use were overwritten");
    ensure!(zeroed.to_vec(other)? == vec![0; size], "{size} zeros in use were overwritten");
    ensure!(read(other, &raw)? == vec![6; size], "{size} raw bytes in use were overwritten");
    Ok(())
}

fn own_memory_comes_at_once(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let buffer = cx.device().buffer_of(&queue, &[1u8; 1000])?;
    let (gate, address) = (Gate::in_front_of(&queue)?, buffer.pointer());
    // SAFETY: the host keeps the memory until the fill is done.
    unsafe { queue.fill(address, &[0xee], 1000)? };
    drop(buffer);
    let buffer = cx.device().buffer::<u8>(&queue, 1000)?;
    ensure_eq!(buffer.pointer(), address, "address of the new buffer");
    gate.open();
    ensure!(buffer.to_vec(&queue)? == [0; 1000], "the earlier work ran after the zeros");
    Ok(())
}

fn alignment_is_kept(cx: &Context) -> Check {
    for kind in [MemoryKind::Device, MemoryKind::Host, MemoryKind::Managed] {
        for alignment in [1, 2, 16, 64, 256, 512, 4096, 65_536] {
            for size in [1, 100] {
                let Some(made) = if_supported(cx.device().allocate(kind, size, alignment))? else {
                    ensure!(
                        kind != MemoryKind::Device || alignment > 256,
                        "device memory aligned to {alignment} is unsupported"
                    );
                    continue;
                };
                let address = made.pointer().address();
                ensure!(address % alignment == 0, "{address:#x} is not aligned to {alignment}");
                ensure_eq!(made.kind(), kind, "kind");
            }
        }
    }
    Ok(())
}

fn impossible_sizes_are_refused(cx: &Context) -> Check {
    for kind in [MemoryKind::Device, MemoryKind::Host, MemoryKind::Managed] {
        let empty = cx.device().allocate(kind, 0, 1);
        refused(empty, ErrorCode::InvalidSize, "an allocation of 0 bytes")?;
        if if_supported(cx.device().allocate(kind, 1, 1))?.is_none() {
            continue;
        }
        for size in [u64::MAX, u64::MAX - 255, 1 << 63, i64::MAX as u64, 1 << 60] {
            let huge = cx.device().allocate(kind, size, 1);
            refused(huge, ErrorCode::OutOfResources, &format!("{size} bytes of {kind:?} memory"))?;
        }
    }
    let overflowing = cx.device().buffer::<u64>(&cx.queue()?, usize::MAX);
    refused(overflowing, ErrorCode::InvalidSize, "a buffer whose size overflows")?;
    // The device still works.
    cx.device().allocate(MemoryKind::Device, 4096, 16)?;
    Ok(())
}

fn odd_alignments_are_refused(cx: &Context) -> Check {
    for alignment in [0, 3, 24, 4095, u64::MAX] {
        let made = cx.device().allocate(MemoryKind::Device, 64, alignment);
        refused(made, ErrorCode::InvalidArgument, &format!("alignment {alignment}"))?;
    }
    Ok(())
}

fn huge_alignments_are_refused(cx: &Context) -> Check {
    for alignment in [1 << 62, 1 << 63] {
        for bytes in [1, 1 << 20] {
            match cx.device().allocate(MemoryKind::Device, bytes, alignment) {
                Ok(_) => return Err(Stop::Failed(format!("alignment {alignment} was granted"))),
                Err(error) => ensure!(
                    matches!(error.code(), ErrorCode::OutOfResources | ErrorCode::Unsupported),
                    "alignment {alignment}: expected OutOfResources or Unsupported, got {error:?}"
                ),
            }
        }
    }
    Ok(())
}

fn host_memory_is_the_hosts(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let shared = or_skip(cx.device().allocate(MemoryKind::Host, 4096, 64))?;
    let content = bytes(4096, 1);
    // SAFETY: host memory of 4096 bytes that no queue uses at this point.
    unsafe { host_slice(&shared) }.copy_from_slice(&content);
    ensure!(read(&queue, &shared)? == content, "a copy does not see the host's writes");
    let content = bytes(4096, 2);
    write(&queue, &shared, &content)?;
    // SAFETY: as above; the write has ended.
    let seen = unsafe { host_slice(&shared) };
    ensure!(seen == &content[..], "the host does not see the writes of a copy");
    Ok(())
}

fn managed_memory_is_readable(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let managed = or_skip(cx.device().allocate(MemoryKind::Managed, 4096, 64))?;
    // SAFETY: the allocation outlives the fill.
    unsafe { queue.fill(managed.pointer(), &[1, 2, 3, 4], 4096)? };
    queue.synchronize()?;
    // SAFETY: managed memory of 4096 bytes; the queue is idle.
    let seen = unsafe { host_slice(&managed) };
    ensure!(seen.chunks(4).all(|word| word == [1, 2, 3, 4]), "the host does not see the fill");
    seen.fill(9);
    ensure!(read(&queue, &managed)? == [9; 4096], "a copy does not see the host's writes");
    Ok(())
}

fn an_address_is_known(cx: &Context) -> Check {
    let made = cx.device().allocate(MemoryKind::Device, 1000, 1)?;
    let find = |offset| cx.host().allocation_at(made.pointer().offset(offset));
    for offset in [0, 1, 500, 999] {
        let info = find(offset)?;
        ensure_eq!(info.base, made.pointer().address(), "base at offset {offset}");
        ensure_eq!(info.bytes, 1000, "size at offset {offset}");
        ensure_eq!(info.device, cx.device().id(), "device at offset {offset}");
        let AllocationOwner::Allocation { kind, location } = info.owner else {
            return Err(Stop::Failed("the address is reported as a global".to_owned()));
        };
        ensure_eq!(kind, MemoryKind::Device, "kind");
        ensure_eq!(location.file(), file!(), "file of the allocation");
    }
    refused(find(1000), ErrorCode::NotFound, "the address behind the end")?;
    let pointer = made.pointer();
    drop(made);
    refused(cx.host().allocation_at(pointer), ErrorCode::NotFound, "a freed address")
}

fn freeing_is_checked(cx: &Context) -> Check {
    // SAFETY: the addresses are not live, or were given up by `into_raw` and are unused.
    let free = |pointer| unsafe { cx.host().free(pointer) };
    let wrong = ErrorCode::InvalidArgument;
    let pointer = cx.device().allocate(MemoryKind::Device, 512, 1)?.into_raw();
    refused(free(DevicePointer(0)), wrong, "freeing null")?;
    refused(free(DevicePointer(0x10)), wrong, "freeing an unknown address")?;
    refused(free(pointer.offset(8)), wrong, "freeing an address inside an allocation")?;
    free(pointer)?;
    refused(free(pointer), wrong, "freeing twice")?;
    let queue = cx.queue()?;
    // SAFETY: the fill is refused, because the address is not live.
    let filled = unsafe { queue.fill(pointer, &[1], 512) };
    refused(filled, wrong, "filling freed memory")
}

fn live_memory_is_counted(cx: &Context) -> Check {
    let before = cx.device().memory_report().total;
    let held = cx.device().allocate(MemoryKind::Device, 1000, 1)?;
    let line = line!() + 1;
    let freed = cx.device().allocate(MemoryKind::Device, 24, 1)?;
    for report in [cx.device().memory_report(), cx.host().memory_report()] {
        let device = report.kind(MemoryKind::Device);
        ensure!(device.live_bytes >= 1024, "{} bytes are live", device.live_bytes);
        let mut sites = report.sites.iter().map(|site| (site.location, site.memory.live_bytes));
        let here = sites.find(|(site, _)| (site.file(), site.line()) == (file!(), line));
        ensure_eq!(here.map(|(_, bytes)| bytes), Some(24), "bytes of this call site");
    }
    drop((held, freed));
    ensure_eq!(cx.device().memory_report().total.live_bytes, before.live_bytes, "live afterwards");
    Ok(())
}

fn memory_comes_back(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for round in 0..100u64 {
        let made = cx.device().allocate(MemoryKind::Device, 1 + round * 997, 1)?;
        write(&queue, &made, &bytes(made.bytes() as usize, round as u8))?;
    }
    cx.device().trim()?;
    ensure_eq!(cx.device().cached_bytes(), 0, "cached bytes after trimming");
    let large = 16 << 20;
    for _ in 0..64 {
        cx.device().allocate(MemoryKind::Device, large, 1)?;
        cx.device().trim()?;
    }
    Ok(())
}

fn pinning_is_undone_once(cx: &Context) -> Check {
    let mut memory = vec![0u8; 16_384];
    let start: *mut c_void = memory.as_mut_ptr().cast();
    // SAFETY: `memory` is unpinned before it is freed.
    or_skip(unsafe { cx.device().pin(start, 16_384) })?;
    // SAFETY: as above.
    let again = unsafe { cx.device().pin(start, 16_384) };
    refused(again, ErrorCode::InvalidArgument, "pinning pinned memory")?;
    // SAFETY: nothing is queued, here and below.
    let (once, twice) = unsafe { (cx.device().unpin(start), cx.device().unpin(start)) };
    once?;
    refused(twice, ErrorCode::InvalidArgument, "unpinning twice")?;
    // SAFETY: a size of 0 bytes pins nothing.
    let empty = unsafe { cx.device().pin(start, 0) };
    refused(empty, ErrorCode::InvalidSize, "pinning 0 bytes")?;
    // SAFETY: as above.
    unsafe {
        cx.device().pin(start, 16_384)?;
        cx.device().unpin(start)?;
    }
    Ok(())
}

fn pinned_memory_is_copied(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let mut memory = bytes(8192, 7);
    let expected = memory.clone();
    let start: *mut c_void = memory.as_mut_ptr().cast();
    // SAFETY: `memory` is unpinned before it is freed.
    or_skip(unsafe { cx.device().pin(start, 8192) })?;
    let made = cx.device().allocate(MemoryKind::Device, 8192, 1)?;
    // SAFETY: both live until the queue was synchronized.
    unsafe { queue.copy_from_host(made.pointer(), start, 8192)? };
    queue.synchronize()?;
    // SAFETY: the copy is done.
    unsafe { cx.device().unpin(start)? };
    ensure!(read(&queue, &made)? == expected, "the copy from pinned memory is wrong");
    Ok(())
}

fn pinning_leaves_allocations(cx: &Context) -> Check {
    let made = or_skip(cx.device().allocate(MemoryKind::Host, 65_536, 1))?;
    let start = made.pointer().address() as *mut c_void;
    // SAFETY: the allocation is unpinned before it is freed.
    let pinned = unsafe { cx.device().pin(start, 65_536) };
    match pinned.as_ref().map_err(longshore::Error::code) {
        // SAFETY: nothing is queued.
        Ok(_) => unsafe { cx.device().unpin(start)? },
        Err(ErrorCode::InvalidArgument) => {}
        Err(_) => drop(or_skip(pinned)?),
    }
    // SAFETY: nothing uses the allocation at this point.
    unsafe { cx.host().free(made.into_raw())? };
    Ok(())
}

fn prefetching_is_a_hint(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for kind in [MemoryKind::Managed, MemoryKind::Device] {
        let Some(made) = if_supported(cx.device().allocate(kind, 8192, 1))? else {
            continue;
        };
        let content = bytes(8192, 3);
        write(&queue, &made, &content)?;
        for target in [PrefetchTarget::Device, PrefetchTarget::Host] {
            or_skip(queue.prefetch(made.pointer(), 8192, target))?;
        }
        ensure!(read(&queue, &made)? == content, "prefetching changed the content");
        let beyond = queue.prefetch(made.pointer(), 8193, PrefetchTarget::Device);
        refused(beyond, ErrorCode::InvalidSize, "prefetching beyond the end")?;
    }
    Ok(())
}

fn range(allocation: &Allocation) -> Range<u64> {
    let start = allocation.pointer().address();
    start..start + allocation.bytes()
}

/// # Safety
/// The allocation is host or managed memory that nothing else uses during the life of the slice.
#[expect(clippy::mut_from_ref, reason = "an allocation does not borrow its contents")]
unsafe fn host_slice(allocation: &Allocation) -> &mut [u8] {
    let start = allocation.pointer().address() as *mut u8;
    // SAFETY: the address is that of live memory of this size, which the host can access.
    unsafe { std::slice::from_raw_parts_mut(start, allocation.bytes() as usize) }
}

fn write(queue: &Queue, to: &Allocation, content: &[u8]) -> longshore::Result<()> {
    let from: *const c_void = content.as_ptr().cast();
    // SAFETY: both live until the queue was synchronized.
    unsafe { queue.copy_from_host(to.pointer(), from, content.len() as u64)? };
    queue.synchronize()
}

fn read(queue: &Queue, from: &Allocation) -> longshore::Result<Vec<u8>> {
    let mut content = vec![0; from.bytes() as usize];
    // SAFETY: as above.
    unsafe { queue.copy_to_host(content.as_mut_ptr().cast(), from.pointer(), from.bytes())? };
    queue.synchronize()?;
    Ok(content)
}
