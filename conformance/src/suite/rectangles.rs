//! Copies of rectangles, in two and three dimensions.

use super::context::{Context, Gate, bytes, or_skip, refused};
use super::{Check, behaviour_list, ensure};
use longshore::{Buffer, Device, ErrorCode, Extent, Pitch, Queue, Region, Result};
use std::ffi::c_void;

behaviour_list! { "rectangles":
    "rectangles keep every byte, and change no other, in all directions" ["P-83"]
        every_byte_is_kept;
    "rectangles in the program's pinned memory keep every byte" ["P-83"] pinned_rows_are_kept;
    "rectangles go between two devices of a platform" ["P-83"] rectangles_go_between_devices;
    "rectangles take their place in the queue's order" ["P-45", "P-83"] rectangles_are_in_order;
    "regions of arrays are written, read and copied" ["P-83"] regions_are_copied;
    "rectangles that do not fit are refused" ["H-5"] unfit_rectangles_are_refused;
}

/// The rows of an end: offset of the first row, row pitch, and rows between two slices.
type Rows = (usize, u64, u64);

/// Copies to try: both ends, and the extent.
const COPIES: [(Rows, Rows, Extent); 8] = [
    ((0, 1, 1), (0, 1, 1), Extent::new(1, 1)),
    ((0, 64, 9), (0, 64, 9), Extent::new(64, 9)),
    ((5, 80, 9), (3, 61, 10), Extent::new(61, 9)),
    ((1, 7, 4), (0, 5, 3), Extent::new(5, 3).with_slices(6)),
    ((0, 8, 4), (0, 8, 5), Extent::new(8, 4).with_slices(3)),
    ((13, 8, 4), (2, 16, 4), Extent::new(8, 4).with_slices(3)),
    ((0, 4096, 3), (17, 5000, 2), Extent::new(4000, 2).with_slices(2)),
    ((4, 12, 700), (0, 8, 700), Extent::new(8, 700)),
];

/// Number of bytes in each buffer.
const BYTES: usize = 24_000;

fn every_byte_is_kept(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for copy in COPIES {
        round_trip(&queue, cx.device(), cx.device(), copy)?;
    }
    Ok(())
}

fn rectangles_go_between_devices(cx: &Context) -> Check {
    let other = cx.other()?;
    for queue in [cx.queue()?, other.queue()?] {
        for copy in COPIES {
            round_trip(&queue, cx.device(), other, copy)?;
            round_trip(&queue, other, cx.device(), copy)?;
        }
    }
    Ok(())
}

/// Copies from the host to `first`, then to `second`, then to the host.
fn round_trip(
    queue: &Queue,
    first: &Device,
    second: &Device,
    (to, from, extent): (Rows, Rows, Extent),
) -> Check {
    let content = bytes(BYTES, 3);
    let near = first.buffer_of(queue, &vec![0xa1u8; BYTES])?;
    let far = second.buffer_of(queue, &vec![0xb2u8; BYTES])?;
    let mut back = vec![0xc3; BYTES];
    // SAFETY: all memory lives until the queue is synchronized.
    unsafe {
        let (source, target) = (content[from.0..].as_ptr().cast(), at(&near, to));
        queue.copy_rect_from_host(target, pitch(to), source, pitch(from), extent)?;
        queue.copy_rect(at(&far, from), pitch(from), at(&near, to), pitch(to), extent)?;
        let target: *mut c_void = back[to.0..].as_mut_ptr().cast();
        queue.copy_rect_to_host(target, pitch(to), at(&far, from), pitch(from), extent)?;
    }
    queue.synchronize()?;
    let near_expected = expected(0xa1, to, &content, from, extent);
    ensure!(near.to_vec(queue)? == near_expected, "{extent:?} from the host to {to:?} is wrong");
    let far_expected = expected(0xb2, from, &content, from, extent);
    ensure!(far.to_vec(queue)? == far_expected, "{extent:?} on the device is wrong");
    let back_expected = expected(0xc3, to, &content, from, extent);
    ensure!(back == back_expected, "{extent:?} from {from:?} to the host is wrong");
    Ok(())
}

