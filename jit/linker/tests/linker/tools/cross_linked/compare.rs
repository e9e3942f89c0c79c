//! The comparison of two images of the same objects.

use std::collections::HashMap;

use longshore_jitlink::Architecture;
use object::elf;

use super::ours::{Field, Image, Section};
use super::theirs::Expected;

/// The amount of compared data.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) bytes: usize,
    pub(crate) fields: usize,
    /// Number of fields that were compared by their targets.
    pub(crate) through_slots: usize,
}

/// A section in one of the images, and the slots there.
struct Placed<'a> {
    architecture: Architecture,
    address: u64,
    content: &'a [u8],
    slots: &'a HashMap<u64, u64>,
}

/// Asserts that every section and symbol is at the same address and every byte is the same.
pub(crate) fn compare(image: &Image, expected: &Expected) -> Compared {
    for (name, address) in &image.exported {
        assert_eq!(expected.symbols.get(name), Some(address), "{name}");
    }
    let mut compared = Compared::default();
    for (index, ours) in image.sections.iter().enumerate() {
        let what = format!("{}({})", ours.object, ours.name);
        let (address, size, content) = expected.sections.get(&index).expect(&what);
        assert_eq!((ours.address, ours.size), (*address, *size), "{what}");
        assert_eq!(ours.content.len(), content.len(), "{what}");
        compare_content(image, expected, ours, content, &mut compared);
    }
    compared
}

fn compare_content(
    image: &Image,
    expected: &Expected,
    ours: &Section,
    content: &[u8],
    compared: &mut Compared,
) {
    let architecture = image.architecture.expect("it was linked");
    let placed = |content, slots| Placed { architecture, address: ours.address, content, slots };
    let (one, other) = (placed(&ours.content, &image.slots), placed(content, &expected.slots));
    let mut same: Vec<bool> =
        ours.content.iter().zip(content).map(|(one, other)| one == other).collect();
    for field in ours.fields.iter().filter(|field| uses_slot(architecture, field.kind)) {
        let what = format!("{}({}) {field:x?}", ours.object, ours.name);
        assert!(one.leads_to(field), "{what}: ours leads elsewhere");
        assert!(other.leads_to(field), "{what}: {:?}'s leads elsewhere", expected.linker);
        same[instruction(architecture, field)].fill(true);
        compared.through_slots += 1;
    }
    if let Some(at) = same.iter().position(|same| !same) {
        let near =
            ours.fields.iter().filter(|field| field.offset <= at as u64).max_by_key(|f| f.offset);
        let end = content.len().min(at + 8);
        panic!(
            "{}({}+{at:#x}): ours {:02x?}, {:?}'s {:02x?}, near {near:x?}",
            ours.object,
            ours.name,
            &ours.content[at..end],
            expected.linker,
            &content[at..end],
        );
    }
    compared.bytes += content.len();
    compared.fields += ours.fields.len();
}

/// Returns whether a field is a reference to a slot, which a linker may turn into one to the symbol
/// itself.
fn uses_slot(architecture: Architecture, kind: u32) -> bool {
    let kinds = match architecture {
        Architecture::X86_64 => {
            [elf::R_X86_64_GOTPCREL, elf::R_X86_64_GOTPCRELX, elf::R_X86_64_REX_GOTPCRELX]
        }
        Architecture::Aarch64 => [
            elf::R_AARCH64_ADR_GOT_PAGE,
            elf::R_AARCH64_LD64_GOT_LO12_NC,
            elf::R_AARCH64_LD64_GOTPAGE_LO15,
        ],
        other => panic!("no fields of {other:?} are compared"),
    };
    kinds.iter().any(|known| known.0 == kind)
}

/// Returns the range of the bytes that differ between the ways to refer to a symbol.
fn instruction(architecture: Architecture, field: &Field) -> std::ops::Range<usize> {
    let at = field.offset as usize;
    match architecture {
        Architecture::X86_64 => at - 2..at + 4,
        Architecture::Aarch64 => at..at + 4,
        other => panic!("no instructions of {other:?} are compared"),
    }
}

impl Placed<'_> {
    /// Returns whether the instruction loads the address of the field's symbol from a slot, or
    /// computes it, or jumps there.
    fn leads_to(&self, field: &Field) -> bool {
        match self.architecture {
            Architecture::X86_64 => self.x86_64_leads_to(field),
            Architecture::Aarch64 => self.aarch64_leads_to(field),
            other => panic!("no instructions of {other:?} are compared"),
        }
    }

    fn x86_64_leads_to(&self, field: &Field) -> bool {
        let at = field.offset as usize;
        let target = |at: usize| {
            let end = self.address + at as u64 + 4;
            end.wrapping_add_signed(i64::from(self.word(at) as i32))
        };
        match self.content[at - 2..at] {
            [0x8d, _] | [0x67, 0xe8] => target(at) == field.address,
            [0xe9, _] => target(at - 1) == field.address,
            _ => self.slots.get(&target(at)) == Some(&field.address),
        }
    }

    fn aarch64_leads_to(&self, field: &Field) -> bool {
        const LDR: u32 = 0xf940_0000;
        const ADD: u32 = 0x9100_0000;
        let found = self.word(field.offset as usize);
        let low = u64::from(found >> 10 & 0xfff);
        let page = |address: u64| address & !0xfff;
        let mut slots =
            self.slots.iter().filter(|slot| *slot.1 == field.address).map(|slot| *slot.0);
        let got = self.slots.keys().min().copied().unwrap_or(0);
        match elf::RelocationType(field.kind) {
            elf::R_AARCH64_ADR_GOT_PAGE => {
                let found = page(self.address + field.offset).wrapping_add_signed(pages(found));
                found == page(field.address) || slots.any(|slot| page(slot) == found)
            }
            elf::R_AARCH64_LD64_GOT_LO12_NC if found & 0xffc0_0000 == ADD => {
                low == field.address & 0xfff
            }
            elf::R_AARCH64_LD64_GOT_LO12_NC => {
                found & 0xffc0_0000 == LDR && slots.any(|slot| slot & 0xfff == low * 8)
            }
            _ => found & 0xffc0_0000 == LDR && slots.any(|slot| slot - page(got) == low * 8),
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.content[at..at + 4].try_into().unwrap())
    }
}

/// Returns the distance that ADRP adds, in bytes.
fn pages(instruction: u32) -> i64 {
    let pages = instruction >> 5 << 2 & 0x1f_fffc | instruction >> 29 & 3;
    (i64::from(pages) << 43 >> 43) << 12
}
