//! The calls of the runtime that the pass of `jit/checks` has added, as far as loops change them.

use longshore_llvm::types::*;

use crate::ir::Ir;

/// The runtime's functions.
const SHARED: &str = "__longshore_check_shared";
const WAIT: &str = "__longshore_check_wait";

/// Returns whether an instruction enters a variable that the group shares. Its result is the
/// variable's address.
pub(crate) fn is_shared(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    ir.callee(instruction).is_some_and(|callee| ir.name(callee) == SHARED)
}

/// Removes the notes of the places at which items wait: in loops no item can miss another one.
pub(crate) fn erase_waits(ir: &Ir<'_>, function: ValueRef) {
    for call in ir.all_instructions(function) {
        if ir.callee(call).is_some_and(|callee| ir.name(callee) == WAIT) {
            ir.erase(call);
        }
    }
}