/// Returns memory full of `other` after a copy of rows of `content`.
fn expected(other: u8, to: Rows, content: &[u8], from: Rows, extent: Extent) -> Vec<u8> {
    let mut expected = vec![other; BYTES];
    for slice in 0..extent.slices {
        for row in 0..extent.rows {
            let start = |rows: Rows| rows.0 + ((slice * rows.2 + row) * rows.1) as usize;
            let (to, from, length) = (start(to), start(from), extent.row_bytes as usize);
            expected[to..to + length].copy_from_slice(&content[from..from + length]);
        }
    }
    expected
}

fn at(buffer: &Buffer<u8>, rows: Rows) -> longshore::DevicePointer {
    buffer.pointer().offset(rows.0 as i64)
}

fn pitch((_, row, rows): Rows) -> Pitch {
    Pitch::new(row, rows)
}

fn pinned_rows_are_kept(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let (to, from, extent) = COPIES[3];
    let mut memory = bytes(BYTES, 8);
    let (content, start) = (memory.clone(), memory.as_mut_ptr());
    let buffer = cx.device().buffer_of(&queue, &vec![0xa1u8; BYTES])?;
    // A part, so that the first rows are pinned and the last are not.
    for pinned in [BYTES, 64] {
        // SAFETY: `memory` is unpinned before it is freed, after the copies are done.
        unsafe {
            or_skip(cx.device().pin(start.cast(), pinned as u64))?;
            let source = start.add(from.0).cast();
            let target = at(&buffer, to);
            let queued = queue
                .copy_rect_from_host(target, pitch(to), source, pitch(from), extent)
                .and_then(|()| {
                    let to = start.add(BYTES / 2).cast();
                    queue.copy_rect_to_host(to, pitch(from), target, pitch(COPIES[3].0), extent)
                });
            queue.synchronize()?;
            queued?;
            cx.device().unpin(start.cast())?;
        }
        let found = buffer.to_vec(&queue)?;
        ensure!(found == expected(0xa1, to, &content, from, extent), "{pinned} bytes are pinned");
        let length = 5 * 3 * 6;
        let (copied, read) = (&content[..length], &memory[BYTES / 2..BYTES / 2 + length]);
        ensure!(copied == read, "the copy back is wrong with {pinned} pinned bytes");
    }
    Ok(())
}

fn rectangles_are_in_order(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let buffers: Vec<_> =
        (0..8).map(|_| cx.device().buffer::<u8>(&queue, 64 * 64)).collect::<Result<_>>()?;
    let content = bytes(32 * 32, 4);
    let (wide, packed, extent) = (Pitch::new(64, 64), Pitch::new(32, 32), Extent::new(32, 32));
    let gate = Gate::in_front_of(&queue)?;
    // SAFETY: the buffers and the content live until `to_vec` has waited.
    unsafe {
        queue.fill(buffers[0].pointer(), &[0xee], 64 * 64)?;
        let source = content.as_ptr().cast();
        queue.copy_rect_from_host(buffers[0].pointer(), wide, source, packed, extent)?;
        for pair in buffers.windows(2) {
            let (to, from) = (pair[1].pointer(), pair[0].pointer());
            queue.copy_rect(to, wide, from, wide, extent)?;
        }
        queue.fill(buffers[0].pointer(), &[0x11], 64 * 64)?;
    }
    gate.open();
    let last = buffers[7].to_vec(&queue)?;
    for (row, expected) in content.chunks(32).enumerate() {
        ensure!(last[row * 64..row * 64 + 32] == *expected, "row {row} is wrong");
        ensure!(last[row * 64 + 32..(row + 1) * 64] == [0; 32], "row {row} is too long");
    }
    ensure!(buffers[0].to_vec(&queue)? == [0x11; 64 * 64], "the fill at the end is missing");
    Ok(())
}

