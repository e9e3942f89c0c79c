//! Numbers that values consist of.

use longshore_llvm::types::*;
use longshore_llvm::{Ir, ll};

/// A number in a register. Integers of other widths than 32 and 64 bits are in the next wider
/// register, with zeros above their own bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Number {
    Bool,
    /// An integer by its width in bits, 2 to 64; also a pointer.
    Int(u32),
    Float(u32),
}

impl Number {
    /// Returns the width in bits of the register of an integer of this width.
    pub(crate) fn register(width: u32) -> u32 {
        if width > 32 { 64 } else { 32 }
    }

    /// Returns the bytes of the number in memory.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Number::Bool => 1,
            Number::Int(width) => width.div_ceil(8).next_power_of_two(),
            Number::Float(width) => width / 8,
        }
    }
}

/// Returns the numbers that a value of this type consists of, with their offsets in memory.
///
/// # Errors
/// The part of the type that SPIR-V cannot express.
pub(crate) fn numbers(ir: &Ir<'_>, ty: TypeRef) -> Result<Vec<(Number, u64)>, String> {
    let mut found = Vec::new();
    add(ir, ty, 0, &mut found)?;
    Ok(found)
}

/// Most numbers in one value.
const MOST: usize = 4096;

fn add(ir: &Ir<'_>, ty: TypeRef, at: u64, to: &mut Vec<(Number, u64)>) -> Result<(), String> {
    let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
    let unknown = || Err(format!("the type {} does not exist in SPIR-V", ir.show_type(ty)));
    if to.len() > MOST {
        return Err(format!("a value of type {} has too many parts", ir.show_type(ty)));
    }
    let number = match ir.kind(ty) {
        type_kind::VOID => return Ok(()),
        type_kind::INTEGER => match ll!(ir, LLVMGetIntTypeWidth(ty)) {
            1 => Number::Bool,
            width @ 2..=64 => Number::Int(width),
            128 => {
                to.extend([(Number::Int(64), at), (Number::Int(64), at + 8)]);
                return Ok(());
            }
            _ => return unknown(),
        },
        type_kind::POINTER => Number::Int(64),
        type_kind::HALF => Number::Float(16),
        type_kind::FLOAT => Number::Float(32),
        type_kind::DOUBLE => Number::Float(64),
        type_kind::STRUCT => {
            for index in 0..ll!(ir, LLVMCountStructElementTypes(ty)) {
                let member = ll!(ir, LLVMStructGetTypeAtIndex(ty, index));
                add(ir, member, at + ll!(ir, LLVMOffsetOfElement(layout, ty, index)), to)?;
            }
            return Ok(());
        }
        kind @ (type_kind::ARRAY | type_kind::VECTOR) => {
            let element = ll!(ir, LLVMGetElementType(ty));
            let count = match kind {
                type_kind::ARRAY => ll!(ir, LLVMGetArrayLength(ty)),
                _ => ll!(ir, LLVMGetVectorSize(ty)),
            };
            if kind == type_kind::VECTOR && !is_whole(ir, element) {
                return unknown();
            }
            let stride = ll!(ir, LLVMABISizeOfType(layout, element));
            for index in 0..u64::from(count) {
                let before = to.len();
                add(ir, element, at + index * stride, to)?;
                if to.len() == before {
                    // Elements without numbers have none in any number.
                    break;
                }
            }
            return Ok(());
        }
        _ => return unknown(),
    };
    to.push((number, at));
    Ok(())
}

/// Returns whether the elements of a vector of this type are whole bytes, or truths.
fn is_whole(ir: &Ir<'_>, element: TypeRef) -> bool {
    ir.kind(element) != type_kind::INTEGER
        || matches!(ll!(ir, LLVMGetIntTypeWidth(element)), 1 | 8 | 16 | 32 | 64)
}
