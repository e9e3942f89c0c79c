//! The dynamic section, which locates the other tables.

use super::read::{string_at, u64_at};
use super::segments::Segments;
use super::{Functions, ensure, malformed};
use longshore_plugin_api::Result;
use object::elf::{self, DynamicTag};
use std::ops::Range;

pub(super) const ENTRY_BYTES: usize = 16;
const POINTER_BYTES: u64 = 8;
/// Most libraries of an image: the loader keeps a list of them on the stack.
const MOST_LIBRARIES: usize = 128;
const LONGEST_LIBRARY_NAME: usize = 255;
const LONGEST_LIBRARY_PATH: usize = 4095;

/// The dynamic section's entries up to `DT_NULL`. Only the tag `DT_NEEDED` occurs more than once.
#[derive(Clone, Debug)]
pub(super) struct Dynamic {
    pub(super) entries: Vec<(DynamicTag, u64)>,
    /// File offset of the entries.
    pub(super) offset: usize,
    addresses: Range<u64>,
}

/// A table that the dynamic section points at, whole in the file.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) addresses: Range<u64>,
    pub(super) file: Range<usize>,
}

impl Table {
    /// Checks that the file contains the table.
    pub(super) fn new(segments: &Segments, address: u64, bytes: u64, name: &str) -> Result<Table> {
        let file = segments.file_range(address, bytes).ok_or_else(|| {
            malformed(format!("{name}, {bytes:#x} bytes at {address:#x}, is not inside a segment"))
        })?;
        Ok(Table { addresses: address..address + bytes, file })
    }
}

impl Dynamic {
    /// Reads the section and refuses unsupported tags.
    pub(super) fn parse(
        bytes: &[u8],
        segments: &Segments,
        addresses: Range<u64>,
    ) -> Result<Dynamic> {
        let dynamic = Dynamic::from_library(bytes, segments, addresses)?;
        dynamic.check_tags()?;
        Ok(dynamic)
    }

    /// Reads the section and refuses a program's section.
    pub(super) fn from_library(
        bytes: &[u8],
        segments: &Segments,
        addresses: Range<u64>,
    ) -> Result<Dynamic> {
        let table =
            Table::new(segments, addresses.start, addresses.end - addresses.start, "PT_DYNAMIC")?;
        let section = &bytes[table.file.clone()];
        let entries: Vec<_> = section
            .chunks_exact(ENTRY_BYTES)
            .map_while(|entry| Some((DynamicTag(u64_at(entry, 0)? as i64), u64_at(entry, 8)?)))
            .take_while(|&(tag, _)| tag != elf::DT_NULL)
            .collect();
        ensure!(
            (entries.len() + 1) * ENTRY_BYTES <= section.len(),
            "the dynamic section at {:#x} does not end with DT_NULL",
            addresses.start
        );
        let dynamic = Dynamic { entries, offset: table.file.start, addresses };
        ensure!(
            dynamic.get(elf::DT_FLAGS_1).is_none_or(|flags| flags & elf::DF_1_PIE.0 == 0),
            "the image is a position-independent executable (DF_1_PIE), expected a shared object"
        );
        Ok(dynamic)
    }

