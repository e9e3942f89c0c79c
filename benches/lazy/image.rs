//! An archive as an image of the CPU backend.

use anyhow::{Result, ensure};
use bytes::Bytes;
use longshore::{Device, Grid, Host, Image, Program};
use longshore_conformance::TrustedImages;
use longshore_tests::world::host_plugin;
use std::time::{Duration, Instant};

/// Name of the only kernel that is used.
const KERNEL: &str = "kernel_07777";

/// The CPU, and the image.
pub(crate) struct Cpu {
    device: Device,
    image: Image,
}

impl Cpu {
    pub(crate) fn open(archive: Bytes) -> Result<Cpu> {
        let host = Host::builder().with_plugin(host_plugin()).build()?;
        Ok(Cpu { device: host.default_device()?, image: archive.to_vec().into() })
    }

    /// Returns the time from the image to a program.
    pub(crate) fn load(
        &self,
        load: fn(&Device, Image) -> longshore::Result<Program>,
    ) -> Result<Duration> {
        let image = self.image.clone();
        let start = Instant::now();
        let program = load(&self.device, image)?;
        let took = start.elapsed();
        program.unload()?;
        Ok(took)
    }

    /// Returns the time from the image to the result of a kernel.
    pub(crate) fn load_and_launch(&self) -> Result<Duration> {
        let (image, queue) = (self.image.clone(), self.device.queue()?);
        let values = self.device.buffer_of(&queue, &[1.0f32; 4])?;
        let start = Instant::now();
        let program = self.device.load_trusted_lazily(image)?;
        let kernel = program.kernel(KERNEL)?;
        // SAFETY: the kernel takes an array, its length and a number.
        unsafe { queue.launch_and_wait(&kernel, Grid::default(), (&values, 4i32, 0.5f32))? };
        let took = start.elapsed();
        let values = values.to_vec(&queue)?;
        ensure!(values == [1.5, 5.5, 20.0, 84.5], "a kernel gives {values:?}");
        drop(kernel);
        program.unload()?;
        Ok(took)
    }
}
