//! Tests of x86-64. Unless a comment says otherwise, the expected bytes are the output of GNU ld
//! 2.40 or LLD for the same addresses.

use object::elf::*;

use super::*;

/// Returns the bytes that `kind` writes into a field of `N` bytes, and checks that its neighbors
/// stay as they are.
fn applied<const N: usize>(
    kind: u32,
    place: u64,
    value: u64,
    addend: i64,
) -> Result<[u8; N], Fault> {
    let mut content = [0xaa; 16];
    let result = X86_64::apply(kind, &mut content, 4, place, value, addend);
    let (before, rest) = content.split_at(4);
    let (field, after) = rest.split_first_chunk().unwrap();
    assert!(before.iter().chain(after).all(|&byte| byte == 0xaa), "{kind} wrote beside its field");
    if result.is_err() {
        assert_eq!(*field, [0xaa; N], "{kind} failed and wrote");
    }
    result.map(|()| *field)
}

#[test]
fn a_64_bit_field_gets_the_value_that_a_linker_writes() {
    // `0x401078` is a function in .text, and `-0x1f90` its offset from the GOT at `0x403008`, whose
    // slot is at `0x403000`.
    let cases: [(RelocationType, Need, u64, u64, i64, u64); 11] = [
        (R_X86_64_64, Need::Symbol, 0x401000, 0x401078, 8, 0x401080),
        (R_X86_64_PC64, Need::Symbol, 0x401000, 0x401060, 8, 0x68),
        (R_X86_64_GOTPCREL64, Need::Slot, 0x401032, 0x403000, 2, 0x1fd0),
        (R_X86_64_GOTPC64, Need::Got, 0x40103a, 0x403008, 2, 0x1fd0),
        (R_X86_64_GOT64, Need::SlotFromGot, 0x401048, -8_i64 as u64, 0, 0xffff_ffff_ffff_fff8),
        (R_X86_64_GOTPLT64, Need::SlotFromGot, 0x40105a, -8_i64 as u64, 0, 0xffff_ffff_ffff_fff8),
        (
            R_X86_64_GOTOFF64,
            Need::SymbolFromGot,
            0x401052,
            -0x1f90_i64 as u64,
            0,
            0xffff_ffff_ffff_e070,
        ),
        (
            R_X86_64_PLTOFF64,
            Need::CallFromGot,
            0x401064,
            -0x1f90_i64 as u64,
            0,
            0xffff_ffff_ffff_e070,
        ),
        (R_X86_64_SIZE64, Need::Size, 0x401070, 0x1234, 0, 0x1234),
        (R_X86_64_DTPOFF64, Need::TlsModuleOffset, 0x401004, 0x10, 4, 0x14),
        (R_X86_64_TPOFF64, Need::TlsOffset, 0x401008, -0x30_i64 as u64, 4, 0xffff_ffff_ffff_ffd4),
    ];
    for (kind, need, place, value, addend, expected) in cases {
        assert_eq!(X86_64::need(kind.0), Some(need), "{kind:?}");
        assert_eq!(applied(kind.0, place, value, addend), Ok(expected.to_le_bytes()), "{kind:?}");
    }
}

