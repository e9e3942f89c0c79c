//! What a file defines, read when it is asked for.

use std::ops::Range;

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use object::elf;
use object::read::archive::{ArchiveFile, ArchiveOffset};

use crate::elf::{Archive, ElfObject, Home, LE, View, is_archive};
use crate::graph::Linkage;
use crate::{Error, Result};

/// The global symbols of an object, or of an archive's members.
pub(super) struct Index {
    name: String,
    bytes: Bytes,
    /// The member that defines a symbol first.
    members: Members,
}

/// How members are found.
enum Members {
    /// There is one, the file itself.
    File(ElfObject),
    /// By the archive's index: where the member is, for each name.
    Indexed(HashMap<Bytes, u64>),
    /// By what they define themselves, as the archive has no index.
    Read(HashMap<Bytes, usize>, Vec<(String, Bytes)>),
}

/// What a name stands for that a file defines for others, as its symbol says. Nothing is linked for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defined {
    /// Whether it is a function: only those have entries.
    pub callable: bool,
    /// Strong or weak.
    pub linkage: Linkage,
    /// Whether each thread has one of its own.
    pub thread_local: bool,
    /// Whether it is a function that a resolver chooses.
    pub indirect: bool,
    /// Its size in bytes, 0 if that is not said.
    pub size: u64,
    /// What the file has for it, before any relocation; nothing for what has no content there, or lies beyond its section.
    pub content: Option<Bytes>,
}

impl Index {
    /// Reads the index of an archive, or the symbols of an object. Members are not looked at, if there is an index.
    pub(super) fn read(name: &str, bytes: Bytes) -> Result<Self> {
        let members = if !is_archive(&bytes) {
            Members::File(ElfObject::read(name, bytes.clone())?)
        } else if let Some(symbols) = indexed(name, &bytes)? {
            Members::Indexed(symbols)
        } else {
            let members = Archive::read(name, &bytes)?.members;
            Members::Read(defined_by(&members), members)
        };
        Ok(Self { name: name.to_owned(), bytes, members })
    }

    pub(super) fn is_archive(&self) -> bool {
        !matches!(self.members, Members::File(_))
    }

    /// What a name is that the file defines for others.
    pub(super) fn defined(&self, name: &str) -> Result<Option<Defined>> {
        match &self.members {
            Members::File(object) => Ok(defined_in(object, name.as_bytes())),
            _ => {
                let Some((_, member, bytes)) = self.member_with(name)? else { return Ok(None) };
                Ok(defined_in(&ElfObject::read(&member, bytes)?, name.as_bytes()))
            }
        }
    }

    /// All that the file defines for others, in any order. Reads the symbols of all members.
    pub(super) fn all_defined(&self) -> Result<Vec<(String, Defined)>> {
        let mut all = HashMap::new();
        let mut add = |object: &ElfObject| {
            let view = object.view();
            for symbol in globals(&view) {
                if let Some(defined) = defined_by_symbol(object, symbol) {
                    let name = String::from_utf8_lossy(view.symbol_name(symbol)).into_owned();
                    all.entry(name).or_insert(defined);
                }
            }
        };
        match &self.members {
            Members::File(object) => add(object),
            Members::Indexed(places) => {
                let mut places: Vec<u64> = places.values().copied().collect();
                places.sort_unstable();
                places.dedup();
                for place in places {
                    let (member, bytes) = self.member_at(place)?;
                    add(&ElfObject::read(&member, bytes)?);
                }
            }
            Members::Read(_, members) => {
                // What is no object defines nothing.
                let objects = members
                    .iter()
                    .filter_map(|(name, bytes)| ElfObject::read(name, bytes.clone()).ok());
                objects.for_each(|object| add(&object));
            }
        }
        Ok(all.into_iter().collect())
    }

    /// The members that define these names, each once, with their names for messages.
    pub(super) fn members_with<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<(String, Bytes)>> {
        let mut given = HashSet::new();
        let mut members = Vec::new();
        for name in names {
            if let Some((place, member, bytes)) = self.member_with(name)?
                && given.insert(place)
            {
                members.push((member, bytes));
            }
        }
        Ok(members)
    }

