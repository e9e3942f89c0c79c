//! The copy of an object that a debugger reads: the compiler's file, with the addresses of its
//! sections. Its debug sections keep their relocations; a debugger applies them itself, as it does
//! for any relocatable file.

use std::mem::{offset_of, size_of};

use object::elf::{self, FileHeader64, SectionHeader64};

use crate::{Error, Result};

type FileHeader = FileHeader64<object::LittleEndian>;
type SectionHeader = SectionHeader64<object::LittleEndian>;

const SECTION_HEADER_SIZE: usize = size_of::<SectionHeader>();

/// Returns a copy of an ELF object in which each section has its address, from `sections`: ELF
/// section indices and addresses.
///
/// A section that would need memory but has no address was not linked. The copy clears its
/// `SHF_ALLOC` and `SHF_EXECINSTR`; with these flags a debugger would take its functions to lie at
/// address zero. Sections without `SHF_ALLOC` stay as they are.
///
/// # Errors
/// [`Error::Malformed`] if `bytes` are not a 64-bit little-endian relocatable object, its section
/// headers are not in the file, or there is no section with an index in `sections`.
pub fn with_addresses(name: &str, bytes: &[u8], sections: &[(usize, u64)]) -> Result<Vec<u8>> {
    patch(bytes, sections).map_err(|problem| Error::Malformed { file: name.to_owned(), problem })
}

fn patch(bytes: &[u8], sections: &[(usize, u64)]) -> Result<Vec<u8>, String> {
    check_identity(bytes)?;
    let (start, count) = section_headers(bytes)?;
    let addresses = addresses_by_section(count, sections)?;
    let mut copy = bytes.to_vec();
    let (headers, _) = copy[start..].as_chunks_mut::<SECTION_HEADER_SIZE>();
    headers.iter_mut().zip(addresses).for_each(|(header, address)| set_address(header, address));
    Ok(copy)
}

fn check_identity(bytes: &[u8]) -> Result<(), String> {
    let identity = [&elf::ELFMAG[..], &[elf::ELFCLASS64.0, elf::ELFDATA2LSB.0]].concat();
    if !bytes.starts_with(&identity) {
        return Err("not a 64-bit little-endian ELF file".to_owned());
    }
    match u16_at(bytes, offset_of!(FileHeader, e_type))? {
        kind if kind == elf::ET_REL.0 => Ok(()),
        kind => Err(format!("ELF type {kind}, expected a relocatable object ({})", elf::ET_REL.0)),
    }
}

/// Returns the start and the number of the section headers, which all lie in the file.
fn section_headers(bytes: &[u8]) -> Result<(usize, usize), String> {
    let size = usize::from(u16_at(bytes, offset_of!(FileHeader, e_shentsize))?);
    if size != SECTION_HEADER_SIZE {
        return Err(format!("section headers of {size} bytes, expected {SECTION_HEADER_SIZE}"));
    }
    let start = u64_at(bytes, offset_of!(FileHeader, e_shoff))?;
    let start = usize::try_from(start).map_err(|_| outside(start))?;
    let count = match u16_at(bytes, offset_of!(FileHeader, e_shnum))? {
        0 => u64_at(bytes, start.saturating_add(offset_of!(SectionHeader, sh_size)))?,
        count => u64::from(count),
    };
    let room = bytes.len().saturating_sub(start) / SECTION_HEADER_SIZE;
    match usize::try_from(count) {
        Ok(count) if count <= room => Ok((start, count)),
        _ => Err(format!("{count} section headers at {start:#x}, but there is room for {room}")),
    }
}

fn addresses_by_section(
    count: usize,
    sections: &[(usize, u64)],
) -> Result<Vec<Option<u64>>, String> {
    let mut addresses = vec![None; count];
    for &(index, address) in sections {
        *addresses.get_mut(index).ok_or_else(|| {
            format!("section {index} has an address, but there are only {count} sections")
        })? = Some(address);
    }
    Ok(addresses)
}

