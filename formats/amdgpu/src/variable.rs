//! Variables, and what is missing: symbols.

use crate::file::{File, Place, Symbol};
use crate::{Kernel, Malformed};
use object::elf::STT_OBJECT;
use std::collections::HashSet;
use std::ops::Range;

/// A variable in global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// Its symbol.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Who can see it.
    pub linkage: Linkage,
    /// The index of its section; `None` if linking finds a place for it.
    pub section: Option<u32>,
    /// From the start of what is loaded; in a relocatable object from its section's. Of one without a
    /// section: its alignment.
    pub address: u64,
    stored: Range<usize>,
}

/// Who can see a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// Its image alone: the driver does not find it by name.
    Internal,
    /// All, and no other definition takes its place.
    Protected,
    /// All.
    Visible,
    /// All, and another definition may take its place.
    Weak,
}

impl Variable {
    /// Returns its initial value, in the bytes that the code object was read from; empty if it is all zeros. Where
    /// addresses belong stands what is added to them, or nothing.
    #[must_use]
    pub fn initial<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        image.get(self.stored.clone()).unwrap_or_default()
    }
}

/// Variables, and the names of what others must define.
#[derive(Default)]
pub(crate) struct Symbols {
    pub(crate) variables: Vec<Variable>,
    pub(crate) undefined: Vec<String>,
}

impl Symbols {
    /// Reads them. Descriptors of kernels are no variables.
    pub(crate) fn read(
        file: &File<'_>,
        is_relocatable: bool,
        kernels: &[Kernel],
    ) -> Result<Symbols, Malformed> {
        let dynamic = if is_relocatable { Vec::new() } else { file.dynamic_symbols()? };
        let all = file.symbols()?;
        // In a linked file others see what the dynamic linker does.
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
        let mut reported = HashSet::new();
        found.undefined.retain(|name| reported.insert(name.clone()));
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

/// Returns whether linking defines a name: the bounds of a section, or of its constructors.
fn is_of_linker(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["__start_", "__stop_", "__init_array_", "__fini_array_"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns a symbol as a variable; `None` if it is something else, or in no memory of an image.
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
