//! The ELF header: class, machine, type.

use super::read::{u16_at, u32_at, u64_at};
use super::{ensure, malformed};
use longshore_plugin_api::Result;
use object::elf;

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = elf::EM_X86_64.0;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = elf::EM_AARCH64.0;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the CPU backend knows the relocations of x86-64 and AArch64 only");

const BITCODE: &[u8] = b"BC\xc0\xde";
const HEADER_BYTES: usize = 64;
const SEGMENT_HEADER_BYTES: u16 = 56;

/// Most program headers of an image: glibc keeps them on the stack, twice.
const MOST_SEGMENT_HEADERS: u16 = 128;

/// The place of the program headers, from the ELF header.
pub(super) struct Header {
    pub(super) segments_at: u64,
    pub(super) segment_count: u16,
}

/// Checks the header of a shared object.
pub(super) fn parse(bytes: &[u8]) -> Result<Header> {
    let kind = file_type(bytes)?;
    ensure!(
        kind == elf::ET_DYN,
        "the image is {}, expected a shared object (ET_DYN)",
        name_of(kind)
    );
    let short = || malformed("the ELF header is cut off".to_owned());
    let version = u32_at(bytes, 20).ok_or_else(short)?;
    ensure!(version == 1, "the ELF header's version is {version}, expected 1");

    let entry_bytes = u16_at(bytes, 54).ok_or_else(short)?;
    let segment_count = u16_at(bytes, 56).ok_or_else(short)?;
    ensure!(segment_count > 0, "the image has no program headers, expected a linked shared object");
    ensure!(
        entry_bytes == SEGMENT_HEADER_BYTES,
        "program headers have {entry_bytes} bytes, expected {SEGMENT_HEADER_BYTES}"
    );
    ensure!(
        segment_count <= MOST_SEGMENT_HEADERS,
        "the image has {segment_count} program headers, expected at most {MOST_SEGMENT_HEADERS}"
    );
    Ok(Header { segments_at: u64_at(bytes, 32).ok_or_else(short)?, segment_count })
}

fn identification(bytes: &[u8]) -> Result<()> {
    let (class, data, version, abi) = (bytes[4], bytes[5], bytes[6], bytes[7]);
    ensure!(class == elf::ELFCLASS64.0, "the image has ELF class {class}, expected 2 (64 bits)");
    ensure!(
        data == elf::ELFDATA2LSB.0,
        "the image has data encoding {data}, expected 1 (little-endian)"
    );
    ensure!(version == 1, "the image has ELF identification version {version}, expected 1");
    ensure!(
        abi == elf::ELFOSABI_SYSV.0 || abi == elf::ELFOSABI_GNU.0,
        "the image is for OS/ABI {abi:#x}, expected 0 (System V) or 3 (GNU)"
    );
    Ok(())
}

/// Returns the type of an ELF file for this machine.
pub(super) fn file_type(bytes: &[u8]) -> Result<elf::FileType> {
    ensure!(!bytes.is_empty(), "the image is empty, expected an ELF file");
    ensure!(!bytes.starts_with(BITCODE), "the image is LLVM bitcode, expected an ELF file");
    ensure!(
        bytes.starts_with(&elf::ELFMAG),
        "the image starts with {:02x?}, expected an ELF file, {:02x?}",
        &bytes[..bytes.len().min(4)],
        elf::ELFMAG
    );
    ensure!(
        bytes.len() >= HEADER_BYTES,
        "the image has {} bytes, less than an ELF header's {HEADER_BYTES}",
        bytes.len()
    );
    identification(bytes)?;
    let short = || malformed("the ELF header is cut off".to_owned());
    let machine = u16_at(bytes, 18).ok_or_else(short)?;
    ensure!(
        machine == MACHINE,
        "the image is for {}, this device is {}",
        machine_name(machine),
        machine_name(MACHINE)
    );
    Ok(elf::FileType(u16_at(bytes, 16).ok_or_else(short)?))
}

/// Returns the name of a file type, for messages.
pub(super) fn name_of(kind: elf::FileType) -> String {
    match kind {
        elf::ET_DYN => "a shared object (ET_DYN)".to_owned(),
        elf::ET_REL => "a relocatable object (ET_REL)".to_owned(),
        elf::ET_EXEC => "an executable (ET_EXEC)".to_owned(),
        elf::ET_CORE => "a core dump (ET_CORE)".to_owned(),
        elf::FileType(other) => format!("of ELF type {other}"),
    }
}

fn machine_name(machine: u16) -> String {
    let name = match elf::Machine(machine) {
        elf::EM_X86_64 => "x86-64",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_386 => "i386",
        elf::EM_ARM => "ARM",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC64 => "PowerPC64",
        elf::EM_S390 => "S/390",
        elf::EM_CUDA => "NVIDIA CUDA",
        elf::EM_AMDGPU => "AMD GPU",
        elf::Machine(other) => return format!("machine {other}"),
    };
    format!("{name} (machine {machine})")
}