#[test]
fn a_32_bit_field_gets_the_value_that_a_linker_writes() {
    let cases: [(RelocationType, Need, u64, u64, i64, u32); 28] = [
        (R_X86_64_32, Need::Symbol, 0x401008, 0x401078, 8, 0x401080),
        (R_X86_64_32S, Need::Symbol, 0x40100c, 0x401078, 8, 0x401080),
        (R_X86_64_PC32, Need::Symbol, 0x401008, 0x401060, -4, 0x54),
        (R_X86_64_PLT32, Need::Call, 0x40100c, 0x401060, -4, 0x50),
        (R_X86_64_SIZE32, Need::Size, 0x40106c, 0x1234, 0, 0x1234),
        (R_X86_64_GOT32, Need::SlotFromGot, 0x401027, -8_i64 as u64, 0, 0xffff_fff8),
        (R_X86_64_GOTPC32, Need::Got, 0x401042, 0x403008, -4, 0x1fc2),
        (R_X86_64_GOTPCREL, Need::Slot, 0x40102e, 0x403000, -4, 0x1fce),
        (R_X86_64_GOTPCREL, Need::Slot, 0x1067, 0x2fe0, -5, 0x1f74),
        (R_X86_64_GOTPCRELX, Need::Slot, 0x1059, 0x2fe0, -4, 0x1f83),
        (R_X86_64_REX_GOTPCRELX, Need::Slot, 0x1046, 0x2fe0, -4, 0x1f96),
        (R_X86_64_REX_GOTPCRELX, Need::Slot, 0x106f, 0x2fe0, 0, 0x1f71),
        (R_X86_64_CODE_4_GOTPCRELX, Need::Slot, 0x1359, 0x2480, -4, 0x1123),
        (R_X86_64_TLSGD, Need::TlsPair, 0x138c, 0x24e0, -4, 0x1150),
        (R_X86_64_TLSLD, Need::TlsModule, 0x139b, 0x24c0, -4, 0x1121),
        (R_X86_64_DTPOFF32, Need::TlsModuleOffset, 0x401000, 0x10, 4, 0x14),
        (R_X86_64_GOTTPOFF, Need::TlsOffsetSlot, 0x137b, 0x24f0, -4, 0x1171),
        (R_X86_64_CODE_4_GOTTPOFF, Need::TlsOffsetSlot, 0x136d, 0x2498, -4, 0x1127),
        (R_X86_64_CODE_6_GOTTPOFF, Need::TlsOffsetSlot, 0x137f, 0x2498, -4, 0x1115),
        (R_X86_64_TPOFF32, Need::TlsOffset, 0x401004, -0x30_i64 as u64, 0, 0xffff_ffd0),
        (R_X86_64_GOTPC32_TLSDESC, Need::TlsDescriptor, 0x1382, 0x24d0, -4, 0x114a),
        (R_X86_64_CODE_4_GOTPC32_TLSDESC, Need::TlsDescriptor, 0x1391, 0x2488, -4, 0x10f3),
        // No linker wrote these: the supplement gives the relocations the formulas of the ones
        // above.
        (R_X86_64_CODE_5_GOTPCRELX, Need::Slot, 0x1359, 0x2480, -4, 0x1123),
        (R_X86_64_CODE_6_GOTPCRELX, Need::Slot, 0x1359, 0x2480, -4, 0x1123),
        (R_X86_64_CODE_5_GOTTPOFF, Need::TlsOffsetSlot, 0x137f, 0x2498, -4, 0x1115),
        (R_X86_64_CODE_5_GOTPC32_TLSDESC, Need::TlsDescriptor, 0x1391, 0x2488, -4, 0x10f3),
        (R_X86_64_CODE_6_GOTPC32_TLSDESC, Need::TlsDescriptor, 0x1391, 0x2488, -4, 0x10f3),
        // A distance across the end of the address space, as the processor computes it.
        (R_X86_64_PC32, Need::Symbol, 0xffff_ffff_ffff_fff0, 0x10, -4, 0x1c),
    ];
    for (kind, need, place, value, addend, expected) in cases {
        assert_eq!(X86_64::need(kind.0), Some(need), "{kind:?}");
        assert_eq!(applied(kind.0, place, value, addend), Ok(expected.to_le_bytes()), "{kind:?}");
    }
}

#[test]
fn a_short_field_gets_the_value_that_a_linker_writes() {
    assert_eq!(applied(R_X86_64_16.0, 0x401010, 0x1234, 8), Ok([0x3c, 0x12]));
    assert_eq!(applied(R_X86_64_PC16.0, 0x401010, 0x401060, -2), Ok([0x4e, 0x00]));
    assert_eq!(applied(R_X86_64_8.0, 0x401012, 0x12, 8), Ok([0x1a]));
    assert_eq!(applied(R_X86_64_PC8.0, 0x401012, 0x401060, -1), Ok([0x4d]));
    for kind in [R_X86_64_8, R_X86_64_16, R_X86_64_PC8, R_X86_64_PC16] {
        assert_eq!(X86_64::need(kind.0), Some(Need::Symbol));
    }
}

#[test]
fn a_marker_writes_nothing() {
    for kind in [R_X86_64_NONE, R_X86_64_TLSDESC_CALL] {
        assert_eq!(X86_64::need(kind.0), Some(Need::Nothing));
        assert_eq!(applied(kind.0, 0x401000, 0x1234, 1), Ok([]));
    }
}

