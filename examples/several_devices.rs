//! One computation on all devices that accept the image, each with its share of the numbers:
//! `cargo run --example several_devices kernels.img`.

use longshore::{Buffer, Device, Grid, Host, Image, Program, Queue, Result};

const N: usize = 1 << 16;
const GROUP: u32 = 128;

/// A device with its part of the computation and the queue that runs it.
struct Share {
    device: Device,
    queue: Queue,
    y: Buffer<f32>,
    /// Kept, because unloading waits for the work.
    _program: Program,
}

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).expect("the argument names an image");
    let host = Host::new()?;
    let image = std::fs::read(path).expect("the argument names a readable file");
    let mut devices = Vec::new();
    for entry in host.devices() {
        let device = entry.open()?;
        // For a container, the device tries its entries.
        if device.suits(&image)?.is_accepted() {
            devices.push(device);
        }
    }
    let values: Vec<f32> = (0..N).map(|i| i as f32).collect();
    let parts = values.chunks(N.div_ceil(devices.len().max(1)));
    // The program queues all work before the first wait.
    let shares: Vec<_> = devices
        .into_iter()
        .zip(parts)
        .map(|(device, x)| start(device, &image, x))
        .collect::<Result<_>>()?;
    let mut results = Vec::new();
    for share in &shares {
        results.extend(share.y.to_vec(&share.queue)?);
        println!("{} values on {}", share.y.len(), share.device.name());
    }
    assert!(results.into_iter().eq(values.iter().map(|x| 2.0 * x + 1.0)));
    Ok(())
}

/// Submits `y = 2 * x + 1` to a new queue of a device.
fn start(device: Device, image: &[u8], x: &[f32]) -> Result<Share> {
    // SAFETY: the image has no code but the kernels of `kernels.c`.
    let program = unsafe { device.load(Image::from(image))? };
    let saxpy = program.kernel("saxpy")?;
    let queue = device.queue()?;
    let y = device.buffer_of(&queue, &vec![1.0f32; x.len()])?;
    let x = device.buffer_of(&queue, x)?;
    let groups = (x.len() as u32).div_ceil(GROUP);
    let arguments = (x.len() as u64, 2.0f32, &x, &y);
    // SAFETY: the kernel takes (u64, f32, pointer, pointer) and stays within the buffers. Memory
    // freed during queued work stays allocated until the end of the work.
    unsafe { queue.launch(&saxpy, Grid::linear(groups, GROUP), arguments)? };
    Ok(Share { device, queue, y, _program: program })
}
