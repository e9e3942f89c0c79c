//! The rules of a check of a module.
#![cfg_attr(
    feature = "spirv-tools",
    allow(
        dead_code,
        reason = "only an installed validator gets environments by name, and may be missing"
    )
)]

use std::ffi::CStr;

/// The permitted layouts of blocks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Layouts {
    /// The feature `scalarBlockLayout`.
    pub(crate) scalar: bool,
    /// The feature `uniformBufferStandardLayout`.
    pub(crate) standard_uniform: bool,
}

/// An environment for SPIR-V, as defined by SPIRV-Tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Environment {
    /// SPIR-V 1.5 alone.
    Universal1_5,
    /// SPIR-V 1.6 alone.
    Universal1_6,
    /// Vulkan 1.2.
    Vulkan1_2,
    /// Vulkan 1.3.
    Vulkan1_3,
}

impl Environment {
    pub(crate) const ALL: [Environment; 4] = [
        Environment::Universal1_5,
        Environment::Universal1_6,
        Environment::Vulkan1_2,
        Environment::Vulkan1_3,
    ];

    /// Returns the environment's name for SPIRV-Tools' library and commands.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Environment::Universal1_5 => c"spv1.5",
            Environment::Universal1_6 => c"spv1.6",
            Environment::Vulkan1_2 => c"vulkan1.2",
            Environment::Vulkan1_3 => c"vulkan1.3",
        }
    }
}

/// The rules of one check of a module.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) environment: Environment,
    pub(crate) layouts: Layouts,
}

/// The result of a validator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A module that follows the rules.
    Valid,
    /// A module that breaks the rule in the text.
    Invalid(String),
}

/// The reason for a missing verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValidatorError {
    /// A missing or unusable validator.
    Missing(String),
    /// A failure of the validator on this module.
    Failed(String),
}

/// Most bytes of the text of a [`Verdict::Invalid`]; validators quote whole instructions.
const MOST_TEXT: usize = 4096;

impl Verdict {
    /// Creates a refusal and truncates a long text.
    pub(crate) fn invalid(text: &str) -> Verdict {
        let end = text.floor_char_boundary(MOST_TEXT);
        Verdict::Invalid(text[..end].trim().to_owned())
    }
}