#[test]
fn a_field_accepts_its_smallest_and_largest_value_and_faults_one_beyond() {
    fn check<const N: usize>(kind: RelocationType, place: u64, min: i64, max: i64) {
        let apply = |value: i64| applied::<N>(kind.0, place, place.wrapping_add_signed(value), 0);
        for value in [min, -1, 0, 1, max].into_iter().filter(|value| (min..=max).contains(value)) {
            assert_eq!(&apply(value).unwrap()[..], &value.to_le_bytes()[..N], "{kind:?}: {value}");
        }
        let range = (min.into(), max.into());
        for value in [min - 1, max + 1, i64::MAX] {
            let Err(Fault::OutOfRange { value: found, min, max }) = apply(value) else {
                panic!("{kind:?} accepts {value}");
            };
            assert_eq!((min, max), range, "{kind:?}");
            let shown = if range.0 < 0 { value.into() } else { i128::from(value as u64) };
            assert_eq!(found, shown, "{kind:?}");
        }
    }
    check::<1>(R_X86_64_8, 0, -0x80, 0xff);
    check::<1>(R_X86_64_PC8, 0x400000, -0x80, 0x7f);
    check::<2>(R_X86_64_16, 0, -0x8000, 0xffff);
    check::<2>(R_X86_64_PC16, 0x400000, -0x8000, 0x7fff);
    for kind in [R_X86_64_32, R_X86_64_SIZE32] {
        check::<4>(kind, 0, 0, 0xffff_ffff);
    }
    for kind in [R_X86_64_32S, R_X86_64_GOT32, R_X86_64_DTPOFF32, R_X86_64_TPOFF32] {
        check::<4>(kind, 0, -0x8000_0000, 0x7fff_ffff);
    }
    let relative = [
        R_X86_64_PC32,
        R_X86_64_PLT32,
        R_X86_64_GOTPCREL,
        R_X86_64_GOTPCRELX,
        R_X86_64_REX_GOTPCRELX,
        R_X86_64_CODE_4_GOTPCRELX,
        R_X86_64_CODE_5_GOTPCRELX,
        R_X86_64_CODE_6_GOTPCRELX,
        R_X86_64_GOTPC32,
        R_X86_64_TLSGD,
        R_X86_64_TLSLD,
        R_X86_64_GOTTPOFF,
        R_X86_64_CODE_4_GOTTPOFF,
        R_X86_64_CODE_5_GOTTPOFF,
        R_X86_64_CODE_6_GOTTPOFF,
        R_X86_64_GOTPC32_TLSDESC,
        R_X86_64_CODE_4_GOTPC32_TLSDESC,
        R_X86_64_CODE_5_GOTPC32_TLSDESC,
        R_X86_64_CODE_6_GOTPC32_TLSDESC,
    ];
    for kind in relative {
        check::<4>(kind, 0x400000, -0x8000_0000, 0x7fff_ffff);
    }
}

#[test]
fn a_field_that_is_not_wholly_inside_the_content_is_truncated() {
    let kinds = [
        (R_X86_64_8, 1),
        (R_X86_64_16, 2),
        (R_X86_64_32, 4),
        (R_X86_64_PLT32, 4),
        (R_X86_64_64, 8),
    ];
    for (kind, size) in kinds {
        let mut content = [0; 12];
        let last = content.len() - size;
        assert_eq!(X86_64::apply(kind.0, &mut content, last, 0, 0, 0), Ok(()));
        for offset in [last + 1, content.len(), content.len() + 1, usize::MAX - 3, usize::MAX] {
            let result = X86_64::apply(kind.0, &mut content, offset, 0, 0, 0);
            assert_eq!(result, Err(Fault::Truncated), "{kind:?} at {offset:#x}");
        }
    }
}

#[test]
fn relocations_for_the_dynamic_loader_are_named_but_not_supported() {
    let dynamic = [
        (R_X86_64_COPY, "R_X86_64_COPY"),
        (R_X86_64_GLOB_DAT, "R_X86_64_GLOB_DAT"),
        (R_X86_64_JUMP_SLOT, "R_X86_64_JUMP_SLOT"),
        (R_X86_64_RELATIVE, "R_X86_64_RELATIVE"),
        (R_X86_64_DTPMOD64, "R_X86_64_DTPMOD64"),
        (R_X86_64_TLSDESC, "R_X86_64_TLSDESC"),
        (R_X86_64_IRELATIVE, "R_X86_64_IRELATIVE"),
        (R_X86_64_RELATIVE64, "R_X86_64_RELATIVE64"),
    ];
    for (kind, name) in dynamic {
        assert_eq!(X86_64::name(kind.0), Some(name));
        assert_eq!(X86_64::need(kind.0), None);
        assert!(X86_64::apply(kind.0, &mut [0; 8], 0, 0, 0, 0).is_err());
    }
}

