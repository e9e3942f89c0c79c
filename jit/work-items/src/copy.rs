//! Copies of loops.

use std::collections::HashMap;
use std::ffi::CStr;

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};
use crate::metadata::is_for_debuggers;

/// The copies of blocks, and of the values that they compute.
pub(crate) struct Copied {
    pub(crate) blocks: HashMap<BlockRef, BlockRef>,
    pub(crate) values: HashMap<ValueRef, ValueRef>,
}

/// Copies blocks of a function, with the edges between them. Edges to other blocks, and edges from
/// other blocks in phis, stay as they are.
pub(crate) fn copy_blocks(
    ir: &Ir<'_>,
    function: ValueRef,
    from: &[BlockRef],
    name: &CStr,
) -> Copied {
    let blocks: HashMap<BlockRef, BlockRef> =
        from.iter().map(|block| (*block, ir.append_block(function, name))).collect();
    let mut values = HashMap::new();
    let mut phis = Vec::new();
    for block in from {
        for value in ir.instructions(*block) {
            if is_for_debuggers(ir, value) {
                continue;
            }
            let copy = if ir.opcode(value) == opcode::PHI {
                phis.push(value);
                ir.at_end(blocks[block]).phi(ir.type_of(value))
            } else {
                let copy = ll!(ir, LLVMInstructionClone(value));
                ir.insert_at_end(copy, blocks[block]);
                copy
            };
            values.insert(value, copy);
        }
    }
    for (value, copy) in &values {
        if ir.opcode(*value) == opcode::PHI {
            continue;
        }
        for (index, operand) in ir.operands(*copy).into_iter().enumerate() {
            if let Some(own) = values.get(&operand) {
                ll!(ir, LLVMSetOperand(*copy, index as u32, *own));
            }
        }
    }
    for (from, to) in &blocks {
        for target in ir.successors(*from) {
            if let Some(own) = blocks.get(&target) {
                ir.redirect(*to, target, *own);
            }
        }
    }
    for phi in phis {
        for (value, from) in ir.incoming(phi) {
            let value = values.get(&value).copied().unwrap_or(value);
            ir.add_incoming(values[&phi], value, blocks.get(&from).copied().unwrap_or(from));
        }
    }
    Copied { blocks, values }
}
