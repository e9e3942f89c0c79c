//! Images: their bytes and contents.

use crate::attributes::capability;
use crate::code::{INVALID_PTX, UNSUPPORTED_PTX_VERSION};
use crate::{ptx_check, version};
use longshore_double_gpu::driver::image::{
    self, Argument, ELF_MAGIC, MOST_BYTES, Place, Reference, Refusal, elf_at, peek,
};
use longshore_double_gpu::driver::{Code, driver};
use longshore_format_nvidia::{Arch, Contents, FatbinEntry, Kind, Linkage, fatbin};

const FATBIN_MAGIC: &[u8] = &0xBA55_ED50u32.to_le_bytes();
/// Types of sections without bytes in the file; two are NVIDIA's own.
const WITHOUT_BYTES: [u64; 4] = [0, 8, 0x7000_0007, 0x7000_000a];

/// PTX or a cubin.
pub(crate) struct Image {
    pub(crate) is_ptx: bool,
    pub(crate) bytes: Vec<u8>,
    pub(crate) contents: Contents,
}

impl Image {
    /// Finds the image for the devices at an address. The caller does not know the size.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(crate) fn at(address: usize) -> Result<Image, Refusal> {
        Image::read(image::bytes_at(address, |magic| match magic {
            ELF_MAGIC => elf_at(address, &WITHOUT_BYTES),
            FATBIN_MAGIC => fatbin_at(address),
            _ => text_at(address),
        })?)
    }

    /// Reads an image, or the best image of a container.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(crate) fn read(bytes: Vec<u8>) -> Result<Image, Refusal> {
        if bytes.starts_with(FATBIN_MAGIC) {
            return best_of(&bytes);
        }
        let image = if bytes.starts_with(ELF_MAGIC) { cubin(bytes)? } else { ptx(bytes)? };
        image.check()?;
        Ok(image)
    }

    fn check(&self) -> Result<(), Refusal> {
        let device = device_arch();
        let Some(arch) = self.contents.arch else {
            return match self.is_ptx {
                true => Err(Refusal::new(INVALID_PTX, "ptxas fatal   : Missing .target\n")),
                false => Err(Refusal::new(Code::INVALID_IMAGE, "")),
            };
        };
        if !self.is_ptx {
            let runs = arch.cubin_runs_on(device);
            return if runs { Ok(()) } else { Err(Refusal::new(Code::NO_BINARY_FOR_GPU, "")) };
        }
        let (version, newest) = (self.contents.ptx_version, newest_ptx(version::cuda_version()));
        if let Some((major, minor)) = version.filter(|version| *version > newest) {
            let log = format!(
                "ptxas application ptx input, line 1; fatal   : Unsupported .version {major}.{minor}; current \
                 version is '{}.{}'\n",
                newest.0, newest.1
            );
            return Err(Refusal::new(UNSUPPORTED_PTX_VERSION, log));
        }
        if !arch.ptx_runs_on(device) {
            let log = "ptxas fatal   : SM version specified by .target is higher than default SM version assumed\n";
            return Err(Refusal::new(INVALID_PTX, log));
        }
        Ok(())
    }

    /// Checks that the image has no undefined functions.
    ///
    /// # Errors
    /// The undefined functions.
    pub(crate) fn check_complete(&self) -> Result<(), Refusal> {
        let undefined = self.contents.undefined.iter().filter(|name| !self.is_variable(name));
        let lines: Vec<_> = undefined.collect();
        if lines.is_empty() {
            return Ok(());
        }
        let lines = lines.into_iter();
        let log =
            lines.map(|name| format!("ptxas fatal   : Unresolved extern function '{name}'\n"));
        Err(Refusal::new(self.refused(), log.collect::<String>()))
    }
}

impl Image {
    /// Returns the result of a load that fails.
    fn refused(&self) -> Code {
        if self.is_ptx { INVALID_PTX } else { Code::INVALID_IMAGE }
    }

    /// Returns whether PTX declares a name as an external variable. The driver's assembler warns of
    /// such variables, and defines them itself.
    fn is_variable(&self, name: &str) -> bool {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut declarations = text.lines().filter(|line| line.starts_with(".extern .global"));
        self.is_ptx && declarations.any(|line| line.split([' ', ';', '[']).any(|word| word == name))
    }
}

impl From<Image> for image::Image {
    fn from(image: Image) -> image::Image {
        let refused = image.refused();
        let (major, minor) = image.contents.ptx_version.unwrap_or((7, 8));
        let (device_major, device_minor) = capability(&driver().settings);
        let contents = image::Contents {
            kernels: image.contents.kernels.into_iter().map(kernel).collect(),
            variables: image.contents.variables.into_iter().map(variable).collect(),
            has_references: true,
            language: (major * 10 + minor) as i32,
            machine_code: (device_major * 10 + device_minor) as i32,
        };
        image::Image { bytes: image.bytes, contents, refused }
    }
}

