//! The code of entries for each architecture, by its bytes: linked, and not executed.

use std::sync::{Arc, Mutex};

use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::lazy::{
    LazyReexports, LinkedRedirectables, LinkedTrampolines, Reexport, ThisProcess,
};
use longshore_jitlink::memory::Protection;
use longshore_jitlink::session::{Passes, Stage};
use longshore_jitlink::{Architecture, Session};

const REENTER: u64 = 0x1111_2222_3333_4444;
const HOOK: u64 = 0x5555_6666_7777_8888;
const CONTEXT: u64 = 99;
const COUNT: u64 = 3;
/// Size in bytes of the code before the trampolines.
const HEAD_SIZE: u64 = 32;

/// A part of the linked code: its section's name and protection, its address and its bytes.
type Part = (String, Protection, u64, Vec<u8>);

fn linked(architecture: Architecture) -> (Vec<Part>, Vec<u64>) {
    let parts: Arc<Mutex<Vec<Part>>> = Arc::default();
    let seen = Arc::clone(&parts);
    let mut passes = Passes::default();
    passes.add(Stage::PostFixup, move |graph: &mut LinkGraph| {
        let blocks: Vec<_> = graph.blocks().collect();
        for block in blocks {
            let section = graph.section(block.section);
            let (name, protection) =
                (String::from_utf8_lossy(section.name).into_owned(), section.protection);
            let bytes = graph.content_mut(block.id).to_vec();
            seen.lock().unwrap().push((name, protection, block.address, bytes));
        }
        Ok(())
    });
    let session = Session::builder().with_architecture(architecture).with_passes(passes);
    let session = session.build_without_execution().unwrap();
    let library = session.create_library("program");
    let trampolines = LinkedTrampolines::with_hook(REENTER, HOOK, CONTEXT);
    let lazy =
        LazyReexports::new(trampolines, LinkedRedirectables::new(ThisProcess), None).unwrap();
    let names: Vec<String> = (0..COUNT).map(|index| format!("e{index}")).collect();
    let entries = names.iter().map(|name| Reexport::new(name, "implementation"));
    let _entries = lazy.add(&library, &library, entries).unwrap();
    let stubs = names.iter().map(|name| library.lookup(name).unwrap()).collect();
    let parts = std::mem::take(&mut *parts.lock().unwrap());
    (parts, stubs)
}

