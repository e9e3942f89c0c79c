//! Variables: symbols in the sections of global and constant memory.

use super::file::{File, Section, Symbol};
use super::relocations;
use crate::contents::without_zeros_at_end;
use crate::fields::Fields;
use crate::{Linkage, Malformed, Place, Space, Variable};

/// Returns the variables of a cubin, with the references in their initial values.
pub(super) fn read(file: &File<'_>) -> Result<Vec<Variable>, Malformed> {
    let mut variables = Vec::new();
    for symbol in file.symbols.iter().filter(|symbol| symbol.is_variable()) {
        variables.extend(variable(file, symbol)?);
    }
    let mut references = relocations::read(file, &variables)?;
    for (index, variable) in variables.iter_mut().enumerate() {
        variable.references = references.remove(&index).unwrap_or_default();
        finish(variable);
    }
    Ok(variables)
}

/// Drops references that are cut off, and clears the places of the others, whose stored bytes have
/// no meaning.
fn finish(variable: &mut Variable) {
    let end = variable.bytes;
    variable.references.retain(|known| known.offset.checked_add(8).is_some_and(|last| last <= end));
    for reference in &variable.references {
        let start = usize::try_from(reference.offset).unwrap_or(usize::MAX);
        let stored = variable.initial.get_mut(start..).unwrap_or_default();
        stored.iter_mut().take(8).for_each(|byte| *byte = 0);
    }
    variable.initial = without_zeros_at_end(std::mem::take(&mut variable.initial));
}

/// Returns the kind of memory of a section; `None` if variables cannot be there.
fn space_of(section: &Section<'_>) -> Option<Space> {
    match section.name {
        ".nv.global" | ".nv.global.init" => Some(Space::Global),
        name => {
            let bank = name.strip_prefix(".nv.constant")?.as_bytes();
            let is_bank = matches!(bank, [b'0'..=b'9'] | [b'1'..=b'9', b'0'..=b'9']);
            is_bank.then_some(Space::Constant)
        }
    }
}

fn variable(file: &File<'_>, symbol: &Symbol<'_>) -> Result<Option<Variable>, Malformed> {
    let mut found = Variable {
        name: symbol.name.to_owned(),
        bytes: symbol.bytes,
        space: Space::Global,
        linkage: linkage(symbol),
        alignment: symbol.value,
        initial: Vec::new(),
        references: Vec::new(),
        place: None,
    };
    if symbol.is_common() {
        found.alignment = power_of_two(symbol.value);
        return Ok(Some(found));
    }
    let Some(section) = file.sections.get(symbol.section as usize) else { return Ok(None) };
    let Some(space) = space_of(section) else { return Ok(None) };
    found.space = space;
    found.alignment = power_of_two(section.alignment | symbol.value);
    found.initial = initial(file, section, symbol)?;
    found.place = Some(Place { section: symbol.section, offset: symbol.value });
    Ok(Some(found))
}

fn linkage(symbol: &Symbol<'_>) -> Linkage {
    match symbol {
        _ if symbol.is_local() => Linkage::Internal,
        _ if symbol.is_weak() || symbol.is_common() => Linkage::Weak,
        _ => Linkage::Visible,
    }
}

/// Returns the largest power of two that divides a number.
fn power_of_two(number: u64) -> u64 {
    1u64.checked_shl(number.trailing_zeros()).unwrap_or(1)
}

fn initial(
    file: &File<'_>,
    section: &Section<'_>,
    symbol: &Symbol<'_>,
) -> Result<Vec<u8>, Malformed> {
    let range = Fields(section.data).range(symbol.value, symbol.bytes);
    let bytes = range.unwrap_or_default();
    file.take(bytes.len())?;
    Ok(bytes.to_vec())
}