#[test]
fn every_number_of_the_supplement_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> =
        (0..=51).map(|kind| X86_64::name(kind).unwrap()).collect();
    assert_eq!(names.len(), 52);
    assert_eq!(X86_64::name(2), Some("R_X86_64_PC32"));
    assert_eq!(X86_64::name(40), Some("R_X86_64_PLT32_BND"));
    assert_eq!(X86_64::name(51), Some("R_X86_64_CODE_6_GOTPC32_TLSDESC"));
    assert_eq!(X86_64::name(52), None);
    assert_eq!(X86_64::name(u32::MAX), None);
}

/// An instruction with four bytes of displacement at its end, its address, and the address that it
/// loads.
struct Instruction<'a> {
    kind: RelocationType,
    opcode: &'a [u8],
    address: u64,
    target: u64,
}

impl Instruction<'_> {
    fn can_relax(&self) -> bool {
        X86_64::can_relax(self.kind.0, &self.bytes(), self.opcode.len(), -4)
    }

    fn relax(&self) -> Result<Vec<u8>, Fault> {
        let (mut bytes, field) = (self.bytes(), self.opcode.len());
        let result = X86_64::relax(
            self.kind.0,
            &mut bytes,
            field,
            self.address + field as u64,
            self.target,
            -4,
        );
        if result.is_err() {
            assert_eq!(bytes, self.bytes(), "{:?} failed and wrote", self.kind);
        }
        result.map(|()| bytes)
    }

    fn bytes(&self) -> Vec<u8> {
        [self.opcode, &[0; 4]].concat()
    }
}

const RELAXABLE: [(RelocationType, &[u8]); 5] = [
    (R_X86_64_GOTPCRELX, &[0x8b, 0x05]),
    (R_X86_64_REX_GOTPCRELX, &[0x48, 0x8b, 0x05]),
    (R_X86_64_CODE_4_GOTPCRELX, &[0xd5, 0x48, 0x8b, 0x05]),
    (R_X86_64_GOTPCRELX, &[0xff, 0x15]),
    (R_X86_64_GOTPCRELX, &[0xff, 0x25]),
];

#[test]
fn a_load_from_a_slot_is_relaxed_as_by_a_linker() {
    const PLAIN: RelocationType = R_X86_64_GOTPCRELX;
    const REX: RelocationType = R_X86_64_REX_GOTPCRELX;
    const REX2: RelocationType = R_X86_64_CODE_4_GOTPCRELX;
    let near = |address, kind, opcode| Instruction { kind, opcode, address, target: 0x107a };
    let back = |address, kind, opcode| Instruction { kind, opcode, address, target: 0x1344 };
    let cases: [(&str, Instruction, &[u8]); 12] = [
        ("mov %eax", near(0x1000, PLAIN, &[0x8b, 0x05]), &[0x8d, 0x05, 0x74, 0, 0, 0]),
        ("mov %edi", near(0x101b, PLAIN, &[0x8b, 0x3d]), &[0x8d, 0x3d, 0x59, 0, 0, 0]),
        ("mov %rax", near(0x1006, REX, &[0x48, 0x8b, 0x05]), &[0x48, 0x8d, 0x05, 0x6d, 0, 0, 0]),
        ("mov %r15", near(0x100d, REX, &[0x4c, 0x8b, 0x3d]), &[0x4c, 0x8d, 0x3d, 0x66, 0, 0, 0]),
        ("mov %r9d", near(0x1014, REX, &[0x44, 0x8b, 0x0d]), &[0x44, 0x8d, 0x0d, 0x5f, 0, 0, 0]),
        (
            "mov %r16",
            back(0x1345, REX2, &[0xd5, 0x48, 0x8b, 0x05]),
            &[0xd5, 0x48, 0x8d, 0x05, 0xf7, 0xff, 0xff, 0xff],
        ),
        (
            "mov %r31d",
            back(0x134d, REX2, &[0xd5, 0x44, 0x8b, 0x3d]),
            &[0xd5, 0x44, 0x8d, 0x3d, 0xef, 0xff, 0xff, 0xff],
        ),
        ("call", near(0x1021, PLAIN, &[0xff, 0x15]), &[0x67, 0xe8, 0x53, 0, 0, 0]),
        (
            "notrack call",
            near(0x102d, PLAIN, &[0x3e, 0xff, 0x15]),
            &[0x3e, 0x67, 0xe8, 0x46, 0, 0, 0],
        ),
        (
            "call backwards",
            back(0x135d, PLAIN, &[0xff, 0x15]),
            &[0x67, 0xe8, 0xe1, 0xff, 0xff, 0xff],
        ),
        ("jmp", near(0x1027, PLAIN, &[0xff, 0x25]), &[0xe9, 0x4e, 0, 0, 0, 0x90]),
        ("rex.W jmp", near(0x103c, PLAIN, &[0x48, 0xff, 0x25]), &[0x48, 0xe9, 0x38, 0, 0, 0, 0x90]),
    ];
    for (assembly, load, expected) in cases {
        assert!(load.can_relax(), "{assembly}");
        assert_eq!(load.relax().as_deref(), Ok(expected), "{assembly}");
    }
}

