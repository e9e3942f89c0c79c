//! Uses of a variable in code, also as a part of constant expressions.

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};

/// Returns the instructions that use a value, also through constant expressions.
pub(super) fn instructions(ir: &Ir<'_>, value: ValueRef) -> Vec<ValueRef> {
    let mut found = Vec::new();
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        for user in ir.users(value) {
            match ir.is_instruction(user) {
                true => found.push(user),
                false if ll!(ir, LLVMIsConstant(user)) != 0 && !is_global(ir, user) => {
                    rest.push(user);
                }
                false => {}
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn is_global(ir: &Ir<'_>, value: ValueRef) -> bool {
    !ll!(ir, LLVMIsAGlobalVariable(value)).is_null()
        || !ll!(ir, LLVMIsAFunction(value)).is_null()
        || !ll!(ir, LLVMIsAGlobalAlias(value)).is_null()
}

/// Replaces a variable in a function by another address.
///
/// # Errors
/// The variable's address is part of a constant that is no expression of addresses.
pub(super) fn replace(
    ir: &Ir<'_>,
    function: ValueRef,
    variable: ValueRef,
    by: ValueRef,
) -> Result<(), String> {
    let users = instructions(ir, variable).into_iter();
    for user in users.filter(|it| ir.function_of(*it) == function) {
        for (index, operand) in ir.operands(user).into_iter().enumerate() {
            if !uses(ir, operand, variable) {
                continue;
            }
            // A value of a phi is computed where its edge begins.
            let place = match ir.opcode(user) {
                opcode::PHI => ir.terminator(ll!(ir, LLVMGetIncomingBlock(user, index as u32))),
                _ => user,
            };
            let new = rebuilt(ir, place, operand, variable, by).ok_or_else(|| {
                let place =
                    ir.source_line(user).map_or_else(String::new, |line| format!("{line}: "));
                let name = ir.name(variable);
                format!("{place}the address of the shared variable '{name}' is part of a constant")
            })?;
            ll!(ir, LLVMSetOperand(user, index as u32, new));
        }
    }
    Ok(())
}

fn uses(ir: &Ir<'_>, value: ValueRef, variable: ValueRef) -> bool {
    value == variable
        || !ll!(ir, LLVMIsAConstantExpr(value)).is_null()
            && ir.operands(value).into_iter().any(|operand| uses(ir, operand, variable))
}

/// Emits the value of a constant expression in which the variable has another address.
fn rebuilt(
    ir: &Ir<'_>,
    place: ValueRef,
    value: ValueRef,
    variable: ValueRef,
    by: ValueRef,
) -> Option<ValueRef> {
    if value == variable {
        let ty = ir.type_of(value);
        let is_near = ll!(ir, LLVMGetPointerAddressSpace(ty)) == 0;
        let cast = if is_near { opcode::BIT_CAST } else { opcode::ADDR_SPACE_CAST };
        return Some(ir.before(place).cast(cast, by, ty));
    }
    if !uses(ir, value, variable) {
        return Some(value);
    }
    let operands = ir.operands(value).into_iter();
    let operands: Vec<ValueRef> =
        operands.map(|it| rebuilt(ir, place, it, variable, by)).collect::<Option<_>>()?;
    let build = ir.before(place);
    let ty = ir.type_of(value);
    Some(match ll!(ir, LLVMGetConstOpcode(value)) {
        opcode::GET_ELEMENT_PTR => {
            let source = ll!(ir, LLVMGetGEPSourceElementType(value));
            build.elements(source, operands[0], &operands[1..])
        }
        cast @ (opcode::ADDR_SPACE_CAST
        | opcode::BIT_CAST
        | opcode::PTR_TO_INT
        | opcode::INT_TO_PTR
        | opcode::TRUNC
        | opcode::ZEXT
        | opcode::SEXT) => build.cast(cast, operands[0], ty),
        binary @ (opcode::ADD
        | opcode::SUB
        | opcode::MUL
        | opcode::AND
        | opcode::OR
        | opcode::XOR
        | opcode::SHL
        | opcode::LSHR) => build.binary(binary, operands[0], operands[1]),
        _ => return None,
    })
}
