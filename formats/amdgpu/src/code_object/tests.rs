use super::*;
use crate::Linkage;
use crate::header::tests::head;
use object::elf::{
    SHT_DYNSYM, SHT_NOBITS, SHT_NOTE, SHT_PROGBITS, SHT_STRTAB, SHT_SYMTAB, STB_GLOBAL as GLOBAL,
    STB_LOCAL as LOCAL, STB_WEAK as WEAK, STT_FUNC as FUNC, STT_NOTYPE as NOTYPE,
    STT_OBJECT as OBJECT, STV_DEFAULT as DEFAULT, STV_HIDDEN as HIDDEN, STV_PROTECTED as PROTECTED,
    SectionType, SymbolBind, SymbolType, SymbolVisibility,
};
use serde_json::json;

const ABSOLUTE: u16 = 0xfff1;
const COMMON: u16 = 0xfff2;
const SHARED: u16 = 0xff00;
const ET_REL: u16 = 1;
const ET_DYN: u16 = 3;

/// A section: type, address, contents, link, and the size in its header.
type SectionSpec = (SectionType, u64, Vec<u8>, u32, u64);

/// A symbol: name, type, binding, visibility, section, value, size.
type SymbolSpec = (&'static str, SymbolType, SymbolBind, SymbolVisibility, u16, u64, u64);

fn made(kind: SectionType, address: u64, content: Vec<u8>) -> SectionSpec {
    let bytes = content.len() as u64;
    (kind, address, content, 0, bytes)
}

/// Returns a table of symbols and the section with their names, which has the index `strings`.
fn table(kind: SectionType, strings: u32, symbols: &[SymbolSpec]) -> [SectionSpec; 2] {
    let (mut entries, mut names) = (vec![0; 24], vec![0]);
    for (name, kind, binding, visibility, section, value, bytes) in symbols {
        entries.extend((names.len() as u32).to_le_bytes());
        names.extend(name.bytes().chain([0]));
        entries.extend([binding.0 << 4 | kind.0, visibility.0]);
        entries.extend(section.to_le_bytes());
        entries.extend([value, bytes].iter().flat_map(|number| number.to_le_bytes()));
    }
    let mut table = made(kind, 0, entries);
    table.3 = strings;
    [table, made(SHT_STRTAB, 0, names)]
}

/// Returns a file for gfx90a with these sections, the first of which has index 1. `noted` lists the
/// sections with notes; each gets a segment.
fn elf(kind: u16, sections: Vec<SectionSpec>, noted: &[usize]) -> Vec<u8> {
    let mut bytes = head(kind, 3, 0x53f);
    let segments_at = bytes.len();
    bytes.resize(segments_at + noted.len() * 56, 0);
    let mut headers = vec![0; 64];
    for (index, (kind, address, content, link, size)) in (1..).zip(&sections) {
        let at = bytes.len() as u64;
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        headers.extend([0, kind.0].iter().flat_map(|word: &u32| word.to_le_bytes()));
        headers.extend([0, *address, at, *size].iter().flat_map(|number| number.to_le_bytes()));
        headers.extend([*link, 0].iter().flat_map(|word| word.to_le_bytes()));
        headers.extend([4u64, 0].iter().flat_map(|number| number.to_le_bytes()));
        let segment = [4, at, *address, 0, *size, *size, 4].map(u64::to_le_bytes).concat();
        for place in (0..noted.len()).filter(|place| noted[*place] == index) {
            bytes[segments_at + place * 56..][..56].copy_from_slice(&segment);
        }
    }
    let numbers = [segments_at as u64, bytes.len() as u64].map(u64::to_le_bytes).concat();
    bytes[32..48].copy_from_slice(&numbers);
    let count = sections.len() as u8 + 1;
    bytes[54..64].copy_from_slice(&[56, 0, noted.len() as u8, 0, 64, 0, count, 0, 0, 0]);
    bytes.extend(headers);
    bytes
}

fn note(owner: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [owner.len() as u32, content.len() as u32, kind] {
        bytes.extend(word.to_le_bytes());
    }
    for part in [owner, content] {
        bytes.extend(part);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// Returns the notes of a file with one kernel.
fn notes(kernel: &str) -> Vec<u8> {
    let metadata = json!({"amdhsa.kernels": [{
        ".name": kernel,
        ".symbol": format!("{kernel}.kd"),
        ".kernarg_segment_size": 8,
        ".kernarg_segment_align": 8,
        ".wavefront_size": 64,
        ".group_segment_fixed_size": 0,
        ".private_segment_fixed_size": 0,
        ".args": [{".offset": 0, ".size": 8, ".value_kind": "by_value"}],
    }]});
    let metadata = rmp_serde::to_vec(&metadata).unwrap();
    [note(b"GNU\0", 32, b"abc"), note(b"AMDGPU\0", 32, &metadata)].concat()
}

/// Returns a linked file with one of everything: section 1 has notes, 2 values, 3 zeros.
fn linked() -> Vec<u8> {
    let dynamic = [
        ("k", FUNC, GLOBAL, PROTECTED, 2, 0x1000, 64),
        ("k.kd", OBJECT, GLOBAL, PROTECTED, 2, 0x1000, 8),
        ("counter", OBJECT, GLOBAL, PROTECTED, 2, 0x1004, 4),
        ("zeros", OBJECT, WEAK, DEFAULT, 3, 0x2000, 400),
        ("seen", OBJECT, GLOBAL, DEFAULT, 2, 0x1008, 4),
        ("elsewhere", NOTYPE, GLOBAL, DEFAULT, 0, 0, 0),
        ("optional", OBJECT, WEAK, DEFAULT, 0, 0, 0),
    ];
    let mut all = vec![
        ("hidden", OBJECT, LOCAL, HIDDEN, 2, 0x100c, 4),
        ("number", OBJECT, LOCAL, DEFAULT, ABSOLUTE, 7, 0),
        ("beyond", OBJECT, LOCAL, DEFAULT, 2, 0x100c, 5),
        ("before", OBJECT, LOCAL, DEFAULT, 2, 0xfff, 1),
        ("", OBJECT, LOCAL, DEFAULT, 2, 0x1000, 1),
        ("local", NOTYPE, LOCAL, DEFAULT, 0, 0, 0),
    ];
    all.extend(dynamic);
    let mut zeros = made(SHT_NOBITS, 0x2000, Vec::new());
    zeros.4 = 400;
    let mut sections =
        vec![made(SHT_NOTE, 0, notes("k")), made(SHT_PROGBITS, 0x1000, (0..16).collect()), zeros];
    sections.extend(table(SHT_DYNSYM, 5, &dynamic));
    sections.extend(table(SHT_SYMTAB, 7, &all));
    elf(ET_DYN, sections, &[1])
}

fn relocatable() -> Vec<u8> {
    let symbols = [
        ("k.kd", OBJECT, GLOBAL, PROTECTED, 2, 0, 8),
        ("counter", OBJECT, GLOBAL, HIDDEN, 2, 4, 4),
        ("seen", OBJECT, GLOBAL, DEFAULT, 2, 8, 4),
        ("common", OBJECT, GLOBAL, DEFAULT, COMMON, 16, 64),
        ("tile", OBJECT, GLOBAL, DEFAULT, SHARED, 4, 256),
        ("elsewhere", OBJECT, GLOBAL, DEFAULT, 0, 0, 0),
        ("elsewhere", FUNC, GLOBAL, DEFAULT, 0, 0, 0),
        ("__init_array_start", NOTYPE, GLOBAL, HIDDEN, 0, 0, 0),
    ];
    let mut sections = vec![
        made(SHT_NOTE, 0, [notes("k"), notes("l")].concat()),
        made(SHT_PROGBITS, 0, (0..16).collect()),
    ];
    sections.extend(table(SHT_SYMTAB, 4, &symbols));
    elf(ET_REL, sections, &[])
}

/// The facts of a variable: name, size, linkage, section, address, initial value.
type VariableFacts<'a> = (&'a str, u64, Linkage, Option<u32>, u64, &'a [u8]);

/// Returns the facts of each variable.
fn summary<'a>(found: &'a CodeObject, bytes: &'a [u8]) -> Vec<VariableFacts<'a>> {
    let one = |known: &'a Variable| {
        (
            &*known.name,
            known.bytes,
            known.linkage,
            known.section,
            known.address,
            known.initial(bytes),
        )
    };
    found.variables.iter().map(one).collect()
}

#[test]
fn a_linked_file_exports_its_dynamic_symbols() {
    let bytes = linked();
    let found = CodeObject::read(&bytes).unwrap();
    assert_eq!((found.header.version, found.header.target.to_string()), (5, "gfx90a".to_owned()));
    assert_eq!(found.kernels.len(), 1);
    assert_eq!(
        summary(&found, &bytes),
        [
            ("counter", 4, Linkage::Protected, Some(2), 0x1004, &[4, 5, 6, 7][..]),
            ("zeros", 400, Linkage::Weak, Some(3), 0x2000, &[]),
            ("seen", 4, Linkage::Visible, Some(2), 0x1008, &[8, 9, 10, 11]),
            ("hidden", 4, Linkage::Internal, Some(2), 0x100c, &[12, 13, 14, 15]),
            ("beyond", 5, Linkage::Internal, Some(2), 0x100c, &[]),
            ("before", 1, Linkage::Internal, Some(2), 0xfff, &[]),
        ]
    );
    assert_eq!(found.undefined, ["elsewhere"]);
}

#[test]
fn a_relocatable_file_shows_what_linking_will() {
    let bytes = relocatable();
    let found = CodeObject::read(&bytes).unwrap();
    assert!(found.header.is_relocatable);
    let names: Vec<_> = found.kernels.iter().map(|kernel| &kernel.name[..]).collect();
    assert_eq!(names, ["k", "l"], "of two notes, in a section");
    assert_eq!(
        summary(&found, &bytes),
        [
            ("counter", 4, Linkage::Internal, Some(2), 4, &[4, 5, 6, 7][..]),
            ("seen", 4, Linkage::Visible, Some(2), 8, &[8, 9, 10, 11]),
            ("common", 64, Linkage::Weak, None, 16, &[]),
        ]
    );
    assert_eq!(found.undefined, ["elsewhere"]);
}

#[test]
fn a_file_without_symbols_or_notes_is_read() {
    let plain = CodeObject::read(&head(ET_DYN, 4, 0x54)).unwrap();
    assert_eq!((plain.kernels.len(), plain.variables.len(), plain.undefined.len()), (0, 0, 0));
}

#[test]
fn bytes_may_lie_anywhere() {
    let bytes = linked();
    let expected = CodeObject::read(&bytes);
    let mut moved = vec![0; bytes.len() + 8];
    for start in 0..8 {
        moved[start..][..bytes.len()].copy_from_slice(&bytes);
        assert_eq!(CodeObject::read(&moved[start..][..bytes.len()]), expected);
    }
}

#[test]
fn a_part_beyond_the_end_is_malformed() {
    let mut bytes = linked();
    let end = bytes.len();
    let error = CodeObject::read(&bytes[..end - 1]).unwrap_err();
    assert!(error.0.contains("malformed"), "{error}");
    // The offset of the notes' segment, then that of the section of values.
    for at in [64 + 8, end - 6 * 64 + 24] {
        let was = bytes[at..at + 8].to_vec();
        for number in [end as u64, u64::MAX, 1 << 63] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            let error = CodeObject::read(&bytes).unwrap_err();
            assert!(error.0.contains("beyond its end"), "{error}");
        }
        bytes[at..at + 8].copy_from_slice(&was);
    }
    assert!(CodeObject::read(&bytes).is_ok());
}

#[test]
fn parts_upon_each_other_are_malformed_before_they_cost_much() {
    let long = [vec![b'x'; 1 << 20], vec![0]].concat();
    let mut symbols = made(SHT_SYMTAB, 0, vec![0; 24 << 12]);
    symbols.3 = 2;
    let names = elf(ET_REL, vec![symbols, made(SHT_STRTAB, 0, long)], &[]);
    let notes = elf(ET_DYN, vec![made(SHT_NOTE, 0, note(b"x\0", 1, &[0; 1 << 16]))], &[1; 200]);
    for bytes in [names, notes] {
        let error = CodeObject::read(&bytes).unwrap_err();
        assert!(error.0.contains("overlap"), "{error}");
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_read_to_its_end() {
    for mut bytes in [linked(), relocatable()] {
        for end in 0..bytes.len() {
            assert!(CodeObject::read(&bytes[..end]).is_err(), "{end}");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = CodeObject::read(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
