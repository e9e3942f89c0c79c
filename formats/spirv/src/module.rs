//! An image, parsed and reflected.

use std::borrow::Cow;

use crate::fault::Fault;
use crate::kernel::{Code, Home, Kernel, Member, Procedure, Specialization, Target};
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
    /// What `words` are translated from anew if a launch chooses its constants.
    program: Option<Program>,
}

/// What an image is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SPIR-V, of either byte order.
    Spirv,
    /// WGSL source.
    Wgsl,
}

impl Module {
    /// What the bytes claim to be, by their beginning: SPIR-V by its magic number, WGSL by being text
    /// that has `@compute`. No promise that [`Module::parse`] takes them.
    pub fn recognise(image: &[u8]) -> Option<Format> {
        if words::is_spirv(image) {
            return Some(Format::Spirv);
        }
        let text = std::str::from_utf8(image).ok()?;
        (text.contains("@compute") && !text.contains('\0')).then_some(Format::Wgsl)
    }

    /// Parses and reflects an image. Push constants of more than `push_constant_bytes` are read from
    /// a storage buffer instead. Total: any bytes give a module or a fault, and what is allocated is
    /// bounded by the length of the image.
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
                let source = str::from_utf8(image).expect("it was recognised as text");
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
                "imports what no module here defines: {names}; spirv-link makes one module of several"
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

    /// What it is written in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What a device must have.
    pub fn requirements(&self) -> Requirements {
        self.requirements.clone()
    }

    /// Returns the whole module, as SPIR-V.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the entry points that can be launched.
    pub fn kernels(&self) -> &[Kernel] {
        &self.reflection.kernels
    }

    /// Constructors, in the order in which they run.
    pub fn constructors(&self) -> &[Procedure] {
        &self.reflection.constructors
    }

    /// Destructors, in the order in which they run.
    pub fn destructors(&self) -> &[Procedure] {
        &self.reflection.destructors
    }

    /// Size of the block of globals, 0 if there is none.
    pub fn globals_bytes(&self) -> u32 {
        self.reflection.globals_bytes
    }

    /// Returns the members of the block of globals.
    pub fn globals(&self) -> &[Member] {
        &self.reflection.globals
    }

    /// What the driver compiles for an entry point of this module.
    ///
    /// # Errors
    /// `Source` if WGSL cannot be translated with these constants, `Unsupported` if the groups cannot
    /// have the size that is wanted.
    pub fn code(&self, kernel: &Kernel, wanted: &Specialization) -> Result<Code<'_>, Fault> {
        reflect::check_group(kernel, wanted.group)?;
        let Some(program) = &self.program else {
            let constants = self.reflection.constants.values(kernel, wanted)?;
            let shared = shared::memory(&self.words, &kernel.name, &constants)?;
            let words = prune::prune(&self.words, &kernel.name)?;
            return Ok(Code { words, constants, shared });
        };
        let mut words = program.code(kernel, wanted)?;
        let place = kernel.blocks.iter().find_map(|block| match block.home {
            Home::Storage { set, binding } => Some((set, binding)),
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
