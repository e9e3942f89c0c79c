//! The records of a module's block that define globals.
//!
//! LLVM's `LLVMBitCodes.h` defines their numbers and fields. LLVM keeps them as long as it reads
//! old files.

use std::collections::HashSet;

use longshore_compiler::Producer;
use longshore_compiler::bitstream::{Block, Common, Item, Record, Result};
use longshore_compiler::producer::text;

use super::{Global, Kind, Linkage, Module};

/// The contents of a module's block, with names as ranges in the strings that follow it.
#[derive(Default)]
pub(super) struct Tables<'a> {
    /// Texts of the metadata, without separators.
    pub(super) texts: &'a [u8],
    triple: String,
    has_assembly: bool,
    sections: HashSet<Vec<u8>>,
    globals: Vec<(Range, Global)>,
    /// Targets of aliases, and resolvers of indirect functions: the index of the alias or function,
    /// and the number of the value.
    targets: Vec<(usize, u64)>,
    /// Values numbered after the globals: for a cast the number of its operand.
    constants: Vec<Option<u64>>,
    /// Numbers of functions with block addresses.
    block_addresses: Vec<u64>,
}

type Range = (u64, u64);

const CONSTANTS: u64 = 11;
const METADATA: u64 = 15;

/// Code of the record with all texts in a block of metadata.
const METADATA_STRINGS: u64 = 35;

/// Maximum depth of casts, more than any writer leaves; a damaged file may have circular casts.
const MOST_CASTS: usize = 64;

/// Codes in a module's block.
mod code {
    pub(super) const VERSION: u64 = 1;
    pub(super) const TRIPLE: u64 = 2;
    pub(super) const ASSEMBLY: u64 = 4;
    pub(super) const SECTION: u64 = 5;
    pub(super) const VARIABLE: u64 = 7;
    pub(super) const FUNCTION: u64 = 8;
    pub(super) const OLD_ALIAS: u64 = 9;
    pub(super) const ALIAS: u64 = 14;
    pub(super) const INDIRECT: u64 = 18;
}

/// Codes in a block of constants.
mod constant {
    pub(super) const SET_TYPE: u64 = 1;
    pub(super) const CAST: u64 = 11;
    pub(super) const BLOCK_ADDRESS: u64 = 21;
}

impl<'a> Tables<'a> {
    /// Reads a module's block.
    pub(super) fn read(mut block: Block<'a>, common: &mut Common) -> Result<Self> {
        let (mut tables, mut record) = (Self::default(), Record::default());
        while let Some(item) = block.next(common, &mut record)? {
            match item {
                Item::Record => tables.add(&record)?,
                Item::Block(inner) if inner.id == CONSTANTS => {
                    tables.read_constants(inner, common, &mut record)?;
                }
                Item::Block(mut inner) if inner.id == METADATA => {
                    // The texts are the first record.
                    let first = inner.next(common, &mut record)?;
                    if matches!(first, Some(Item::Record)) && record.code == METADATA_STRINGS {
                        tables.texts = record.blob;
                    }
                }
                Item::Block(_) => {}
            }
        }
        Ok(tables)
    }

    /// Returns the module, whose names are in `strings`, and the offset of each global's name in
    /// them.
    pub(super) fn into_module(
        self,
        producer: Producer,
        strings: &[u8],
    ) -> Result<(Module, Vec<usize>)> {
        let targets: Vec<(usize, Option<usize>)> =
            self.targets.iter().map(|(global, value)| (*global, self.global_of(*value))).collect();
        let block_addresses: HashSet<usize> =
            self.block_addresses.iter().filter_map(|value| self.global_of(*value)).collect();
        let mut globals = Vec::with_capacity(self.globals.len());
        let mut names = Vec::with_capacity(self.globals.len());
        for ((start, size), global) in self.globals {
            let range = usize::try_from(start).ok().zip(usize::try_from(size).ok());
            let name = range.and_then(|(start, size)| strings.get(start..start.checked_add(size)?));
            let missing = || {
                format!(
                    "damaged bitcode: a name of {size} bytes at offset {start} of its strings, which have {} bytes",
                    strings.len()
                )
            };
            globals.push(Global { name: name.ok_or_else(missing)?.to_owned(), ..global });
            names.push(usize::try_from(start).unwrap_or_default());
        }
        for (global, target) in targets {
            match &mut globals[global].kind {
                Kind::Alias { target: aliased } => *aliased = target,
                Kind::Indirect { resolver } => *resolver = target,
                _ => {}
            }
        }
        let Self { triple, has_assembly, sections, .. } = self;
        let module = Module {
            producer,
            triple,
            has_assembly,
            sections,
            globals,
            executable_flag: None,
            private_names: Vec::new(),
            block_addresses,
        };
        Ok((module, names))
    }

