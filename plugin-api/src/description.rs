//! Facts about a plugin, and the ELF note with which the host reads them before any code of the
//! plugin runs.

use crate::abi::{INTERFACE_MAJOR, INTERFACE_MINOR};

/// The description of a plugin: a constant of the plugin, or a copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Description<Text = &'static str> {
    /// Name of the backend: "cuda", "host". Lower-case letters, digits, `-` and `_`.
    pub backend: Text,
    /// Name of the plugin, for people.
    pub name: Text,
    /// Version of the plugin itself.
    pub version: Text,
    /// Vendor of the plugin.
    pub vendor: Text,
    /// Accepted image formats, separated by commas: "elf-so", "ptx,cubin".
    pub image_formats: Text,
    /// File name of the required driver library, empty if none: "libcuda.so.1".
    pub driver: Text,
    /// Whether the library may be closed after its platform was destroyed, as it leaves no threads
    /// and no thread-local destructors. A plugin that links Rust's standard library cannot promise
    /// that.
    pub unloadable: bool,
}

impl Description {
    /// Creates the description of a plugin for `backend` that is not unloadable. All other texts
    /// are empty: the plugin accepts no image formats and requires no driver.
    pub const fn new(backend: &'static str) -> Description {
        Description {
            backend,
            name: "",
            version: "",
            vendor: "",
            image_formats: "",
            driver: "",
            unloadable: false,
        }
    }

    /// Returns the same description with [`Description::name`] set.
    #[must_use]
    pub const fn with_name(mut self, name: &'static str) -> Description {
        self.name = name;
        self
    }

    /// Returns the same description with [`Description::version`] set.
    #[must_use]
    pub const fn with_version(mut self, version: &'static str) -> Description {
        self.version = version;
        self
    }

    /// Returns the same description with [`Description::vendor`] set.
    #[must_use]
    pub const fn with_vendor(mut self, vendor: &'static str) -> Description {
        self.vendor = vendor;
        self
    }

    /// Returns the same description with [`Description::image_formats`] set, separated by commas.
    #[must_use]
    pub const fn with_image_formats(mut self, formats: &'static str) -> Description {
        self.image_formats = formats;
        self
    }

    /// Returns the same description with [`Description::driver`] set.
    #[must_use]
    pub const fn with_driver(mut self, driver: &'static str) -> Description {
        self.driver = driver;
        self
    }
}

impl<Text> Description<Text> {
    /// Returns the same description with [`Description::unloadable`] set.
    #[must_use]
    pub const fn with_unloadable(mut self, unloadable: bool) -> Description<Text> {
        self.unloadable = unloadable;
        self
    }

    /// Returns the same description with `change` applied to each text.
    pub fn map<U>(self, mut change: impl FnMut(Text) -> U) -> Description<U> {
        Description {
            backend: change(self.backend),
            name: change(self.name),
            version: change(self.version),
            vendor: change(self.vendor),
            image_formats: change(self.image_formats),
            driver: change(self.driver),
            unloadable: self.unloadable,
        }
    }
}

/// Name of the section with the note.
pub const NOTE_SECTION: &str = ".note.longshore";
/// Owner of the note, with the terminating NUL that the ELF format requires.
pub const NOTE_OWNER: &[u8; 10] = b"Longshore\0";
/// Type of the note.
pub const NOTE_TYPE: u32 = 1;

/// Contents of a plugin's ELF note.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// Major version of the interface that the plugin was built with.
    pub interface_major: u32,
    /// Minor version of the interface that the plugin was built with.
    pub interface_minor: u32,
    /// Name of the backend; see [`Description::backend`].
    pub backend: String,
    /// Accepted image formats; see [`Description::image_formats`].
    pub image_formats: String,
    /// Required driver library; see [`Description::driver`].
    pub driver: String,
}

impl Note {
    /// Returns the note that a plugin with this description, built with this version of the
    /// interface, has in its file.
    pub(crate) fn new(description: &Description<String>, interface: (u32, u32)) -> Note {
        Note {
            interface_major: interface.0,
            interface_minor: interface.1,
            backend: description.backend.clone(),
            image_formats: description.image_formats.clone(),
            driver: description.driver.clone(),
        }
    }

