//! Images: their bytes, and what they say.

use crate::code::{Answer, Code};
use crate::driver::broken;
use crate::machine::Machine;
use crate::ptx_check;
use longshore_cuda_image::{Contents, FatbinEntry, Kind, fatbin};
use std::ffi::c_void;

const ELF_MAGIC: &[u8] = b"\x7fELF";
const FATBIN_MAGIC: &[u8] = &0xBA55_ED50u32.to_le_bytes();
/// Longer text has no end.
const MOST_TEXT: usize = 256 << 20;

/// PTX or a cubin.
pub(crate) struct Image {
    pub(crate) is_ptx: bool,
    pub(crate) bytes: Vec<u8>,
    pub(crate) contents: Contents,
}

/// Why an image was refused, and what the JIT says of it.
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) log: String,
}

impl Refusal {
    pub(crate) fn new(code: Code, log: impl Into<String>) -> Refusal {
        Refusal { code, log: log.into() }
    }
}

impl Image {
    /// Finds the image for the devices at an address, where no size is told.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn at(address: usize, machine: &Machine) -> Result<Image, Refusal> {
        let unreadable = |_| Refusal::new(Code::INVALID_VALUE, "");
        let bytes = bytes_at(address).map_err(unreadable)?;
        Image::read(bytes, machine)
    }

    /// Reads an image, the best one of a container.
    ///
    /// # Errors
    /// Why it is none for the devices.
    pub(crate) fn read(bytes: Vec<u8>, machine: &Machine) -> Result<Image, Refusal> {
        if bytes.starts_with(FATBIN_MAGIC) {
            return best_of(&bytes, machine);
        }
        let image = if bytes.starts_with(ELF_MAGIC) { cubin(bytes)? } else { ptx(bytes)? };
        image.check(machine)?;
        Ok(image)
    }

    fn check(&self, machine: &Machine) -> Result<(), Refusal> {
        let device = machine.arch();
        let Some(arch) = self.contents.arch else {
            return match self.is_ptx {
                true => Err(Refusal::new(Code::INVALID_PTX, "ptxas fatal   : Missing .target\n")),
                false => Err(Refusal::new(Code::INVALID_IMAGE, "")),
            };
        };
        if !self.is_ptx {
            let runs = arch.cubin_runs_on(device);
            return if runs { Ok(()) } else { Err(Refusal::new(Code::NO_BINARY_FOR_GPU, "")) };
        }
        let (version, newest) = (self.contents.ptx_version, newest_ptx(machine.version));
        if let Some((major, minor)) = version.filter(|version| *version > newest) {
            let log = format!(
                "ptxas application ptx input, line 1; fatal   : Unsupported .version {major}.{minor}; current \
                 version is '{}.{}'\n",
                newest.0, newest.1
            );
            return Err(Refusal::new(Code::UNSUPPORTED_PTX_VERSION, log));
        }
        if !arch.ptx_runs_on(device) {
            let log = "ptxas fatal   : SM version specified by .target is higher than default SM version assumed\n";
            return Err(Refusal::new(Code::INVALID_PTX, log));
        }
        Ok(())
    }

    /// That it needs nothing of others.
    ///
    /// # Errors
    /// What it needs.
    pub(crate) fn check_complete(&self) -> Result<(), Refusal> {
        let undefined = self.contents.undefined.iter().filter(|name| !self.is_variable(name));
        let lines: Vec<_> = undefined.collect();
        if lines.is_empty() {
            return Ok(());
        }
        let lines = lines.into_iter();
        let log =
            lines.map(|name| format!("ptxas fatal   : Unresolved extern function '{name}'\n"));
        let code = if self.is_ptx { Code::INVALID_PTX } else { Code::INVALID_IMAGE };
        Err(Refusal::new(code, log.collect::<String>()))
    }
}

impl Image {
    /// Whether text declares a name as a variable of others. The driver's assembler warns of these, and makes
    /// them itself.
    fn is_variable(&self, name: &str) -> bool {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut declarations = text.lines().filter(|line| line.starts_with(".extern .global"));
        self.is_ptx && declarations.any(|line| line.split([' ', ';', '[']).any(|word| word == name))
    }
}

