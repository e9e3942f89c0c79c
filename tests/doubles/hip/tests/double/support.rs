//! A program that uses the double: by its file, as it would use the runtime.

pub(crate) mod hip;
pub(crate) mod images;

use hip::Hip;
use longshore_double_gpu::testing::{Said, Tried};

/// The double.
pub(crate) const HIP: Tried = Tried {
    settings: "LONGSHORE_HIP_DOUBLE",
    package: "longshore-double-hip",
    file: "liblongshore_double_hip.so",
};

/// Runs a part of a test with a double that has these settings, in a process of its own. Within that, never returns.
pub(crate) fn with_double(settings: &str, part: impl FnOnce(&Hip)) -> Said {
    HIP.run(settings, Hip::open, part)
}
