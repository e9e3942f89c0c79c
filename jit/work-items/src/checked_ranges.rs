//! Checks of the accesses of all items of a loop at once.
//!
//! Most accesses of a loop over items are at addresses with a fixed distance from item to item.
//! Before the loop, one call of the runtime checks all accesses of this kind. If they are right, a
//! copy of the loop runs without their checks, which LLVM can vectorise. Otherwise the loop itself
//! runs, and finds the wrong access.
//!
//! The loop is over a row of a group. If the addresses also have a fixed distance from row to row,
//! one call before the loop over rows checks all rows. The call for a row is only made if that one
//! has found something.
//!
//! The runtime's part is `plugin-host/src/check/ranges.rs`.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;

use longshore_llvm::types::*;

use crate::checked_graph::Graph;
use crate::checked_search::{Access, MOST, Path, Rows, Search};
use crate::checked_values::Lanes;
use crate::chunk::Chunk;
use crate::copy::{Copied, copy_blocks};
use crate::ir::{Ir, ll};
use crate::shape::{GroupLoops, ItemLoop};
use crate::transform::Body;

/// The runtime's functions: the checks of all ranges of a row and of a group.
const RANGES: &CStr = c"__longshore_check_ranges";
const ROWS: &CStr = c"__longshore_check_rows";
/// The runtime's function that frees memory of the device's heap.
const FREE: &CStr = c"__longshore_check_free";
/// The function of `longshore_device.h` that ends the launch.
const FAIL: &str = "longshore_fail_at_";
/// Number of words of a range in the table for the runtime. Behind the ranges, the table has their
/// distances from row to row.
const RANGE_WORDS: u64 = 6;

impl Body<'_, '_> {
    /// Adds the checks to all loops over items. `numbers` has the stores of the items' numbers.
    pub(crate) fn check_ranges(&self, numbers: &HashMap<BlockRef, ValueRef>) {
        let ir = self.ir;
        // All loops use the same table for the runtime.
        let words = (RANGE_WORDS + 1) * MOST as u64;
        let ty = ll!(ir, LLVMArrayType(ir.int(64), words as u32));
        let table = LazyCell::new(|| ir.before(ir.terminator(self.start)).alloca(ty));
        let frees = ll!(ir, LLVMGetNamedFunction(ir.module, FREE.as_ptr())).present();
        for (group, items) in self.loops.groups.iter().zip(&self.loops.items) {
            for made in items {
                let Some(graph) = Graph::new(ir, made).filter(|it| !it.may_free(ir, frees)) else {
                    continue;
                };
                let mut search = Search::new(ir, made, &graph, None);
                let (accesses, path) = search.accesses();
                if accesses.is_empty() || !search.has_end() {
                    continue;
                }
                let is_alone = items.len() == 1;
                let are_right =
                    is_alone.then(|| self.check_rows(&search, group, &accesses, *table)).flatten();
                let number = numbers.get(&made.begin);
                let checks = (*table, are_right);
                self.check_loop(&search, group, (&accesses, &path), number, checks);
            }
        }
    }

    fn check_loop(
        &self,
        search: &Search<'_, '_>,
        group: &GroupLoops,
        (accesses, path): (&[Access], &Path),
        number: Option<&ValueRef>,
        (table, are_right): (ValueRef, Option<ValueRef>),
    ) {
        let (ir, made) = (self.ir, search.made);
        let first = first(ir, made);
        let copy = copy_blocks(ir, self.function, &search.graph.blocks, c"checked");
        let check = ir.append_block(self.function, c"ranges");
        let is_right = emit_check(search, group, (accesses, path), (first, table), check);
        // Items that have returned leave the loop's first block.
        let head = ir.block_of(made.counter);
        ir.redirect(made.before, head, check);
        ir.at_end(check).cond_br(is_right, copy.blocks[&head], head);
        let counters = [made.counter, copy.values[&made.counter]];
        let [_, counter] = counters.map(|phi| replace_incoming(ir, phi, made.before, check));
        if let Some(are_right) = are_right {
            ir.erase(ir.terminator(made.before));
            ir.at_end(made.before).cond_br(are_right, copy.blocks[&head], check);
            ir.add_incoming(counter, first, made.before);
        }
        self.shaper.mark_parallel(ir.terminator(copy.blocks[&made.end]));
        for (branch, value) in &path.branches {
            let value = ir.constant(1, u64::from(*value));
            ll!(ir, LLVMSetOperand(copy.values[branch], 0, value));
        }
        self.remove_checks(&copy, accesses, number);
    }

