//! Files that are linked.

use crate::failure::{Exit, Failure};
use bytes::Bytes;
use longshore_jitlink::Architecture;
use longshore_jitlink::session::StaticArchive;
use memmap2::Mmap;
use object::LittleEndian;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::FileHeader;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// An object or an archive.
pub(super) struct Input {
    /// Its path, as it was given.
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

/// Reads files, in order.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Input>, Failure> {
    let read = |path: &PathBuf| Ok(Input { name: path.display().to_string(), bytes: read(path)? });
    paths.iter().map(read).collect()
}

/// The bytes of a file: mapped where that is possible.
pub(super) fn read(path: &Path) -> Result<Bytes, Failure> {
    let bytes = || -> io::Result<Bytes> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(bytes.into());
        }
        // SAFETY: the bytes are what this process is asked to execute: who can change the file meanwhile decides what it
        // does in any case.
        Ok(Bytes::from_owner(unsafe { Mmap::map(&file) }?))
    };
    bytes().map_err(|error| {
        Failure::new(Exit::Runtime, format!("cannot read '{}': {error}", path.display()))
    })
}

/// The instruction set of an object, or of the first object of an archive; this machine's where there is none, which is an
/// error when the input is added.
pub(super) fn architecture(input: &Input) -> Architecture {
    let found = of_object(&input.bytes).or_else(|| {
        let archive = StaticArchive::new(&input.name, input.bytes.clone()).ok()?;
        archive.members().iter().find_map(|(_, bytes)| of_object(bytes))
    });
    found.or(Architecture::native()).unwrap_or(Architecture::X86_64)
}

fn of_object(bytes: &[u8]) -> Option<Architecture> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    match header.e_machine(LittleEndian) {
        EM_X86_64 => Some(Architecture::X86_64),
        EM_AARCH64 => Some(Architecture::Aarch64),
        _ => None,
    }
}
