//! Variants of kernels: copies in which chosen values are constants.

use serde::{Deserialize, Serialize};

/// A copy of a kernel for launches with known values. It shares all globals with the kernel, and
/// gives the same results for these values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// The kernel's name.
    pub kernel: String,
    /// Name of the copy.
    pub symbol: String,
    /// Number of work-items of a group in x, y and z; `None` for any number.
    pub group: Option<[u32; 3]>,
    /// The constant arguments.
    pub arguments: Vec<Constant>,
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Constant {
    /// Index of the argument.
    pub index: u32,
    /// The value, in the byte order of the target. At most 8 bytes.
    pub bytes: Vec<u8>,
    /// Kind of the number; `None` for any kind.
    pub kind: Option<NumberKind>,
}

/// A kind of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NumberKind {
    /// An integer, with or without a sign.
    Integer,
    /// A floating-point number.
    Float,
}

/// The part of a [`Variant`] that does not fit the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VariantProblem {
    /// The module does not define the kernel.
    Kernel,
    /// The kernel does not have the argument, or the argument is of another kind; or the kernel
    /// requires another group size.
    Value,
    /// The argument has another size.
    Size,
    /// The code cannot be copied.
    Code,
}
