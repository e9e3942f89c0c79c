//! Changes to the copy of an image that the loader opens.
//!
//! - The dynamic section keeps only checked tags; the other entries get a tag that the loader
//!   ignores. So the loader runs no constructor and no destructor. Without `DF_1_NODELETE` it can
//!   unload the image, and without `DT_SONAME` no other library can find the image by a name.
//!   Without `DT_RPATH` and `DT_RUNPATH`, only the system's search path counts.
//! - `DF_SYMBOLIC` is set: the image's own definitions win over the program's.
//! - `STB_GNU_UNIQUE` symbols, which exist once per process, become weak: images stay apart.
//! - Symbols and relocations that call resolvers become ordinary ones. Symbols that the image needs
//!   and `crate::provided` has become weak. The module fills their words after the loader has
//!   returned.

use super::dynamic::ENTRY_BYTES;
use super::{Image, relocations, symbols};
use object::elf::{self, DynamicTag};

/// A range of the file and its new bytes.
#[derive(Clone, Debug)]
pub struct Edit {
    /// File offset of the range.
    pub offset: usize,
    /// The bytes of the copy at that offset.
    pub bytes: Vec<u8>,
}

/// A tag between the system's and the processor's ranges that no loader reads.
const IGNORED: DynamicTag = DynamicTag(0x6000_0d1f);

const KEPT: [DynamicTag; 20] = [
    elf::DT_NEEDED,
    elf::DT_STRTAB,
    elf::DT_STRSZ,
    elf::DT_SYMTAB,
    elf::DT_SYMENT,
    elf::DT_GNU_HASH,
    elf::DT_RELA,
    elf::DT_RELASZ,
    elf::DT_RELAENT,
    elf::DT_JMPREL,
    elf::DT_PLTREL,
    elf::DT_PLTRELSZ,
    elf::DT_RELR,
    elf::DT_RELRSZ,
    elf::DT_RELRENT,
    elf::DT_VERSYM,
    elf::DT_VERNEED,
    elf::DT_VERNEEDNUM,
    elf::DT_VERDEF,
    elf::DT_VERDEFNUM,
];

/// Returns the changes to the bytes of the checked image.
pub fn edits(bytes: &[u8], image: &Image) -> Vec<Edit> {
    let mut edits = vec![dynamic(image)];
    edits.extend(symbols_changed(bytes, image));
    edits.extend(image.resolved.iter().map(|&offset| {
        let bytes = relocations::RELATIVE.0.to_le_bytes().to_vec();
        Edit { offset, bytes }
    }));
    edits
}

fn dynamic(image: &Image) -> Edit {
    let has_flags = image.dynamic.get(elf::DT_FLAGS).is_some();
    let has_gnu_hash = image.dynamic.get(elf::DT_GNU_HASH).is_some();
    let mut bytes = Vec::with_capacity(image.dynamic.entries.len() * ENTRY_BYTES);
    for &(tag, value) in &image.dynamic.entries {
        let (tag, value) = match tag {
            elf::DT_FLAGS => (tag, (value & elf::DF_STATIC_TLS.0) | elf::DF_SYMBOLIC.0),
            // Every image has `DT_SYMENT`, with the one right value, and the loader does not read
            // it.
            elf::DT_SYMENT if !has_flags => (elf::DT_SYMBOLIC, 0),
            elf::DT_HASH if !has_gnu_hash => (tag, value),
            tag if KEPT.contains(&tag) => (tag, value),
            _ => (IGNORED, 0),
        };
        bytes.extend(tag.0.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    Edit { offset: image.dynamic.offset, bytes }
}

/// Returns the changed symbol table, or `None` if no symbol changes. Unique and provided symbols
/// become weak, and indirect functions become functions.
fn symbols_changed(bytes: &[u8], image: &Image) -> Option<Edit> {
    const INFO: usize = 4;
    let file = image.symbols.file();
    let strings = bytes.get(image.symbols.strings())?;
    let mut table = bytes.get(file.clone())?.to_vec();
    let mut found = false;
    for entry in table.chunks_exact_mut(symbols::ENTRY_BYTES) {
        let (mut binding, mut kind) = (entry[INFO] >> 4, entry[INFO] & 0xf);
        let symbol = symbols::Symbol::read(entry)?;
        let is_provided = || {
            let name = symbol.name(strings).and_then(|name| std::str::from_utf8(name).ok());
            !symbol.is_defined() && name.is_some_and(crate::provided::has)
        };
        if binding == elf::STB_GNU_UNIQUE.0 || binding == elf::STB_GLOBAL.0 && is_provided() {
            binding = elf::STB_WEAK.0;
        }
        if kind == elf::STT_GNU_IFUNC.0 && symbol.is_defined() {
            kind = elf::STT_FUNC.0;
        }
        found |= entry[INFO] != binding << 4 | kind;
        entry[INFO] = binding << 4 | kind;
    }
    found.then_some(Edit { offset: file.start, bytes: table })
}