    fn add(&mut self, record: &Record<'_>) -> Result<()> {
        let fields = Fields { code: record.code, fields: &record.fields };
        match record.code {
            code::VERSION => match fields.at(0)? {
                2 => {}
                version => {
                    return Err(format!(
                        "it is of version {version} of LLVM's bitcode, expected 2, which LLVM 5 and later write"
                    ));
                }
            },
            code::TRIPLE => self.triple = text(&record.fields),
            code::ASSEMBLY => self.has_assembly = true,
            code::SECTION => {
                self.sections.insert(record.fields.iter().map(|byte| *byte as u8).collect());
            }
            code::VARIABLE => {
                let thread_local = fields.optional(9) != 0;
                // A variable without an initial value is a declaration.
                let is_defined = fields.at(4)? != 0;
                self.define(fields, Kind::Variable { thread_local }, is_defined, 5, 8)?;
            }
            code::FUNCTION => {
                let is_defined = fields.at(4)? == 0;
                self.define(fields, Kind::Function, is_defined, 5, 9)?;
            }
            code::ALIAS => {
                self.targets.push((self.globals.len(), fields.at(4)?));
                self.define(fields, Kind::Alias { target: None }, true, 5, 6)?;
            }
            code::INDIRECT => {
                self.targets.push((self.globals.len(), fields.at(4)?));
                self.define(fields, Kind::Indirect { resolver: None }, true, 5, 6)?;
            }
            code::OLD_ALIAS => {
                return Err("it has aliases in the format of LLVM 3: compile it again".to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a global whose linkage and visibility are in the fields with these indices.
    fn define(
        &mut self,
        fields: Fields<'_>,
        kind: Kind,
        is_defined: bool,
        linkage: usize,
        visibility: usize,
    ) -> Result<()> {
        let name = (fields.at(0)?, fields.at(1)?);
        let (linkage, is_declared) = linkage_of(fields.at(linkage)?);
        let global = Global {
            name: Vec::new(),
            kind,
            linkage,
            is_hidden: fields.optional(visibility) == 1,
            is_defined: is_defined && !is_declared,
        };
        self.globals.push((name, global));
        Ok(())
    }

    /// Reads constants of the module, among them values of globals and block addresses.
    fn read_constants(
        &mut self,
        mut block: Block<'a>,
        common: &mut Common,
        record: &mut Record<'a>,
    ) -> Result<()> {
        while let Some(item) = block.next(common, record)? {
            let Item::Record = item else { continue };
            let field = |index: usize| record.fields.get(index).copied();
            match record.code {
                constant::SET_TYPE => continue,
                constant::CAST => self.constants.push(field(2)),
                constant::BLOCK_ADDRESS => {
                    self.constants.push(None);
                    self.block_addresses.extend(field(1));
                }
                _ => self.constants.push(None),
            }
        }
        Ok(())
    }

    /// Returns the global that a value stands for, through casts, if it is one.
    fn global_of(&self, value: u64) -> Option<usize> {
        let mut value = usize::try_from(value).ok()?;
        for _ in 0..MOST_CASTS {
            match value.checked_sub(self.globals.len()) {
                None => return Some(value),
                Some(constant) => {
                    value = usize::try_from((*self.constants.get(constant)?)?).ok()?;
                }
            }
        }
        None
    }
}

/// The fields of a record; fields at the end may be missing.
#[derive(Clone, Copy)]
struct Fields<'a> {
    code: u64,
    fields: &'a [u64],
}

impl Fields<'_> {
    fn at(self, index: usize) -> Result<u64> {
        let missing = || {
            let (code, count) = (self.code, self.fields.len());
            format!(
                "damaged bitcode: a record {code} of a module with {count} fields, expected more"
            )
        };
        self.fields.get(index).copied().ok_or_else(missing)
    }

    fn optional(self, index: usize) -> u64 {
        self.fields.get(index).copied().unwrap_or_default()
    }
}

/// Converts a linkage number. The `bool` says whether such a global is only a declaration.
fn linkage_of(number: u64) -> (Linkage, bool) {
    match number {
        1 | 4 | 10 | 11 | 16..=19 => (Linkage::Weak, false),
        2 => (Linkage::Appending, false),
        3 | 9 | 13 | 14 => (Linkage::Local, false),
        // A weak reference.
        7 => (Linkage::Weak, true),
        // Tentative definitions, which linkers merge.
        8 => (Linkage::Weak, false),
        12 => (Linkage::AvailableExternally, false),
        _ => (Linkage::Strong, false),
    }
}