/// The bytes of an image whose size it tells itself.
///
/// # Errors
/// `INVALID_VALUE`, a violation, if it is not all in readable memory.
pub(crate) fn bytes_at(address: usize) -> Answer<Vec<u8>> {
    let unreadable = || broken(Code::INVALID_VALUE, format!("no image is at {address:#x}"));
    let magic = peek(address, 4).ok_or_else(unreadable)?;
    let bytes = match magic.as_slice() {
        magic if magic == ELF_MAGIC => elf_bytes(address).and_then(|size| peek(address, size)),
        magic if magic == FATBIN_MAGIC => {
            fatbin_bytes(address).and_then(|size| peek(address, size))
        }
        _ => text_at(address),
    };
    bytes.ok_or_else(unreadable)
}

fn ptx(bytes: Vec<u8>) -> Result<Image, Refusal> {
    let text = String::from_utf8_lossy(&bytes);
    if let Some(complaint) = ptx_check::complaint(&text) {
        return Err(Refusal::new(Code::INVALID_PTX, complaint));
    }
    let contents = Contents::of_ptx(&bytes);
    Ok(Image { is_ptx: true, bytes, contents })
}

fn cubin(bytes: Vec<u8>) -> Result<Image, Refusal> {
    let contents = Contents::of_cubin(&bytes)
        .map_err(|error| Refusal::new(Code::INVALID_IMAGE, format!("{error}\n")))?;
    Ok(Image { is_ptx: false, bytes, contents })
}

/// Machine code before PTX, and of each the newest.
fn best_of(bytes: &[u8], machine: &Machine) -> Result<Image, Refusal> {
    let malformed = |error| Refusal::new(Code::INVALID_IMAGE, format!("{error}\n"));
    let entries = fatbin(bytes).map_err(malformed)?;
    let device = machine.arch();
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
        // Entries are filled up with zeros.
        image.truncate(image.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    }
    Image::read(image, machine)
}

/// The newest language that a driver's assembler knows.
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

/// Where an ELF file's last part ends.
fn elf_bytes(address: usize) -> Option<usize> {
    let header = peek(address, 64)?;
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (programs, sections) = (word(32) as usize, word(40) as usize);
    let mut end = programs.checked_add(half(54) * half(56))?.max(64);
    end = end.max(sections.checked_add(half(58) * half(60))?);
    for index in 0..half(60) {
        let section = peek(address.checked_add(sections)?.checked_add(index * half(58))?, 64)?;
        let number = |at: usize, bytes: usize| {
            section[at..at + bytes].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        // Of no section, and of those that take no room in the file, two of NVIDIA's own among them.
        const WITHOUT_BYTES: [u64; 4] = [0, 8, 0x7000_0007, 0x7000_000a];
        if !WITHOUT_BYTES.contains(&number(4, 4)) {
            end = end.max((number(24, 8) as usize).checked_add(number(32, 8) as usize)?);
        }
    }
    (end <= MOST_TEXT).then_some(end)
}

/// The header says how long it is, and what follows it.
fn fatbin_bytes(address: usize) -> Option<usize> {
    let header = peek(address, 16)?;
    let head = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let rest = u64::from_le_bytes(header[8..16].try_into().expect("8 bytes")) as usize;
    head.checked_add(rest).filter(|bytes| *bytes <= MOST_TEXT)
}

/// Text up to its NUL, read by pages, as nothing is known of what is behind it.
fn text_at(address: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < MOST_TEXT {
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

/// Bytes of this process; `None` if they are not all mapped.
fn peek(address: usize, bytes: usize) -> Option<Vec<u8>> {
    let mut copy = vec![0u8; bytes];
    let base = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    let to = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: bytes };
    let from = libc::iovec { iov_base: base, iov_len: bytes };
    // SAFETY: the system checks both ranges, of which the first is the copy.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    (read == bytes as isize).then_some(copy)
}
