//! The images, in the form that everyone gets.

use std::ffi::CStr;

/// How many kernels [`Many`] has: `kernel0`, `kernel1`, ...
pub(crate) const KERNELS: usize = 1000;
/// The last of them.
pub(crate) const LAST_KERNEL: &CStr = c"kernel999";

/// Machine code for the device: kernels that each store a number of their own.
pub(crate) struct Many {
    pub(crate) bytes: Vec<u8>,
    /// "cubin".
    pub(crate) form: &'static str,
    /// By what it was made.
    pub(crate) maker: &'static str,
}