    /// Returns a tag's value.
    pub(super) fn get(&self, tag: DynamicTag) -> Option<u64> {
        self.entries.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value)
    }

    /// Returns the value of a required tag.
    pub(super) fn require(&self, tag: DynamicTag, name: &str) -> Result<u64> {
        self.get(tag).ok_or_else(|| malformed(format!("the dynamic section has no {name}")))
    }

    /// Checks that a required tag that states an entry's size has the right value.
    pub(super) fn require_value(&self, tag: DynamicTag, name: &str, expected: u64) -> Result<()> {
        let found = self.require(tag, name)?;
        ensure!(found == expected, "{name} is {found}, expected {expected}");
        Ok(())
    }

    /// Returns a table that an address and a size describe, if the address is present.
    pub(super) fn table(
        &self,
        segments: &Segments,
        (address, address_name): (DynamicTag, &str),
        (bytes, bytes_name): (DynamicTag, &str),
    ) -> Result<Option<Table>> {
        let Some(address) = self.get(address) else {
            return Ok(None);
        };
        let bytes = self.require(bytes, bytes_name)?;
        Table::new(segments, address, bytes, address_name).map(Some)
    }

    /// Returns the addresses of the section.
    pub(super) fn addresses(&self) -> Range<u64> {
        self.addresses.clone()
    }

    /// Returns the names of the needed libraries, each a plain file name or a path.
    pub(super) fn libraries(&self, bytes: &[u8], strings: Range<usize>) -> Result<Vec<String>> {
        let strings = &bytes[strings];
        let names: Vec<_> = self
            .entries
            .iter()
            .filter(|(tag, _)| *tag == elf::DT_NEEDED)
            .map(|&(_, offset)| library_name(strings, offset))
            .collect::<Result<_>>()?;
        ensure!(
            names.len() <= MOST_LIBRARIES,
            "the image needs {} libraries, expected at most {MOST_LIBRARIES}",
            names.len()
        );
        Ok(names)
    }

    /// Returns the initialisation and termination functions.
    pub(super) fn functions(&self, segments: &Segments) -> Result<Functions> {
        Ok(Functions {
            init: self.function(elf::DT_INIT),
            init_array: self.array(
                segments,
                (elf::DT_INIT_ARRAY, "DT_INIT_ARRAY"),
                (elf::DT_INIT_ARRAYSZ, "DT_INIT_ARRAYSZ"),
            )?,
            fini: self.function(elf::DT_FINI),
            fini_array: self.array(
                segments,
                (elf::DT_FINI_ARRAY, "DT_FINI_ARRAY"),
                (elf::DT_FINI_ARRAYSZ, "DT_FINI_ARRAYSZ"),
            )?,
        })
    }

    fn function(&self, tag: DynamicTag) -> Option<u64> {
        self.get(tag).filter(|address| *address != 0)
    }

    fn array(
        &self,
        segments: &Segments,
        address: (DynamicTag, &str),
        bytes: (DynamicTag, &str),
    ) -> Result<Vec<u64>> {
        let Some(table) = self.table(segments, address, bytes)? else {
            return Ok(Vec::new());
        };
        let (start, end) = (table.addresses.start, table.addresses.end);
        ensure!(
            (start | end).is_multiple_of(POINTER_BYTES),
            "{} at {start:#x} with {} bytes is not an aligned array of pointers",
            address.1,
            end - start
        );
        Ok((start..end).step_by(POINTER_BYTES as usize).collect())
    }

    fn check_tags(&self) -> Result<()> {
        let mut seen: Vec<_> = self.entries.iter().map(|(tag, _)| tag.0).collect();
        seen.retain(|tag| *tag != elf::DT_NEEDED.0);
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(malformed(format!(
                "the dynamic section has the tag {:#x} twice, expected it once",
                twice[0]
            )));
        }
        for (tag, reason) in REFUSED_TAGS {
            ensure!(self.get(tag).is_none(), "the image has {reason}");
        }
        ensure!(
            self.get(elf::DT_FLAGS).is_none_or(|flags| flags & elf::DF_TEXTREL.0 == 0),
            "the image has relocations of code (DF_TEXTREL), expected position-independent code"
        );
        Ok(())
    }
}

const REFUSED_TAGS: [(DynamicTag, &str); 6] = [
    (
        elf::DT_TEXTREL,
        "relocations of code (DT_TEXTREL), expected position-independent code (-fPIC)",
    ),
    (elf::DT_REL, "relocations without addends (DT_REL), expected DT_RELA"),
    (elf::DT_AUDIT, "DT_AUDIT, which loads other code"),
    (elf::DT_DEPAUDIT, "DT_DEPAUDIT, which loads other code"),
    (elf::DT_FILTER, "DT_FILTER, which loads other code"),
    (elf::DT_AUXILIARY, "DT_AUXILIARY, which loads other code"),
];

fn library_name(strings: &[u8], offset: u64) -> Result<String> {
    let name = usize::try_from(offset).ok().and_then(|offset| string_at(strings, offset));
    let name = name.ok_or_else(|| {
        malformed(format!(
            "DT_NEEDED's name is at {offset:#x}, expected an offset inside the string table"
        ))
    })?;
    match str::from_utf8(name) {
        Ok(name) if is_library_name(name) || is_library_path(name) => Ok(name.to_owned()),
        _ => Err(malformed(format!(
            "the image needs the library '{}', expected a plain file name, such as libm.so.6, or a \
             path",
            name.escape_ascii()
        ))),
    }
}

fn is_library_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST_LIBRARY_NAME && name.bytes().all(plain)
}

/// Returns whether a name is a path, which linkers record for a library without `DT_SONAME`.
fn is_library_path(name: &str) -> bool {
    name.contains('/') && name.len() <= LONGEST_LIBRARY_PATH && !name.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_plain_names_or_paths() {
        for name in ["libm.so.6", "/tmp/a folder/part.so", "./part.so", "/tmp/größe.so"] {
            let strings = [b"\0", name.as_bytes(), b"\0"].concat();
            assert_eq!(library_name(&strings, 1).expect(name), name);
        }
        let long = format!("/{}", "a".repeat(LONGEST_LIBRARY_PATH));
        for name in ["", "a folder.so", "/tmp/a\nb.so", &long] {
            let strings = [b"\0", name.as_bytes(), b"\0"].concat();
            library_name(&strings, 1).expect_err(name);
        }
        library_name(b"\0/\xff.so\0", 1).expect_err("not UTF-8");
    }
}
