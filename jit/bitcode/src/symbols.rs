//! The symbols of an object that is a piece of a module: they get the names by which pieces find
//! each other.
//!
//! Sections and relocations stay unchanged. New tables of symbols and names follow them. Groups are
//! dissolved, since LLVM spreads one group over several pieces, and a linker keeps only one of two
//! groups with the same name. Names decide instead, so definitions from a group are weak.

use object::elf;
use object::endian::{LittleEndian as LE, U32};
use object::pod::{Pod, bytes_of, bytes_of_slice, from_bytes, slice_from_bytes};

use crate::partition::{Partition, REST, SectionBound};

type Header = elf::FileHeader64<LE>;
type Section = elf::SectionHeader64<LE>;
type Symbol = elf::Sym64<LE>;

/// An object with the symbols of a piece.
pub(crate) struct PieceObject {
    pub(crate) bytes: Vec<u8>,
    /// Names of undefined symbols.
    pub(crate) references: Vec<String>,
}

/// A symbol that an object defines, possibly by assembly.
pub(crate) struct DefinedSymbol {
    pub(crate) name: Vec<u8>,
    pub(crate) is_function: bool,
    pub(crate) is_weak: bool,
    pub(crate) is_local: bool,
    pub(crate) is_hidden: bool,
}

/// Gives an object the names of a piece. The error describes a malformed object.
pub(crate) fn finish(
    bytes: Vec<u8>,
    partition: &Partition,
    piece: usize,
) -> Result<PieceObject, String> {
    let mut object = Object::read(bytes)?;
    object.dissolve_groups();
    let own = Names { partition, piece };
    let mut added: Vec<(&[u8], Symbol)> = Vec::new();
    for index in object.first_global()..object.symbols.len() {
        let mut symbol = object.symbols[index];
        let name = object.name(&symbol)?.to_owned();
        if let Some(name) = own.rename(&name, &mut symbol) {
            symbol.st_name = object.add_name(&name);
        }
        object.symbols[index] = symbol;
        added.extend(own.second(&name, &symbol));
    }
    for index in 1..object.first_global() {
        let symbol = object.symbols[index];
        added.extend(own.assembly_symbol(object.name(&symbol)?, &symbol));
    }
    if piece == REST {
        let bounds = partition.bounds.iter();
        added.extend(bounds.filter_map(|bound| Some((&bound.name[..], object.bound(bound)?))));
    }
    object.add_symbols(added)?;
    let references = object.references()?;
    Ok(PieceObject { bytes: object.into_bytes()?, references })
}

/// Returns the definitions of an object.
pub(crate) fn defined(bytes: &[u8]) -> Result<Vec<DefinedSymbol>, String> {
    let object = Object::read(bytes.to_vec())?;
    let is_name = |symbol: &&Symbol| {
        is_defined(symbol) && !matches!(symbol.st_type(), elf::STT_SECTION | elf::STT_FILE)
    };
    let symbols = object.symbols.iter().skip(1).filter(is_name);
    let defined = symbols.map(|symbol| {
        Ok(DefinedSymbol {
            name: object.name(symbol)?.to_owned(),
            is_function: symbol.st_type() == elf::STT_FUNC,
            is_weak: symbol.st_bind() == elf::STB_WEAK,
            is_local: symbol.st_bind() == elf::STB_LOCAL,
            is_hidden: symbol.st_visibility() == elf::STV_HIDDEN,
        })
    });
    defined.collect()
}

/// The names of a piece.
struct Names<'a> {
    partition: &'a Partition,
    piece: usize,
}

impl<'a> Names<'a> {
    /// Adapts a symbol to the pieces, and returns its new name there, if any.
    fn rename(&self, name: &[u8], symbol: &mut Symbol) -> Option<Vec<u8>> {
        if self.piece != REST && is_defined(symbol) {
            // The tools could not leave out this function; the rest defines it.
            if self.partition.indirect.contains(name) {
                symbol.st_shndx.set(LE, elf::SHN_UNDEF);
                symbol.set_st_info(symbol.st_bind(), elf::STT_NOTYPE);
                symbol.st_value.set(LE, 0);
                symbol.st_size.set(LE, 0);
                return None;
            }
            if self.partition.resolvers.contains_key(name) {
                symbol.st_other = symbol.st_other.with_visibility(elf::STV_HIDDEN);
                let Self { partition: Partition { tag, .. }, piece } = self;
                return Some([name, format!(".{piece}.{tag}").as_bytes()].concat());
            }
        }
        if let Some(name) = self.partition.assembled.get(name).filter(|_| !is_defined(symbol)) {
            symbol.st_other = symbol.st_other.with_visibility(elf::STV_HIDDEN);
            return Some(name.clone());
        }
        let is_bound = |bound: &&SectionBound| bound.symbol == name;
        if let Some(bound) = self.partition.bounds.iter().find(is_bound) {
            // In the rest the name stays, and the linker finds the bounds of the rest's own
            // section.
            return (self.piece != REST).then(|| bound.name.clone());
        }
        let renamed = self.partition.renamed.get(name)?;
        if renamed.keeps_name && is_defined(symbol) {
            return None;
        }
        let visibility = if renamed.callable { elf::STV_DEFAULT } else { elf::STV_HIDDEN };
        symbol.st_other = symbol.st_other.with_visibility(visibility);
        Some(renamed.name.clone())
    }

