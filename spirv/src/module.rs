//! An image, parsed and reflected.

use crate::kernel::{Code, Kernel, Member, Procedure, Specialization};

/// An image for Vulkan.
pub struct Module {
    format: Format,
    words: Vec<u32>,
}

/// What an image is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SPIR-V, of either byte order.
    Spirv,
    /// WGSL source.
    Wgsl,
}

/// What a device must have to run a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Version of SPIR-V: major and minor.
    pub version: (u8, u8),
    /// Capabilities, by their numbers in the specification, and their names.
    pub capabilities: Vec<(u32, String)>,
    /// Extensions: "SPV_KHR_non_semantic_info".
    pub extensions: Vec<String>,
}

/// Why an image is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// What is wrong, and where.
    pub message: String,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The bytes are not a module, or break the rules of one.
    Malformed,
    /// WGSL that does not compile.
    Source,
    /// It needs functions or variables that are defined nowhere.
    Undefined,
    /// Valid, but by none of the conventions.
    Unsupported,
}

impl Module {
    /// What the bytes claim to be, by their beginning: SPIR-V by its magic number, WGSL by being text
    /// that has `@compute`. No promise that [`Module::parse`] takes them.
    pub fn recognise(image: &[u8]) -> Option<Format> {
        let _ = image;
        None
    }

    /// Parses and reflects an image. Push constants of more than `push_constant_bytes` are read from
    /// a storage buffer instead. Total: any bytes give a module or a fault, and what is allocated is
    /// bounded by the length of the image.
    ///
    /// # Errors
    /// See [`FaultKind`].
    pub fn parse(image: &[u8], push_constant_bytes: u32) -> Result<Module, Fault> {
        let _ = push_constant_bytes;
        match Module::recognise(image) {
            Some(format) => Ok(Module { format, words: Vec::new() }),
            None => Err(Fault {
                kind: FaultKind::Malformed,
                message: "neither SPIR-V nor WGSL".to_owned(),
            }),
        }
    }

    /// What it is written in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What a device must have.
    pub fn requirements(&self) -> Requirements {
        Requirements::default()
    }

    /// Checks the module by SPIRV-Tools, for Vulkan 1.2 or 1.3.
    ///
    /// # Errors
    /// `Malformed`, with what the validator says.
    #[cfg(feature = "validation")]
    pub fn validate(&self, vulkan: (u32, u32)) -> Result<(), Fault> {
        let _ = vulkan;
        Ok(())
    }

    /// The entry points that can be launched.
    pub fn kernels(&self) -> &[Kernel] {
        &[]
    }

    /// Constructors, in the order in which they run.
    pub fn constructors(&self) -> &[Procedure] {
        &[]
    }

    /// Destructors, in the order in which they run.
    pub fn destructors(&self) -> &[Procedure] {
        &[]
    }

    /// Size of the block of globals, 0 if there is none.
    pub fn globals_bytes(&self) -> u32 {
        0
    }

    /// The members of the block of globals.
    pub fn globals(&self) -> &[Member] {
        &[]
    }

    /// What the driver compiles for an entry point of this module.
    ///
    /// # Errors
    /// `Source` if WGSL cannot be translated with these constants.
    pub fn code(&self, kernel: &Kernel, wanted: &Specialization) -> Result<Code<'_>, Fault> {
        let _ = (kernel, wanted);
        Ok(Code { words: (&self.words).into(), constants: Vec::new() })
    }
}
