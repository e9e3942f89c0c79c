//! Removal of layouts from types of shared memory.
//!
//! naga gives offsets and strides to all types, which Vulkan does not allow for types of shared
//! memory. This module removes them from types that no block uses. Types that blocks and shared
//! memory both use keep their layouts, which most drivers accept.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::{Decoration, Op, StorageClass};

use crate::words::{self, HEADER, Instruction};

/// Returns the module without the layouts of types that no block uses.
pub(super) fn strip(module: &[u32]) -> Vec<u32> {
    let laid_out = laid_out(module);
    let mut out = module.get(..HEADER).unwrap_or_default().to_vec();
    for found in words::instructions(module) {
        let is_layout = layout_of(found).is_some_and(|of| !laid_out.contains(&of));
        if !is_layout {
            words::append(&mut out, found.opcode, found.operands);
        }
    }
    out
}

/// Returns the type that an instruction lays out.
fn layout_of(found: Instruction<'_>) -> Option<u32> {
    let decoration = match found.op()? {
        Op::Decorate => found.operands.get(1)?,
        Op::MemberDecorate => found.operands.get(2)?,
        _ => return None,
    };
    let is_layout = matches!(
        Decoration::from_u32(*decoration)?,
        Decoration::ArrayStride
            | Decoration::Offset
            | Decoration::MatrixStride
            | Decoration::RowMajor
            | Decoration::ColMajor
    );
    found.operands.first().copied().filter(|_| is_layout)
}

/// Returns the types that blocks consist of.
fn laid_out(module: &[u32]) -> HashSet<u32> {
    let mut parts: HashMap<u32, &[u32]> = HashMap::new();
    let mut pending = Vec::new();
    for found in words::instructions(module) {
        match (found.op(), found.operands) {
            (Some(Op::TypeStruct), [id, members @ ..]) => drop(parts.insert(*id, members)),
            (Some(Op::TypeArray | Op::TypeRuntimeArray), [id, element @ ..]) => {
                parts.insert(*id, &element[..element.len().min(1)]);
            }
            (Some(Op::TypePointer), [id, storage, pointee @ ..]) if is_block(*storage) => {
                parts.insert(*id, pointee);
                pending.push(*id);
            }
            _ => {}
        }
    }
    let mut reached = HashSet::new();
    while let Some(id) = pending.pop() {
        if reached.insert(id) {
            pending.extend(parts.get(&id).copied().unwrap_or_default());
        }
    }
    reached
}

fn is_block(storage: u32) -> bool {
    let blocks = [
        StorageClass::Uniform,
        StorageClass::StorageBuffer,
        StorageClass::PushConstant,
        StorageClass::PhysicalStorageBuffer,
    ];
    blocks.iter().any(|&block| block as u32 == storage)
}
