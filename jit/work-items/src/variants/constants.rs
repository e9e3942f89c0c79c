//! The replacement of arguments and group sizes by constants.

use longshore_llvm::types::*;

use super::{Constant, Copy, Source};
use crate::entry::{SELF_ITEMS, WORK_ITEMS};
use crate::ir::{Ir, ll};

/// Bytes of a pointer on a CPU.
const POINTER: u64 = 8;

/// Replaces loads of arguments and group sizes in the copy of a CPU's kernel.
pub(super) fn replace_loads(ir: &Ir<'_>, source: &Source<'_>, copy: &Copy) {
    for function in copy.functions() {
        for constant in &source.variant.arguments {
            replace_argument(ir, function, constant);
        }
    }
    let Some(group) = source.variant.group else { return };
    let structures = [(Some(copy.kernel), WORK_ITEMS), (copy.item, SELF_ITEMS)];
    for (function, items_at) in structures {
        let Some(function) = function else { continue };
        for load in Load::all(ir, ir.parameter(function, 1)) {
            replace_group(ir, &load, items_at, group);
        }
    }
}

/// Replaces parameters in the copy of a GPU's kernel.
pub(super) fn replace_parameters(ir: &Ir<'_>, source: &Source<'_>, copy: &Copy) {
    for constant in &source.variant.arguments {
        let parameter = ir.parameter(copy.kernel, constant.index);
        ir.replace(parameter, number(ir, ir.type_of(parameter), constant.bytes));
    }
}

/// Returns the constant of a type that has the bytes of a number, the lowest first.
fn number(ir: &Ir<'_>, ty: TypeRef, bytes: &[u8]) -> ValueRef {
    let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    if ir.kind(ty) == type_kind::INTEGER {
        return ll!(ir, LLVMConstInt(ty, value, 0));
    }
    let bits = ir.constant(8 * bytes.len() as u32, value);
    ll!(ir, LLVMConstBitCast(bits, ty))
}

/// Replaces the addresses that a function of a CPU's kernel reads from its first parameter for an
/// argument, by the address of a constant. LLVM then replaces the loads from there.
fn replace_argument(ir: &Ir<'_>, function: ValueRef, constant: &Constant<'_>) {
    let loads = Load::all(ir, ir.parameter(function, 0)).into_iter();
    let loads: Vec<Load> = loads
        .filter(|load| {
            load.at == i64::from(constant.index) * POINTER as i64
                && ir.kind(ir.type_of(load.instruction)) == type_kind::POINTER
        })
        .collect();
    if loads.is_empty() {
        return;
    }
    let bytes: Vec<ValueRef> =
        constant.bytes.iter().map(|byte| ir.constant(8, (*byte).into())).collect();
    let array = ll!(ir, LLVMConstArray(ir.int(8), bytes.as_ptr(), bytes.len() as u32));
    let name = c"longshore_constant";
    let value = ll!(ir, LLVMAddGlobal(ir.module, ir.type_of(array), name.as_ptr()));
    ll!(ir, LLVMSetInitializer(value, array));
    ll!(ir, LLVMSetLinkage(value, PRIVATE_LINKAGE));
    ll!(ir, LLVMSetGlobalConstant(value, 1));
    ll!(ir, LLVMSetAlignment(value, 16));
    for load in loads {
        let ty = ir.type_of(load.instruction);
        ir.replace(load.instruction, ll!(ir, LLVMConstPointerCast(value, ty)));
        ir.erase(load.instruction);
    }
}

/// Replaces the sizes that a load reads of a group's, which begin at an offset.
fn replace_group(ir: &Ir<'_>, load: &Load, items_at: u64, group: [u32; 3]) {
    let size_at = |at: i64| {
        let dimension = (0..3).find(|dimension| (items_at + 4 * dimension) as i64 == at)?;
        Some(ir.constant(32, group[dimension as usize].into()))
    };
    let ty = ir.type_of(load.instruction);
    if ty == ir.int(32) {
        let Some(size) = size_at(load.at) else { return };
        ir.replace(load.instruction, size);
        ir.erase(load.instruction);
        return;
    }
    if ir.kind(ty) != type_kind::VECTOR || ll!(ir, LLVMGetElementType(ty)) != ir.int(32) {
        return;
    }
    let lanes = ll!(ir, LLVMGetVectorSize(ty));
    let known: Vec<(u32, ValueRef)> = (0..lanes)
        .filter_map(|lane| Some((lane, size_at(load.at + 4 * i64::from(lane))?)))
        .collect();
    if known.is_empty() {
        return;
    }
    let behind = ll!(ir, LLVMGetNextInstruction(load.instruction));
    let users = ir.users(load.instruction);
    let build = ir.before(behind);
    let changed = known.into_iter().fold(load.instruction, |vector, (lane, size)| {
        build.insert_element(vector, size, ir.constant(32, lane.into()))
    });
    for user in users {
        for (index, operand) in ir.operands(user).into_iter().enumerate() {
            if operand == load.instruction {
                ll!(ir, LLVMSetOperand(user, index as u32, changed));
            }
        }
    }
}

/// A load at a constant distance from a parameter.
struct Load {
    instruction: ValueRef,
    /// The distance in bytes.
    at: i64,
}

impl Load {
    /// Returns the loads from a parameter, which are not volatile.
    fn all(ir: &Ir<'_>, parameter: ValueRef) -> Vec<Load> {
        let mut loads = Vec::new();
        let mut addresses = vec![(parameter, 0)];
        while let Some((address, at)) = addresses.pop() {
            for user in ir.users(address).into_iter().filter(|it| ir.is_instruction(*it)) {
                match ir.opcode(user) {
                    opcode::LOAD if ll!(ir, LLVMGetVolatile(user)) == 0 => {
                        loads.push(Load { instruction: user, at });
                    }
                    opcode::BIT_CAST => addresses.push((user, at)),
                    opcode::GET_ELEMENT_PTR if ir.operand(user, 0) == address => {
                        if let Some(further) = distance(ir, user) {
                            addresses.push((user, at + further));
                        }
                    }
                    _ => {}
                }
            }
        }
        loads
    }
}

/// Returns the number of bytes that an instruction adds to an address; `None` if it is no constant.
fn distance(ir: &Ir<'_>, address: ValueRef) -> Option<i64> {
    let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
    let size = |ty| ll!(ir, LLVMABISizeOfType(layout, ty)) as i64;
    let mut indices = ir.operands(address).into_iter().skip(1);
    let mut ty = ll!(ir, LLVMGetGEPSourceElementType(address));
    let mut distance = signed(ir, indices.next()?)?.checked_mul(size(ty))?;
    for index in indices {
        let index = signed(ir, index)?;
        match ir.kind(ty) {
            type_kind::STRUCT => {
                let member = u32::try_from(index).ok()?;
                distance += ll!(ir, LLVMOffsetOfElement(layout, ty, member)) as i64;
                ty = ll!(ir, LLVMStructGetTypeAtIndex(ty, member));
            }
            type_kind::ARRAY => {
                ty = ll!(ir, LLVMGetElementType(ty));
                distance = distance.checked_add(index.checked_mul(size(ty))?)?;
            }
            _ => return None,
        }
    }
    Some(distance)
}

/// Returns the value of a constant integer with its sign.
fn signed(ir: &Ir<'_>, value: ValueRef) -> Option<i64> {
    let bits = ir.constant_value(value)?;
    let unused = 64 - ll!(ir, LLVMGetIntTypeWidth(ir.type_of(value))).min(64);
    Some(((bits << unused) as i64) >> unused)
}
