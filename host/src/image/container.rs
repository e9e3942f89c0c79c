//! Containers: files that hold device images for several targets.
//!
//! [`Image::entries`] opens LLVM's OffloadBinary (`offload_binary.rs`), clang's offload bundle
//! (`bundle.rs`, compressed: `compression.rs`), and ELF files for a CPU with sections of these
//! containers (`sections.rs`). Nested containers are opened too. The parsers are total: no bytes
//! make them panic. An entry's image is a part of the container's storage.

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

/// An image of a container, with the container's description of it. LLVM: `OffloadFile`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContainerEntry {
    /// The image, in the container's storage.
    pub image: Image,
    /// The runtime that the image was built for.
    pub offload_kind: OffloadKind,
    /// The kind of the image, as the container declares it.
    pub image_kind: ImageKind,
    /// The container's flags for the image.
    pub flags: u32,
    /// The target triple, empty if the container has none.
    pub triple: String,
    /// The architecture, empty if the container has none: "gfx90a:xnack+", "sm_90", "x86-64-v3".
    pub arch: String,
    /// Further properties of the image in the container: names and values.
    pub properties: Vec<(String, String)>,
}

/// The runtime that an image was built for. LLVM: `OffloadKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffloadKind {
    /// No runtime.
    None,
    /// OpenMP.
    OpenMp,
    /// CUDA.
    Cuda,
    /// HIP.
    Hip,
    /// SYCL.
    Sycl,
    /// The host: code of the program itself, which bundles can hold.
    Host,
    /// A number without a name in this version.
    Other(u16),
}

/// The kind of an image, as a container declares it. LLVM: `ImageKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageKind {
    /// No declared kind.
    None,
    /// An ELF object, shared object or executable.
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
    /// A number without a name in this version.
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

    /// HIP's number before LLVM numbered the kinds by bits.
    const FORMER_HIP: u16 = 3;

    fn from_number(number: u16) -> OffloadKind {
        let known = Self::NUMBERED.iter().find(|(_, known)| *known == number);
        match known {
            Some((kind, _)) => *kind,
            None if number == Self::FORMER_HIP => OffloadKind::Hip,
            None => OffloadKind::Other(number),
        }
    }

    /// Returns LLVM's number; 0 for `Host`, which has no number.
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
    /// Returns the images of a container, in the container's order. The images of a nested
    /// container take its place. Returns `None` if this image is no container. An ELF file for a
    /// CPU is a container if it has a section of device images. Does not block. LLVM:
    /// `extractOffloadBinaries`.
    ///
    /// # Errors
    /// `InvalidBinary` for a malformed container. `Unsupported` for a later version, an unknown
    /// compression, and a container beyond the limits: 1024 images in total, four levels of
    /// containers, 256 MiB of decompressed and copied data.
    pub fn entries(&self) -> Result<Option<Vec<ContainerEntry>>> {
        let mut opening = Opening::default();
        let is_container = opening.open(self, 0)?;
        Ok(is_container.then_some(opening.found))
    }
}

/// Most levels of nested containers, the outermost included.
const MOST_DEEP: usize = 4;
const MOST_ENTRIES: usize = 1024;
/// Most bytes that are decompressed or copied for one image: a small file must not use up the
/// machine's memory.
const MOST_BYTES_MADE: usize = 256 << 20;

/// The opening of one image, with counters of everything that a hostile container could multiply.
#[derive(Default)]
struct Opening {
    found: Vec<ContainerEntry>,
    seen: usize,
    /// Number of bytes decompressed or copied so far.
    made: usize,
}

impl Opening {
    /// Adds the entries of a container. Returns false if the image is no container.
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

    /// Adds an entry, or the entries of an entry that is a container. An ELF file precedes the
    /// images in its sections.
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

    /// Counts an entry, or a section that may hold entries.
    ///
    /// # Errors
    /// `Unsupported` beyond the limit.
    fn see(&mut self) -> Result<()> {
        self.seen += 1;
        match self.seen <= MOST_ENTRIES {
            true => Ok(()),
            false => Err(unsupported(format!("a container of more than {MOST_ENTRIES} images"))),
        }
    }

    /// Counts bytes that are decompressed or copied for a container.
    ///
    /// # Errors
    /// `Unsupported` beyond the limit.
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

/// Returns whether an image is only a container, unlike an ELF file with sections.
fn is_pure_container(image: &Image) -> bool {
    matches!(
        image.format(),
        Format::OffloadBinary | Format::OffloadBundle | Format::CompressedOffloadBundle
    )
}

/// Returns the error for an unknown version: `Unsupported` for a plausible later one, else
/// `InvalidBinary`.
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