fn set_address(header: &mut [u8; SECTION_HEADER_SIZE], address: Option<u64>) {
    const FLAGS: usize = offset_of!(SectionHeader, sh_flags);
    const ADDRESS: usize = offset_of!(SectionHeader, sh_addr);
    let mut word = [0; 8];
    word.copy_from_slice(&header[FLAGS..FLAGS + 8]);
    let flags = u64::from_le_bytes(word);
    if flags & elf::SHF_ALLOC.0 == 0 {
        return;
    }
    match address {
        Some(address) => header[ADDRESS..ADDRESS + 8].copy_from_slice(&address.to_le_bytes()),
        None => {
            let flags = flags & !(elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0);
            header[FLAGS..FLAGS + 8].copy_from_slice(&flags.to_le_bytes());
        }
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> Result<u16, String> {
    array_at(bytes, offset).map(u16::from_le_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> Result<u64, String> {
    array_at(bytes, offset).map(u64::from_le_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], String> {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .ok_or_else(|| outside(offset as u64))
}

fn outside(offset: u64) -> String {
    format!("a header at {offset:#x} is outside of the file")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: usize = size_of::<FileHeader>();

    /// Returns an object of section headers alone: the null section, then one section for each of
    /// the flags.
    fn object_with(flags: &[u64]) -> Vec<u8> {
        let count = flags.len() + 1;
        let mut bytes = vec![0; HEADERS + count * SECTION_HEADER_SIZE];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value)
        };
        put(offset_of!(FileHeader, e_type), &elf::ET_REL.0.to_le_bytes());
        put(offset_of!(FileHeader, e_shoff), &(HEADERS as u64).to_le_bytes());
        put(offset_of!(FileHeader, e_shentsize), &(SECTION_HEADER_SIZE as u16).to_le_bytes());
        put(offset_of!(FileHeader, e_shnum), &(count as u16).to_le_bytes());
        for (index, flags) in flags.iter().enumerate() {
            let header = HEADERS + (index + 1) * SECTION_HEADER_SIZE;
            put(header + offset_of!(SectionHeader, sh_flags), &flags.to_le_bytes());
        }
        bytes
    }

    fn flags_and_address(bytes: &[u8], index: usize) -> (u64, u64) {
        let header = HEADERS + index * SECTION_HEADER_SIZE;
        let field = |offset| u64_at(bytes, header + offset).unwrap();
        (field(offset_of!(SectionHeader, sh_flags)), field(offset_of!(SectionHeader, sh_addr)))
    }

    const CODE: u64 = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
    const DATA: u64 = elf::SHF_ALLOC.0 | elf::SHF_WRITE.0;

    #[test]
    fn sections_that_were_linked_get_their_addresses() {
        let copy = with_addresses("a.o", &object_with(&[CODE, DATA]), &[(2, 0x2000), (1, 0x1000)])
            .unwrap();
        assert_eq!(flags_and_address(&copy, 1), (CODE, 0x1000));
        assert_eq!(flags_and_address(&copy, 2), (DATA, 0x2000));
    }

    #[test]
    fn sections_that_were_not_linked_are_no_longer_allocated() {
        let copy = with_addresses("a.o", &object_with(&[CODE, DATA]), &[]).unwrap();
        assert_eq!(flags_and_address(&copy, 1), (0, 0));
        assert_eq!(flags_and_address(&copy, 2), (elf::SHF_WRITE.0, 0));
    }

    #[test]
    fn debug_sections_stay_as_they_are() {
        let object = object_with(&[0, elf::SHF_MERGE.0 | elf::SHF_STRINGS.0]);
        assert_eq!(with_addresses("a.o", &object, &[(1, 0x1000)]).unwrap(), object);
    }

    #[test]
    fn more_than_65279_sections_are_counted_in_the_null_section() {
        let mut object = object_with(&vec![CODE; 0xff00]);
        object[offset_of!(FileHeader, e_shnum)..][..2].copy_from_slice(&[0, 0]);
        object[HEADERS + offset_of!(SectionHeader, sh_size)..][..8]
            .copy_from_slice(&0xff01_u64.to_le_bytes());
        let copy = with_addresses("a.o", &object, &[(0xff00, 0x1000)]).unwrap();
        assert_eq!(flags_and_address(&copy, 0xff00), (CODE, 0x1000));
    }

    #[test]
    fn an_address_for_a_section_that_is_not_there_is_an_error() {
        let error = with_addresses("a.o", &object_with(&[CODE]), &[(2, 0x1000)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.o: section 2 has an address, but there are only 2 sections"
        );
    }

    #[test]
    fn an_object_cut_off_anywhere_is_an_error() {
        let object = object_with(&[CODE, DATA]);
        for length in 0..object.len() {
            assert!(with_addresses("a.o", &object[..length], &[]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn header_fields_of_any_value_never_panic() {
        let object = object_with(&[CODE, DATA]);
        for offset in 0..object.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                for length in 1..=(object.len() - offset).min(8) {
                    let mut hostile = object.clone();
                    hostile[offset..offset + length].fill(value);
                    let _ = with_addresses("a.o", &hostile, &[(1, 0x1000), (2, u64::MAX)]);
                }
            }
        }
    }

    #[test]
    fn shared_objects_are_refused() {
        let mut object = object_with(&[CODE]);
        object[offset_of!(FileHeader, e_type)] = elf::ET_DYN.0 as u8;
        let error = with_addresses("a.so", &object, &[]).unwrap_err();
        assert_eq!(error.to_string(), "a.so: ELF type 3, expected a relocatable object (1)");
    }
}