    /// Returns the additional symbol by which other pieces find a symbol that keeps its name.
    fn second(&self, name: &[u8], symbol: &Symbol) -> Option<(&'a [u8], Symbol)> {
        let renamed = self.partition.renamed.get(name)?;
        let is_here = self.partition.owner(name) == Some(self.piece) && is_defined(symbol);
        let st_other = symbol.st_other.with_visibility(elf::STV_DEFAULT);
        (renamed.keeps_name && is_here)
            .then_some((&renamed.name[..], Symbol { st_other, ..*symbol }))
    }

    /// Returns the symbol by which the other pieces find a local symbol of assembly.
    fn assembly_symbol(&self, name: &[u8], symbol: &Symbol) -> Option<(&'a [u8], Symbol)> {
        let renamed = self.partition.assembled.get(name).filter(|_| self.piece == REST)?;
        let st_other = symbol.st_other.with_visibility(elf::STV_HIDDEN);
        let st_info = elf::SymbolInfo::new(elf::STB_GLOBAL, symbol.st_type());
        Some((&renamed[..], Symbol { st_info, st_other, ..*symbol }))
    }
}

/// An object that is being changed.
struct Object {
    bytes: Vec<u8>,
    sections: Vec<Section>,
    /// Offset of the section headers, in bytes.
    headers: usize,
    /// Indices of the tables among the sections.
    symbol_table: usize,
    name_table: usize,
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

impl Object {
    fn read(bytes: Vec<u8>) -> Result<Self, String> {
        let is_object = bytes.starts_with(&elf::ELFMAG) && bytes.get(4..6) == Some(&[2, 1]);
        let header = from_bytes::<Header>(&bytes).ok().filter(|_| is_object);
        let Some((header, _)) = header.filter(|(header, _)| header.e_type.get(LE) == elf::ET_REL)
        else {
            let start = &bytes[..bytes.len().min(16)];
            return Err(format!(
                "{} bytes that begin with {:?} are not a 64-bit relocatable object",
                bytes.len(),
                String::from_utf8_lossy(start),
            ));
        };
        let headers = header.e_shoff.get(LE) as usize;
        let count = match header.e_shnum.get(LE) {
            0 => table::<Section>(&bytes, headers, 1)?[0].sh_size.get(LE) as usize,
            count => count.into(),
        };
        let sections = table::<Section>(&bytes, headers, count)?.to_vec();
        let is_symbols = |section: &Section| section.sh_type.get(LE) == elf::SHT_SYMTAB;
        let symbol_table = sections.iter().position(is_symbols).ok_or("it has no symbols")?;
        let section = sections[symbol_table];
        let count = section.sh_size.get(LE) as usize / size_of::<Symbol>();
        let symbols = table(&bytes, section.sh_offset.get(LE) as usize, count)?.to_vec();
        let name_table = section.sh_link.get(LE) as usize;
        let names = sections.get(name_table).ok_or("its symbols have no names")?;
        let (start, size) = (names.sh_offset.get(LE) as usize, names.sh_size.get(LE) as usize);
        let names = table::<u8>(&bytes, start, size)?.to_vec();
        Ok(Self { bytes, sections, headers, symbol_table, name_table, symbols, names })
    }

    /// Returns the index of the first global symbol.
    fn first_global(&self) -> usize {
        (self.sections[self.symbol_table].sh_info.get(LE) as usize).max(1)
    }

    fn name(&self, symbol: &Symbol) -> Result<&[u8], String> {
        let start = symbol.st_name.get(LE) as usize;
        let name = self.names.get(start..).and_then(|rest| rest.split(|byte| *byte == 0).next());
        name.ok_or_else(|| format!("a name at {start} of {} bytes", self.names.len()))
    }

