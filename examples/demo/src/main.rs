//! The program `longshore-demo IMAGE`, which runs the kernel of `kernel.rs` on a device. `cargo
//! xtask demo` builds the image and runs the program.
//!
//! The device is the first that accepts the image. `LONGSHORE_BACKEND` and `LONGSHORE_DEVICES`
//! restrict the choice.

use longshore::{Grid, Host, Image};
use std::error::Error;
use std::time::Instant;

const COUNT: usize = 1 << 20;
const A: f32 = 2.5;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: longshore-demo IMAGE")?;
    let started = Instant::now();
    let host = Host::new()?;
    let image = Image::read(path)?;
    let device = host.device_for(&image)?;
    println!("  on {}", device.name());

    // SAFETY: the image was made from kernel.rs, and has no code except the kernel.
    let program = unsafe { device.load(image)? };
    let saxpy = program.kernel("saxpy")?;
    let queue = device.queue()?;
    let x: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
    let x_there = device.buffer_of(&queue, &x)?;
    let y_there = device.buffer_of(&queue, &vec![1.0f32; COUNT])?;

    let arguments = (COUNT as u64, A, &x_there, &y_there);
    // SAFETY: the kernel takes (u64, f32, pointer, pointer), and both buffers have COUNT elements.
    unsafe { queue.launch(&saxpy, Grid::default(), arguments)? };
    let y = y_there.to_vec(&queue)?;
    println!("  {:.0} ms in all", started.elapsed().as_secs_f64() * 1e3);
    check(&x, &y)
}

fn check(x: &[f32], y: &[f32]) -> Result<(), Box<dyn Error>> {
    for (i, (x, y)) in x.iter().zip(y).enumerate() {
        let expected = A * x + 1.0;
        if *y != expected {
            return Err(format!("y[{i}] is {y}, expected {expected}").into());
        }
    }
    println!("  all {} values are right", y.len());
    Ok(())
}