    /// Removes the checks from the copy of a loop, and the item's number if nothing needs it.
    fn remove_checks(&self, copy: &Copied, accesses: &[Access], number: Option<&ValueRef>) {
        let ir = self.ir;
        let usual = |access: &Access| (access.call, 0);
        let by_bounds = |access: &Access| access.bounds.map(|(call, ..)| (call, 2));
        for (call, operand) in
            accesses.iter().flat_map(|it| [Some(usual(it)), by_bounds(it)]).flatten()
        {
            let call = copy.values[&call];
            ir.replace(call, ir.operand(call, operand));
            ir.erase(call);
        }
        let mut rest = copy.blocks.values().flat_map(|block| ir.instructions(*block));
        let needs_number = rest.any(|it| calls(ir, it));
        if let Some(store) = number.filter(|_| !needs_number) {
            ir.erase(copy.values[store]);
        }
    }

    /// Returns the loops over rows around the only loop of a group; `None` if not all rows come to
    /// it, or if there is a call around it.
    fn rows(&self, group: &GroupLoops, search: &Search<'_, '_>) -> Option<Rows> {
        let (ir, made) = (self.ir, search.made);
        if self.shaper.chunk != Chunk::Row {
            return None;
        }
        let before = self.way_without_calls(group.chunk, made.before)?;
        self.way_without_calls(made.after, group.chunk_end)?;
        let (mut blocks, mut rest) = (HashSet::new(), ir.successors(group.before));
        while let Some(block) = rest.pop() {
            if block != group.after && blocks.insert(block) {
                rest.extend(ir.successors(block));
            }
        }
        let [_, row, plane] = group.place;
        Some(Rows { blocks, before, row, plane })
    }

    /// Returns the blocks from one to another; `None` if there is a branch or a call.
    fn way_without_calls(&self, from: BlockRef, to: BlockRef) -> Option<HashSet<BlockRef>> {
        let ir = self.ir;
        let (mut blocks, mut at) = (HashSet::from([from]), from);
        while at != to {
            let [next] = *ir.successors(at) else { return None };
            if !blocks.insert(next) {
                return None;
            }
            at = next;
        }
        let mut instructions = blocks.iter().flat_map(|block| ir.instructions(*block));
        let has_calls = instructions.any(|it| calls(ir, it));
        (!has_calls).then_some(blocks)
    }

    /// Adds a check of all rows, if it covers all that a row does. Returns whether it finds nothing
    /// wrong.
    fn check_rows(
        &self,
        of_row: &Search<'_, '_>,
        group: &GroupLoops,
        covered: &[Access],
        table: ValueRef,
    ) -> Option<ValueRef> {
        let (ir, made) = (self.ir, of_row.made);
        let checks =
            covered.iter().flat_map(|it| [Some(it.call), it.bounds.map(|(call, ..)| call)]);
        let checks: HashSet<ValueRef> = checks.flatten().collect();
        let instructions = of_row.graph.blocks.iter().flat_map(|block| ir.instructions(*block));
        let is_covered = |it: ValueRef| checks.contains(&it) || ends_launch(ir, it);
        if instructions.into_iter().any(|it| calls(ir, it) && !is_covered(it))
            || ir.constant_value(first(ir, made)) != Some(0)
        {
            return None;
        }
        let rows = self.rows(group, of_row)?;
        let mut search = Search::new(ir, made, of_row.graph, Some(rows));
        let (accesses, path) = search.accesses();
        let have_rows = accesses.iter().all(|access| search.differs_by_row(access.address));
        if accesses.len() != covered.len() || !search.has_end() || !have_rows {
            return None;
        }
        let [check, join] =
            [c"rows", c"rows.done"].map(|name| ir.append_block(self.function, name));
        let [_, rows, planes] = self.shaper.sizes.items;
        let is_right = emit_check_of_rows(&search, rows, (&accesses, &path), table, check);
        ir.at_end(check).br(join);
        let [head] = *ir.successors(group.before) else { unreachable!("the loops follow") };
        for phi in ir.instructions(head).into_iter().filter(|it| ir.opcode(*it) == opcode::PHI) {
            replace_incoming(ir, phi, group.before, join);
        }
        ir.erase(ir.terminator(group.before));
        let (build, one) = (ir.at_end(group.before), ir.constant(64, 1));
        let has_rows = build.compare(predicate::UGT, rows, one);
        let has_plane = build.compare(predicate::EQ, planes, one);
        build.cond_br(build.binary(opcode::AND, has_rows, has_plane), check, join);
        let are_right = ir.at_end(join).phi(ir.int(1));
        ir.add_incoming(are_right, ir.constant(1, 0), group.before);
        ir.add_incoming(are_right, is_right, check);
        ir.at_end(join).br(head);
        Some(are_right)
    }
}