fn part<'a>(parts: &'a [Part], name: &str) -> &'a Part {
    parts.iter().find(|(known, ..)| known == name).unwrap()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn instruction(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Checks the parts common to all architectures. Returns the addresses of the trampolines' code,
/// the header and the slots.
fn check_data(parts: &[Part], stubs: &[u64]) -> (u64, u64, u64) {
    let (_, protection, code, _) = part(parts, ".text.trampolines");
    assert_eq!(*protection, Protection::ReadExecute);
    let (_, protection, slots, slot_bytes) = part(parts, ".data.stubs");
    assert_eq!(*protection, Protection::ReadWrite);
    let (_, protection, header, header_bytes) = part(parts, ".data.rel.ro.trampolines");
    assert_eq!(*protection, Protection::Read);
    let header_words: Vec<u64> = (0..6).map(|index| word(header_bytes, 8 * index)).collect();
    assert_eq!(header_words, [REENTER, HOOK, CONTEXT, 1, code + HEAD_SIZE, *slots]);
    // Each slot leads to its trampoline.
    let trampolines: Vec<u64> = (0..COUNT).map(|index| code + HEAD_SIZE + 16 * index).collect();
    let destinations: Vec<u64> =
        (0..COUNT as usize).map(|index| word(slot_bytes, 8 * index)).collect();
    assert_eq!(destinations, trampolines);
    let (_, protection, text, _) = part(parts, ".text.stubs");
    assert_eq!(*protection, Protection::ReadExecute);
    assert_eq!(stubs, (0..COUNT).map(|index| text + 16 * index).collect::<Vec<_>>());
    (*code, *header, *slots)
}

#[test]
fn on_x86_64_stubs_lead_to_slots_and_trampolines_to_the_header() {
    let (parts, stubs) = linked(Architecture::X86_64);
    let (code, header, slots) = check_data(&parts, &stubs);
    let relative = |bytes: &[u8], at: usize, start: u64| {
        let distance = instruction(bytes, at).cast_signed();
        (start + at as u64 + 4).wrapping_add_signed(distance.into())
    };
    let (.., bytes) = part(&parts, ".text.trampolines");
    assert_eq!((&bytes[..5], &bytes[9..12]), (&b"\x41\x53\x4c\x8d\x1d"[..], &b"\x41\xff\x23"[..]));
    assert_eq!(relative(bytes, 5, code), header);
    for (index, trampoline) in (0..COUNT).zip((HEAD_SIZE as usize..).step_by(16)) {
        assert_eq!(bytes[trampoline..trampoline + 5], *b"\xf3\x0f\x1e\xfa\x68");
        assert_eq!(u64::from(instruction(bytes, trampoline + 5)), index);
        assert_eq!((bytes[trampoline + 9], relative(bytes, trampoline + 10, code)), (0xe9, code));
    }
    let (_, _, text, bytes) = part(&parts, ".text.stubs");
    for (stub, slot) in (0..).step_by(16).zip(slots..).take(COUNT as usize) {
        assert_eq!(&bytes[stub..stub + 6], b"\xf3\x0f\x1e\xfa\xff\x25");
        assert_eq!(relative(bytes, stub + 6, *text), slots + (slot - slots) * 8);
    }
}

#[test]
fn on_aarch64_stubs_lead_to_slots_and_trampolines_to_the_header() {
    let (parts, stubs) = linked(Architecture::Aarch64);
    let (code, header, slots) = check_data(&parts, &stubs);
    /// Returns the page address that an `adrp` computes.
    fn page(instruction: u32, address: u64) -> u64 {
        let pages = (instruction >> 5 & 0x7_ffff) << 2 | instruction >> 29 & 3;
        let pages = i64::from((pages << 11).cast_signed() >> 11);
        (address & !0xfff).wrapping_add_signed(pages << 12)
    }
    let (.., bytes) = part(&parts, ".text.trampolines");
    let head: Vec<u32> = (0..5).map(|index| instruction(bytes, 4 * index)).collect();
    assert_eq!(head[0], 0xf81f_0fef);
    assert_eq!(head[1] & 0x9f00_001f, 0x9000_000f);
    assert_eq!(head[2] & 0xffc0_03ff, 0x9100_01ef);
    assert_eq!(page(head[1], code + 4) + u64::from(head[2] >> 10 & 0xfff), header);
    assert_eq!(head[3..], [0xf940_01f0, 0xd61f_0200]);
    for trampoline in (HEAD_SIZE as usize..).step_by(16).take(COUNT as usize) {
        let words: Vec<u32> =
            (0..3).map(|index| instruction(bytes, trampoline + 4 * index)).collect();
        assert_eq!(words[..2], [0xd503_245f, 0x10ff_fff1]);
        assert_eq!(words[2] >> 26, 0b000101);
        let distance = (words[2] << 6).cast_signed() >> 4;
        assert_eq!(trampoline as i64 + 8 + i64::from(distance), 0);
    }
    let (_, _, text, bytes) = part(&parts, ".text.stubs");
    for (index, stub) in (0..COUNT).zip((0..).step_by(16)) {
        let words: Vec<u32> = (0..4).map(|index| instruction(bytes, stub + 4 * index)).collect();
        assert_eq!((words[0], words[3]), (0xd503_245f, 0xd61f_0200));
        assert_eq!((words[1] & 0x9f00_001f, words[2] & 0xffc0_03ff), (0x9000_0010, 0xf940_0210));
        let slot = page(words[1], text + stub as u64 + 4) + u64::from(words[2] >> 10 & 0xfff) * 8;
        assert_eq!(slot, slots + 8 * index);
    }
}
