//! NVIDIA's machine code: the architecture in the header's flags, kernels by a mark on their symbols,
//! and facts about them in sections `.nv.info`.

use super::elf::{self, File};
use super::kernels::Kernels;
use super::report::{ImageReport, MetadataReport, STEPS};
use object::{Object, ObjectSection, ObjectSymbol, SymbolFlags, SymbolKind};
use std::collections::{BTreeMap, HashMap};

/// Of a symbol's `st_other`: it is a kernel.
const ENTRY_MARK: u8 = 0x10;
/// Since this OS/ABI the architecture is in the second byte of the flags.
const LATER_ABI: u8 = 0x41;

const PARAMETER: u8 = 0x17;
const REGISTERS: u8 = 0x2f;
const REQUIRED_GROUP: u8 = 0x10;
const MAX_GROUP: u8 = 0x05;

/// The kernels' arguments, registers, group sizes and shared memory.
pub(super) fn read(file: &File<'_>, kernels: &mut Kernels, report: &mut ImageReport) {
    if let object::FileFlags::Elf { os_abi, e_flags, .. } = file.flags() {
        report.architecture = Some(architecture(os_abi.0, e_flags.0));
    }
    let named = file.sections().filter_map(|section| Some((section.name().ok()?, section)));
    let sections: HashMap<_, _> = named.map(|(name, section)| (name.to_owned(), section)).collect();
    let section = |name: &str| sections.get(name);
    let data =
        |name: &str| section(name).and_then(|section| section.data().ok()).unwrap_or_default();
    let registers: BTreeMap<u32, u32> = Attributes(data(".nv.info"))
        .filter(|(attribute, _)| *attribute == REGISTERS)
        .filter_map(|(_, value)| Some((word(value, 0)?, word(value, 1)?)))
        .collect();
    for symbol in elf::symbols(file) {
        let (Ok(name), SymbolFlags::Elf { st_other, .. }) = (symbol.name(), symbol.flags()) else {
            continue;
        };
        let is_kernel = symbol.kind() == SymbolKind::Text && st_other.0 & ENTRY_MARK != 0;
        if !is_kernel || STEPS.contains(&name) {
            continue;
        }
        let mut metadata = of_attributes(data(&format!(".nv.info.{name}")));
        let index = u32::try_from(symbol.index().0).ok();
        metadata.registers =
            index.and_then(|index| registers.get(&index)).map(|count| u64::from(*count));
        let shared = section(&format!(".nv.shared.{name}"));
        metadata.static_shared_bytes = Some(shared.map_or(0, |section| section.size()));
        kernels.add(name, metadata);
    }
}

fn architecture(os_abi: u8, flags: u32) -> String {
    let number = if os_abi >= LATER_ABI { flags >> 8 & 0xff } else { flags & 0xff };
    format!("sm_{number}")
}

fn of_attributes(info: &[u8]) -> MetadataReport {
    let mut metadata = MetadataReport::default();
    let mut arguments = BTreeMap::new();
    for (attribute, value) in Attributes(info) {
        let numbers: Vec<u64> =
            (0..3).filter_map(|index| word(value, index)).map(u64::from).collect();
        match attribute {
            PARAMETER => {
                // Index, ordinal and offset, and 14 bits of size behind 18 others.
                if let (Some(ordinal), Some(packed)) = (word(value, 1), word(value, 2)) {
                    arguments.insert(ordinal & 0xffff, u64::from(packed >> 18));
                }
            }
            REQUIRED_GROUP => metadata.required_group = Some(numbers),
            MAX_GROUP => {
                metadata.max_group_items =
                    Some(numbers.iter().fold(1u64, |all, one| all.saturating_mul(*one)));
            }
            _ => {}
        }
    }
    metadata.argument_sizes = Some(arguments.into_values().collect());
    metadata
}

/// The attributes of an `.nv.info`: format, attribute, and, by the format, a value of up to two bytes
/// or its size and the value behind it.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        const WITH_SIZE: u8 = 4;
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        let [format, attribute, low, high] = *head;
        let size =
            if format == WITH_SIZE { usize::from(u16::from_le_bytes([low, high])) } else { 0 };
        let (value, rest) = rest.split_at_checked(size)?;
        self.0 = rest;
        Some((attribute, value))
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let bytes = bytes.get(index * 4..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_is_in_the_flags_by_the_abi() {
        assert_eq!(architecture(0x33, 0x0046_055a), "sm_90");
        assert_eq!(architecture(0x41, 0x0600_5a04), "sm_90");
        assert_eq!(architecture(0x41, 0x0600_7804), "sm_120");
    }

    /// Two parameters of 8 and 4 bytes, the later one first, and a required group of 64.
    const INFO: [u8; 52] = [
        4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0xf0, 0x11, 0, // ordinal 1
        4, 0x17, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x21, 0, // ordinal 0
        3, 0x1b, 0xff, 0, // a value in the head
        4, 0x10, 12, 0, 64, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
    ];

    #[test]
    fn parameters_and_groups_are_attributes() {
        let metadata = of_attributes(&INFO);
        assert_eq!(metadata.argument_sizes, Some(vec![8, 4]));
        assert_eq!(metadata.required_group, Some(vec![64, 1, 1]));
        for end in 0..INFO.len() {
            of_attributes(&INFO[..end]);
        }
    }
}