/// Returns whether an instruction calls the header's function that ends the launch.
fn ends_launch(ir: &Ir<'_>, call: ValueRef) -> bool {
    calls(ir, call) && ir.callee(call).is_some_and(|callee| ir.name(callee) == FAIL)
}

/// Returns the number with which the counter of a loop begins.
fn first(ir: &Ir<'_>, made: &ItemLoop) -> ValueRef {
    let begins = ir.incoming(made.counter).into_iter();
    let mut first = begins.filter(|(_, from)| *from == made.before).map(|(value, _)| value);
    first.next().expect("the loop begins behind this block")
}

/// Returns whether an instruction calls a function, except LLVM's own.
fn calls(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    let is_call = ir.opcode(instruction) == opcode::CALL;
    is_call && !ir.callee(instruction).is_some_and(|callee| ir.name(callee).starts_with("llvm."))
}

/// Emits the check of a row by the runtime. Returns whether all accesses are right.
fn emit_check(
    search: &Search<'_, '_>,
    group: &GroupLoops,
    (accesses, path): (&[Access], &Path),
    (first, table): (ValueRef, ValueRef),
    block: BlockRef,
) -> ValueRef {
    let ir = search.ir;
    let (items, steps) = emit_items(search, first, block);
    let mut lanes = Lanes::new(ir, (first, steps), None, block);
    let is_right = emit_ranges(search, (accesses, path), &mut lanes, table, block);
    let build = ir.at_end(block);
    let (byte, i64) = (ir.pointer_to(ir.int(8)), ir.int(64));
    let table = build.cast(opcode::BIT_CAST, table, byte);
    let start = build.binary(opcode::ADD, group.first, build.cast(opcode::ZEXT, first, i64));
    let count = ir.constant(32, accesses.len() as u64);
    call_check(ir, RANGES, &[table, count, items, is_right, start], block)
}

/// Emits the check of all rows. Returns whether all accesses are right.
fn emit_check_of_rows(
    search: &Search<'_, '_>,
    rows: ValueRef,
    (accesses, path): (&[Access], &Path),
    table: ValueRef,
    block: BlockRef,
) -> ValueRef {
    let ir = search.ir;
    let first = ir.constant(32, 0);
    let (items, steps) = emit_items(search, first, block);
    let row_steps = ir.at_end(block).binary(opcode::SUB, rows, ir.constant(64, 1));
    let mut lanes = Lanes::new(ir, (first, steps), Some(row_steps), block);
    let is_right = emit_ranges(search, (accesses, path), &mut lanes, table, block);
    let build = ir.at_end(block);
    let byte = ir.pointer_to(ir.int(8));
    let distances = build.field(table, 8 * RANGE_WORDS * MOST as u64, ir.int(64));
    let [table, distances] = [table, distances].map(|it| build.cast(opcode::BIT_CAST, it, byte));
    let count = ir.constant(32, accesses.len() as u64);
    let rows = build.cast(opcode::TRUNC, rows, ir.int(32));
    call_check(ir, ROWS, &[table, distances, count, items, rows, is_right], block)
}

