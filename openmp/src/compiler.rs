//! The compiler of an image, as far as its kernels depend on it.
//!
//! Kernels of clang 16, 17 and 18 have arguments of the same version, but the kernels of clang 18
//! take a launch environment in front of them. The program tells nothing of it, so the image has
//! to.

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};

/// The version of clang whose kernels take a launch environment that their version lacks.
const WITH_ENVIRONMENT: u32 = 18;
/// The library of that version, in the names of libraries that an image needs.
const ITS_LIBRARY: &[u8] = b"libomptarget.so.18.1";
const OFFLOAD_BINARY: [u8; 4] = [0x10, 0xff, 0x10, 0xad];

/// Returns the major version of the newest clang or flang that compiled a part of an image; 0 if
/// the image names none.
pub(crate) fn newest(image: &[u8]) -> u32 {
    let parsed = elf(image).and_then(|bytes| ElfFile64::<LittleEndian>::parse(bytes).ok());
    let comment = parsed.as_ref().and_then(|elf| elf.section_by_name_bytes(b".comment"));
    let names = comment.and_then(|section| section.data().ok()).unwrap_or_default();
    clang_versions(names).max().unwrap_or(0)
}

/// Returns whether kernels of an image take a launch environment although their arguments have
/// version 2. The compiler's name in the image decides; without one, the library that it needs.
pub(crate) fn passes_environment(image: &[u8]) -> bool {
    let Some(elf) = elf(image).and_then(|bytes| ElfFile64::<LittleEndian>::parse(bytes).ok())
    else {
        return false;
    };
    let section = |name| elf.section_by_name_bytes(name).and_then(|section| section.data().ok());
    let mut versions = clang_versions(section(b".comment").unwrap_or_default()).peekable();
    if versions.peek().is_some() {
        return versions.any(|version| version == WITH_ENVIRONMENT);
    }
    let names = section(b".dynstr").unwrap_or_default();
    names.split(|byte| *byte == 0).any(|name| name == ITS_LIBRARY)
}

/// Returns the ELF file of an image: its first one, if the image is an OffloadBinary.
pub(crate) fn elf(image: &[u8]) -> Option<&[u8]> {
    if !image.starts_with(&OFFLOAD_BINARY) {
        return Some(image);
    }
    let number = |at: usize| {
        let bytes = image.get(at..at.checked_add(8)?)?;
        usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let entry = number(16)?;
    image.get(number(entry.checked_add(24)?)?..)
}

/// Returns the major versions of clang and flang that a section of compilers' names has.
fn clang_versions(names: &[u8]) -> impl Iterator<Item = u32> {
    names.split(|byte| *byte == 0).filter_map(|name| {
        let (_, version) = std::str::from_utf8(name).ok()?.split_once("lang version ")?;
        version.split('.').next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::write::{Object, StandardSegment};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    /// Returns an ELF file with compilers' names and with names of needed libraries.
    fn image(comment: &[u8], names: &[u8]) -> Vec<u8> {
        let (format, architecture) = (BinaryFormat::Elf, Architecture::X86_64);
        let mut object = Object::new(format, architecture, Endianness::Little);
        for (name, contents) in [(".comment", comment), (".dynstr", names)] {
            let segment = object.segment_name(StandardSegment::Data).to_vec();
            let section = object.add_section(segment, name.into(), SectionKind::Other);
            object.append_section_data(section, contents, 1);
        }
        object.write().unwrap()
    }

    #[test]
    fn kernels_of_clang_18_alone_take_an_environment_in_version_2() {
        let needed = b"\0libomptarget.so.18.1\0";
        let cases: [(&[u8], &[u8], bool); 7] = [
            (b"GCC: 14.2\0Debian clang version 18.1.8 (18+b1)\0", b"", true),
            (b"flang version 18.1.8\0", b"", true),
            (b"Debian clang version 17.0.6 (22+b2)\0", b"", false),
            // The compiler decides if the library is another one.
            (b"clang version 16.0.6\0", needed, false),
            (b"clang version 18.1.0\0", b"\0libomptarget.so\0", true),
            (b"", needed, true),
            (b"GCC: 18.1\0", b"\0libomptarget.so.17\0", false),
        ];
        for (comment, names, expected) in cases {
            let image = image(comment, names);
            assert_eq!(passes_environment(&image), expected);
            let mut binary = [0; 72];
            binary[..4].copy_from_slice(&OFFLOAD_BINARY);
            binary[16] = 32;
            binary[32 + 24] = 72;
            let binary = [&binary[..], &image].concat();
            assert_eq!(passes_environment(&binary), expected);
        }
        assert_eq!(newest(&image(b"clang version 22.1.8\0clang version 23.1.4\0", b"")), 23);
        assert_eq!((newest(&image(b"GCC: 18.1\0", b"")), newest(b"// PTX")), (0, 0));
        assert!(!passes_environment(b"// PTX"));
        assert!(!passes_environment(&OFFLOAD_BINARY));
    }
}
