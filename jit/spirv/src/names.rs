//! Names of the variables by which `longshore_device.h` describes kernels.

/// Prefix of the descriptions' symbols.
pub(crate) const DESCRIPTION: &str = "__longshore_kernel_";
/// Part of the symbols of notes, and that of notes in a kernel.
pub(crate) const NOTE: &str = "longshore_note";
