//! Images: their contents, in terms that all formats share, and their bytes. A driver gets no
//! length of an image.

use super::{Code, DriverResult, broken};
use std::ffi::c_void;

/// Limit for the size of an image in bytes; a longer image counts as endless.
pub const MOST_BYTES: usize = 256 << 20;

/// First bytes of each ELF file.
pub const ELF_MAGIC: &[u8] = b"\x7fELF";

/// An image that the devices can run.
pub struct Image {
    /// All bytes of the image, by which its twin is found.
    pub bytes: Vec<u8>,
    /// Contents of the image.
    pub contents: Contents,
    /// Result of a load, if the image cannot be loaded.
    pub refused: Code,
}

/// The contents of an image.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Functions that a program can launch.
    pub kernels: Vec<Kernel>,
    /// Variables in global and constant memory.
    pub variables: Vec<Variable>,
    /// Whether the addresses in initial values are known. If not, the loader takes the values from
    /// the twin.
    pub has_references: bool,
    /// Language version in the attributes of functions.
    pub language: i32,
    /// Machine code version in the attributes of functions.
    pub machine_code: i32,
}

/// A function that a program can launch.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Name of the kernel.
    pub name: String,
    /// Arguments of the kernel, without the system's hidden ones.
    pub arguments: Vec<Argument>,
    /// The only size of groups that a launch may have.
    pub required_group: Option<[u32; 3]>,
    /// Maximum number of items in a group.
    pub most_items: Option<u64>,
    /// Registers of one item.
    pub registers: u32,
    /// Static shared memory of a group, in bytes.
    pub static_shared_bytes: u64,
    /// Private memory of an item outside its registers, in bytes.
    pub private_bytes: u64,
}

/// The place of an argument on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Offset from the first argument, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the driver's look-up functions find the variable.
    pub is_seen: bool,
    /// Initial value, which may lack zeros at its end.
    pub initial: Vec<u8>,
    /// 64-bit addresses inside the initial value.
    pub references: Vec<Reference>,
    /// Place in a section, if programs may rely on the distances inside the section.
    pub place: Option<Place>,
}

/// An address in an initial value.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Offset of the address in the initial value.
    pub offset: u64,
    /// Variable or function that the address refers to.
    pub symbol: String,
    /// Addend to the symbol's address.
    pub addend: i64,
}

/// The place of a variable in a section.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Number of the section.
    pub section: u32,
    /// Offset from the section's first variable, in bytes.
    pub offset: u64,
}

/// The reason for the refusal of an image.
pub struct Refusal {
    /// Result of the load.
    pub code: Code,
    /// Description of the reason, for drivers that report one.
    pub log: String,
}

impl Refusal {
    /// Creates a reason.
    pub fn new(code: Code, log: impl Into<String>) -> Refusal {
        Refusal { code, log: log.into() }
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Refusal {
        Refusal::new(code, "")
    }
}

/// Returns the bytes of an image. `size` derives the bytes from the image's first 4 bytes.
///
/// # Errors
/// `INVALID_VALUE`, a violation, if the image is not entirely in readable memory.
pub fn bytes_at(
    address: usize,
    size: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> DriverResult<Vec<u8>> {
    let bytes = peek(address, 4).and_then(|magic| size(&magic));
    bytes.ok_or_else(|| broken(Code::INVALID_VALUE, format!("no image is at {address:#x}")))
}

/// Returns the bytes of an ELF file up to the end of its last part. Sections of the types
/// `without_bytes` have no bytes.
pub fn elf_at(address: usize, without_bytes: &[u64]) -> Option<Vec<u8>> {
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
        let (start, bytes) = (number(24, 8) as usize, number(32, 8) as usize);
        if bytes > 0 && !without_bytes.contains(&number(4, 4)) {
            end = end.max(start.checked_add(bytes)?);
        }
    }
    peek(address, Some(end).filter(|end| *end <= MOST_BYTES)?)
}

/// Copies bytes of this process; `None` if some of them are not mapped.
pub fn peek(address: usize, bytes: usize) -> Option<Vec<u8>> {
    let mut copy = vec![0u8; bytes];
    let base = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    let to = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: bytes };
    let from = libc::iovec { iov_base: base, iov_len: bytes };
    // SAFETY: the system checks both ranges, of which the first is the copy.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    (read == bytes as isize).then_some(copy)
}
