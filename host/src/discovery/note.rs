//! Reading of a plugin's ELF note, without loading the library.
//!
//! One read of the file's beginning contains the headers and, in the usual layout of linkers, the
//! notes. Other parts are read separately. The file's contents are untrusted: sizes are bounded,
//! and malformed headers make the file no library or no plugin.

use longshore_plugin_api::{NOTE_OWNER, NOTE_TYPE, Note};
use object::Endianness;
use object::elf::{self, ET_DYN, FileHeader64, PT_NOTE};
use object::pod::slice_from_all_bytes;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Size in bytes of the first read: enough for the headers and notes of common libraries.
const BEGINNING_BYTES: usize = 4096;
/// Largest table of program headers that is read, in bytes; real libraries have smaller ones.
const MAX_TABLE_BYTES: u64 = 64 * 1024;
/// Most bytes that are read of a segment of notes.
const MAX_NOTES_BYTES: u64 = 64 * 1024;
/// Most segments of notes that are read.
const MAX_NOTE_SEGMENTS: usize = 16;

type Elf = FileHeader64<Endianness>;
type Segment = <Elf as FileHeader>::ProgramHeader;

/// The reason for a file without a plugin's note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoteError {
    /// A file that is no library for this process, with the reason.
    NotALibrary(String),
    /// A library that is no plugin, with the reason.
    NotAPlugin(String),
}

/// Reads the note of an open file. Reads at most a few pages, and runs no code of the file.
pub(super) fn read_note(file: &File) -> Result<Note, NoteError> {
    let mut beginning = [0_u64; BEGINNING_BYTES / 8];
    let beginning = bytemuck::bytes_of_mut(&mut beginning);
    let read = file.read_at(beginning, 0);
    let bytes = read.map_err(|error| not_a_library(format!("it cannot be read: {error}")))?;
    Reader { file, beginning: &beginning[..bytes] }.note()
}

/// A file and its beginning. The beginning is aligned for the headers in it.
struct Reader<'a, F> {
    file: F,
    beginning: &'a [u8],
}

impl<F: ReadAt> Reader<'_, F> {
    fn note(&self) -> Result<Note, NoteError> {
        let header = self.header()?;
        let endian = header.endian().map_err(|_| not_a_library("its byte order is unknown"))?;
        check_machine(header, endian)?;
        let mut spare = Vec::new();
        let segments = self.segments(header, endian, &mut spare)?;
        let notes = segments.iter().filter(|segment| segment.p_type(endian) == PT_NOTE);
        for segment in notes.take(MAX_NOTE_SEGMENTS) {
            if let Some(note) = self.note_in(segment, endian)? {
                return Ok(note);
            }
        }
        Err(not_a_plugin("it is no Longshore plugin: it carries no note of owner 'Longshore'"))
    }

    fn header(&self) -> Result<&Elf, NoteError> {
        if !self.beginning.starts_with(b"\x7fELF") {
            return Err(not_a_library("it is no ELF file"));
        }
        Elf::parse(self.beginning)
            .map_err(|_| not_a_library("it is no 64-bit ELF file, or its header is cut off"))
    }

    fn segments<'b>(
        &'b self,
        header: &Elf,
        endian: Endianness,
        spare: &'b mut Vec<u64>,
    ) -> Result<&'b [Segment], NoteError> {
        let entry_bytes = u64::from(header.e_phentsize(endian));
        let bytes = u64::from(header.e_phnum(endian)) * entry_bytes;
        if bytes != 0 && entry_bytes != size_of::<Segment>() as u64 || bytes > MAX_TABLE_BYTES {
            return Err(not_a_library("its table of program headers is malformed"));
        }
        let table = self
            .read(header.e_phoff(endian), bytes, spare)
            .ok_or_else(|| not_a_library("its table of program headers is cut off"))?;
        slice_from_all_bytes(table)
            .map_err(|()| not_a_library("its table of program headers is misaligned"))
    }

    fn note_in(&self, segment: &Segment, endian: Endianness) -> Result<Option<Note>, NoteError> {
        let (offset, bytes) = segment.file_range(endian);
        let mut spare = Vec::new();
        let data = self
            .read(offset, bytes.min(MAX_NOTES_BYTES), &mut spare)
            .ok_or_else(|| not_a_library("a segment of notes lies outside of the file"))?;
        let Ok(mut notes) = NoteIterator::<Elf>::new(endian, segment.p_align(endian), data) else {
            return Ok(None);
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name_bytes() == NOTE_OWNER && note.n_type(endian).0 == NOTE_TYPE {
                let malformed = || not_a_plugin("its Longshore note is malformed");
                return Note::parse(note.desc()).map(Some).ok_or_else(malformed);
            }
        }
        Ok(None)
    }

    /// Returns a part of the file: a slice of the beginning, or bytes read into `spare`.
    fn read<'b>(&'b self, offset: u64, bytes: u64, spare: &'b mut Vec<u64>) -> Option<&'b [u8]> {
        let end = offset.checked_add(bytes)?;
        if end <= self.beginning.len() as u64 {
            return Some(&self.beginning[offset as usize..end as usize]);
        }
        spare.resize(bytes.div_ceil(8) as usize, 0);
        let data = &mut bytemuck::cast_slice_mut(spare)[..bytes as usize];
        self.file.fill(data, offset)?;
        Some(data)
    }
}

