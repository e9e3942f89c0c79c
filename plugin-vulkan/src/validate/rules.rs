//! Rules that a module is checked by.
#![cfg_attr(
    feature = "spirv-tools",
    allow(
        dead_code,
        reason = "an installed validator alone is told environments by name, and may be missing"
    )
)]

use std::ffi::CStr;

/// How blocks may be laid out.
#[derive(Clone, Copy, Default)]
pub(crate) struct Layouts {
    /// The feature `scalarBlockLayout`.
    pub(crate) scalar: bool,
    /// The feature `uniformBufferStandardLayout`.
    pub(crate) standard_uniform: bool,
}

/// An environment for SPIR-V, as SPIRV-Tools knows them.
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

    /// The name by which SPIRV-Tools' library and commands are told.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Environment::Universal1_5 => c"spv1.5",
            Environment::Universal1_6 => c"spv1.6",
            Environment::Vulkan1_2 => c"vulkan1.2",
            Environment::Vulkan1_3 => c"vulkan1.3",
        }
    }
}

/// Rules for one check of a module.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) environment: Environment,
    pub(crate) layouts: Layouts,
}

/// Answer of a validator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The module keeps to the rules.
    Valid,
    /// The module breaks the rule that the text names.
    Invalid(String),
}

/// Reason for which a module has no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unjudged {
    /// There is no usable validator.
    Missing(String),
    /// The validator gave no answer about this module.
    Failed(String),
}

/// Most bytes of an [`Verdict::Invalid`]; validators quote whole instructions.
const MOST_TEXT: usize = 4096;

impl Verdict {
    /// A refusal, whose text is cut off where it is too long.
    pub(crate) fn invalid(text: &str) -> Verdict {
        let end = text.floor_char_boundary(MOST_TEXT);
        Verdict::Invalid(text[..end].trim().to_owned())
    }
}