fn regions_are_copied(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let values: Vec<u32> = (0..6 * 5 * 4).collect();
    let all = Region::new([6, 5, 4]);
    let (inner, corner) = (all.part([2, 1, 1], [3, 4, 2]), all.part([0, 0, 0], [3, 4, 2]));
    // The regions begin at an element that is not the buffer's first.
    let buffer = cx.device().buffer::<u32>(&queue, values.len() + 7)?;
    let array = buffer.slice(7..)?;
    array.write_region(&queue, inner, &values, corner)?;
    let other = cx.device().buffer::<u32>(&queue, values.len())?;
    other.as_slice().copy_region_from(&queue, corner, array, inner)?;
    // Side by side in one buffer.
    let (left, right) = (all.part([0, 0, 0], [3, 5, 4]), all.part([3, 0, 0], [3, 5, 4]));
    other.as_slice().copy_region_from(&queue, right, other.as_slice(), left)?;
    // Nothing, from an empty slice within the target.
    let nothing = Region::new([usize::MAX, 0, 1]);
    other.as_slice().copy_region_from(&queue, nothing, other.slice(2..2)?, nothing)?;
    array.write_region(&queue, nothing, &[], nothing)?;
    let mut read = vec![9u32; 3 * 4 * 2];
    other.as_slice().read_region(
        &queue,
        all.part([3, 0, 0], [3, 4, 2]),
        &mut read,
        Region::new([3, 4, 2]),
    )?;
    let element = |x: usize, y: usize, z: usize| values[(z * 5 + y) * 6 + x];
    let expected: Vec<u32> = (0..24).map(|at| element(at % 3, at / 3 % 4, at / 12)).collect();
    ensure!(read == expected, "the region came back as {read:?}");
    let found = array.to_vec(&queue)?;
    ensure!(found[(5 + 1) * 6 + 2] == 0 && found[..38] == [0; 38], "another element was written");
    Ok(())
}

fn unfit_rectangles_are_refused(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let buffer = cx.device().buffer_of(&queue, &[5u8; 100])?;
    let (to, host) = (buffer.pointer(), [0u8; 1000]);
    let packed = |extent: Extent| Pitch::new(extent.row_bytes, extent.rows);
    for (pitch, extent, code) in [
        (Pitch::new(9, 10), Extent::new(10, 10), ErrorCode::InvalidArgument),
        (Pitch::new(10, 9), Extent::new(10, 10), ErrorCode::InvalidArgument),
        (Pitch { row: 10, slice: 25 }, Extent::new(10, 2), ErrorCode::InvalidArgument),
        (Pitch::new(11, 10), Extent::new(10, 10), ErrorCode::InvalidSize),
        (Pitch::new(10, 5), Extent::new(10, 5).with_slices(3), ErrorCode::InvalidSize),
        (Pitch::new(1 << 61, 10), Extent::new(10, 10), ErrorCode::InvalidSize),
    ] {
        let source: *const c_void = host.as_ptr().cast();
        // SAFETY: the calls are refused.
        let (written, copied) = unsafe {
            (
                queue.copy_rect_from_host(to, pitch, source, packed(extent), extent),
                queue.copy_rect(to, pitch, to, pitch, extent),
            )
        };
        refused(written, code, &format!("{extent:?} with {pitch:?} from the host"))?;
        refused(copied, code, &format!("{extent:?} with {pitch:?}"))?;
    }
    // SAFETY: no byte is copied.
    unsafe { queue.copy_rect(to, Pitch::new(0, 0), to, Pitch::new(0, 0), Extent::new(0, 7))? };
    let array = Region::new([10, 10, 1]);
    let (part, wrong) = (array.part([5, 5, 0], [6, 1, 1]), ErrorCode::InvalidSize);
    let slice = buffer.as_slice();
    refused(slice.write_region(&queue, part, &[0; 6], Region::new([6, 1, 1])), wrong, "a part")?;
    refused(slice.write_region(&queue, array, &[0; 99], array), wrong, "too few values")?;
    let overlapping = slice.copy_region_from(
        &queue,
        array.part([0; 3], [5, 5, 1]),
        slice,
        array.part([4, 4, 0], [5, 5, 1]),
    );
    refused(overlapping, ErrorCode::InvalidArgument, "regions that overlap")?;
    ensure!(buffer.to_vec(&queue)? == [5; 100], "a refused copy changed memory");
    Ok(())
}
