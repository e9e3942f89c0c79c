use super::*;

/// A line of `vectors.txt`.
struct Vector {
    kind: u32,
    before: Vec<u8>,
    place: u64,
    value: u64,
    addend: i64,
    /// `None` if the result is out of range.
    after: Option<Vec<u8>>,
}

impl Vector {
    fn all() -> Vec<Self> {
        let lines = include_str!("vectors.txt").lines();
        lines.filter(|line| !line.starts_with('#')).map(Self::parse).collect()
    }

    fn parse(line: &str) -> Self {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [name, bits, before, place, value, addend, after @ ..] = &fields[..] else {
            panic!("{line}")
        };
        let bytes =
            |text: &str| number(text).to_le_bytes()[..bits.parse::<usize>().unwrap() / 8].to_vec();
        Self {
            kind: kind(name),
            before: bytes(before),
            place: number(place) as u64,
            value: number(value) as u64,
            addend: number(addend) as i64,
            after: (after != ["out", "of", "range"]).then(|| bytes(after[0])),
        }
    }
}

fn number(text: &str) -> i128 {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    sign * i128::from_str_radix(digits.strip_prefix("0x").unwrap(), 16).unwrap()
}

/// Returns the number of `R_AARCH64_{name}`.
fn kind(name: &str) -> u32 {
    (0..2048).find(|&kind| Aarch64::name(kind).is_some_and(|full| &full[10..] == name)).expect(name)
}

fn word(instruction: u32) -> [u8; 4] {
    instruction.to_le_bytes()
}

/// Applies a relocation to an instruction at address 0x40012344.
fn applied(name: &str, instruction: u32, value: u64) -> Result<u32, Fault> {
    let mut content = word(instruction);
    Aarch64::apply(kind(name), &mut content, 0, 0x4001_2344, value, 0)?;
    Ok(u32::from_le_bytes(content))
}

#[test]
fn fields_get_what_linkers_write_or_overflow_where_the_abi_says() {
    for Vector { kind, before, place, value, addend, after } in Vector::all() {
        let case = format!("{} {place:#x} {value:#x} {addend:#x}", Aarch64::name(kind).unwrap());
        let mut content = [vec![0xa5; 3], before.clone(), vec![0xa5; 3]].concat();
        let result = Aarch64::apply(kind, &mut content, 3, place, value, addend);
        match &after {
            Some(_) => assert_eq!(result, Ok(()), "{case}"),
            None => assert!(matches!(result, Err(Fault::OutOfRange { .. })), "{case}: {result:?}"),
        }
        let expected = [vec![0xa5; 3], after.unwrap_or(before), vec![0xa5; 3]].concat();
        assert_eq!(content, expected, "{case}");
    }
}

