//! Complete code objects.

use crate::file::File;
use crate::metadata;
use crate::variable::Symbols;
use crate::{Header, Kernel, Malformed, Variable};

/// The contents of a code object. Kernels and variables are in its order, visible variables first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeObject {
    /// The contents of the first bytes. If the number of the processor is unknown, the name is the
    /// metadata's.
    pub header: Header,
    /// All kernels, including the kernels that run constructors and destructors.
    pub kernels: Vec<Kernel>,
    /// Variables in global memory, including internal ones.
    pub variables: Vec<Variable>,
    /// Functions and variables that the code object needs and does not define, except weak ones.
    pub undefined: Vec<String>,
}

impl CodeObject {
    /// Reads a code object. Bytes that are not aligned to 8 bytes are copied first.
    ///
    /// # Errors
    /// Errors of [`Header::read`]; parts that lie beyond the end or overlap; metadata of a kernel
    /// that is impossible, or that lacks a fact needed for a launch.
    pub fn read(bytes: &[u8]) -> Result<CodeObject, Malformed> {
        // Checked first, so that bytes that are no code object are not copied.
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

/// Alignment in bytes of the file's structures.
const ALIGNMENT: usize = 8;

#[cfg(test)]
mod tests;
