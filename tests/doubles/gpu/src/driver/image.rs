//! Images: what they say of themselves, in words that all formats share, and their bytes, whose number no driver is told.

use super::{Answer, Code, broken};
use std::ffi::c_void;

/// Longer images have no end.
pub const MOST_BYTES: usize = 256 << 20;

/// What begins each ELF file.
pub const ELF_MAGIC: &[u8] = b"\x7fELF";

/// An image that the devices run.
pub struct Image {
    /// All of it, by which its twin is found.
    pub bytes: Vec<u8>,
    /// What it says of itself.
    pub contents: Contents,
    /// What loading answers if the image cannot be loaded.
    pub refused: Code,
}

/// What an image says of itself.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Functions that can be launched.
    pub kernels: Vec<Kernel>,
    /// Variables in global and constant memory.
    pub variables: Vec<Variable>,
    /// Whether the addresses in initial values are known. If not, what the twin has is taken from there.
    pub has_references: bool,
    /// The version of its language that functions tell.
    pub language: i32,
    /// The version of the machine code that functions tell.
    pub machine_code: i32,
}

/// A function that can be launched.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// What it takes, without what the system adds.
    pub arguments: Vec<Argument>,
    /// The only size of groups with which it can be launched.
    pub required_group: Option<[u32; 3]>,
    /// The most items of a group with which it can be launched.
    pub most_items: Option<u64>,
    /// Registers of an item.
    pub registers: u32,
    /// Shared memory of a group that is there without a launch asking for it.
    pub static_shared_bytes: u64,
    /// Memory of an item for what does not fit into registers.
    pub private_bytes: u64,
}

/// An argument, where the device finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// From the first one, in bytes.
    pub offset: usize,
    /// How many.
    pub bytes: usize,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Whether the driver tells of it.
    pub is_seen: bool,
    /// Its initial value, which may lack zeros at its end.
    pub initial: Vec<u8>,
    /// The addresses of 64 bits that stand in its initial value.
    pub references: Vec<Reference>,
    /// Where it is among others whose distances are the same on the device, if programs may go by that.
    pub place: Option<Place>,
}

/// An address in an initial value.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Where it stands.
    pub offset: u64,
    /// The variable or function whose address it is.
    pub symbol: String,
    /// What is added to that.
    pub addend: i64,
}

/// Where a variable is among others.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The others' number.
    pub section: u32,
    /// From the first of them, in bytes.
    pub offset: u64,
}

/// Why an image was refused.
pub struct Refusal {
    /// What loading answers.
    pub code: Code,
    /// The same in words, for drivers that have such.
    pub log: String,
}

impl Refusal {
    /// A reason.
    pub fn new(code: Code, log: impl Into<String>) -> Refusal {
        Refusal { code, log: log.into() }
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Refusal {
        Refusal::new(code, "")
    }
}

/// The bytes of an image, whose size `size` tells from its first ones.
///
/// # Errors
/// `INVALID_VALUE`, a violation, if it is not all in readable memory.
pub fn bytes_at(address: usize, size: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Answer<Vec<u8>> {
    let bytes = peek(address, 4).and_then(|magic| size(&magic));
    bytes.ok_or_else(|| broken(Code::INVALID_VALUE, format!("no image is at {address:#x}")))
}

/// The bytes of an ELF file up to where its last part ends. Sections of these types have no bytes.
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

/// Bytes of this process; `None` if they are not all mapped.
pub fn peek(address: usize, bytes: usize) -> Option<Vec<u8>> {
    let mut copy = vec![0u8; bytes];
    let base = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    let to = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: bytes };
    let from = libc::iovec { iov_base: base, iov_len: bytes };
    // SAFETY: the system checks both ranges, of which the first is the copy.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    (read == bytes as isize).then_some(copy)
}