    /// Reads the descriptor of a note of owner [`NOTE_OWNER`] and type [`NOTE_TYPE`]: two
    /// little-endian 32-bit numbers and three strings, each ended by NUL. `None` for any other
    /// form.
    pub fn parse(descriptor: &[u8]) -> Option<Note> {
        let (major, rest) = descriptor.split_first_chunk::<4>()?;
        let (minor, rest) = rest.split_first_chunk::<4>()?;
        let mut strings = rest.split(|byte| *byte == 0);
        let mut string = || String::from_utf8(strings.next()?.to_vec()).ok();
        let (backend, image_formats, driver) = (string()?, string()?, string()?);
        // The NUL that ends the third string makes a fourth piece.
        strings.next()?;
        Some(Note {
            interface_major: u32::from_le_bytes(*major),
            interface_minor: u32::from_le_bytes(*minor),
            backend,
            image_formats,
            driver,
        })
    }
}

const NOTE_HEADER: usize = 12 + 12;

/// Returns the size of the whole note in bytes: header, owner padded to a multiple of 4 bytes, and
/// descriptor padded likewise.
pub const fn note_bytes(description: &Description) -> usize {
    NOTE_HEADER + descriptor_bytes(description).next_multiple_of(4)
}

const fn descriptor_bytes(description: &Description) -> usize {
    8 + description.backend.len() + description.image_formats.len() + description.driver.len() + 3
}

/// Encodes the whole note; `N` is the result of [`note_bytes`].
pub const fn encode_note<const N: usize>(description: &Description) -> [u8; N] {
    let mut note = [0; N];
    let mut at = 0;
    at = put(&mut note, at, &(NOTE_OWNER.len() as u32).to_le_bytes());
    at = put(&mut note, at, &(descriptor_bytes(description) as u32).to_le_bytes());
    at = put(&mut note, at, &NOTE_TYPE.to_le_bytes());
    put(&mut note, at, NOTE_OWNER);
    at = NOTE_HEADER;
    at = put(&mut note, at, &INTERFACE_MAJOR.to_le_bytes());
    at = put(&mut note, at, &INTERFACE_MINOR.to_le_bytes());
    at = put(&mut note, at, description.backend.as_bytes()) + 1;
    at = put(&mut note, at, description.image_formats.as_bytes()) + 1;
    put(&mut note, at, description.driver.as_bytes());
    note
}

const fn put<const N: usize>(note: &mut [u8; N], at: usize, bytes: &[u8]) -> usize {
    let mut i = 0;
    while i < bytes.len() {
        note[at + i] = bytes[i];
        i += 1;
    }
    at + bytes.len()
}

/// A note as it lies in the library, aligned to 4 bytes as its section must be.
#[repr(C, align(4))]
pub struct AlignedNote<const N: usize>(pub [u8; N]);

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTION: Description = Description {
        backend: "toy",
        name: "Toy",
        version: "1",
        vendor: "Us",
        image_formats: "elf-so,ops",
        driver: "libtoy.so.1",
        unloadable: true,
    };

    #[test]
    fn a_note_reads_back_as_written() {
        const N: usize = note_bytes(&DESCRIPTION);
        let note: [u8; N] = encode_note(&DESCRIPTION);
        let bytes = u32::from_le_bytes([note[4], note[5], note[6], note[7]]) as usize;
        let read = Note::parse(&note[NOTE_HEADER..NOTE_HEADER + bytes]).unwrap();
        assert_eq!(read.backend, "toy");
        assert_eq!(read.image_formats, "elf-so,ops");
        assert_eq!(read.driver, "libtoy.so.1");
        assert_eq!(read.interface_major, INTERFACE_MAJOR);
    }

    #[test]
    fn every_truncated_note_is_refused() {
        const N: usize = note_bytes(&DESCRIPTION);
        let note: [u8; N] = encode_note(&DESCRIPTION);
        let whole = NOTE_HEADER + descriptor_bytes(&DESCRIPTION);
        for end in NOTE_HEADER..whole {
            assert_eq!(Note::parse(&note[NOTE_HEADER..end]), None, "cut at {end}");
        }
    }
}
