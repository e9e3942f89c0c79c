//! A program that loads the double's file, as it would load a driver.

pub(crate) mod cuda;
pub(crate) mod images;

use cuda::Cuda;
use longshore_double_gpu::testing::{ProcessOutput, TestedDouble};

/// Double of CUDA's driver.
pub(crate) const CUDA: TestedDouble = TestedDouble {
    settings: "LONGSHORE_CUDA_DOUBLE",
    package: "longshore-double-cuda",
    file: "liblongshore_double_cuda.so",
};

/// Runs a part of a test with a double that has these settings, in a process of its own. Inside
/// that process, this function never returns.
pub(crate) fn with_double(settings: &str, part: impl FnOnce(&Cuda)) -> ProcessOutput {
    CUDA.run(settings, Cuda::open, part)
}
