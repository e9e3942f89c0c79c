//! The kernels of target regions.

use crate::gpu::KernelFacts;
use longshore::{Kernel, Program};
use longshore_format_amdgpu as amdgpu;
use std::sync::OnceLock;

/// Facts of an image that hold for all of its kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageFacts {
    /// Whether clang 20 or a later version compiled the library.
    pub(crate) is_recent: bool,
    /// Whether kernels may have a parallel region of libomp's.
    pub(crate) may_fork: bool,
    /// Whether kernels with arguments of version 2 take a launch environment.
    pub(crate) passes_environment: bool,
}

/// The kernel of a target region on one device.
pub(crate) struct RegionKernel {
    pub(crate) name: String,
    /// Whether clang 20 or a later version compiled the region.
    pub(crate) is_recent: bool,
    /// Whether the kernel may have a parallel region of libomp's.
    pub(crate) may_fork: bool,
    /// Whether kernels with arguments of version 2 take a launch environment.
    passes_environment: bool,
    /// The description in AMD's code object, if launches are printed.
    pub(crate) description: Option<amdgpu::Kernel>,
    program: Program,
    kernel: OnceLock<Kernel>,
    gpu: OnceLock<KernelFacts>,
}

impl RegionKernel {
    /// Creates a kernel of an image, which the first launch looks up.
    pub(crate) fn new(
        name: String,
        image: ImageFacts,
        description: Option<amdgpu::Kernel>,
        program: Program,
    ) -> RegionKernel {
        let ImageFacts { is_recent, may_fork, passes_environment } = image;
        RegionKernel {
            name,
            is_recent,
            may_fork,
            passes_environment,
            description,
            program,
            kernel: OnceLock::new(),
            gpu: OnceLock::new(),
        }
    }

    /// Returns the version by which the kernel takes its arguments, for arguments of `version`.
    #[inline]
    pub(crate) fn convention(&self, version: u32) -> u32 {
        if version == 2 && self.passes_environment { 3 } else { version }
    }

    /// Returns the kernel. The first call looks it up.
    ///
    /// # Errors
    /// `NotFound` if the image lacks the kernel; errors of the driver.
    #[inline]
    pub(crate) fn get(&self) -> longshore::Result<&Kernel> {
        match self.kernel.get() {
            Some(kernel) => Ok(kernel),
            None => {
                let kernel = self.program.kernel(&self.name)?;
                Ok(self.kernel.get_or_init(|| kernel))
            }
        }
    }

    /// Returns the facts for launches on a GPU. The first call reads them.
    ///
    /// # Errors
    /// Errors of `read`.
    #[inline]
    pub(crate) fn gpu_facts(
        &self,
        read: impl FnOnce() -> longshore::Result<KernelFacts>,
    ) -> longshore::Result<&KernelFacts> {
        match self.gpu.get() {
            Some(facts) => Ok(facts),
            None => {
                let facts = read()?;
                Ok(self.gpu.get_or_init(|| facts))
            }
        }
    }
}