#[test]
fn every_supported_relocation_has_a_vector_and_a_name() {
    let vectors = Vector::all();
    for kind in 0..2048 {
        match Aarch64::need(kind) {
            None | Some(Need::Nothing) => {}
            Some(_) => {
                let name = Aarch64::name(kind).unwrap();
                assert!(
                    vectors.iter().any(|vector| vector.kind == kind && vector.after.is_some()),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn out_of_range_says_what_would_have_fitted() {
    let fault = applied("CALL26", 0x9400_0000, 0x4001_2344 + (1 << 27));
    assert_eq!(
        fault,
        Err(Fault::OutOfRange { value: 1 << 27, min: -(1 << 27), max: (1 << 27) - 1 })
    );
}

#[test]
fn fields_of_scaled_offsets_take_only_multiples() {
    let misaligned = |name, instruction, value, alignment| {
        let result = applied(name, instruction, value);
        assert!(
            matches!(result, Err(Fault::Misaligned { alignment: found, .. }) if found == alignment),
            "{name}"
        );
    };
    for name in ["CALL26", "JUMP26"] {
        misaligned(name, 0x1400_0000, 0x4001_2346, 4);
    }
    misaligned("CONDBR19", 0x5400_0000, 0x4001_2345, 4);
    misaligned("TSTBR14", 0x3600_0000, 0x4001_2347, 4);
    misaligned("LD_PREL_LO19", 0x5800_0000, 0x4001_2346, 4);
    misaligned("LDST16_ABS_LO12_NC", 0x7940_0000, 0x1001, 2);
    misaligned("LDST32_ABS_LO12_NC", 0xb940_0000, 0x1002, 4);
    misaligned("LDST64_ABS_LO12_NC", 0xf940_0000, 0x1004, 8);
    misaligned("LDST128_ABS_LO12_NC", 0x3dc0_0000, 0x1008, 16);
    misaligned("LD64_GOT_LO12_NC", 0xf940_0000, 0x1004, 8);
    misaligned("LD64_GOTPAGE_LO15", 0xf940_0000, 0x14, 8);
    misaligned("TLSDESC_LD64_LO12", 0xf940_0000, 0x14, 8);
    misaligned("TLSLE_LDST32_TPREL_LO12", 0xb940_0000, 0x12, 4);
}

#[test]
fn only_instructions_with_the_field_are_changed() {
    const NOP: u32 = 0xd503_201f;
    for vector in Vector::all() {
        let Ok(before) = vector.before.try_into().map(u32::from_le_bytes) else { continue };
        let Vector { kind, place, value, addend, after: Some(_), .. } = vector else { continue };
        if before == 0 {
            continue;
        }
        let mut content = word(NOP);
        let result = Aarch64::apply(kind, &mut content, 0, place, value, addend);
        let found = u64::from(NOP);
        assert!(
            matches!(result, Err(Fault::UnexpectedInstruction { found: f, .. }) if f == found),
            "{kind}"
        );
        assert_eq!(content, word(NOP));
    }
}

#[test]
fn similar_instructions_are_distinguished() {
    let unexpected = |name, instruction| {
        let result = applied(name, instruction, 0x4001_2340);
        assert!(
            matches!(result, Err(Fault::UnexpectedInstruction { .. })),
            "{name} {instruction:#x}"
        );
    };
    unexpected("ADR_PREL_LO21", 0x9000_0000); // adrp x0
    unexpected("ADR_PREL_PG_HI21", 0x1000_0000); // adr x0
    unexpected("CONDBR19", 0x3600_0000); // tbz w0, #0
    unexpected("TSTBR14", 0x3400_0000); // cbz w0
    unexpected("CALL26", 0xd63f_0000); // blr x0
    unexpected("ADD_ABS_LO12_NC", 0xd100_0000); // sub x0, x0, #0
    unexpected("ADD_ABS_LO12_NC", 0x8b00_0000); // add x0, x0, x0
    unexpected("LDST64_ABS_LO12_NC", 0xb940_0000); // ldr w0, [x0]
    unexpected("LDST8_ABS_LO12_NC", 0x3dc0_0000); // ldr q0, [x0]
    unexpected("LDST128_ABS_LO12_NC", 0x3d40_0000); // ldr b0, [x0]
    unexpected("LDST64_ABS_LO12_NC", 0xf840_0000); // ldur x0, [x0]
    unexpected("LD64_GOT_LO12_NC", 0x9100_0000); // add x0, x0, #0
    unexpected("MOVW_UABS_G1_NC", 0x92a0_0000); // movn x0, #0, lsl #16
    unexpected("MOVW_SABS_G1", 0x32a0_0000); // unallocated
}

#[test]
fn vector_and_prefetch_accesses_count_as_their_size() {
    assert_eq!(applied("LDST64_ABS_LO12_NC", 0xfd40_0000, 0x1238), Ok(0xfd41_1c00)); // ldr d0, [x0, #0x238]
    assert_eq!(applied("LDST64_ABS_LO12_NC", 0xf980_0000, 0x1238), Ok(0xf981_1c00)); // prfm pldl1keep, [x0, #0x238]
    assert_eq!(applied("LDST32_ABS_LO12_NC", 0xb980_0000, 0x1004), Ok(0xb980_0400)); // ldrsw x0, [x0, #4]
    assert_eq!(applied("LDST128_ABS_LO12_NC", 0x3d80_0000, 0x1010), Ok(0x3d80_0400)); // str q0, [x0, #16]
}

#[test]
fn a_slot_used_by_an_instruction_has_no_addend() {
    for vector in Vector::all().into_iter().filter(|vector| vector.after.is_some()) {
        let Vector { kind, before, place, value, .. } = vector;
        use Need::*;
        if let Some(
            Slot | SlotFromGot | SlotFromGotPage | TlsPair | TlsModule | TlsOffsetSlot
            | TlsDescriptor,
        ) = Aarch64::need(kind)
            && Aarch64::name(kind) != Some("R_AARCH64_GOTPCREL32")
        {
            let mut content = before.clone();
            let result = Aarch64::apply(kind, &mut content, 0, place, value, 8);
            assert_eq!(result, Err(Fault::OutOfRange { value: 8, min: 0, max: 0 }), "{kind}");
            assert_eq!(content, before);
        }
    }
}

#[test]
fn fields_outside_of_the_content_are_truncated() {
    for vector in Vector::all().into_iter().filter(|vector| vector.after.is_some()) {
        let Vector { kind, before, place, value, addend, .. } = vector;
        let mut content = before.clone();
        for offset in [1, before.len(), before.len() + 1, usize::MAX - 1, usize::MAX] {
            let result = Aarch64::apply(kind, &mut content, offset, place, value, addend);
            assert_eq!(result, Err(Fault::Truncated), "{kind} at {offset}");
        }
    }
}

#[test]
fn nothing_outside_of_the_content_is_relaxed() {
    let mut content = word(0xf940_0064);
    for offset in [1, 4, 5, usize::MAX] {
        assert!(!Aarch64::can_relax(LDR_GOT, &content, offset, 0));
        assert_eq!(Aarch64::relax(LDR_GOT, &mut content, offset, 0, 0, 0), Err(Fault::Truncated));
    }
}

#[test]
fn markers_change_nothing() {
    for kind in [
        0,
        256,
        elf::R_AARCH64_TLSDESC_CALL.0,
        elf::R_AARCH64_TLSDESC_LDR.0,
        elf::R_AARCH64_TLSDESC_ADD.0,
    ] {
        let mut content = word(0xd63f_0020);
        assert_eq!(Aarch64::need(kind), Some(Need::Nothing));
        assert_eq!(Aarch64::apply(kind, &mut content, 0, 1, 2, 3), Ok(()));
        assert_eq!(content, word(0xd63f_0020));
    }
}

#[test]
fn numbers_of_the_abi_have_names() {
    assert_eq!(Aarch64::name(256), Some("R_AARCH64_NONE"));
    assert_eq!(Aarch64::name(283), Some("R_AARCH64_CALL26"));
    assert_eq!(Aarch64::name(315), Some("R_AARCH64_GOTPCREL32"));
    assert_eq!(Aarch64::name(573), Some("R_AARCH64_TLSLD_LDST128_DTPREL_LO12_NC"));
    assert_eq!(Aarch64::name(1032), Some("R_AARCH64_IRELATIVE"));
    assert_eq!(Aarch64::name(281), None);
    let tables = [257..=280, 282..=293, 299..=317, 512..=573];
    assert!(tables.into_iter().flatten().all(|kind| Aarch64::name(kind).is_some()));
}

#[test]
fn an_unsupported_relocation_is_a_fault() {
    let mut content = [0; 8];
    for kind in [1, 281, elf::R_AARCH64_TLSGD_MOVW_G1.0, elf::R_AARCH64_COPY.0, u32::MAX] {
        assert_eq!(Aarch64::need(kind), None);
        assert!(Aarch64::apply(kind, &mut content, 0, 0, 0, 0).is_err());
    }
    assert_eq!(content, [0; 8]);
}

const ADRP_GOT: u32 = elf::R_AARCH64_ADR_GOT_PAGE.0;
const LDR_GOT: u32 = elf::R_AARCH64_LD64_GOT_LO12_NC.0;

/// Relaxes `adrp x3, slot; ldr x4, [x3, slot]` at `place`.
fn relaxed_pair(place: u64, target: u64) -> Result<[u32; 2], Fault> {
    let mut content = [word(0x9000_0003), word(0xf940_0064)].concat();
    for (kind, offset) in [(ADRP_GOT, 0), (LDR_GOT, 4)] {
        assert!(Aarch64::can_relax(kind, &content, offset, 0));
        Aarch64::relax(kind, &mut content, offset, place + offset as u64, target, 0)?;
    }
    let (pair, _) = content.as_chunks();
    Ok([pair[0], pair[1]].map(u32::from_le_bytes))
}

#[test]
fn a_load_from_the_got_becomes_the_address() {
    // adrp x3, 0x54321000; add x4, x3, #0x678
    assert_eq!(relaxed_pair(0x4001_2344, 0x5432_1678), Ok([0xf00a_1863, 0x9119_e064]));
}

#[test]
fn relaxed_loads_reach_every_target_within_their_reach() {
    let reach = Aarch64::RELAXED_REACH;
    for low in [0, 4, 0x7fc, 0xff8, 0xffc] {
        let place = 0x12_3456_7000 + low;
        for distance in (0..=4096).chain(reach - 4096..=reach) {
            for target in [place + distance, place - distance] {
                let [adrp, add] = relaxed_pair(place, target).unwrap();
                assert_eq!(adrp_target(adrp, place) + u64::from(add >> 10 & 0xfff), target);
            }
        }
    }
}

fn adrp_target(instruction: u32, place: u64) -> u64 {
    let pages = (instruction >> 5 & 0x7_ffff) << 2 | instruction >> 29 & 3;
    (place & !0xfff).wrapping_add_signed(i64::from((pages << 11).cast_signed() >> 11) << 12)
}

#[test]
fn only_the_usual_load_from_the_got_is_relaxed() {
    let relaxes =
        |kind, instruction, addend| Aarch64::can_relax(kind, &word(instruction), 0, addend);
    assert!(relaxes(ADRP_GOT, 0x9000_0003, 0));
    assert!(relaxes(LDR_GOT, 0xf940_0064, 0));
    assert!(!relaxes(ADRP_GOT, 0x9000_0003, 8));
    assert!(!relaxes(LDR_GOT, 0xf940_0064, 8));
    assert!(!relaxes(ADRP_GOT, 0x1000_0003, 0)); // adr x3
    assert!(!relaxes(LDR_GOT, 0xb940_0064, 0)); // ldr w4, [x3]
    assert!(!relaxes(LDR_GOT, 0xf900_0064, 0)); // str x4, [x3]
    assert!(!relaxes(LDR_GOT, 0xfd40_0064, 0)); // ldr d4, [x3]
    assert!(!relaxes(LDR_GOT, 0xf940_007f, 0)); // ldr xzr, [x3]
    assert!(!relaxes(elf::R_AARCH64_LD64_GOTPAGE_LO15.0, 0xf940_0064, 0));
    assert!(!relaxes(elf::R_AARCH64_GOT_LD_PREL19.0, 0x5800_0003, 0));
}

#[test]
fn a_load_that_cannot_be_relaxed_stays() {
    for (kind, instruction, target) in [
        (LDR_GOT, 0xf940_007f, 0),
        (ADRP_GOT, 0x9000_0003, 1 << 40),
        (elf::R_AARCH64_CALL26.0, 0x9400_0000, 0),
    ] {
        let mut content = word(instruction);
        assert!(Aarch64::relax(kind, &mut content, 0, 0x4000, target, 0).is_err());
        assert_eq!(content, word(instruction));
    }
}

#[test]
fn a_stub_jumps_through_its_slot() {
    let mut stub = [0xa5; 16];
    Aarch64::write_stub(&mut stub, 0x4001_2ffc, 0x4003_2ff8).unwrap();
    // adrp x16, 0x40032000; ldr x16, [x16, #0xff8]; br x16
    let expected = [word(0x9000_0110), word(0xf947_fe10), word(0xd61f_0200), [0xa5; 4]].concat();
    assert_eq!(stub[..], expected);
}

#[test]
fn a_stub_needs_room_and_a_slot_within_4_gib() {
    let mut stub = [0; 12];
    assert_eq!(Aarch64::write_stub(&mut stub[..11], 0, 0), Err(Fault::Truncated));
    assert_eq!(Aarch64::write_stub(&mut stub, 1 << 33, (1 << 33) + (1 << 32) - 8), Ok(()));
    assert_eq!(Aarch64::write_stub(&mut stub, 1 << 33, 1 << 32), Ok(()));
    for slot in [(1 << 33) + (1 << 32), (1 << 32) - 8] {
        assert!(matches!(
            Aarch64::write_stub(&mut stub, 1 << 33, slot),
            Err(Fault::OutOfRange { .. })
        ));
    }
    assert!(matches!(
        Aarch64::write_stub(&mut stub, 0, 12),
        Err(Fault::Misaligned { alignment: 8, .. })
    ));
}

/// Marsaglia's xorshift, which gives the same numbers in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number of up to 64 bits, or its negative. All lengths in bits are
    /// about equally likely.
    fn number(&mut self) -> u64 {
        let bits = self.next() % 64;
        let number = self.next() >> bits;
        if self.next() & 1 == 0 { number } else { number.wrapping_neg() }
    }
}

#[test]
fn anything_is_applied_or_a_fault_and_a_fault_changes_nothing() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let instructions: Vec<_> =
        Vector::all().into_iter().map(|vector| (vector.kind, vector.before)).collect();
    let mut applied = 0;
    for _ in 0..200_000 {
        let (mut kind, mut content) =
            instructions[random.next() as usize % instructions.len()].clone();
        match random.next() % 4 {
            0 => kind = random.next() as u32 % 1100,
            1 => content = random.next().to_le_bytes()[..random.next() as usize % 9].to_vec(),
            _ => {}
        }
        let offset = if random.next() & 1 == 0 { 0 } else { random.number() as usize };
        let (place, value, addend) = (random.number(), random.number(), random.number() as i64);
        let before = content.clone();
        match Aarch64::apply(kind, &mut content, offset, place, value, addend) {
            Ok(()) => applied += 1,
            Err(_) => assert_eq!(content, before),
        }
        let before = content.clone();
        let can = Aarch64::can_relax(kind, &content, offset, addend);
        match Aarch64::relax(kind, &mut content, offset, place, value, addend) {
            Ok(()) => assert!(can || addend != 0),
            Err(_) => assert_eq!(content, before),
        }
        let mut stub = [0; Aarch64::STUB_SIZE];
        let _ = Aarch64::write_stub(&mut stub, place, value);
    }
    assert!(applied > 1000, "{applied}");
}
