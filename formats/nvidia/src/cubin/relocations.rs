//! Addresses in initial values: the relocations of sections with variables.

use super::file::{File, malformed};
use crate::contents::References;
use crate::{Malformed, Reference, Variable};
use object::LittleEndian as Little;
use object::elf::{Rel64, Rela64, SHT_REL, SHT_RELA, STT_SECTION};
use object::pod::{Pod, slice_from_all_bytes};
use std::collections::HashMap;

/// Types of 64-bit addresses: in the memory of the variable, generic, of a function.
const WHOLE: [u32; 3] = [0x02, 0x04, 0x66];
/// First types of eight consecutive ones, one for each byte of such an address.
const BYTE_WISE: [u32; 3] = [0x4c, 0x54, 0x68];

/// Returns the references of variables, by the variables' indices.
pub(super) fn read(
    file: &File<'_>,
    variables: &[Variable],
) -> Result<HashMap<usize, Vec<Reference>>, Malformed> {
    let places = Places::new(variables);
    let mut gathered: HashMap<usize, References> = HashMap::new();
    for relocation in in_order(file, &places)? {
        let Some((index, offset)) = places.at(relocation.section, relocation.at) else { continue };
        let stored = || stored_at(&variables[index], offset);
        let addend = relocation.addend.unwrap_or_else(stored);
        let Some((symbol, addend)) = target(file, &places, relocation.symbol, addend)? else {
            continue;
        };
        let references = gathered.entry(index).or_default();
        add(references, relocation.kind, Reference { offset, symbol, addend });
    }
    Ok(gathered.into_iter().map(|(index, all)| (index, all.finish())).collect())
}

struct Relocation {
    /// The section and the offset of the relocated place.
    section: u32,
    at: u64,
    kind: u32,
    symbol: u32,
    /// The addend; `None` if the relocated place holds it.
    addend: Option<i64>,
}

/// Returns the relocations of sections with variables, ordered by the relocated places.
fn in_order(file: &File<'_>, places: &Places<'_>) -> Result<Vec<Relocation>, Malformed> {
    let mut relocations = Vec::new();
    for section in file.sections.iter().filter(|section| places.has(section.info)) {
        match section.kind {
            SHT_RELA => {
                let entries = entries::<Rela64<Little>>(file.take_data(section)?)?.iter();
                relocations.extend(entries.map(|entry| Relocation {
                    section: section.info,
                    at: entry.r_offset.get(Little),
                    kind: entry.r_type(Little, false).0,
                    symbol: entry.r_sym(Little, false),
                    addend: Some(entry.r_addend.get(Little)),
                }));
            }
            SHT_REL => {
                let entries = entries::<Rel64<Little>>(file.take_data(section)?)?.iter();
                relocations.extend(entries.map(|entry| Relocation {
                    section: section.info,
                    at: entry.r_offset.get(Little),
                    kind: entry.r_type(Little).0,
                    symbol: entry.r_sym(Little),
                    addend: None,
                }));
            }
            _ => {}
        }
    }
    relocations.sort_by_key(|relocation| (relocation.section, relocation.at));
    Ok(relocations)
}

fn entries<T: Pod>(data: &[u8]) -> Result<&[T], Malformed> {
    slice_from_all_bytes(data)
        .map_err(|()| malformed("relocations are cut off, or are not 8-byte aligned"))
}

/// Returns the 64-bit number at an offset of an initial value.
fn stored_at(variable: &Variable, offset: u64) -> i64 {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let stored = variable.initial.get(start..).unwrap_or_default();
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(stored).for_each(|(byte, stored)| *byte = *stored);
    i64::from_le_bytes(bytes)
}

/// Returns the name of a symbol and the addend. A section's symbol is replaced by the variable at
/// that place.
fn target(
    file: &File<'_>,
    places: &Places<'_>,
    symbol: u32,
    mut addend: i64,
) -> Result<Option<(String, i64)>, Malformed> {
    let Some(symbol) = file.symbols.get(symbol as usize) else { return Ok(None) };
    let mut name = symbol.name;
    if symbol.kind == STT_SECTION
        && let Some((variable, offset)) = places.at(symbol.section, addend as u64)
    {
        (name, addend) = (places.name(variable), offset as i64);
    }
    file.take(name.len())?;
    Ok((!name.is_empty()).then(|| (name.to_owned(), addend)))
}

fn add(references: &mut References, kind: u32, reference: Reference) {
    if WHOLE.contains(&kind) {
        return references.add(reference);
    }
    let bytes = BYTE_WISE.iter().filter_map(|first| kind.checked_sub(*first));
    if let Some(index) = bytes.filter(|index| *index < 8).min() {
        references.add_byte(reference, index as u8);
    }
}

/// Variables by their places.
struct Places<'a> {
    variables: &'a [Variable],
    /// Section, offset, size and index of each variable, sorted.
    order: Vec<(u32, u64, u64, usize)>,
}

impl<'a> Places<'a> {
    fn new(variables: &'a [Variable]) -> Places<'a> {
        let placed = variables.iter().enumerate().filter_map(|(index, variable)| {
            let place = variable.place?;
            Some((place.section, place.offset, variable.bytes, index))
        });
        let mut order: Vec<_> = placed.collect();
        order.sort_unstable();
        Places { variables, order }
    }

    /// Returns whether a section has variables.
    fn has(&self, section: u32) -> bool {
        self.order.binary_search_by_key(&section, |(section, ..)| *section).is_ok()
    }

    /// Returns the variable that contains a byte of a section, and the offset in it.
    fn at(&self, section: u32, offset: u64) -> Option<(usize, u64)> {
        let behind =
            self.order.partition_point(|(other, start, ..)| (*other, *start) <= (section, offset));
        let (other, start, bytes, index) = *self.order.get(behind.checked_sub(1)?)?;
        let within = offset.checked_sub(start).filter(|within| *within < bytes)?;
        (other == section).then_some((index, within))
    }

    fn name(&self, index: usize) -> &'a str {
        &self.variables[index].name
    }
}
