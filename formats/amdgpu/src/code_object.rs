//! A code object as a whole.

use crate::file::File;
use crate::metadata;
use crate::variable::Symbols;
use crate::{Header, Kernel, Malformed, Variable};

/// What a code object says of itself. Kernels and variables are in its order, visible variables first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeObject {
    /// What its first bytes say. A processor that is not known by its number has the name that the metadata
    /// says.
    pub header: Header,
    /// All kernels, those for constructors and destructors included.
    pub kernels: Vec<Kernel>,
    /// Variables in global memory, also those that other images cannot see.
    pub variables: Vec<Variable>,
    /// Functions and variables that it needs and does not have, except weak ones.
    pub undefined: Vec<String>,
}

impl CodeObject {
    /// Reads a code object. Bytes that do not lie at a multiple of 8 are copied first.
    ///
    /// # Errors
    /// Those of [`Header::read`]; if parts of it lie beyond its end or upon each other; if its metadata says of
    /// a kernel what cannot be, or not what a launch must know.
    pub fn read(bytes: &[u8]) -> Result<CodeObject, Malformed> {
        // What is no code object is not copied.
        let header = Header::read(bytes)?;
        match bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            true => CodeObject::read_aligned(bytes, header),
            false => {
                let mut copy = vec![0; bytes.len() + ALIGNMENT];
                let start = copy.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
                let copy = &mut copy[start..][..bytes.len()];
                copy.copy_from_slice(bytes);
                CodeObject::read_aligned(copy, header)
            }
        }
    }

    fn read_aligned(bytes: &[u8], mut header: Header) -> Result<CodeObject, Malformed> {
        let file = File::parse(bytes)?;
        let metadata = metadata::read(&file.metadata()?)?;
        if metadata.target.is_some() {
            header = Header::read_with(bytes, metadata.target.as_deref())?;
        }
        let symbols = Symbols::read(&file, header.is_relocatable, &metadata.kernels)?;
        Ok(CodeObject {
            header,
            kernels: metadata.kernels,
            variables: symbols.variables,
            undefined: symbols.undefined,
        })
    }
}

/// What the structures of the file are read at.
const ALIGNMENT: usize = 8;

#[cfg(test)]
mod tests;
