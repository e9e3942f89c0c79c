//! Parsed and reflected images.

use std::borrow::Cow;

use crate::fault::Fault;
use crate::kernel::{BlockStorage, Code, Kernel, Member, Procedure, Specialization, Target};
use crate::prune;
use crate::push_constants;
use crate::reflect::{self, Hints, Reflection};
use crate::requirements::{self, Requirements};
use crate::shared;
use crate::tables::Tables;
use crate::wgsl::{self, Program, Translation};
use crate::words;

/// An image for Vulkan.
pub struct Module {
    format: Format,
    words: Vec<u32>,
    requirements: Requirements,
    reflection: Reflection,
    /// The source of `words`, if a launch chooses its constants and so needs a new translation.
    program: Option<Program>,
}

/// The format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SPIR-V, in either byte order.
    Spirv,
    /// WGSL source.
    Wgsl,
}

impl Module {
    /// Returns the format of the bytes according to their beginning. SPIR-V has its magic number,
    /// and WGSL is text that contains `@compute`. [`Module::parse`] may still fail.
    pub fn recognise(image: &[u8]) -> Option<Format> {
        if words::is_spirv(image) {
            return Some(Format::Spirv);
        }
        let text = std::str::from_utf8(image).ok()?;
        (text.contains("@compute") && !text.contains('\0')).then_some(Format::Wgsl)
    }

    /// Parses and reflects an image. A block of push constants larger than the target's is read
    /// from a storage buffer instead. Total: any bytes give a module or a fault, and the length of
    /// the image limits the allocated memory.
    ///
    /// # Errors
    /// See [`FaultKind`](crate::FaultKind).
    pub fn parse(image: &[u8], target: Target) -> Result<Module, Fault> {
        match Module::recognise(image) {
            Some(Format::Spirv) => {
                let words = words::with_alignments(words::read(image)?);
                Module::reflected(words, target, &Hints::default())
            }
            Some(Format::Wgsl) => {
                let source = str::from_utf8(image).expect("`recognise` checked that it is text");
                let Translation { words, hints, program } = wgsl::translate(source, target)?;
                let module = Module::reflected(words, target, &hints)?;
                Ok(Module { format: Format::Wgsl, program, ..module })
            }
            None => Err(Fault::malformed("neither SPIR-V nor WGSL")),
        }
    }

    fn reflected(mut words: Vec<u32>, target: Target, hints: &Hints) -> Result<Module, Fault> {
        let mut tables = Tables::read(&words)?;
        if !tables.imports.is_empty() {
            let names = tables.imports.join(", ");
            return Err(Fault::undefined(format!(
                "undefined imports: {names}; link the modules that define them with spirv-link"
            )));
        }
        let moved = push_constants::too_large(&tables, target.push_constant_bytes);
        if !moved.is_empty() {
            words = push_constants::rewrite(&words, &tables, &moved)?;
            tables = Tables::read(&words)?;
        }
        let reflection = reflect::reflect(&tables, &moved, hints)?;
        let requirements = requirements::read(&words, &tables)?;
        Ok(Module { format: Format::Spirv, words, requirements, reflection, program: None })
    }

    /// Returns the format of the image.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the module's requirements on a device.
    pub fn requirements(&self) -> Requirements {
        self.requirements.clone()
    }

    /// Returns the whole module, as SPIR-V.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the kernels: the entry points that programs launch.
    pub fn kernels(&self) -> &[Kernel] {
        &self.reflection.kernels
    }

    /// Returns the constructors, in the order in which they run.
    pub fn constructors(&self) -> &[Procedure] {
        &self.reflection.constructors
    }

    /// Returns the destructors, in the order in which they run.
    pub fn destructors(&self) -> &[Procedure] {
        &self.reflection.destructors
    }

    /// Returns the size in bytes of the block of globals, 0 if there is no block.
    pub fn globals_bytes(&self) -> u32 {
        self.reflection.globals_bytes
    }

    /// Returns the members of the block of globals.
    pub fn globals(&self) -> &[Member] {
        &self.reflection.globals
    }

    /// Returns the code of an entry point of this module for the driver.
    ///
    /// # Errors
    /// `Source` if WGSL cannot be translated with these constants, `Unsupported` if the work-groups
    /// cannot have the requested size.
    pub fn code(&self, kernel: &Kernel, wanted: &Specialization) -> Result<Code<'_>, Fault> {
        reflect::check_group(kernel, wanted.group)?;
        let Some(program) = &self.program else {
            let constants = self.reflection.constants.values(kernel, wanted)?;
            let shared = shared::memory(&self.words, &kernel.name, &constants)?;
            let words = prune::prune(&self.words, &kernel.name)?;
            return Ok(Code { words, constants, shared });
        };
        let mut words = program.code(kernel, wanted)?;
        let place = kernel.blocks.iter().find_map(|block| match block.storage {
            BlockStorage::Storage { set, binding } => Some((set, binding)),
            _ => None,
        });
        if let Some(place) = place {
            let tables = Tables::read(&words)?;
            let moved = push_constants::all(&tables, place);
            words = push_constants::rewrite(&words, &tables, &moved)?;
        }
        let shared = shared::memory(&words, &kernel.name, &[])?;
        let words = prune::prune(&words, &kernel.name)?.into_owned();
        Ok(Code { words: Cow::Owned(words), constants: Vec::new(), shared })
    }
}
