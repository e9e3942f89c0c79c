//! Images for all contenders.

use std::ffi::CStr;

/// Number of kernels in [`Many`]: `kernel0`, `kernel1`, ...
pub(crate) const KERNELS: usize = 1000;
/// Name of the last kernel.
pub(crate) const LAST_KERNEL: &CStr = c"kernel999";

/// Machine code for the device, with kernels that each store a number of their own.
pub(crate) struct Many {
    pub(crate) bytes: Vec<u8>,
    /// Form of the image: "cubin".
    pub(crate) form: &'static str,
    /// Tool that made the image.
    pub(crate) maker: &'static str,
}