    /// Returns a symbol at a bound of a section, if the object has that section.
    fn bound(&self, bound: &SectionBound) -> Option<Symbol> {
        let names = self.section_names().unwrap_or_default();
        let is_it = |section: &Section| {
            let name = names.get(section.sh_name.get(LE) as usize..);
            name.and_then(|rest| rest.split(|byte| *byte == 0).next()) == Some(&bound.section)
                && section.sh_flags.get(LE).contains(elf::SHF_ALLOC)
        };
        let index = self.sections.iter().position(is_it)?;
        let end = if bound.is_end { self.sections[index].sh_size.get(LE) } else { 0 };
        Some(Symbol {
            st_name: U32::new(LE, 0),
            st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_OBJECT),
            st_other: elf::SymbolOther::from(elf::STV_HIDDEN),
            st_shndx: object::U16::new(LE, elf::SymbolSection(u16::try_from(index).ok()?)),
            st_value: object::U64::new(LE, end),
            st_size: object::U64::new(LE, 0),
        })
    }

    fn section_names(&self) -> Option<&[u8]> {
        let header: &Header = from_bytes(&self.bytes).ok()?.0;
        let names = self.sections.get(usize::from(header.e_shstrndx.get(LE).0))?;
        let (start, size) = (names.sh_offset.get(LE) as usize, names.sh_size.get(LE) as usize);
        table(&self.bytes, start, size).ok()
    }

    /// Adds a name, and returns its offset in the table.
    fn add_name(&mut self, name: &[u8]) -> U32<LE> {
        let place = U32::new(LE, self.names.len() as u32);
        self.names.extend_from_slice(name);
        self.names.push(0);
        place
    }

    fn dissolve_groups(&mut self) {
        let mut grouped = vec![false; self.sections.len()];
        for (section, grouped) in self.sections.iter_mut().zip(&mut grouped) {
            if section.sh_type.get(LE) == elf::SHT_GROUP {
                section.sh_type.set(LE, elf::SHT_NULL);
            }
            let flags = section.sh_flags.get(LE);
            *grouped = flags.contains(elf::SHF_GROUP);
            section.sh_flags.set(LE, elf::SectionFlags(flags.0 & !elf::SHF_GROUP.0));
        }
        for symbol in &mut self.symbols {
            let section = usize::from(symbol.st_shndx.get(LE).0);
            if symbol.st_bind() == elf::STB_GLOBAL && grouped.get(section) == Some(&true) {
                symbol.set_st_info(elf::STB_WEAK, symbol.st_type());
            }
        }
    }

    fn add_symbols(&mut self, added: Vec<(&[u8], Symbol)>) -> Result<(), String> {
        let is_extended = |section: &Section| section.sh_type.get(LE) == elf::SHT_SYMTAB_SHNDX;
        if !added.is_empty() && self.sections.iter().any(is_extended) {
            return Err(format!(
                "it has {} sections, expected less than 65280",
                self.sections.len()
            ));
        }
        for (name, symbol) in added {
            let st_name = self.add_name(name);
            self.symbols.push(Symbol { st_name, ..symbol });
        }
        Ok(())
    }

    fn references(&self) -> Result<Vec<String>, String> {
        let symbols = self.symbols.get(self.first_global()..).unwrap_or_default();
        let undefined = symbols.iter().filter(|symbol| !is_defined(symbol));
        undefined
            .map(|symbol| Ok(String::from_utf8_lossy(self.name(symbol)?).into_owned()))
            .collect()
    }

    /// Returns the file, with the new tables at its end.
    fn into_bytes(mut self) -> Result<Vec<u8>, String> {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        for (section, content) in
            [(self.symbol_table, bytes_of_slice(&self.symbols)), (self.name_table, &self.names[..])]
        {
            let section = &mut self.sections[section];
            section.sh_offset.set(LE, self.bytes.len() as u64);
            section.sh_size.set(LE, content.len() as u64);
            self.bytes.extend_from_slice(content);
        }
        let size = size_of::<Section>();
        for (index, section) in self.sections.iter().enumerate() {
            let start = self.headers + index * size;
            self.bytes[start..start + size].copy_from_slice(bytes_of(section));
        }
        Ok(self.bytes)
    }
}

fn is_defined(symbol: &Symbol) -> bool {
    symbol.st_shndx.get(LE) != elf::SHN_UNDEF
}

fn table<T: Pod>(bytes: &[u8], offset: usize, count: usize) -> Result<&[T], String> {
    let entries = bytes.get(offset..).and_then(|rest| slice_from_bytes(rest, count).ok());
    let missing = || format!("a table of {count} entries at {offset} of {} bytes", bytes.len());
    Ok(entries.ok_or_else(missing)?.0)
}
