//! Containers: files that hold device images for several targets.
//!
//! [`Image::entries`] opens them, whatever they are: LLVM's OffloadBinary (`offload_binary.rs`),
//! clang's offload bundle (`bundle.rs`, compressed: `compression.rs`), and ELF files for a CPU with
//! sections of these (`sections.rs`). A container in a container is opened too. Parsers are total,
//! and an image is a part of the container's storage.

mod bundle;
mod compression;
mod fields;
mod offload_binary;
mod sections;
#[cfg(test)]
mod tests;
mod writer;

pub use writer::{OffloadImage, write_offload_binary};

use super::{Format, Image};
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::fmt;

/// An image of a container, and what the container says of it. LLVM: `OffloadFile`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContainerEntry {
    /// The image, in the container's storage.
    pub image: Image,
    /// Which runtime the image was built for.
    pub offload_kind: OffloadKind,
    /// What the container says that the bytes are.
    pub image_kind: ImageKind,
    /// Flags as the container has them.
    pub flags: u32,
    /// The target triple, empty if the container has none.
    pub triple: String,
    /// The architecture, empty if the container has none: "gfx90a:xnack+", "sm_90", "x86-64-v3".
    pub arch: String,
    /// What else the container says, by name.
    pub properties: Vec<(String, String)>,
}

/// Which runtime an image was built for. LLVM: `OffloadKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffloadKind {
    /// None is named.
    None,
    /// OpenMP.
    OpenMp,
    /// CUDA.
    Cuda,
    /// HIP.
    Hip,
    /// SYCL.
    Sycl,
    /// Not for a device: the code of the program itself, which bundles can hold.
    Host,
    /// A number that has no name here.
    Other(u16),
}

/// What a container says that an image is. LLVM: `ImageKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageKind {
    /// Nothing is said.
    None,
    /// An object, a shared object or an executable.
    Object,
    /// LLVM bitcode.
    Bitcode,
    /// NVIDIA's machine code.
    Cubin,
    /// NVIDIA's container.
    Fatbinary,
    /// NVIDIA's assembly text.
    Ptx,
    /// SPIR-V.
    Spirv,
    /// A number that has no name here.
    Other(u16),
}

impl OffloadKind {
    const NUMBERED: [(OffloadKind, u16); 5] = [
        (OffloadKind::None, 0),
        (OffloadKind::OpenMp, 1),
        (OffloadKind::Cuda, 2),
        (OffloadKind::Hip, 4),
        (OffloadKind::Sycl, 8),
    ];

    /// HIP's before LLVM numbered the kinds by bits.
    const FORMER_HIP: u16 = 3;

    fn from_number(number: u16) -> OffloadKind {
        let known = Self::NUMBERED.iter().find(|(_, known)| *known == number);
        match known {
            Some((kind, _)) => *kind,
            None if number == Self::FORMER_HIP => OffloadKind::Hip,
            None => OffloadKind::Other(number),
        }
    }

    /// LLVM's number; `Host` has none.
    fn number(self) -> u16 {
        match self {
            OffloadKind::Other(number) => number,
            kind => {
                Self::NUMBERED.iter().find(|(known, _)| *known == kind).map_or(0, |pair| pair.1)
            }
        }
    }
}

impl fmt::Display for OffloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OffloadKind::None => "none",
            OffloadKind::OpenMp => "openmp",
            OffloadKind::Cuda => "cuda",
            OffloadKind::Hip => "hip",
            OffloadKind::Sycl => "sycl",
            OffloadKind::Host => "host",
            OffloadKind::Other(number) => return write!(f, "kind {number}"),
        })
    }
}

impl ImageKind {
    const NUMBERED: [ImageKind; 7] = [
        ImageKind::None,
        ImageKind::Object,
        ImageKind::Bitcode,
        ImageKind::Cubin,
        ImageKind::Fatbinary,
        ImageKind::Ptx,
        ImageKind::Spirv,
    ];

    fn from_number(number: u16) -> ImageKind {
        let known = Self::NUMBERED.get(usize::from(number));
        known.copied().unwrap_or(ImageKind::Other(number))
    }

