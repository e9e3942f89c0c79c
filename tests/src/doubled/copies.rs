//! Copies that a queue takes along.

use super::{Double, Round};
use longshore::{Buffer, Device, Queue, Result};

/// Settings of a double whose copies are slow.
pub const SLOW: &str = "devices=1;slow=copy:2000us";
/// The largest copy that is taken along, of pageable memory.
const MOST_BYTES: usize = 64 << 10;

/// Small copies from pageable memory are taken along when they are queued, as long as there is room for
/// them; what comes behind them is in order all the same.
///
/// # Panics
/// If that is not so.
pub fn small_copies_are_taken_along(double: &Double, round: &Round) {
    let host = round.host().unwrap();
    let device = host.device(&format!("{}:0", round.of.backend)).unwrap();
    let queue = device.queue().unwrap();
    // Again with memory that was used before.
    for _ in 0..3 {
        for bytes in [1, 64, 1000, MOST_BYTES] {
            let there = device.buffer::<u8>(bytes).unwrap();
            let mut here = vec![7u8; bytes];
            // SAFETY: both are there until `to_vec` has waited. What is read of what is written below is bytes.
            unsafe {
                queue.copy_from_host(there.pointer(), here.as_ptr().cast(), bytes as u64).unwrap();
            }
            here.fill(9);
            assert_eq!(there.to_vec(&queue).unwrap(), vec![7; bytes], "{bytes} bytes");
        }
    }
    more_than_there_is_room_for(&device, &queue).unwrap();
    drop(queue);
    assert!(device.close().unwrap().leaks.is_empty());
    assert_eq!(double.violations(), [""; 0]);
}

fn more_than_there_is_room_for(device: &Device, queue: &Queue) -> Result<()> {
    let contents: Vec<_> = (0..40u8).map(|number| vec![number; MOST_BYTES]).collect();
    let made = |_: &Vec<u8>| device.buffer::<u8>(MOST_BYTES);
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
