//! Two queues: one makes blocks of numbers, the other adds each block to the sum so far. Events
//! order the work, and no thread of the program waits before the end:
//! `cargo run --example two_queues kernels.img`.

use longshore::{Grid, Host, Image, Result};

const N: usize = 4096;
const BLOCKS: usize = 8;

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).expect("the argument names an image");
    let host = Host::new()?;
    let image = Image::read(path)?;
    let device = host.device_for(&image)?;
    // SAFETY: the image has no code but the kernels of `kernels.c`.
    let program = unsafe { device.load(image)? };
    let (iota, saxpy) = (program.kernel("iota")?, program.kernel("saxpy")?);

    let (producer, consumer) = (device.queue()?, device.queue()?);
    let grid = Grid::linear(32, 128);
    let sum = device.buffer_of(&consumer, &[0.0f32; N])?;
    // Two blocks: one is made while the other is added.
    let blocks = [device.buffer::<f32>(&producer, N)?, device.buffer::<f32>(&producer, N)?];
    let mut added = [const { None }; 2];
    for number in 0..BLOCKS {
        let block = &blocks[number % 2];
        if let Some(added) = &added[number % 2] {
            producer.wait_for(added)?;
        }
        // SAFETY: the kernel takes (u64, pointer) and stays within `N` elements. Nothing else uses
        // them meanwhile: the producer waits for the event after the last use.
        unsafe { producer.launch(&iota, grid, (N as u64, block))? };
        consumer.wait_for(&producer.record()?)?;
        // SAFETY: the kernel takes (u64, f32, pointer, pointer) and stays within `N` elements; the
        // block is ready when the kernel starts.
        unsafe { consumer.launch(&saxpy, grid, (N as u64, 1.0f32, block, &sum))? };
        added[number % 2] = Some(consumer.record()?);
    }
    let expected = (0..N).map(|i| (BLOCKS * i) as f32);
    assert!(sum.to_vec(&consumer)?.into_iter().eq(expected));
    println!("{BLOCKS} blocks of {N} values are right on {}", device.name());
    Ok(())
}
