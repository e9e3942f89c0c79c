//! A Vulkan device with the kernels.

use longshore::{ArgumentList, Device, Grid, Kernel, Program, Queue, Result};
use longshore_conformance::DeviceName;
use longshore_conformance::TrustedImages;
use longshore_tests::vulkan;
use std::collections::BTreeMap;

pub(crate) type Rig = longshore_tests::kernels::Rig<Kernels>;

const NAMES: [&str; 9] = [
    "saxpy",
    "triad",
    "stencil",
    "matmul",
    "reduce",
    "histogram",
    "prefix_sum_parts",
    "prefix_sum",
    "nbody",
];
const WGSL: &str = include_str!("../../../kernels/vulkan/kernels.wgsl");

/// The language of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// GLSL, with a module for each kernel.
    Glsl,
    /// WGSL, with one module for all kernels.
    Wgsl,
}

/// The kernels by name, and a queue for them.
pub(crate) struct Kernels {
    queue: Queue,
    kernels: BTreeMap<&'static str, Kernel>,
}

impl AsRef<Queue> for Kernels {
    fn as_ref(&self) -> &Queue {
        &self.queue
    }
}

impl Kernels {
    /// Queues a launch.
    ///
    /// # Safety
    /// See [`Queue::launch`].
    pub(crate) unsafe fn launch(&self, name: &str, grid: Grid, arguments: impl ArgumentList) {
        // SAFETY: promised by the caller.
        unsafe { self.queue.launch(&self.kernels[name], grid, arguments) }.unwrap();
    }
}

/// Opens a device and loads the kernels.
pub(crate) fn open(name: &DeviceName, language: Language) -> Result<Rig> {
    let device = vulkan::open(name, vulkan::environment())?;
    let kernels = match language {
        Language::Glsl => glsl(&device)?,
        Language::Wgsl => wgsl(&device)?,
    };
    let queue = device.queue()?;
    Ok(Rig::new(device, Kernels { queue, kernels }))
}

fn glsl(device: &Device) -> Result<BTreeMap<&'static str, Kernel>> {
    let kernel = |name| {
        let program = device.load_trusted(vulkan::compile_kernel(name))?;
        kernel_of(&program, name)
    };
    NAMES.into_iter().map(kernel).collect()
}

fn wgsl(device: &Device) -> Result<BTreeMap<&'static str, Kernel>> {
    let program = device.load_trusted(WGSL.as_bytes())?;
    NAMES.into_iter().map(|name| kernel_of(&program, name)).collect()
}

fn kernel_of(program: &Program, name: &'static str) -> Result<(&'static str, Kernel)> {
    Ok((name, program.kernel(name)?))
}