/// Emits the number of items of a row, and the number of steps from the first to the last.
fn emit_items(search: &Search<'_, '_>, first: ValueRef, block: BlockRef) -> (ValueRef, ValueRef) {
    let ir = search.ir;
    let end = search.emit_end(first, block);
    let build = ir.at_end(block);
    let items = build.binary(opcode::SUB, end, first);
    (items, build.binary(opcode::SUB, items, ir.constant(32, 1)))
}

/// Emits the ranges of all accesses into the table. Returns whether the addresses have fixed
/// distances and all items make the accesses, as `i32`.
fn emit_ranges(
    search: &Search<'_, '_>,
    (accesses, path): (&[Access], &Path),
    lanes: &mut Lanes,
    table: ValueRef,
    block: BlockRef,
) -> ValueRef {
    let ir = search.ir;
    let i64 = ir.int(64);
    let mut is_right = ir.constant(1, 1);
    // Before a branch that no item takes, numbers of its block may have no value.
    let and = |one: ValueRef, other: ValueRef| {
        let build = ir.at_end(block);
        build.binary(opcode::AND, one, build.freeze(other))
    };
    for (index, access) in accesses.iter().enumerate() {
        let addresses = search.emit_all(access.address, lanes, block);
        let build = ir.at_end(block);
        let number = |value: ValueRef| build.cast(opcode::PTR_TO_INT, value, i64);
        let [address, next, _] = addresses.of_row.map(number);
        let stride = build.binary(opcode::SUB, next, address);
        let bounds = access.bounds.map(|(_, start, size)| (number(start), size));
        let none = ir.constant(64, 0);
        let (start, size) = bounds.unwrap_or((none, none));
        let words =
            [number(access.site), address, stride, ir.constant(64, access.shape), start, size];
        for (word, value) in words.into_iter().enumerate() {
            let at = 8 * (RANGE_WORDS * index as u64 + word as u64);
            build.store(value, build.field(table, at, i64));
        }
        if let Some([below, ..]) = addresses.of_others {
            let distance = build.binary(opcode::SUB, number(below), address);
            let at = 8 * (RANGE_WORDS * MOST as u64 + index as u64);
            build.store(distance, build.field(table, at, i64));
        }
    }
    let values = path.conditions.iter().flat_map(|it| [it.left, it.right]);
    let addresses = accesses.iter().map(|access| access.address);
    for extended in search.extensions(addresses.chain(values).collect()) {
        is_right = and(is_right, search.emit_is_linear(extended, lanes, block));
    }
    for condition in &path.conditions {
        is_right = and(is_right, search.emit_holds(*condition, lanes, block));
    }
    ir.at_end(block).cast(opcode::ZEXT, is_right, ir.int(32))
}

/// Emits the call of a check. Returns whether its result is not 0.
fn call_check(ir: &Ir<'_>, name: &CStr, arguments: &[ValueRef], block: BlockRef) -> ValueRef {
    let i32 = ir.int(32);
    let types: Vec<TypeRef> = arguments.iter().map(|it| ir.type_of(*it)).collect();
    let ty = ll!(ir, LLVMFunctionType(i32, types.as_ptr(), types.len() as u32, 0));
    let found = ll!(ir, LLVMGetNamedFunction(ir.module, name.as_ptr())).present();
    let function = found.unwrap_or_else(|| ll!(ir, LLVMAddFunction(ir.module, name.as_ptr(), ty)));
    let build = ir.at_end(block);
    let checked = build.call(ty, function, arguments);
    build.compare(predicate::NE, checked, ir.constant(32, 0))
}

/// Makes a phi take a value from another block than before. Returns the new phi.
fn replace_incoming(ir: &Ir<'_>, phi: ValueRef, from: BlockRef, to: BlockRef) -> ValueRef {
    let new = ir.before(phi).phi(ir.type_of(phi));
    for (value, block) in ir.incoming(phi) {
        ir.add_incoming(new, value, if block == from { to } else { block });
    }
    ir.replace(phi, new);
    ir.erase(phi);
    new
}
