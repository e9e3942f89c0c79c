//! Copies and fills.

use super::context::{Context, Gate, bytes, or_skip, refused};
use super::{Check, behaviour_list, ensure};
use longshore::{Device, ErrorCode, MemoryKind, Queue, Result};
use std::ffi::c_void;
use std::ops::Bound;

behaviour_list! { "copies":
    "copies of any size keep every byte, in all directions" ["P-50"] copies_keep_every_byte;
    "copies need no alignment" ["P-50"] copies_need_no_alignment;
    "copies go between two devices of a platform" ["P-50"] copies_go_between_devices;
    "copies beyond an allocation are refused" ["H-5"] copies_beyond_are_refused;
    "copies on one queue happen in order" ["P-45", "P-50"] copies_are_in_order;
    "many queued copies from the program's memory keep their order" ["P-45"] many_copies_are_in_order;
    "copies from pinned memory see earlier copies of the queue to it" ["P-45"] pinned_is_read_late;
    "fills repeat patterns of any length" ["P-45"] fills_repeat_patterns;
    "fills stay within their range" ["P-45"] fills_stay_within;
    "the pattern of a fill is captured at the call" ["P-46"] patterns_are_captured;
    "parts of a buffer are copied and filled, and no other elements" ["P-45", "P-50"]
        parts_stay_within;
    "parts that exceed their buffer are refused" ["H-5"] parts_beyond_are_refused;
    "fills that do not fit are refused" ["H-5"] fills_that_do_not_fit_are_refused;
}

const SIZES: [usize; 7] = [0, 1, 63, 64, 65, 4096, (1 << 20) + 3];

fn copies_keep_every_byte(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for (seed, size) in SIZES.into_iter().enumerate() {
        let content = bytes(size, seed as u8);
        let copied = round_trip(&queue, cx.device(), cx.device(), &content)?;
        ensure!(copied == content, "{size} bytes came back changed");
    }
    Ok(())
}

fn copies_go_between_devices(cx: &Context) -> Check {
    let other = cx.other()?;
    let (ours, theirs) = (cx.queue()?, other.queue()?);
    for (seed, size) in SIZES.into_iter().enumerate() {
        let content = bytes(size, seed as u8);
        for queue in [&ours, &theirs] {
            let there = round_trip(queue, cx.device(), other, &content)?;
            ensure!(there == content, "{size} bytes to the other device came back changed");
            let back = round_trip(queue, other, cx.device(), &content)?;
            ensure!(back == content, "{size} bytes from the other device came back changed");
        }
    }
    Ok(())
}

/// Copies from the host to `first`, then to `second`, then to the host.
fn round_trip(queue: &Queue, first: &Device, second: &Device, content: &[u8]) -> Result<Vec<u8>> {
    let size = content.len().max(1) as u64;
    let from = first.allocate(MemoryKind::Device, size, 1)?;
    let to = second.allocate(MemoryKind::Device, size, 1)?;
    let mut back = vec![0; content.len()];
    let size = content.len() as u64;
    // SAFETY: all four live until the queue is synchronized.
    unsafe {
        queue.copy_from_host(from.pointer(), content.as_ptr().cast(), size)?;
        queue.copy(to.pointer(), from.pointer(), size)?;
        queue.copy_to_host(back.as_mut_ptr().cast(), to.pointer(), size)?;
    }
    queue.synchronize()?;
    Ok(back)
}

fn copies_need_no_alignment(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let content = bytes(1024, 5);
    let (a, b) = (cx.device().buffer::<u8>(&queue, 1024)?, cx.device().buffer::<u8>(&queue, 1024)?);
    for (to, from, size) in [(1, 0, 64), (0, 3, 64), (5, 7, 65), (13, 1, 999), (3, 2, 1)] {
        a.write(&queue, &content)?;
        b.write(&queue, &[0; 1024])?;
        // SAFETY: both buffers live until `to_vec` has waited.
        unsafe { queue.copy(b.pointer().offset(to), a.pointer().offset(from), size)? };
        let found = b.to_vec(&queue)?;
        let (to, from, size) = (to as usize, from as usize, size as usize);
        let mut expected = vec![0; 1024];
        expected[to..to + size].copy_from_slice(&content[from..from + size]);
        ensure!(found == expected, "{size} bytes from offset {from} to {to} are wrong");
    }
    Ok(())
}

fn copies_beyond_are_refused(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let small = cx.device().buffer_of(&queue, &[1u8; 100])?;
    let large = cx.device().buffer::<u8>(&queue, 1000)?;
    let mut host = [0u8; 1000];
    let wrong = ErrorCode::InvalidSize;
    // SAFETY: all calls are refused, and the host memory is large enough if one is not.
    unsafe {
        let end = small.pointer().offset(99);
        refused(queue.copy_from_host(end, host.as_ptr().cast(), 2), wrong, "a write beyond")?;
        refused(queue.copy_to_host(host.as_mut_ptr().cast(), end, 2), wrong, "a read beyond")?;
        refused(queue.copy(large.pointer(), small.pointer(), 101), wrong, "a copy from beyond")?;
        refused(queue.copy(small.pointer(), large.pointer(), 101), wrong, "a copy to beyond")?;
        let unknown = queue.copy(longshore::DevicePointer(0x10), small.pointer(), 1);
        refused(unknown, ErrorCode::InvalidArgument, "a copy to an unknown address")?;
    }
    ensure!(small.to_vec(&queue)? == [1; 100], "a refused copy changed memory");
    Ok(())
}

