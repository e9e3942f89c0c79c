//! y = a * x + y on the first device that accepts the image:
//! `cargo run --example saxpy kernels.img`.

use longshore::{Grid, Host, Image, Result};

const N: usize = 1024;

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).expect("the argument names an image");
    let host = Host::new()?;
    let image = Image::read(path)?;
    let device = host.device_for(&image)?;

    // SAFETY: the image has no code but the kernels of `kernels.c`.
    let program = unsafe { device.load(image)? };
    let saxpy = program.kernel("saxpy")?;
    let queue = device.queue()?;
    let x = device.buffer_of(&queue, &[1.0f32; N])?;
    let y = device.buffer_of(&queue, &[2.0f32; N])?;

    // SAFETY: the kernel takes (u64, f32, pointer, pointer) and stays within `N` elements.
    unsafe { queue.launch(&saxpy, Grid::linear(8, 128), (N as u64, 2.5f32, &x, &y))? };
    assert!(y.to_vec(&queue)?.iter().all(|y| *y == 4.5));
    println!("{N} values are right on {}", device.name());
    Ok(())
}