    fn number(self) -> u16 {
        match self {
            ImageKind::Other(number) => number,
            kind => Self::NUMBERED.iter().position(|known| *known == kind).unwrap_or(0) as u16,
        }
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageKind::None => "none",
            ImageKind::Object => "object",
            ImageKind::Bitcode => "bitcode",
            ImageKind::Cubin => "cubin",
            ImageKind::Fatbinary => "fatbinary",
            ImageKind::Ptx => "ptx",
            ImageKind::Spirv => "spirv",
            ImageKind::Other(number) => return write!(f, "kind {number}"),
        })
    }
}

impl Image {
    /// Returns the images of a container, in its order; those of a container in it stand in its place.
    /// `None` if this is no container. An ELF file for a CPU is one if it has a section of device
    /// images. LLVM: `extractOffloadBinaries`.
    ///
    /// # Errors
    /// `InvalidBinary` for a container that is malformed, `Unsupported` for one of a later version,
    /// of an unknown compression, or beyond the limits: 1024 images in all, containers four deep,
    /// 256 MiB decompressed.
    pub fn entries(&self) -> Result<Option<Vec<ContainerEntry>>> {
        let mut opening = Opening::default();
        let is_container = opening.open(self, 0)?;
        Ok(is_container.then_some(opening.found))
    }
}

/// How deep containers lie in each other, the file's own included.
const MOST_DEEP: usize = 4;
const MOST_ENTRIES: usize = 1024;
/// Well below what a machine has, so that a small file cannot take all of it.
const MOST_BYTES_MADE: usize = 256 << 20;

/// The opening of one image. Counts what a hostile container would have too much of.
#[derive(Default)]
struct Opening {
    found: Vec<ContainerEntry>,
    seen: usize,
    /// Bytes that were decompressed or copied.
    made: usize,
}

impl Opening {
    /// Adds what a container holds. `false` if it is none.
    fn open(&mut self, image: &Image, depth: usize) -> Result<bool> {
        match image.format() {
            Format::OffloadBinary => offload_binary::read(self, image, depth)?,
            Format::OffloadBundle | Format::CompressedOffloadBundle => {
                bundle::read(self, image, depth)?;
            }
            Format::ElfSharedObject { .. }
            | Format::ElfExecutable { .. }
            | Format::ElfRelocatable { .. } => return sections::read(self, image, depth),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds an entry, or what it holds if it is a container itself. An ELF file stands before what
    /// its sections hold.
    fn add(&mut self, entry: ContainerEntry, depth: usize) -> Result<()> {
        self.see()?;
        let image = entry.image.clone();
        let is_pure = is_pure_container(&image);
        if !is_pure {
            self.found.push(entry);
        }
        if depth + 1 < MOST_DEEP {
            self.open(&image, depth + 1)?;
        } else if is_pure {
            return Err(unsupported(format!("containers more than {MOST_DEEP} deep")));
        }
        Ok(())
    }

    /// Takes note of an entry, or of a section that may hold some.
    fn see(&mut self) -> Result<()> {
        self.seen += 1;
        match self.seen <= MOST_ENTRIES {
            true => Ok(()),
            false => Err(unsupported(format!("a container of more than {MOST_ENTRIES} images"))),
        }
    }

    /// Takes note of memory that is filled on a container's account.
    fn make(&mut self, bytes: usize) -> Result<()> {
        self.made = self.made.saturating_add(bytes);
        match self.made <= MOST_BYTES_MADE {
            true => Ok(()),
            false => Err(unsupported(format!(
                "a container of {} bytes decompressed, more than {MOST_BYTES_MADE},",
                self.made
            ))),
        }
    }
}

/// Returns whether an image is nothing but a container.
fn is_pure_container(image: &Image) -> bool {
    matches!(
        image.format(),
        Format::OffloadBinary | Format::OffloadBundle | Format::CompressedOffloadBundle
    )
}

/// Returns the error of a version that this library does not know: one to come, or none at all.
fn unknown_version(what: &str, version: u32, newest: u32) -> Error {
    const MOST_PLAUSIBLE: u32 = 255;
    match version {
        0 | MOST_PLAUSIBLE.. => invalid(format!("{version} is no version of {what}")),
        _ => unsupported(format!("version {version} of {what} (known: 1 to {newest})")),
    }
}

fn unsupported(what: impl fmt::Display) -> Error {
    Error::new(ErrorCode::Unsupported, format!("{what} is not supported"))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorCode::InvalidBinary, message)
}
