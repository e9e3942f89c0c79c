//! Requests for variants, and the reasons against them.

use std::fmt;

/// A request for a copy of a kernel, for launches with known values.
#[derive(Debug, Clone)]
pub struct Variant<'a> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// Name of the copy.
    pub symbol: &'a str,
    /// Number of work-items of a group in x, y and z; `None` for any number.
    pub group: Option<[u32; 3]>,
    /// The constant arguments.
    pub arguments: Vec<Constant<'a>>,
}

/// The value of an argument.
#[derive(Debug, Clone, Copy)]
pub struct Constant<'a> {
    /// Index of the argument.
    pub index: u32,
    /// The value, the lowest byte first. At most 8 bytes.
    pub bytes: &'a [u8],
    /// Kind of the number; `None` for any kind.
    pub kind: Option<NumberKind>,
}

/// A kind of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberKind {
    /// An integer, with or without a sign.
    Integer,
    /// A floating-point number.
    Float,
}

/// The part of a [`Variant`] that does not fit the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The module does not define the kernel.
    Kernel,
    /// The kernel lacks the argument, or the argument is of another kind; or the kernel requires
    /// another group size.
    Value,
    /// The argument has another size.
    Size,
    /// The code cannot be copied.
    Code,
}

/// The reason why variants were not added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariantError {
    /// The module does not allow a variant.
    Refused {
        /// The part of the request that is wrong.
        problem: Problem,
        /// The reason.
        message: String,
    },
    /// LLVM has failed, with this message.
    Failed(String),
}

impl fmt::Display for VariantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (VariantError::Refused { message, .. } | VariantError::Failed(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for VariantError {}
