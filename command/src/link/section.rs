//! Sections made from files (`--sectcreate`).

use super::arguments::SectionFile;
use super::inputs::{Input, read};
use crate::failure::{Exit, Failure};
use longshore_jitlink::Architecture;
use object::write::{Object, Symbol, SymbolSection};
use object::{BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

/// Alignment in bytes, enough for any type that a program may read from the section.
const ALIGNMENT: u64 = 64;

/// Creates an object with a read-only section of a file's bytes, and symbols in it.
pub(super) fn object(section: &SectionFile, architecture: Architecture) -> Result<Input, Failure> {
    let bytes = read(&section.file)?;
    let name = section.file.display().to_string();
    let architecture = match architecture {
        Architecture::X86_64 => object::Architecture::X86_64,
        Architecture::Aarch64 => object::Architecture::Aarch64,
        other => {
            let message = format!(
                "cannot make section {} for {other:?}, expected x86-64 or AArch64",
                section.name
            );
            return Err(Failure::new(Exit::Runtime, message));
        }
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    let id = object.add_section(Vec::new(), section.name.clone().into(), SectionKind::ReadOnlyData);
    object.append_section_data(id, &bytes, ALIGNMENT);
    for (symbol, offset) in &section.symbols {
        if *offset > bytes.len() as u64 {
            let message = format!(
                "the symbol {symbol} is at offset {offset:#x}, but '{name}' has {:#x} bytes",
                bytes.len()
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        object.add_symbol(Symbol {
            name: symbol.clone().into(),
            value: *offset,
            size: 0,
            kind: SymbolKind::Data,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(id),
            flags: SymbolFlags::None,
        });
    }
    let made = object.write().map_err(|error| {
        Failure::new(
            Exit::Runtime,
            format!("cannot make section {} from '{name}': {error}", section.name),
        )
    })?;
    Ok(Input { name, bytes: made.into() })
}