#[test]
fn other_instructions_keep_their_slot() {
    let cases: [(&str, RelocationType, &[u8]); 19] = [
        ("test %rax", R_X86_64_REX_GOTPCRELX, &[0x48, 0x85, 0x05]),
        ("cmp %rax", R_X86_64_REX_GOTPCRELX, &[0x48, 0x3b, 0x05]),
        ("add %eax", R_X86_64_GOTPCRELX, &[0x03, 0x05]),
        ("add %r16", R_X86_64_CODE_4_GOTPCRELX, &[0xd5, 0x48, 0x03, 0x05]),
        ("push", R_X86_64_GOTPCRELX, &[0xff, 0x35]),
        ("inc", R_X86_64_GOTPCRELX, &[0xff, 0x05]),
        ("lcall", R_X86_64_GOTPCRELX, &[0xff, 0x1d]),
        ("store", R_X86_64_REX_GOTPCRELX, &[0x48, 0x89, 0x05]),
        ("mov from disp32(%rbp)", R_X86_64_REX_GOTPCRELX, &[0x48, 0x8b, 0x85]),
        ("mov from disp32", R_X86_64_GOTPCRELX, &[0x8b, 0x04]),
        ("mov without REX", R_X86_64_REX_GOTPCRELX, &[0x90, 0x8b, 0x05]),
        ("mov without REX2", R_X86_64_CODE_4_GOTPCRELX, &[0x90, 0x48, 0x8b, 0x05]),
        ("REX2 with an opcode behind 0F", R_X86_64_CODE_4_GOTPCRELX, &[0xd5, 0xc8, 0x8b, 0x05]),
        ("call at the end of a TLS sequence", R_X86_64_GOTPCRELX, &[0x66, 0x48, 0xff, 0x15]),
        ("unknown instruction", R_X86_64_GOTPCREL, &[0x48, 0x8b, 0x05]),
        ("five bytes of opcode", R_X86_64_CODE_5_GOTPCRELX, &[0x62, 0xf4, 0x48, 0x8b, 0x05]),
        ("six bytes of opcode", R_X86_64_CODE_6_GOTPCRELX, &[0x62, 0xf4, 0xfc, 0x48, 0x8b, 0x05]),
        ("initial exec", R_X86_64_GOTTPOFF, &[0x48, 0x8b, 0x05]),
        ("no slot", R_X86_64_PC32, &[0x48, 0x8b, 0x05]),
    ];
    for (assembly, kind, opcode) in cases {
        let load = Instruction { kind, opcode, address: 0x1000, target: 0x2000 };
        assert!(!load.can_relax(), "{assembly}");
        assert!(matches!(load.relax(), Err(Fault::UnexpectedInstruction { .. })), "{assembly}");
    }
}

#[test]
fn a_load_from_beside_a_slot_keeps_it() {
    for (kind, opcode) in RELAXABLE {
        let mut content = [opcode, &[0; 4]].concat();
        for addend in [0, -5, 4, -8, i64::MIN, i64::MAX] {
            assert!(!X86_64::can_relax(kind.0, &content, opcode.len(), addend));
            assert!(X86_64::relax(kind.0, &mut content, opcode.len(), 0, 0, addend).is_err());
        }
    }
}

#[test]
fn a_load_that_is_not_wholly_inside_the_content_keeps_its_slot() {
    for (kind, opcode) in RELAXABLE {
        let content = [opcode, &[0; 4]].concat();
        let field = opcode.len();
        assert!(X86_64::can_relax(kind.0, &content, field, -4));
        assert!(!X86_64::can_relax(kind.0, &content[..field + 3], field, -4));
        for start in 1..=field {
            assert!(!X86_64::can_relax(kind.0, &content[start..], field - start, -4));
        }
        for offset in [content.len(), usize::MAX - 4, usize::MAX] {
            assert!(!X86_64::can_relax(kind.0, &content, offset, -4));
            assert!(X86_64::relax(kind.0, &mut content.clone(), offset, 0, 0, -4).is_err());
        }
    }
}