fn copies_are_in_order(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let buffers: Vec<_> =
        (0..20).map(|_| cx.device().buffer::<u8>(&queue, 5000)).collect::<Result<_>>()?;
    let content = bytes(5000, 9);
    // SAFETY: the buffers and the content live until `to_vec` has waited.
    unsafe {
        queue.fill(buffers[0].pointer(), &[0xee], 5000)?;
        queue.copy_from_host(buffers[0].pointer(), content.as_ptr().cast(), 5000)?;
        for pair in buffers.windows(2) {
            queue.copy(pair[1].pointer(), pair[0].pointer(), 5000)?;
        }
        queue.fill(buffers[0].pointer(), &[0x11], 5000)?;
    }
    ensure!(buffers[19].to_vec(&queue)? == content, "the last of 19 copies is wrong");
    ensure!(buffers[0].to_vec(&queue)? == [0x11; 5000], "the fill at the end is missing");
    Ok(())
}

fn many_copies_are_in_order(cx: &Context) -> Check {
    const LARGEST: usize = 65_537;
    let queue = cx.queue()?;
    let sizes: Vec<usize> = [1, 64, 4097, 65_535, 65_536, LARGEST].repeat(12);
    let contents: Vec<_> = (0u8..).zip(&sizes).map(|(seed, size)| bytes(*size, seed)).collect();
    let buffers: Vec<_> =
        sizes.iter().map(|size| cx.device().buffer::<u8>(&queue, *size)).collect::<Result<_>>()?;
    let last = cx.device().buffer::<u8>(&queue, LARGEST)?;
    let mut expected = vec![0; LARGEST];
    // SAFETY: the buffers and the copied contents live until `to_vec` has waited.
    unsafe {
        queue.fill(last.pointer(), &[0], LARGEST as u64)?;
        for (buffer, content) in buffers.iter().zip(&contents) {
            let (from, size) = (content.as_ptr().cast(), content.len() as u64);
            queue.copy_from_host(buffer.pointer(), from, size)?;
            queue.copy_from_host(last.pointer(), from, size)?;
            expected[..content.len()].copy_from_slice(content);
        }
    }
    ensure!(last.to_vec(&queue)? == expected, "a copy came before an earlier one");
    for (buffer, content) in buffers.iter().zip(contents) {
        ensure!(buffer.to_vec(&queue)? == content, "{} bytes came changed", content.len());
    }
    Ok(())
}

fn pinned_is_read_late(cx: &Context) -> Check {
    const BYTES: u64 = 4096;
    let queue = cx.queue()?;
    let mut memory = vec![0u8; BYTES as usize];
    let start: *mut c_void = memory.as_mut_ptr().cast();
    let made = |seed| cx.device().buffer_of(&queue, &bytes(BYTES as usize, seed));
    let buffers: Vec<_> = (0..40).map(made).collect::<Result<_>>()?;
    let copies: Vec<_> =
        (0..40).map(|_| cx.device().buffer::<u8>(&queue, BYTES as usize)).collect::<Result<_>>()?;
    // SAFETY: `memory` is unpinned before it is freed.
    or_skip(unsafe { cx.device().pin(start, BYTES) })?;
    // SAFETY: all memory lives until the queue is synchronized.
    unsafe {
        for (from, to) in buffers.iter().zip(&copies) {
            queue.copy_to_host(start, from.pointer(), BYTES)?;
            queue.copy_from_host(to.pointer(), start, BYTES)?;
        }
    }
    queue.synchronize()?;
    // SAFETY: the copies are done.
    unsafe { cx.device().unpin(start)? };
    for (seed, copy) in (0..).zip(copies) {
        let expected = bytes(BYTES as usize, seed);
        ensure!(copy.to_vec(&queue)? == expected, "copy {seed} read the memory at another time");
    }
    Ok(())
}

fn fills_repeat_patterns(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for length in [1usize, 2, 3, 4, 7, 8, 16, 48] {
        for repeats in [1usize, 2, 100, 3000] {
            let pattern = bytes(length, 0x5a);
            let buffer = cx.device().buffer::<u8>(&queue, length * repeats)?;
            // SAFETY: the buffer lives until `to_vec` has waited.
            unsafe { queue.fill(buffer.pointer(), &pattern, (length * repeats) as u64)? };
            let found = buffer.to_vec(&queue)?;
            ensure!(found == pattern.repeat(repeats), "{repeats} times {length} bytes are wrong");
        }
    }
    Ok(())
}