/// A source of bytes: a file, or a slice in a test.
trait ReadAt {
    /// Fills `data` with the bytes from `offset` on; `None` if the source ends before.
    fn fill(&self, data: &mut [u8], offset: u64) -> Option<()>;
}

impl ReadAt for &File {
    fn fill(&self, data: &mut [u8], offset: u64) -> Option<()> {
        self.read_exact_at(data, offset).ok()
    }
}

fn check_machine(header: &Elf, endian: Endianness) -> Result<(), NoteError> {
    let here = if cfg!(target_endian = "little") { Endianness::Little } else { Endianness::Big };
    let machine = machine_name(header.e_machine(endian));
    if machine != std::env::consts::ARCH || endian != here {
        let ours = std::env::consts::ARCH;
        return Err(not_a_library(format!("it is built for {machine}, this process is {ours}")));
    }
    if header.e_type(endian) != ET_DYN {
        return Err(not_a_library("it is no shared library"));
    }
    Ok(())
}

/// Returns Rust's name of the architecture.
fn machine_name(machine: elf::Machine) -> Cow<'static, str> {
    match machine {
        elf::EM_X86_64 => "x86_64".into(),
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_RISCV => "riscv64".into(),
        elf::EM_PPC64 => "powerpc64".into(),
        elf::EM_S390 => "s390x".into(),
        elf::EM_LOONGARCH => "loongarch64".into(),
        elf::Machine(number) => format!("machine {number}").into(),
    }
}

fn not_a_library(why: impl Into<String>) -> NoteError {
    NoteError::NotALibrary(why.into())
}

fn not_a_plugin(why: impl Into<String>) -> NoteError {
    NoteError::NotAPlugin(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::testing::{Toy, plugin};

    impl ReadAt for &[u8] {
        fn fill(&self, data: &mut [u8], offset: u64) -> Option<()> {
            let rest = self.get(usize::try_from(offset).ok()?..)?;
            data.copy_from_slice(rest.get(..data.len())?);
            Some(())
        }
    }

    fn note_of(bytes: &[u8]) -> Result<Note, NoteError> {
        let mut beginning = [0_u64; BEGINNING_BYTES / 8];
        let read = bytes.len().min(BEGINNING_BYTES);
        let beginning = &mut bytemuck::bytes_of_mut(&mut beginning)[..read];
        beginning.copy_from_slice(&bytes[..read]);
        Reader { file: bytes, beginning }.note()
    }

    fn toy_bytes() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::read(plugin(folder.path(), "toy", Toy::Good)).unwrap()
    }

    #[test]
    fn a_plugins_note_is_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let note = read_note(&File::open(plugin(folder.path(), "toy", Toy::Good)).unwrap());
        let note = note.unwrap();
        assert_eq!((note.backend.as_str(), note.driver.as_str()), ("toy", "libtoy.so.1"));
        assert_eq!(note.interface_major, longshore_plugin_api::abi::INTERFACE_MAJOR);
    }

    #[test]
    fn sections_beyond_the_first_bytes_are_read_too() {
        let bytes = toy_bytes();
        let reader = Reader { file: &bytes[..], beginning: &[] };
        assert_eq!(reader.read(0, 4, &mut Vec::new()), Some(&b"\x7fELF"[..]));
        assert_eq!(reader.read(bytes.len() as u64, 1, &mut Vec::new()), None);
        assert_eq!(reader.read(u64::MAX, 2, &mut Vec::new()), None);
    }

    #[test]
    fn other_files_are_distinguished() {
        assert!(matches!(note_of(b""), Err(NoteError::NotALibrary(_))));
        assert!(matches!(note_of(b"#!/bin/sh\n"), Err(NoteError::NotALibrary(_))));
        assert!(matches!(note_of(b"\x7fELF"), Err(NoteError::NotALibrary(_))));
        let folder = tempfile::tempdir().unwrap();
        let plain = std::fs::read(plugin(folder.path(), "toy", Toy::NoNote)).unwrap();
        assert!(matches!(note_of(&plain), Err(NoteError::NotAPlugin(_))));
        let mut foreign = plain.clone();
        foreign[18..20].copy_from_slice(&[0xf7, 0]);
        let expected =
            format!("it is built for machine 247, this process is {}", std::env::consts::ARCH);
        assert_eq!(note_of(&foreign), Err(NoteError::NotALibrary(expected)));
        let mut program = plain;
        program[16..18].copy_from_slice(&[2, 0]);
        assert!(matches!(note_of(&program), Err(NoteError::NotALibrary(_))));
    }

    #[test]
    fn no_cut_or_changed_file_does_harm() {
        let bytes = toy_bytes();
        let whole = note_of(&bytes).unwrap();
        let interesting = bytes.len().min(2 * BEGINNING_BYTES);
        for end in 0..interesting {
            let _ = note_of(&bytes[..end]);
        }
        let mut differing = 0;
        for at in 0..interesting {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                differing += u32::from(note_of(&changed).as_ref() != Ok(&whole));
            }
        }
        assert!(differing > 0);
    }
}
