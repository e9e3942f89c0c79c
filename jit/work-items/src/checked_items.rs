//! Loops of kernels with checks: the runtime learns which item runs, and of barriers. The pass of
//! `jit/checks` has added calls of the runtime before all accesses.

use std::collections::HashMap;

use longshore_llvm::types::*;

use crate::entry::SELF_WORK;
use crate::ir::{Ir, ll};
use crate::kernels::{Calls, Kernel};
use crate::markers::Marker;
use crate::regions::{Node, Obstacle};
use crate::transform::Body;

/// The runtime's functions.
const STATE: &std::ffi::CStr = c"__longshore_check_state";
const BARRIER: &std::ffi::CStr = c"__longshore_check_group_barrier";
const PRIVATE: &str = "__longshore_check_begin_private";
/// Offsets in the runtime's `State`: the segment of the current item, and of the group's first one.
const STATE_SEGMENT: u64 = 0;
const STATE_BASE: u64 = 24;

/// Refuses a kernel whose items need stacks of their own for the checks.
pub(crate) fn check(ir: &Ir<'_>, calls: &Calls, kernel: &Kernel) -> Result<(), Obstacle> {
    let reached = calls.reach(kernel.item);
    let has = |is: &dyn Fn(&str) -> bool| reached.iter().any(|function| is(&ir.name(*function)));
    let marker = |name: &str| Marker::from_symbol(name);
    let what = if has(&|name| marker(name).is_some_and(Marker::is_of_subgroup)) {
        "the checks follow the items of a sub-group by their stacks"
    } else if has(&|name| marker(name) == Some(Marker::GridBarrier)) {
        "the checks follow groups that wait for each other by the stacks of items"
    } else if has(&|name| name.starts_with(PRIVATE)) {
        "the checks find private variables by the stacks of items"
    } else {
        return Ok(());
    };
    Err(Obstacle { at: None, what })
}

impl Body<'_, '_> {
    /// Refuses items that return before others reach a barrier that counts all items: only items
    /// with stacks can be found to be missing.
    pub(crate) fn refuse_missing_items(&self) -> Result<(), Obstacle> {
        let counts_all = self.nodes.values().any(|node| *node == Node::Barrier);
        match counts_all && !self.partial().is_empty() {
            true => Err(Obstacle { at: None, what: "some items return before a barrier" }),
            false => Ok(()),
        }
    }

    /// Emits the number of the current item at the beginning of each round of the loops. Returns
    /// the stores in these blocks.
    pub(crate) fn number_items(&self) -> HashMap<BlockRef, ValueRef> {
        let ir = self.ir;
        let mut stores = HashMap::new();
        let i32 = ir.int(32);
        for (group, items) in self.loops.groups.iter().zip(&self.loops.items) {
            let end = ir.terminator(group.before);
            let state = self.call_runtime(STATE, ir.pointer_to(ir.int(8)), end);
            let build = ir.before(end);
            let base = build.load_field(state, STATE_BASE, i32);
            for made in items {
                let build = ir.at_end(made.begin);
                let index = build.cast(opcode::TRUNC, made.index, i32);
                let segment = build.add(base, index);
                let store = build.store(segment, build.field(state, STATE_SEGMENT, i32));
                stores.insert(made.begin, store);
            }
        }
        stores
    }

    /// Makes the runtime order the items before a barrier and behind it.
    pub(crate) fn tell_of_barrier(&self, barrier: ValueRef) {
        let void = ll!(self.ir, LLVMVoidTypeInContext(self.ir.context));
        self.call_runtime(BARRIER, void, barrier);
    }

    /// Emits the call of a function that takes the work.
    fn call_runtime(&self, name: &std::ffi::CStr, result: TypeRef, at: ValueRef) -> ValueRef {
        let ir = self.ir;
        let byte = ir.pointer_to(ir.int(8));
        let build = ir.before(at);
        let work = build.load_field(ir.parameter(self.function, 1), SELF_WORK, byte);
        let found = ll!(ir, LLVMGetNamedFunction(ir.module, name.as_ptr())).present();
        let Some(function) = found else {
            let ty = ll!(ir, LLVMFunctionType(result, [byte].as_ptr(), 1, 0));
            let function = ll!(ir, LLVMAddFunction(ir.module, name.as_ptr(), ty));
            return build.call(ty, function, &[work]);
        };
        // The header declares the function with its own type of the work.
        let ty = ll!(ir, LLVMGlobalGetValueType(function));
        let work = build.cast(opcode::BIT_CAST, work, ir.type_of(ir.parameter(function, 0)));
        build.call(ty, function, &[work])
    }
}