fn fills_stay_within(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let buffer = cx.device().buffer_of(&queue, &[0u8; 200])?;
    for (offset, pattern, size) in
        [(1, &b"ab"[..], 50), (64, &b"xyz"[..], 3), (101, &b"q"[..], 1), (110, &b"!"[..], 0)]
    {
        // SAFETY: the buffer lives until `to_vec` has waited.
        unsafe { queue.fill(buffer.pointer().offset(offset), pattern, size)? };
    }
    let mut expected = [0u8; 200];
    expected[1..51].copy_from_slice(&b"ab".repeat(25));
    expected[64..67].copy_from_slice(b"xyz");
    expected[101] = b'q';
    ensure!(buffer.to_vec(&queue)? == expected, "bytes outside the ranges were changed");
    Ok(())
}

fn patterns_are_captured(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let buffer = cx.device().buffer_of(&queue, &[0u8; 96])?;
    let mut pattern = bytes(48, 1);
    let expected = pattern.repeat(2);
    let gate = Gate::in_front_of(&queue)?;
    // SAFETY: the buffer lives until `to_vec` has waited.
    unsafe { queue.fill(buffer.pointer(), &pattern, 96)? };
    pattern.fill(0xff);
    drop(pattern);
    gate.open();
    ensure!(buffer.to_vec(&queue)? == expected, "the fill saw a later change of the pattern");
    Ok(())
}

fn parts_stay_within(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let start: Vec<u16> = (0..1000).collect();
    let (buffer, other) =
        (cx.device().buffer_of(&queue, &start)?, cx.device().buffer::<u16>(&queue, 1000)?);
    let (left, right) = buffer.slice(101..=300)?.split_at(99)?;
    ensure!((left.len(), right.len()) == (99, 101), "{} and {}", left.len(), right.len());
    left.fill(&queue, 7)?;
    right.slice(1..)?.write(&queue, &[9; 50])?;
    other.slice(499..600)?.copy_from(&queue, right)?;
    buffer.slice(..101)?.copy_from(&queue, other.slice(550..651)?)?;
    for empty in [buffer.slice(1000..)?, buffer.slice(..0)?] {
        empty.write(&queue, &[])?;
        empty.fill(&queue, 1)?;
        empty.copy_from(&queue, other.slice(5..5)?)?;
        ensure!(empty.to_vec(&queue)?.is_empty(), "an empty part has elements");
    }

    let mut expected = start;
    expected[101..200].fill(7);
    expected[201..251].fill(9);
    let mut copied = vec![0; 1000];
    copied[499..600].copy_from_slice(&expected[200..301]);
    expected[..101].copy_from_slice(&copied[550..651]);
    ensure!(other.to_vec(&queue)? == copied, "a copy between parts is wrong");
    ensure!(buffer.to_vec(&queue)? == expected, "the parts of a buffer are wrong");
    ensure!(right.to_vec(&queue)? == expected[200..301], "a part reads other elements");
    Ok(())
}

fn parts_beyond_are_refused(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let buffer = cx.device().buffer_of(&queue, &[3u32; 100])?;
    let part = buffer.slice(10..20)?;
    let wrong = ErrorCode::InvalidSize;
    refused(buffer.slice(90..101), wrong, "a range beyond the buffer")?;
    refused(buffer.slice(101..), wrong, "a start beyond the buffer")?;
    refused(buffer.slice(..=usize::MAX), wrong, "the largest end")?;
    refused(part.slice(5..11), wrong, "a range beyond the part")?;
    refused(part.split_at(11), wrong, "a middle beyond the part")?;
    refused(part.write(&queue, &[0; 11]), wrong, "a write beyond the part")?;
    refused(part.read(&queue, &mut [0; 11]), wrong, "a read beyond the part")?;
    refused(part.copy_from(&queue, buffer.slice(50..61)?), wrong, "a copy of another length")?;
    let wrong = ErrorCode::InvalidArgument;
    refused(
        buffer.slice((Bound::Included(20), Bound::Excluded(10))),
        wrong,
        "a range that ends before its start",
    )?;
    refused(part.copy_from(&queue, buffer.slice(19..29)?), wrong, "a copy that overlaps")?;
    ensure!(buffer.to_vec(&queue)? == [3; 100], "a refused call changed memory");
    Ok(())
}

fn fills_that_do_not_fit_are_refused(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let buffer = cx.device().buffer_of(&queue, &[7u8; 100])?;
    let wrong = ErrorCode::InvalidSize;
    // SAFETY: all calls are refused.
    unsafe {
        refused(queue.fill(buffer.pointer(), &[], 100), wrong, "an empty pattern")?;
        refused(queue.fill(buffer.pointer(), &[1, 2, 3], 100), wrong, "a fraction of a pattern")?;
        refused(queue.fill(buffer.pointer(), &[1, 2], 102), wrong, "a fill beyond the end")?;
    }
    ensure!(buffer.to_vec(&queue)? == [7; 100], "a refused fill changed memory");
    Ok(())
}
