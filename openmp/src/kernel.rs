//! The kernels of target regions.

use crate::gpu::KernelFacts;
use longshore::{Kernel, Program};
use std::sync::OnceLock;

/// The kernel of a target region on one device.
pub(crate) struct RegionKernel {
    pub(crate) name: String,
    /// Whether clang 20 or a later version compiled the region.
    pub(crate) is_recent: bool,
    /// Whether the kernel may have a parallel region of libomp's.
    pub(crate) may_fork: bool,
    program: Program,
    kernel: OnceLock<Kernel>,
    gpu: OnceLock<KernelFacts>,
}

impl RegionKernel {
    /// Creates a kernel of an image, which the first launch looks up.
    pub(crate) fn new(
        name: String,
        is_recent: bool,
        may_fork: bool,
        program: Program,
    ) -> RegionKernel {
        let (kernel, gpu) = (OnceLock::new(), OnceLock::new());
        RegionKernel { name, is_recent, may_fork, program, kernel, gpu }
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
