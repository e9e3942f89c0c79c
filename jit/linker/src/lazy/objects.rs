//! The definitions of objects for other objects.

use std::hash::BuildHasher;
use std::ops::Range;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};
use object::elf;

use super::source::{Defined, Source};
use crate::Result;
use crate::elf::{DefinitionPlace, ElfObject, LE, View};
use crate::graph::Linkage;

/// Objects that are added together, and are part of a library already. The first definition of a
/// name counts.
pub(super) struct Objects {
    objects: Vec<ElfObject>,
    /// Object and symbol of each definition, by its name.
    definitions: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

impl Objects {
    /// Reads the objects' definitions. The library must have accepted the objects: with overlapping
    /// names, hostile ones would take too long here.
    pub(super) fn new(objects: Vec<ElfObject>) -> Self {
        let (mut definitions, hasher) = (HashTable::new(), DefaultHashBuilder::default());
        let name_of = |&(object, symbol): &(u32, u32)| objects[object as usize].symbol_name(symbol);
        for (index, object) in (0..).zip(&objects) {
            let view = object.view();
            for symbol in globals(&view).filter(|symbol| is_for_others(&view, *symbol)) {
                let name = view.symbol_name(symbol);
                let is_same = |known: &(u32, u32)| name_of(known) == name;
                let hash = |known: &(u32, u32)| hasher.hash_one(name_of(known));
                definitions.entry(hasher.hash_one(name), is_same, hash).or_insert((index, symbol));
            }
        }
        Self { objects, definitions, hasher }
    }
}

impl Source for Objects {
    fn name(&self) -> &str {
        self.objects.first().map_or("no object", |object| object.name())
    }

    fn defined(&self, name: &str) -> Result<Option<Defined>> {
        let name = name.as_bytes();
        let is_named = |&(object, symbol): &(u32, u32)| {
            self.objects[object as usize].symbol_name(symbol) == name
        };
        let found = self.definitions.find(self.hasher.hash_one(name), is_named);
        Ok(found.map(|&(object, symbol)| definition(&self.objects[object as usize], symbol)))
    }

    fn all_defined(&self) -> Result<Vec<(String, Defined)>> {
        let described = |&(object, symbol): &(u32, u32)| {
            let object = &self.objects[object as usize];
            let name = String::from_utf8_lossy(object.symbol_name(symbol)).into_owned();
            (name, definition(object, symbol))
        };
        Ok(self.definitions.iter().map(described).collect())
    }

    /// Returns no objects: they are part of the library already.
    fn objects(&self, _: &mut dyn Iterator<Item = &str>) -> Result<Vec<(String, Bytes)>> {
        Ok(Vec::new())
    }

    fn answers_weak(&self) -> bool {
        true
    }
}

/// Returns the object's definition of a name that other objects see.
pub(super) fn defined_in(object: &ElfObject, name: &[u8]) -> Option<Defined> {
    let view = object.view();
    let symbol = globals(&view)
        .find(|symbol| view.symbol_name(*symbol) == name && is_for_others(&view, *symbol))?;
    Some(definition(object, symbol))
}

/// Returns all definitions of an object that other objects see.
pub(super) fn all_defined_in(object: &ElfObject) -> impl Iterator<Item = (String, Defined)> {
    let view = object.view();
    globals(&view).filter(move |symbol| is_for_others(&view, *symbol)).map(move |symbol| {
        let name = String::from_utf8_lossy(view.symbol_name(symbol)).into_owned();
        (name, definition(object, symbol))
    })
}

fn globals(view: &View<'_>) -> Range<u32> {
    view.first_global.max(1)..view.symbols.len() as u32
}

fn is_for_others(view: &View<'_>, symbol: u32) -> bool {
    let visibility = view.symbols[symbol as usize].st_visibility();
    !matches!(visibility, elf::STV_HIDDEN | elf::STV_INTERNAL)
        && !matches!(view.definition_place(symbol), DefinitionPlace::Undefined)
}

/// Returns the definition of a symbol.
fn definition(object: &ElfObject, index: u32) -> Defined {
    let view = object.view();
    let symbol = &view.symbols[index as usize];
    let kind = symbol.st_type();
    let indirect = kind == elf::STT_GNU_IFUNC;
    Defined {
        callable: kind == elf::STT_FUNC || indirect,
        linkage: match symbol.st_bind() == elf::STB_WEAK {
            true => Linkage::Weak,
            false => Linkage::Strong,
        },
        thread_local: kind == elf::STT_TLS,
        indirect,
        size: symbol.st_size.get(LE),
        content: content_of(object, index),
    }
}

fn content_of(object: &ElfObject, index: u32) -> Option<Bytes> {
    let view = object.view();
    let DefinitionPlace::Section(section) = view.definition_place(index) else { return None };
    let symbol = &view.symbols[index as usize];
    let start = usize::try_from(symbol.st_value.get(LE)).ok()?;
    let size = usize::try_from(symbol.st_size.get(LE)).ok()?;
    let content = view.content(view.sections.get(section as usize)?);
    let content = content.get(start..start.checked_add(size)?)?;
    Some(object.bytes().slice_ref(content))
}