/// Returns the architecture of the devices.
pub(crate) fn device_arch() -> Arch {
    let (major, minor) = capability(&driver().settings);
    Arch::new(major, minor)
}

/// Converts a kernel's description. PTX does not state registers, so their number is a guess.
fn kernel(kernel: longshore_format_nvidia::Kernel) -> image::Kernel {
    image::Kernel {
        arguments: arguments(&kernel.argument_sizes),
        name: kernel.name,
        required_group: kernel.required_group,
        most_items: kernel.max_group_items,
        registers: kernel.registers.unwrap_or(32),
        static_shared_bytes: kernel.static_shared_bytes.unwrap_or(0),
        private_bytes: kernel.private_bytes.unwrap_or(0),
    }
}

/// Computes the offsets of arguments. An argument is aligned to the largest power of two that
/// divides its size, at most 8 bytes.
fn arguments(sizes: &[u32]) -> Vec<Argument> {
    let mut end = 0usize;
    let argument = |size: &u32| {
        let alignment = 1usize << size.trailing_zeros().min(3);
        let (offset, bytes) = (end.next_multiple_of(alignment), *size as usize);
        end = offset + bytes;
        Argument { offset, bytes }
    };
    sizes.iter().map(argument).collect()
}

fn variable(variable: longshore_format_nvidia::Variable) -> image::Variable {
    let references = variable.references.into_iter().map(|reference| Reference {
        offset: reference.offset,
        symbol: reference.symbol,
        addend: reference.addend,
    });
    image::Variable {
        name: variable.name,
        bytes: variable.bytes,
        is_seen: variable.linkage != Linkage::Internal,
        initial: variable.initial,
        references: references.collect(),
        place: variable.place.map(|place| Place { section: place.section, offset: place.offset }),
    }
}

fn ptx(bytes: Vec<u8>) -> Result<Image, Refusal> {
    let text = String::from_utf8_lossy(&bytes);
    if let Some(complaint) = ptx_check::complaint(&text) {
        return Err(Refusal::new(INVALID_PTX, complaint));
    }
    let contents = Contents::from_ptx(&bytes);
    Ok(Image { is_ptx: true, bytes, contents })
}

fn cubin(bytes: Vec<u8>) -> Result<Image, Refusal> {
    let contents = Contents::from_cubin(&bytes)
        .map_err(|error| Refusal::new(Code::INVALID_IMAGE, format!("{error}\n")))?;
    Ok(Image { is_ptx: false, bytes, contents })
}

/// Reads the best image of a fatbin: machine code before PTX, and the newest of each.
fn best_of(bytes: &[u8]) -> Result<Image, Refusal> {
    let malformed = |error| Refusal::new(Code::INVALID_IMAGE, format!("{error}\n"));
    let entries = fatbin(bytes).map_err(malformed)?;
    let device = device_arch();
    let rank = |entry: &FatbinEntry<'_>| match entry.kind {
        Kind::Cubin | Kind::Object if entry.arch.cubin_runs_on(device) => {
            Some((1, entry.arch.number))
        }
        Kind::Ptx if entry.arch.ptx_runs_on(device) => Some((0, entry.arch.number)),
        _ => None,
    };
    let ranked = entries.iter().filter_map(|entry| Some((rank(entry)?, entry)));
    let best = ranked.max_by_key(|(rank, _)| *rank);
    let (_, best) = best.ok_or_else(|| Refusal::new(Code::NO_BINARY_FOR_GPU, ""))?;
    let mut image = best.image().map_err(malformed)?.into_owned();
    if best.kind == Kind::Ptx {
        // An entry may have zeros after its contents.
        image.truncate(image.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    }
    Image::read(image)
}

/// Returns the newest PTX version that a driver's assembler accepts.
fn newest_ptx(driver: (u32, u32)) -> (u32, u32) {
    match driver {
        (11, minor) => (7, minor),
        (12, minor) if minor <= 5 => (8, minor),
        (12, minor) => (8, minor - 1),
        (13, minor) => (9, minor),
        (major, _) if major < 11 => (6, 5),
        _ => (99, 0),
    }
}

/// Copies a fatbin, whose header has the sizes of the header and of the contents.
fn fatbin_at(address: usize) -> Option<Vec<u8>> {
    let header = peek(address, 16)?;
    let head = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let rest = u64::from_le_bytes(header[8..16].try_into().expect("8 bytes")) as usize;
    peek(address, head.checked_add(rest).filter(|bytes| *bytes <= MOST_BYTES)?)
}

/// Copies a text up to its NUL, page by page, as the next page may be unmapped.
fn text_at(address: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < MOST_BYTES {
        let at = address + text.len();
        let piece = peek(at, 4096 - at % 4096)?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&piece[..end]);
            return Some(text);
        }
        text.extend(piece);
    }
    None
}
