//! Copies whose source a queue reads at once.

use super::{Double, Round};
use longshore::{Buffer, Device, Queue, Result};

/// Settings of a double whose copies are slow.
pub const SLOW: &str = "devices=1;slow=copy:2000us";
const PAGE: usize = 4096;
/// Largest copy from pageable memory, in bytes, whose source is read at once.
const MOST_BYTES: usize = 64 << 10;

/// Asserts that small copies from pageable memory read their source when they are queued, while
/// there is staging memory, and that the copies stay in order. `memory_by` is the driver's function
/// that allocates the staging memory, unless the driver itself reads the source.
///
/// # Panics
/// If the assertion fails.
pub fn small_copies_are_taken_along(double: &Double, round: &Round, memory_by: Option<&str>) {
    let allocated = || memory_by.map(|function| double.calls_of(function));
    let before = allocated();
    let host = round.host().unwrap();
    let device = host.device(&format!("{}:0", round.of.backend)).unwrap();
    let queue = device.queue().unwrap();
    // Repeated with used staging memory.
    for _ in 0..3 {
        for bytes in [1, 64, 1000, MOST_BYTES] {
            let there = device.buffer::<u8>(&queue, bytes).unwrap();
            let mut here = vec![7u8; bytes];
            // SAFETY: both are there until `to_vec` has waited. Bytes that are read while they are
            // written may have any value.
            unsafe {
                queue.copy_from_host(there.pointer(), here.as_ptr().cast(), bytes as u64).unwrap();
            }
            here.fill(9);
            assert_eq!(there.to_vec(&queue).unwrap(), vec![7; bytes], "{bytes} bytes");
        }
    }
    assert_eq!(allocated(), before.map(|count| count + 1), "there is memory for them, once");
    more_than_there_is_room_for(&device, &queue).unwrap();
    drop(queue);
    assert!(device.close().unwrap().leaks.is_empty());
    assert_eq!(double.violations(), [""; 0]);
}

/// Asserts that a copy of partly page-locked memory copies all of it, after the work that writes
/// it.
///
/// # Panics
/// If the assertion fails.
pub fn memory_that_is_locked_in_part_is_copied_whole(double: &Double, round: &Round) {
    let host = round.host().unwrap();
    let device = host.device(&format!("{}:0", round.of.backend)).unwrap();
    let queue = device.queue().unwrap();
    for large in [2 * PAGE, 3 << 20] {
        for (locked_at, written_at) in [(0, 0), (large - PAGE, large - PAGE)] {
            locked_in_part(&device, &queue, large, locked_at, written_at);
        }
    }
    drop(queue);
    assert!(device.close().unwrap().leaks.is_empty());
    assert_eq!(double.violations(), [""; 0]);
}

fn locked_in_part(device: &Device, queue: &Queue, bytes: usize, locked_at: usize, at: usize) {
    // A vector may begin anywhere in a page.
    let mut memory = vec![1u8; bytes + PAGE];
    let offset = memory.as_ptr().align_offset(PAGE);
    let here = memory[offset..offset + bytes].as_mut_ptr();
    let fives = device.buffer_of(queue, &[5u8; PAGE]).unwrap();
    let there = device.buffer::<u8>(queue, bytes).unwrap();
    let sevens = device.buffer_of(queue, &vec![7u8; bytes]).unwrap();
    let mut expected = vec![1u8; bytes];
    expected[at..at + PAGE].fill(5);
    // SAFETY: all of it is there until the wait for the queue; no other code accesses the memory
    // until then.
    unsafe {
        device.pin(here.add(locked_at).cast(), PAGE as u64).unwrap();
        queue.copy_to_host(here.add(at).cast(), fives.pointer(), PAGE as u64).unwrap();
        queue.copy_from_host(there.pointer(), here.cast(), bytes as u64).unwrap();
        assert_eq!(there.to_vec(queue).unwrap(), expected, "queued, {bytes} bytes, {locked_at}");
        here.write_bytes(1, bytes);
        queue.copy_to_host(here.add(at).cast(), fives.pointer(), PAGE as u64).unwrap();
        there.write(queue, std::slice::from_raw_parts(here, bytes)).unwrap();
        assert_eq!(there.to_vec(queue).unwrap(), expected, "waited, {bytes} bytes, {locked_at}");
        queue.copy_to_host(here.cast(), sevens.pointer(), bytes as u64).unwrap();
        queue.synchronize().unwrap();
        device.unpin(here.add(locked_at).cast()).unwrap();
    }
    assert_eq!(memory[offset..offset + bytes], vec![7; bytes], "to the host");
}

fn more_than_there_is_room_for(device: &Device, queue: &Queue) -> Result<()> {
    let contents: Vec<_> = (0..40u8).map(|number| vec![number; MOST_BYTES]).collect();
    let made = |_: &Vec<u8>| device.buffer::<u8>(queue, MOST_BYTES);
    let buffers: Vec<Buffer<u8>> = contents.iter().map(made).collect::<Result<_>>()?;
    for (content, buffer) in contents.iter().zip(&buffers) {
        // SAFETY: both are there until `to_vec` has waited.
        unsafe {
            queue.copy_from_host(buffer.pointer(), content.as_ptr().cast(), MOST_BYTES as u64)?;
        }
    }
    for (content, buffer) in contents.iter().zip(&buffers) {
        assert_eq!(&buffer.to_vec(queue)?, content);
    }
    Ok(())
}