#[test]
fn a_relaxed_load_reaches_two_gib_from_its_end_and_faults_one_beyond() {
    for (kind, opcode) in RELAXABLE {
        let address = 0x7000_0000_0000;
        let relaxed = |end: u64, distance: i64| {
            Instruction { kind, opcode, address, target: end.wrapping_add_signed(distance) }.relax()
        };
        // The jump is one byte shorter than the instruction that it replaces.
        let end = address + opcode.len() as u64 + if opcode == [0xff, 0x25] { 3 } else { 4 };
        assert!(relaxed(end, i32::MAX.into()).is_ok());
        assert!(relaxed(end, i32::MIN.into()).is_ok());
        assert!(matches!(relaxed(end, i64::from(i32::MAX) + 1), Err(Fault::OutOfRange { .. })));
        assert!(matches!(relaxed(end, i64::from(i32::MIN) - 1), Err(Fault::OutOfRange { .. })));
    }
}

#[test]
fn targets_within_reach_fit() {
    let place = 0x7000_0000_0000_u64;
    let both = |reach: u64| [place - reach, place + reach];
    for target in both(X86_64::CALL_REACH) {
        assert!(applied::<4>(R_X86_64_PLT32.0, place, target, -4).is_ok());
        assert!(X86_64::write_stub(&mut [0; 8], place, target).is_ok());
    }
    for (kind, opcode) in RELAXABLE {
        for target in both(X86_64::RELAXED_REACH) {
            assert!(
                Instruction { kind, opcode, address: place - opcode.len() as u64, target }
                    .relax()
                    .is_ok()
            );
        }
    }
}

#[test]
fn a_stub_jumps_through_its_slot_and_traps_behind() {
    let mut stub = [0; X86_64::STUB_SIZE];
    X86_64::write_stub(&mut stub, 0x1010, 0x3000).unwrap();
    assert_eq!(stub, [0xff, 0x25, 0xea, 0x1f, 0, 0, 0xcc, 0xcc]);

    let before = stub;
    let too_far = X86_64::write_stub(&mut stub, 0x1010, 0x1010 + 6 + 0x8000_0000);
    assert!(matches!(too_far, Err(Fault::OutOfRange { .. })));
    assert_eq!(stub, before);
    assert_eq!(X86_64::write_stub(&mut stub[..7], 0x1010, 0x3000), Err(Fault::Truncated));
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.next().is_multiple_of(odds)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }

    /// Returns a number of any magnitude.
    fn number(&mut self) -> u64 {
        let shift = self.next() % 64;
        let magnitude = self.next() >> shift;
        if self.one_in(2) { magnitude } else { magnitude.wrapping_neg() }
    }
}

#[test]
fn any_input_gives_a_result_or_a_fault_and_a_fault_writes_nothing() {
    const BYTES: [u8; 10] = [0xff, 0x15, 0x25, 0x8b, 0x05, 0x3d, 0x48, 0x66, 0xd5, 0x00];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut relaxed = 0;
    for _ in 0..200_000 {
        let kind = if random.one_in(16) { random.next() as u32 } else { random.next() as u32 % 56 };
        let length = random.next() as usize % 16;
        let content: Vec<u8> = (0..length).map(|_| random.pick(&BYTES)).collect();
        let offset =
            if random.one_in(16) { random.number() as usize } else { random.next() as usize % 16 };
        let (place, value) = (random.number(), random.number());
        let any = random.number() as i64;
        let addend = random.pick(&[-4, 0, -5, any]);

        let mut written = content.clone();
        let result = X86_64::apply(kind, &mut written, offset, place, value, addend);
        if result.is_ok() {
            assert!(X86_64::need(kind).is_some() && X86_64::name(kind).is_some());
        } else {
            assert_eq!(written, content);
        }

        let mut written = content.clone();
        let result = X86_64::relax(kind, &mut written, offset, place, value, addend);
        if X86_64::can_relax(kind, &content, offset, addend) {
            relaxed += 1;
            assert_eq!(X86_64::need(kind), Some(Need::Slot));
            assert!(matches!(result, Ok(()) | Err(Fault::OutOfRange { .. })));
        } else {
            assert!(result.is_err());
        }
        if result.is_err() {
            assert_eq!(written, content);
        }
        let _ = X86_64::write_stub(&mut written, place, value);
    }
    assert!(relaxed > 10, "{relaxed} of the inputs could be relaxed: too few to mean something");
}
