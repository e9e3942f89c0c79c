//! Variables and undefined symbols.

use crate::file::{File, Place, Symbol};
use crate::{Kernel, Malformed};
use object::elf::STT_OBJECT;
use std::collections::HashSet;
use std::ops::Range;

/// A variable in global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// The variable's symbol.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// The visibility of the symbol.
    pub linkage: Linkage,
    /// The index of its section; `None` if the linker chooses its place.
    pub section: Option<u32>,
    /// Offset in bytes from the start of the loaded image, or, in a relocatable object, from the
    /// start of the section. Without a section: the alignment in bytes.
    pub address: u64,
    stored: Range<usize>,
}

/// The visibility of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// Visible in its image alone: the driver does not find it by name.
    Internal,
    /// Visible to all images; no other definition can replace it.
    Protected,
    /// Visible to all images.
    Visible,
    /// Visible to all images; another definition can replace it.
    Weak,
}

impl Variable {
    /// Returns the initial value in the bytes that the code object was read from; empty if it is
    /// all zeros. A place for an address holds the addend, or nothing.
    #[must_use]
    pub fn initial<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        image.get(self.stored.clone()).unwrap_or_default()
    }
}

/// Variables, and the names that other images must define.
#[derive(Default)]
pub(crate) struct Symbols {
    pub(crate) variables: Vec<Variable>,
    pub(crate) undefined: Vec<String>,
}

impl Symbols {
    /// Reads the symbols of a file. Kernel descriptors are not variables.
    pub(crate) fn read(
        file: &File<'_>,
        is_relocatable: bool,
        kernels: &[Kernel],
    ) -> Result<Symbols, Malformed> {
        let dynamic = if is_relocatable { Vec::new() } else { file.dynamic_symbols()? };
        let all = file.symbols()?;
        // Other images see the dynamic symbols of a linked file.
        let outer = if is_relocatable { &all } else { &dynamic };
        let inner = if is_relocatable { &dynamic } else { &all };
        let descriptors: HashSet<_> = kernels.iter().map(|kernel| &kernel.symbol[..]).collect();
        let mut known = HashSet::new();
        let mut found = Symbols::default();
        for symbol in outer {
            known.insert((symbol.name, symbol.value));
            if symbol.place == Place::Undefined {
                found.add_undefined(symbol);
            } else if !descriptors.contains(symbol.name) {
                found.variables.extend(variable(file, symbol, linkage(symbol)));
            }
        }
        for symbol in inner.iter().filter(|symbol| !known.contains(&(symbol.name, symbol.value))) {
            if !descriptors.contains(symbol.name) {
                found.variables.extend(variable(file, symbol, Linkage::Internal));
            }
        }
        let mut seen = HashSet::new();
        found.undefined.retain(|name| seen.insert(name.clone()));
        if is_relocatable {
            found.undefined.retain(|name| !is_of_linker(name));
        }
        Ok(found)
    }

    fn add_undefined(&mut self, symbol: &Symbol<'_>) {
        if !symbol.is_local && !symbol.is_weak {
            self.undefined.push(symbol.name.to_owned());
        }
    }
}

/// Returns whether the linker defines a name: the bounds of a section or of constructors.
fn is_of_linker(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["__start_", "__stop_", "__init_array_", "__fini_array_"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the variable of a symbol; `None` if the symbol is something else, or not in an image's
/// memory.
fn variable(file: &File<'_>, symbol: &Symbol<'_>, linkage: Linkage) -> Option<Variable> {
    let section = match symbol.place {
        Place::Section(index) => Some(index),
        Place::Common => None,
        Place::Undefined | Place::Other => return None,
    };
    (symbol.kind == STT_OBJECT).then(|| Variable {
        name: symbol.name.to_owned(),
        bytes: symbol.bytes,
        linkage,
        section,
        address: symbol.value,
        stored: section.map(|index| file.stored(index, symbol)).unwrap_or_default(),
    })
}

fn linkage(symbol: &Symbol<'_>) -> Linkage {
    match symbol {
        _ if !symbol.is_visible => Linkage::Internal,
        _ if symbol.is_weak || symbol.place == Place::Common => Linkage::Weak,
        _ if symbol.is_protected => Linkage::Protected,
        _ => Linkage::Visible,
    }
}
