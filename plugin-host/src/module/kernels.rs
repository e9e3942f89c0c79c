//! What an image says of its work-group kernels: descriptions, and notes about what their code uses.

use super::{Loaded, pointer, variable};
use crate::execute::Mode;
use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeMap;

/// Before a kernel's name: the variable that describes it.
pub(super) const DESCRIPTION_OF: &str = "__longshore_kernel_";
/// Before a kernel's name: the function that has its body.
const BODY_OF: &str = "__longshore_body_";
/// In the names of notes.
const NOTE: &str = "longshore_note";
/// Words of a description before the arguments.
const HEAD: usize = 8;
const VERSION: u32 = 1;
const REGIONS: u32 = 1;

/// The description of a work-group kernel.
#[derive(Debug)]
pub(super) struct Description {
    is_regions: bool,
    pub(super) required_group: [u32; 3],
    pub(super) argument_sizes: Vec<u32>,
}

/// What the code of a kernel uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    has_barrier: bool,
    has_subgroup: bool,
    pub(super) has_grid_barrier: bool,
    pub(super) shared_bytes: u64,
}

/// The notes of an image: each kernel's own, and those of functions that any kernel may call.
#[derive(Debug, Default)]
pub(super) struct ImageNotes {
    kernels: BTreeMap<String, Notes>,
    helpers: Notes,
}

impl Description {
    /// That of a kernel, if the image has one of a version that is known.
    pub(super) fn of(image: &dyn Loaded, kernel: &str) -> Option<Description> {
        let symbol = variable(image, &format!("{DESCRIPTION_OF}{kernel}"))?;
        let words: *const u32 = pointer(symbol.address);
        // SAFETY: `Loaded` promises that the variable's bytes are readable.
        let word = |index: usize| unsafe { words.add(index).read_unaligned() };
        let count = symbol.bytes as usize / 4;
        if count < HEAD || word(0) != VERSION {
            return None;
        }
        let arguments = word(5) as usize;
        if arguments > (count - HEAD) / 2 {
            return None;
        }
        Some(Description {
            is_regions: word(1) == REGIONS,
            required_group: [word(2), word(3), word(4)],
            argument_sizes: (0..arguments).map(|index| word(HEAD + 2 * index)).collect(),
        })
    }

    /// How the kernel's items are run.
    pub(super) fn mode(&self, notes: Notes) -> Mode {
        match self.is_regions {
            true => Mode::Regions,
            false if notes.has_barrier || notes.has_subgroup || notes.has_grid_barrier => {
                Mode::Fibers
            }
            false => Mode::Loop,
        }
    }
}

impl ImageNotes {
    /// Reads the notes of an object, a shared object, or an archive of objects. What cannot be read has none.
    pub(super) fn read(image: &[u8]) -> ImageNotes {
        let mut notes = ImageNotes::default();
        match ArchiveFile::parse(image) {
            Ok(archive) => {
                let members = archive.members().filter_map(Result::ok);
                for member in members.filter_map(|member| member.data(image).ok()) {
                    notes.add_from(member);
                }
            }
            Err(_) => notes.add_from(image),
        }
        notes
    }

    /// What a kernel may use.
    pub(super) fn of(&self, kernel: &str) -> Notes {
        let own = self.kernels.get(kernel).copied().unwrap_or_default();
        Notes {
            has_barrier: own.has_barrier || self.helpers.has_barrier,
            has_subgroup: own.has_subgroup || self.helpers.has_subgroup,
            has_grid_barrier: own.has_grid_barrier || self.helpers.has_grid_barrier,
            shared_bytes: own.shared_bytes.saturating_add(self.helpers.shared_bytes),
        }
    }

    fn add_from(&mut self, object: &[u8]) {
        let Ok(file) = ElfFile64::<LittleEndian>::parse(object) else { return };
        for symbol in file.symbols() {
            let Some(name) = symbol.name().ok().filter(|name| name.contains(NOTE)) else {
                continue;
            };
            let section =
                symbol.section_index().and_then(|index| file.section_by_index(index).ok());
            let bytes =
                section.and_then(|section| section.data_range(symbol.address(), 8).ok().flatten());
            let Some([kind, value]) = bytes.and_then(words) else { continue };
            let notes = match kernel_of(name) {
                Some(kernel) => self.kernels.entry(kernel.to_owned()).or_default(),
                None => &mut self.helpers,
            };
            notes.add(kind, value);
        }
    }
}

impl Notes {
    fn add(&mut self, kind: u32, value: u32) {
        match kind {
            1 => self.has_barrier = true,
            2 => self.has_subgroup = true,
            3 => self.has_grid_barrier = true,
            4 => self.shared_bytes = self.shared_bytes.saturating_add(value.into()),
            _ => {}
        }
    }
}

fn words(bytes: &[u8]) -> Option<[u32; 2]> {
    let (first, second) = bytes.split_first_chunk()?;
    Some([u32::from_le_bytes(*first), u32::from_le_bytes(*second.first_chunk()?)])
}

/// The kernel whose body has a note of this name: in C `__longshore_body_NAME.longshore_note`, in C++ the length of
/// the function's name comes before it.
fn kernel_of(note: &str) -> Option<&str> {
    let at = note.find(BODY_OF)?;
    let (before, body) = note.split_at(at);
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let name = match before[before.len() - digits..].parse::<usize>() {
        Ok(length) => body.get(..length)?,
        Err(_) => body.split('.').next()?,
    };
    name.strip_prefix(BODY_OF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_notes_lead_to_their_kernel_in_c_and_in_cxx() {
        let cases = [
            ("__longshore_body_sum.longshore_note", Some("sum")),
            ("__longshore_body_sum.longshore_note.12", Some("sum")),
            ("_ZZ20__longshore_body_sumE14longshore_note", Some("sum")),
            ("_ZZL20__longshore_body_sumPKfE14longshore_note_0", Some("sum")),
            ("_ZZ200__longshore_body_sumE14longshore_note", None),
            ("helper.longshore_note", None),
        ];
        for (note, kernel) in cases {
            assert_eq!(kernel_of(note), kernel, "{note}");
        }
    }
}
