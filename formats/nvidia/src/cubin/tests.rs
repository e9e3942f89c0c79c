use super::*;
use crate::{Kernel, Linkage, Place, Reference, Space, Variable};
use object::elf::{STT_SECTION, SymbolType};

/// A section: name, type, alignment, target of relocations, contents or size.
struct SectionSpec {
    name: &'static str,
    kind: u32,
    alignment: u64,
    info: u32,
    content: Vec<u8>,
}

const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const RELA: u32 = 4;
const NOBITS: u32 = 8;
const REL: u32 = 9;
const CUDA_INFO: u32 = 0x7000_0000;

const LOCAL: u8 = 0;
const GLOBAL: u8 = 1;
const WEAK: u8 = 2;
const COMMON: u16 = 0xfff2;

fn section(name: &'static str, kind: u32, info: u32, content: Vec<u8>) -> SectionSpec {
    SectionSpec { name, kind, alignment: 8, info, content }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn relocation(at: u64, kind: u32, symbol: u32, addend: Option<i64>) -> Vec<u8> {
    let mut entry =
        [at.to_le_bytes(), (u64::from(symbol) << 32 | u64::from(kind)).to_le_bytes()].concat();
    entry.extend(addend.into_iter().flat_map(i64::to_le_bytes));
    entry
}

/// Returns names in a row, and the offset of each.
fn names(of: &[&str]) -> (Vec<u8>, Vec<u32>) {
    let mut table = vec![0];
    let at = of.iter().map(|name| {
        let at = table.len() as u32;
        table.extend(name.bytes().chain([0]));
        at
    });
    let at = at.collect();
    (table, at)
}

/// A symbol: name, type, binding, mark, section, value, size.
type SymbolSpec = (&'static str, SymbolType, u8, u8, u16, u64, u64);

fn symbol_table(symbols: &[SymbolSpec]) -> [SectionSpec; 2] {
    let (strings, at) = names(&symbols.iter().map(|symbol| symbol.0).collect::<Vec<_>>());
    let mut table = vec![0; 24];
    for ((_, kind, binding, other, section, value, bytes), name) in symbols.iter().zip(at) {
        table.extend(name.to_le_bytes());
        table.extend([binding << 4 | kind.0, *other]);
        table.extend(section.to_le_bytes());
        table.extend(value.to_le_bytes());
        table.extend(bytes.to_le_bytes());
    }
    [section(".strtab", STRTAB, 0, strings), section(".symtab", SYMTAB, 0, table)]
}

/// Returns an ELF file for CUDA with these sections, which start at index 4.
fn elf(abi: u8, kind: u8, flags: u32, symbols: &[SymbolSpec], own: Vec<SectionSpec>) -> Vec<u8> {
    let mut sections =
        vec![section("", 0, 0, Vec::new()), section(".shstrtab", STRTAB, 0, Vec::new())];
    sections.extend(symbol_table(symbols));
    sections.extend(own);
    let (table, at) = names(&sections.iter().map(|section| section.name).collect::<Vec<_>>());
    sections[1].content = table;
    let mut bytes = vec![0; 64];
    bytes[..9].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, abi, 8]);
    (bytes[16], bytes[18]) = (kind, 190);
    bytes[48..52].copy_from_slice(&flags.to_le_bytes());
    bytes[58] = 64;
    bytes[60..64].copy_from_slice(&[sections.len() as u8, 0, 1, 0]);
    let mut headers = Vec::new();
    for (section, name) in sections.iter().zip(at) {
        let link = if section.kind == SYMTAB { 2 } else { 3 };
        let entry_bytes = 0;
        let numbers = [0, 0, bytes.len() as u64, section.content.len() as u64];
        headers.extend(words(&[name, section.kind]));
        headers.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        headers.extend(words(&[link, section.info]));
        headers.extend(
            [section.alignment, entry_bytes].iter().flat_map(|number| number.to_le_bytes()),
        );
        bytes.extend(&section.content);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let start = bytes.len() as u64;
    bytes[40..48].copy_from_slice(&start.to_le_bytes());
    bytes.extend(headers);
    bytes
}

/// Returns attributes for two arguments of 8 and 4 bytes, the later one first, and limits.
fn info_of_kernel() -> Vec<u8> {
    words(&[
        0x000c_1704,
        0,
        0x0008_0001,
        0x0011_f000, // the second argument
        0x000c_1704,
        0,
        0,
        0x0021_f203, // the first, with the alignment of what it points to
        0x00ff_1b03, // a value in the head
        0x000c_1004,
        64,
        2,
        1, // the required group
        0x000c_0504,
        128,
        2,
        1, // the largest
        0x000c_3d04,
        2,
        1,
        1, // the cluster
    ])
}

/// Returns a cubin with one of everything. Section 4 has global variables with values, 5 variables
/// without values, 6 constants.
fn cubin(kind: u8) -> Vec<u8> {
    let symbols = [
        ("k", STT_FUNC, GLOBAL, 0x10, 9, 0, 128),
        ("helper", STT_FUNC, LOCAL, 0, 9, 0, 64),
        ("counter", STT_OBJECT, GLOBAL, 0, 4, 0, 4),
        ("pointers", STT_CUDA_OBJECT, LOCAL, 0x20, 4, 8, 40),
        ("zeros", STT_OBJECT, WEAK, 0, 5, 16, 400),
        ("limits", STT_OBJECT, GLOBAL, 0, 6, 4, 4),
        ("", STT_SECTION, LOCAL, 0, 5, 0, 0),
        ("common", STT_CUDA_OBJECT, GLOBAL, 0x20, COMMON, 16, 64),
        ("elsewhere", STT_CUDA_OBJECT, GLOBAL, 0x20, 0, 0, 4),
        ("dynamic", STT_CUDA_OBJECT, GLOBAL, 0x40, 0, 0, 0),
        ("vprintf", STT_FUNC, GLOBAL, 0, 0, 0, 0),
        ("other", STT_FUNC, GLOBAL, 0, 0, 0, 0),
        ("optional", STT_FUNC, WEAK, 0, 0, 0, 0),
        (".nv.reservedSmem.cap", STT_OBJECT, GLOBAL, 0, 0, 0x400, 4),
        ("texture", SymbolType(10), GLOBAL, 0, 0, 0, 0),
    ];
    let mut initial = vec![7, 0, 0, 0, 0, 0, 0, 0];
    initial.extend(16u64.to_le_bytes());
    initial.extend([0xee; 8]);
    initial.extend([9, 0, 0, 0, 0, 0, 0, 0, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee]);
    initial.extend([0; 8]);
    let by_bytes =
        (0..8).rev().flat_map(|index| relocation(32 + index, 0x54 + index as u32, 3, Some(1)));
    let sections = vec![
        section(".nv.global.init", PROGBITS, 0, initial),
        section(".nv.global", NOBITS, 0, Vec::new()),
        section(".nv.constant3", PROGBITS, 0, vec![0, 0, 0, 0, 5, 6, 0, 0]),
        section(
            ".rela.nv.global.init",
            RELA,
            4,
            [relocation(16, 4, 7, Some(24)), by_bytes.collect()].concat(),
        ),
        section(".rel.nv.global.init", REL, 4, relocation(8, 2, 3, None)),
        section(".text.k", PROGBITS, 0, vec![0; 128]),
        section(".nv.info.k", CUDA_INFO, 0, info_of_kernel()),
        section(
            ".nv.info",
            CUDA_INFO,
            0,
            words(&[0x0008_2f04, 1, 24, 0x0008_1104, 1, 8, 0x0008_1204, 1, 16, 0x0008_1104, 2, 32]),
        ),
        section(".nv.shared.k", PROGBITS, 0, vec![0; 1104]),
        section(".nv.compat", 0x7000_0086, 0, words(&[0x0001_0902])),
    ];
    elf(0x41, kind, 0x0600_5a04, &symbols, sections)
}

#[test]
fn the_architecture_is_in_the_flags_by_the_abi() {
    let arch = |abi, flags| {
        Contents::from_cubin(&elf(abi, 2, flags, &[], Vec::new()))
            .unwrap()
            .arch
            .unwrap()
            .to_string()
    };
    assert_eq!(arch(0x33, 0x0046_055a), "sm_90");
    assert_eq!(arch(0x33, 0x005a_0d5a), "sm_90a");
    assert_eq!(arch(0x41, 0x0600_5a04), "sm_90");
    assert_eq!(arch(0x41, 0x0600_7802), "sm_120");
    assert_eq!(arch(0x41, 0x0600_640a), "sm_100a");
    let contents = Contents::from_cubin(&cubin(2)).unwrap();
    assert_eq!(contents.arch, Arch::parse("sm_90a"), "by an attribute");
}

#[test]
fn kernels_have_their_arguments_limits_and_costs() {
    let mut kernel = Kernel {
        name: "k".into(),
        argument_sizes: vec![8, 4],
        required_group: Some([64, 2, 1]),
        max_group_items: Some(256),
        cluster: Some([2, 1, 1]),
        registers: Some(24),
        static_shared_bytes: Some(80),
        private_bytes: Some(16),
    };
    assert_eq!(Contents::from_cubin(&cubin(2)).unwrap().kernels, [kernel.clone()]);
    kernel.static_shared_bytes = Some(1104);
    assert_eq!(
        Contents::from_cubin(&cubin(1)).unwrap().kernels,
        [kernel],
        "nothing is reserved yet"
    );
}

#[test]
fn large_parameters_have_an_attribute_of_their_own() {
    let info = words(&[0x000c_4504, 0, 0x4e20_0001, 1, 0x000c_4504, 0, 0, 20000]);
    let symbols = [("k", STT_FUNC, GLOBAL, 0x10, 4, 0, 0)];
    let bytes = elf(0x41, 2, 0, &symbols, vec![section(".nv.info.k", CUDA_INFO, 0, info)]);
    assert_eq!(Contents::from_cubin(&bytes).unwrap().kernels[0].argument_sizes, [20000, 1]);
}

#[test]
fn variables_have_a_place_a_value_and_references() {
    let reference =
        |offset, symbol: &str, addend| Reference { offset, symbol: symbol.into(), addend };
    let variable = Variable {
        name: "counter".into(),
        bytes: 4,
        space: Space::Global,
        linkage: Linkage::Visible,
        alignment: 8,
        initial: vec![7],
        references: Vec::new(),
        place: Some(Place { section: 4, offset: 0 }),
    };
    let mut value = vec![0; 17];
    value[16] = 9;
    let expected = [
        variable.clone(),
        Variable {
            name: "pointers".into(),
            bytes: 40,
            linkage: Linkage::Internal,
            initial: value,
            references: vec![
                reference(0, "counter", 16),
                reference(8, "zeros", 8),
                reference(24, "counter", 1),
            ],
            place: Some(Place { section: 4, offset: 8 }),
            ..variable.clone()
        },
        Variable {
            name: "zeros".into(),
            bytes: 400,
            linkage: Linkage::Weak,
            initial: Vec::new(),
            place: Some(Place { section: 5, offset: 16 }),
            ..variable.clone()
        },
        Variable {
            name: "limits".into(),
            space: Space::Constant,
            alignment: 4,
            initial: vec![5, 6],
            place: Some(Place { section: 6, offset: 4 }),
            ..variable.clone()
        },
        Variable {
            name: "common".into(),
            bytes: 64,
            linkage: Linkage::Weak,
            alignment: 16,
            initial: Vec::new(),
            place: None,
            ..variable
        },
    ];
    assert_eq!(Contents::from_cubin(&cubin(2)).unwrap().variables, expected);
}

#[test]
fn a_symbol_unknown_to_linker_and_driver_is_undefined() {
    assert_eq!(Contents::from_cubin(&cubin(2)).unwrap().undefined, ["elsewhere", "other"]);
}

#[test]
fn other_files_are_malformed() {
    let mut other = cubin(2);
    other[18] = 62;
    for bytes in [&other[..], b"", b"\x7fELF", &cubin(2)[..100]] {
        assert!(Contents::from_cubin(bytes).is_err());
    }
}

#[test]
fn bytes_may_lie_anywhere() {
    let bytes = cubin(2);
    let expected = Contents::from_cubin(&bytes).unwrap();
    for before in 1..=8 {
        let moved = [&vec![0; before][..], &bytes].concat();
        assert_eq!(Contents::from_cubin(&moved[before..]).unwrap(), expected);
        assert_eq!(cubin_arch(&moved[before..]).unwrap(), expected.arch.unwrap());
    }
}

#[test]
fn headers_that_a_driver_would_read_beyond_the_end_are_malformed() {
    let changed = |at: usize, number: &[u8]| {
        let mut bytes = cubin(2);
        bytes[at..][..number.len()].copy_from_slice(number);
        cubin_arch(&bytes).map_err(|error| error.0)
    };
    let (segments_at, entry_and_count, sections_at, section_count) = (32, 54, 40, 60);
    assert!(changed(entry_and_count, &[56, 0, 0, 0]).is_ok());
    // Other readers find this number elsewhere, but the driver may not.
    assert!(changed(entry_and_count, &[56, 0, 0xff, 0xff]).unwrap_err().contains("beyond"));
    assert!(
        changed(entry_and_count, &[1, 0, 1, 0]).unwrap_err().contains("the size of ELF headers")
    );
    assert!(changed(segments_at, &[0xff; 8]).is_ok(), "there are none");
    assert!(changed(sections_at, &[0xff; 8]).unwrap_err().contains("beyond"));
    assert!(changed(section_count, &[0, 0]).unwrap_err().contains("more sections"));
    assert!(changed(section_count, &[0xff; 2]).unwrap_err().contains("beyond"));
}

#[test]
fn a_file_whose_names_lie_upon_each_other_is_malformed_before_it_costs_much() {
    let symbols = vec![("k", STT_OBJECT, GLOBAL, 0, 4, 0, 1 << 20); 1 << 12];
    let long = vec![b'x'; 1 << 20];
    let bytes = elf(0x41, 2, 0, &symbols, vec![section(".nv.global.init", PROGBITS, 0, long)]);
    let error = Contents::from_cubin(&bytes).unwrap_err();
    assert!(error.0.contains("overlap"), "{error}");
}

#[test]
fn every_truncation_and_every_flipped_bit_is_read_to_its_end() {
    let mut bytes = cubin(2);
    for end in 0..bytes.len() {
        let _ = Contents::from_cubin(&bytes[..end]);
    }
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let _ = Contents::from_cubin(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}
