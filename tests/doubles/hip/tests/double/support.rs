//! A program that loads the double's file, as it would load the runtime.

pub(crate) mod hip;
pub(crate) mod images;

use hip::Hip;
use longshore_double_gpu::testing::{ProcessOutput, TestedDouble};

/// Double of HIP.
pub(crate) const HIP: TestedDouble = TestedDouble {
    settings: "LONGSHORE_HIP_DOUBLE",
    package: "longshore-double-hip",
    file: "liblongshore_double_hip.so",
};

/// Runs a part of a test with a double that has these settings, in a process of its own. Inside
/// that process, this function never returns.
pub(crate) fn with_double(settings: &str, part: impl FnOnce(&Hip)) -> ProcessOutput {
    HIP.run(settings, Hip::open, part)
}