    /// The place, the name and the bytes of the member that defines a name.
    fn member_with(&self, name: &str) -> Result<Option<(u64, String, Bytes)>> {
        match &self.members {
            Members::File(_) => Ok(None),
            Members::Indexed(places) => {
                let Some(place) = places.get(name.as_bytes()) else { return Ok(None) };
                let (name, bytes) = self.member_at(*place)?;
                Ok(Some((*place, name, bytes)))
            }
            Members::Read(places, members) => Ok(places.get(name.as_bytes()).map(|place| {
                let (name, bytes) = members[*place].clone();
                (*place as u64, name, bytes)
            })),
        }
    }

    fn member_at(&self, place: u64) -> Result<(String, Bytes)> {
        let malformed = |problem: object::Error| Error::Malformed {
            file: self.name.clone(),
            problem: format!("the member at {place:#x}, by its index: {problem}"),
        };
        let archive = ArchiveFile::parse(&*self.bytes).map_err(malformed)?;
        let member = archive.member(ArchiveOffset(place)).map_err(malformed)?;
        let content = member.data(&*self.bytes).map_err(malformed)?;
        let name = format!("{}({})", self.name, String::from_utf8_lossy(member.name()));
        Ok((name, self.bytes.slice_ref(content)))
    }
}

/// The symbols of an archive's index, each with its first member; nothing if there is no index.
fn indexed(name: &str, bytes: &Bytes) -> Result<Option<HashMap<Bytes, u64>>> {
    let malformed =
        |e: object::Error| Error::Malformed { file: name.to_owned(), problem: e.to_string() };
    let archive = ArchiveFile::parse(&**bytes).map_err(malformed)?;
    if archive.is_thin() {
        // It says what is wrong with those.
        Archive::read(name, bytes)?;
    }
    let Some(symbols) = archive.symbols().map_err(malformed)? else { return Ok(None) };
    let mut places = HashMap::with_capacity(symbols.size_hint().0);
    for symbol in symbols {
        let symbol = symbol.map_err(malformed)?;
        places.entry(bytes.slice_ref(symbol.name())).or_insert(symbol.offset().0);
    }
    Ok(Some(places))
}

/// The first of the members that defines each name. Those that are not objects define nothing.
fn defined_by(members: &[(String, Bytes)]) -> HashMap<Bytes, usize> {
    let mut defined = HashMap::new();
    for (index, (name, bytes)) in members.iter().enumerate() {
        let Ok(object) = ElfObject::read(name, bytes.clone()) else { continue };
        let view = object.view();
        for symbol in view.first_global..view.symbols.len() as u32 {
            if !matches!(view.home(symbol), Home::Undefined) {
                defined.entry(bytes.slice_ref(view.symbol_name(symbol))).or_insert(index);
            }
        }
    }
    defined
}

/// What a name is that an object defines for others.
fn defined_in(object: &ElfObject, name: &[u8]) -> Option<Defined> {
    let view = object.view();
    let symbol = globals(&view).find(|symbol| {
        view.symbol_name(*symbol) == name && !matches!(view.home(*symbol), Home::Undefined)
    })?;
    defined_by_symbol(object, symbol)
}

fn globals(view: &View<'_>) -> Range<u32> {
    view.first_global.max(1)..view.symbols.len() as u32
}

/// What a symbol defines for others; nothing if it does not.
fn defined_by_symbol(object: &ElfObject, index: u32) -> Option<Defined> {
    let view = object.view();
    let symbol = &view.symbols[index as usize];
    let is_hidden = matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
    if is_hidden || matches!(view.home(index), Home::Undefined) {
        return None;
    }
    let kind = symbol.st_type();
    let indirect = kind == elf::STT_GNU_IFUNC;
    let linkage = match symbol.st_bind() == elf::STB_WEAK {
        true => Linkage::Weak,
        false => Linkage::Strong,
    };
    let (start, size) = (symbol.st_value.get(LE), symbol.st_size.get(LE));
    let content = match view.home(index) {
        Home::Section(section) => {
            let content = view.content(view.sections.get(section as usize)?);
            let range = usize::try_from(start).ok().zip(usize::try_from(size).ok());
            range
                .and_then(|(start, size)| content.get(start..start.checked_add(size)?))
                .map(|content| object.bytes().slice_ref(content))
        }
        _ => None,
    };
    Some(Defined {
        callable: kind == elf::STT_FUNC || indirect,
        linkage,
        thread_local: kind == elf::STT_TLS,
        indirect,
        size,
        content,
    })
}
