//! The shared memory of a kernel after the choices of a launch.

use std::collections::{BTreeMap, HashSet};

use rspirv::spirv::{Decoration, Op, StorageClass};

use crate::fault::Fault;
use crate::kernel::SharedMemory;
use crate::reflect::{is_kernel, usage::Usage};
use crate::tables::Tables;
use crate::types::Type;
use crate::words;

/// Returns the shared memory of a kernel with these values of constants, by `SpecId`.
pub(crate) fn memory(
    words: &[u32],
    kernel: &str,
    values: &[(u32, u32)],
) -> Result<SharedMemory, Fault> {
    let specialised = specialised(words, &Tables::read(words)?, values);
    let tables = Tables::read(&specialised)?;
    let entry_points = tables.entry_points.iter().filter(|entry_point| is_kernel(entry_point));
    let Some(entry_point) = entry_points.into_iter().find(|known| known.name == kernel) else {
        return Ok(SharedMemory::default());
    };
    let usage = Usage::new(&tables, entry_point);
    let shared = usage.variables.iter().map(|id| &tables.variables[id]);
    let shared = shared.filter(|variable| variable.storage == Some(StorageClass::Workgroup));
    Ok(SharedMemory {
        bytes: usage.shared_bytes(&tables, |_| true),
        has_empty_array: has_empty_array(&tables, shared.map(|variable| variable.pointee)),
    })
}

/// Returns the module with other defaults of its 32-bit constants.
fn specialised(words: &[u32], tables: &Tables<'_>, values: &[(u32, u32)]) -> Vec<u32> {
    let values: BTreeMap<u32, u32> = values.iter().copied().collect();
    let mut out = words[..words::HEADER].to_vec();
    for instruction in words::instructions(words) {
        let start = out.len();
        instruction.write(&mut out);
        let id = instruction.result().filter(|_| instruction.op() == Some(Op::SpecConstant));
        let spec_id = id.and_then(|id| tables.decoration(id, Decoration::SpecId));
        // Opcode, type and result come before the value.
        if let (Some(value), Some(default)) =
            (spec_id.and_then(|spec_id| values.get(&spec_id)), out.get_mut(start + 3))
        {
            *default = *value;
        }
    }
    out
}

/// Returns whether one of the types contains an array without elements.
fn has_empty_array(tables: &Tables<'_>, types: impl Iterator<Item = u32>) -> bool {
    let mut pending: Vec<u32> = types.collect();
    let mut seen: HashSet<u32> = pending.iter().copied().collect();
    while let Some(id) = pending.pop() {
        let parts = match tables.types.get(&id) {
            Some(Type::Array { length: Some(0), .. }) => return true,
            Some(Type::Array { element, .. }) => std::slice::from_ref(element),
            Some(Type::Structure { members }) => members,
            _ => &[],
        };
        pending.extend(parts.iter().copied().filter(|part| seen.insert(*part)));
    }
    false
}
