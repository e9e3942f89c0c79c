//! Constants of LLVM's IR, and the source lines of its instructions.

use longshore_llvm::types::*;
use longshore_llvm::{Ir, ll};

/// Adds the source line of an instruction to a message, if it is known.
pub(crate) fn located(ir: &Ir<'_>, instruction: ValueRef, problem: String) -> String {
    if !ir.is_instruction(instruction) || ll!(ir, LLVMInstructionGetDebugLoc(instruction)).is_null()
    {
        return problem;
    }
    let mut length = 0;
    let file = ll!(ir, LLVMGetDebugLocFilename(instruction, &raw mut length));
    if file.is_null() {
        return problem;
    }
    // SAFETY: LLVM returns the name's address and length.
    let file = unsafe { std::slice::from_raw_parts(file.cast::<u8>(), length as usize) };
    let line = ll!(ir, LLVMGetDebugLocLine(instruction));
    format!("{}:{line}: {problem}", String::from_utf8_lossy(file))
}

/// Returns the bits of a constant number of up to 64 bits.
pub(crate) fn bits(ir: &Ir<'_>, constant: ValueRef) -> Option<u64> {
    let width = match ir.kind(ir.type_of(constant)) {
        type_kind::HALF => 16,
        type_kind::FLOAT => 32,
        type_kind::DOUBLE => 64,
        type_kind::INTEGER => {
            let width = ll!(ir, LLVMGetIntTypeWidth(ir.type_of(constant)));
            return ir.constant_value(constant).filter(|_| width <= 64);
        }
        _ => return None,
    };
    ir.constant_value(ll!(ir, LLVMConstBitCast(constant, ir.int(width))))
}

/// Returns the elements of a constant array, vector or structure that is not zero.
pub(crate) fn elements(ir: &Ir<'_>, constant: ValueRef) -> Vec<ValueRef> {
    let operands = ir.operands(constant);
    let ty = ir.type_of(constant);
    let count = match ir.kind(ty) {
        type_kind::ARRAY => ll!(ir, LLVMGetArrayLength(ty)),
        type_kind::VECTOR => ll!(ir, LLVMGetVectorSize(ty)),
        _ => return operands,
    };
    match operands.len() == count as usize {
        true => operands,
        false => {
            (0..count).map(|index| ll!(ir, LLVMGetElementAsConstant(constant, index))).collect()
        }
    }
}
