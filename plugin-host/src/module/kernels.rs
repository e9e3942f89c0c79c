//! Metadata of an image's work-group kernels: descriptions, and notes about the features that their
//! code uses.

use super::loaded::LoadedImage;
use crate::kernel::Mode;
use longshore_plugin_api::{
    Error, ErrorCode, ItemLoops, KERNEL_DESCRIPTION_PREFIX, KernelDescription, KernelForm,
    KernelNote, NoteOwner, Result, note_owner,
};
use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeMap;

/// The features that the code of a kernel uses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    has_barrier: bool,
    has_subgroup: bool,
    pub(super) has_grid_barrier: bool,
    pub(super) shared_bytes: u64,
    loops: Option<ItemLoops>,
}

/// The notes of an image: notes of each kernel, and notes of functions that any kernel may call.
#[derive(Debug, Default)]
pub(super) struct ImageNotes {
    kernels: BTreeMap<String, Notes>,
    helpers: Notes,
    /// Whether code of the image calls the checks of accesses.
    pub(super) has_checks: bool,
}

/// The function that all code with checks calls when it is loaded. Must match
/// `jit/checks/src/globals.rs`.
const OF_CHECKED_CODE: &str = "__longshore_check_register";

/// Returns the description of a kernel, if the image has one.
///
/// # Errors
/// `InvalidBinary` for a malformed description, `Unsupported` for one of a later version.
pub(super) fn description(
    image: &dyn LoadedImage,
    kernel: &str,
) -> Result<Option<KernelDescription>> {
    let Some(bytes) = image.constant(&format!("{KERNEL_DESCRIPTION_PREFIX}{kernel}")) else {
        return Ok(None);
    };
    KernelDescription::parse(&bytes)
        .map(Some)
        .map_err(|error| error.context(format!("kernel '{kernel}'")))
}

/// Returns the mode in which a kernel's items run.
pub(super) fn mode(kernel: &str, form: KernelForm, notes: Notes) -> Result<Mode> {
    Ok(match form {
        KernelForm::Regions => Mode::Regions,
        KernelForm::Items if let Some(loops) = notes.loops => Mode::ItemLoops(loops),
        KernelForm::Items if notes.has_barrier || notes.has_subgroup || notes.has_grid_barrier => {
            Mode::Fibers
        }
        KernelForm::Items => Mode::Loop,
        form => {
            let message = format!("kernel '{kernel}' has form {form:?}, expected items or regions");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
    })
}

impl ImageNotes {
    /// Reads the notes of an object, a shared object, or an archive of objects. An unreadable image
    /// has no notes.
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

    /// Returns the features that a kernel may use.
    pub(super) fn for_kernel(&self, kernel: &str) -> Notes {
        let own = self.kernels.get(kernel).copied().unwrap_or_default();
        Notes {
            has_barrier: own.has_barrier || self.helpers.has_barrier,
            has_subgroup: own.has_subgroup || self.helpers.has_subgroup,
            has_grid_barrier: own.has_grid_barrier || self.helpers.has_grid_barrier,
            shared_bytes: own.shared_bytes.saturating_add(self.helpers.shared_bytes),
            loops: own.loops,
        }
    }

    fn add_from(&mut self, object: &[u8]) {
        let Ok(file) = ElfFile64::<LittleEndian>::parse(object) else { return };
        let mut all = file.symbols().chain(file.dynamic_symbols());
        self.has_checks |= all.any(|symbol| symbol.name() == Ok(OF_CHECKED_CODE));
        for symbol in file.symbols() {
            let Some(owner) = symbol.name().ok().and_then(note_owner) else { continue };
            let section =
                symbol.section_index().and_then(|index| file.section_by_index(index).ok());
            let bytes =
                section.and_then(|section| section.data_range(symbol.address(), 8).ok().flatten());
            let Some(note) = bytes.and_then(KernelNote::parse) else { continue };
            match owner {
                NoteOwner::Kernel(kernel) => {
                    self.kernels.entry(kernel.to_owned()).or_default().add(note)
                }
                // A note that is not a kernel's holds for all kernels.
                _ => self.helpers.add(note),
            }
        }
    }
}

impl Notes {
    fn add(&mut self, note: KernelNote) {
        match note {
            KernelNote::Barrier => self.has_barrier = true,
            KernelNote::SubGroup => self.has_subgroup = true,
            KernelNote::ItemLoops(loops) => self.loops = Some(loops),
            KernelNote::GridBarrier => self.has_grid_barrier = true,
            KernelNote::StaticShared(bytes) => {
                self.shared_bytes = self.shared_bytes.saturating_add(bytes.into());
            }
            _ => {}
        }
    }
}
