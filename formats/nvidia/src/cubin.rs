//! Cubins, relocatable or not.
//!
//! `file.rs` reads the ELF file and `attributes.rs` the facts in sections `.nv.info`. `kernels.rs`
//! and `variables.rs` read kernels and variables, and `relocations.rs` the addresses in initial
//! values.

mod attributes;
mod file;
mod kernels;
mod relocations;
mod variables;

use crate::contents::is_of_driver;
use crate::{Arch, Contents, Malformed, Variant};
use attributes::Attribute;
use file::{File, STT_CUDA_OBJECT, Symbol};
use object::elf::{STT_FUNC, STT_NOTYPE, STT_OBJECT};
use std::collections::HashSet;

/// Returns the architecture of a cubin, relocatable or not, without reading its symbols. Checks
/// that all its parts lie in the file. Bytes that are not aligned to 8 bytes are copied first.
///
/// # Errors
/// Bytes that are not a 64-bit ELF file for CUDA, or parts that lie beyond the end or overlap.
pub fn cubin_arch(bytes: &[u8]) -> Result<Arch, Malformed> {
    aligned(bytes, |bytes| arch(&File::parse_without_symbols(bytes)?))
}

impl Contents {
    /// Reads a cubin, relocatable or not. Bytes that are not aligned to 8 bytes are copied first.
    ///
    /// # Errors
    /// Bytes that are not a 64-bit ELF file for CUDA, or parts that lie beyond the end or overlap.
    pub fn from_cubin(bytes: &[u8]) -> Result<Contents, Malformed> {
        aligned(bytes, |bytes| {
            let file = File::parse(bytes)?;
            let arch = arch(&file)?;
            Ok(Contents {
                arch: Some(arch),
                ptx_version: None,
                kernels: kernels::read(&file, arch.number)?,
                variables: variables::read(&file)?,
                undefined: undefined(&file),
            })
        })
    }
}

/// Calls `read` with the bytes, or with a copy of them, aligned to 8 bytes as the structures of the
/// file require.
fn aligned<T>(bytes: &[u8], read: impl FnOnce(&[u8]) -> T) -> T {
    const ALIGNMENT: usize = 8;
    if bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) {
        return read(bytes);
    }
    let mut copy = vec![0; bytes.len() + ALIGNMENT];
    let start = copy.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let copy = &mut copy[start..][..bytes.len()];
    copy.copy_from_slice(bytes);
    read(copy)
}

/// First OS/ABI that has the architecture in the second byte of the flags.
const LATER_ABI: u8 = 0x41;
/// Flag of code that uses features of its architecture alone, by the ABI.
const SPECIFIC: u32 = 0x800;
const LATER_SPECIFIC: u32 = 0x8;
/// Equivalent attribute of `.nv.compat`, which assemblers since CUDA 13 write instead.
const ATTRIBUTE_SPECIFIC: u8 = 0x09;

fn arch(file: &File<'_>) -> Result<Arch, Malformed> {
    let (number, mark) = match file.os_abi >= LATER_ABI {
        true => (file.flags >> 8 & 0xff, LATER_SPECIFIC),
        false => (file.flags & 0xff, SPECIFIC),
    };
    let says_so = |known: Attribute<'_>| known.id == ATTRIBUTE_SPECIFIC && known.byte(0) == Some(1);
    let is_specific =
        file.flags & mark != 0 || attributes::read(file.take_data_of(".nv.compat")?).any(says_so);
    Ok(Arch { number, variant: if is_specific { Variant::Specific } else { Variant::Any } })
}

/// Returns the symbols that other images must define.
fn undefined(file: &File<'_>) -> Vec<String> {
    let missing = file.symbols.iter().filter(|symbol| is_missing(symbol));
    let mut seen = HashSet::new();
    let names = missing.map(|symbol| symbol.name).filter(|name| seen.insert(*name));
    names.map(str::to_owned).collect()
}

/// Returns whether a symbol is defined by neither the image nor the linker nor the driver.
fn is_missing(symbol: &Symbol<'_>) -> bool {
    const OF_LINKER: [&str; 3] = [".", "__UFT", "__UDT"];
    let is_code_or_data = match symbol.kind {
        STT_NOTYPE | STT_OBJECT | STT_FUNC => true,
        STT_CUDA_OBJECT => !symbol.is_shared(),
        _ => false,
    };
    let must_be_there = symbol.is_undefined() && !symbol.is_local() && !symbol.is_weak();
    let is_named = !symbol.name.is_empty() && !is_of_driver(symbol.name);
    let is_of_linker = OF_LINKER.iter().any(|prefix| symbol.name.starts_with(prefix));
    is_code_or_data && must_be_there && is_named && !is_of_linker
}

#[cfg(test)]
mod tests;
