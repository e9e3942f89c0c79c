//! The definitions of an archive's members, read on demand.

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use object::read::archive::{ArchiveFile, ArchiveOffset};

use super::objects::{all_defined_in, defined_in};
use super::source::{Defined, Source};
use crate::elf::{Archive, DefinitionPlace, ElfObject};
use crate::{Error, Result};

/// The global symbols of an archive's members.
pub(super) struct Index {
    name: String,
    bytes: Bytes,
    /// First member that defines each symbol.
    members: Members,
}

/// The way to find members.
enum Members {
    /// The archive's index: the place of the member, for each name.
    Indexed(HashMap<Bytes, u64>),
    /// The members' own symbols, for an archive without an index.
    Read(HashMap<Bytes, usize>, Vec<(String, Bytes)>),
}

impl Index {
    /// Reads an archive's index. The members are read only if there is no index.
    pub(super) fn read(name: &str, bytes: Bytes) -> Result<Self> {
        let members = match indexed(name, &bytes)? {
            Some(symbols) => Members::Indexed(symbols),
            None => {
                let members = Archive::read(name, &bytes)?.members;
                Members::Read(defined_by(&members), members)
            }
        };
        Ok(Self { name: name.to_owned(), bytes, members })
    }

    /// Returns the place, the name and the bytes of the member that defines a name.
    fn member_with(&self, name: &str) -> Result<Option<(u64, String, Bytes)>> {
        match &self.members {
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

impl Source for Index {
    fn name(&self) -> &str {
        &self.name
    }

    fn defined(&self, name: &str) -> Result<Option<Defined>> {
        let Some((_, member, bytes)) = self.member_with(name)? else { return Ok(None) };
        Ok(defined_in(&ElfObject::read(&member, bytes)?, name.as_bytes()))
    }

    /// Reads the symbols of all members.
    fn all_defined(&self) -> Result<Vec<(String, Defined)>> {
        let mut all = HashMap::new();
        let mut add = |object: &ElfObject| {
            for (name, defined) in all_defined_in(object) {
                all.entry(name).or_insert(defined);
            }
        };
        match &self.members {
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
                // A member that is not an object defines nothing.
                let objects = members
                    .iter()
                    .filter_map(|(name, bytes)| ElfObject::read(name, bytes.clone()).ok());
                objects.for_each(|object| add(&object));
            }
        }
        Ok(all.into_iter().collect())
    }

    fn objects(&self, names: &mut dyn Iterator<Item = &str>) -> Result<Vec<(String, Bytes)>> {
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
}

/// Returns the symbols of an archive's index, each with its first member; `None` without an index.
fn indexed(name: &str, bytes: &Bytes) -> Result<Option<HashMap<Bytes, u64>>> {
    let malformed =
        |e: object::Error| Error::Malformed { file: name.to_owned(), problem: e.to_string() };
    let archive = ArchiveFile::parse(&**bytes).map_err(malformed)?;
    if archive.is_thin() {
        // The call returns the error for thin archives.
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

/// Returns the first of the members that defines each name. Members that are not objects define
/// nothing.
fn defined_by(members: &[(String, Bytes)]) -> HashMap<Bytes, usize> {
    let mut defined = HashMap::new();
    for (index, (name, bytes)) in members.iter().enumerate() {
        let Ok(object) = ElfObject::read(name, bytes.clone()) else { continue };
        let view = object.view();
        for symbol in view.first_global..view.symbols.len() as u32 {
            if !matches!(view.definition_place(symbol), DefinitionPlace::Undefined) {
                defined.entry(bytes.slice_ref(view.symbol_name(symbol))).or_insert(index);
            }
        }
    }
    defined
}
