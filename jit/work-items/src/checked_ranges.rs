//! Checks of the accesses of all items of a loop at once.
//!
//! Most accesses of a loop over items are at addresses with a fixed distance from item to item.
//! Before the loop, one call of the runtime checks all accesses of this kind. If they are right, a
//! copy of the loop runs without their checks, which LLVM can vectorise. Otherwise the loop itself
//! runs, and finds the wrong access.
//!
//! The runtime's part is `plugin-host/src/check/ranges.rs`.

use std::cell::LazyCell;
use std::collections::HashMap;

use longshore_llvm::types::*;

use crate::checked_graph::Graph;
use crate::copy::{Copied, copy_blocks};
use crate::ir::{Ir, ll};
use crate::predicates::{inverted, swapped};
use crate::shape::{GroupLoops, ItemLoop};
use crate::transform::Body;
use crate::uniformity::{is_plain, is_speculatable};

/// The runtime's functions: the check of all ranges, and the checks that it replaces.
const RANGES: &std::ffi::CStr = c"__longshore_check_ranges";
const FAST: &str = "__longshore_check_fast_";
const BOUNDS: &str = "__longshore_check_bounds";
/// The runtime's function that frees memory of the device's heap.
const FREE: &std::ffi::CStr = c"__longshore_check_free";
/// Number of words of a range in the table for the runtime.
const RANGE_WORDS: u64 = 6;
/// The bit of a range's shape for writes; the lower bits are the number of bytes.
const WRITES: u64 = 1 << 8;
/// Most accesses of a loop that are checked at once.
const MOST: usize = 64;
/// Most branches before an access.
const DEEPEST: usize = 8;

/// A checked access that each item makes.
struct Access {
    /// The call of the check.
    call: ValueRef,
    address: ValueRef,
    site: ValueRef,
    shape: u64,
    /// Another check of the address, by the bounds of a variable: the call, the start and the size.
    bounds: Option<(ValueRef, ValueRef, ValueRef)>,
}

/// A comparison that must hold for all items, with the operands in order.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Condition {
    predicate: u32,
    left: ValueRef,
    right: ValueRef,
}

/// The branches before a block, and the comparisons that lead to it.
#[derive(Clone, Default)]
struct Path {
    conditions: Vec<Condition>,
    /// Branches, with the value of their conditions.
    branches: Vec<(ValueRef, bool)>,
}

/// The dependence of a value on the item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Same,
    /// The value differs by a fixed number from one item to the next, as numbers that wrap around.
    Linear,
}

/// A loop over items.
struct Search<'a, 'l> {
    ir: &'a Ir<'l>,
    made: &'a ItemLoop,
    graph: Graph,
    /// The blocks to which each round of the loop comes.
    certain: Vec<bool>,
    forms: HashMap<ValueRef, Option<Form>>,
    /// Comparisons without which values have no form.
    needed: Vec<Condition>,
}

impl Body<'_, '_> {
    /// Adds the checks to all loops over items. `numbers` has the stores of the items' numbers.
    pub(crate) fn check_ranges(&self, numbers: &HashMap<BlockRef, ValueRef>) {
        let ir = self.ir;
        // All loops use the same table for the runtime.
        let words = RANGE_WORDS * MOST as u64;
        let ty = ll!(ir, LLVMArrayType(ir.int(64), words as u32));
        let table = LazyCell::new(|| ir.before(ir.terminator(self.start)).alloca(ty));
        let frees = ll!(ir, LLVMGetNamedFunction(ir.module, FREE.as_ptr())).present();
        for (group, items) in self.loops.groups.iter().zip(&self.loops.items) {
            for made in items {
                let Some(graph) = Graph::new(ir, made).filter(|it| !it.may_free(ir, frees)) else {
                    continue;
                };
                let certain = graph.certain(made.end);
                let mut search =
                    Search { ir, made, graph, certain, forms: HashMap::new(), needed: Vec::new() };
                let (accesses, path) = search.accesses();
                let has_end = search.form(search.end()) == Some(Form::Same);
                if has_end && !accesses.is_empty() {
                    let number = numbers.get(&made.begin);
                    self.check_loop(&search, group, (&accesses, &path), number, *table);
                }
            }
        }
    }

    fn check_loop(
        &self,
        search: &Search<'_, '_>,
        group: &GroupLoops,
        (accesses, path): (&[Access], &Path),
        number: Option<&ValueRef>,
        table: ValueRef,
    ) {
        let (ir, made) = (self.ir, search.made);
        let begins = ir.incoming(made.counter).into_iter();
        let first = begins.filter(|(_, from)| *from == made.before).map(|(value, _)| value).next();
        let first = first.expect("the loop begins behind this block");
        let copy = copy_blocks(ir, self.function, &search.graph.blocks, c"checked");
        let check = ir.append_block(self.function, c"ranges");
        let is_right = emit_check(search, group, (accesses, path), (first, table), check);
        // Items that have returned leave the loop's first block.
        let head = ir.block_of(made.counter);
        ir.redirect(made.before, head, check);
        ir.at_end(check).cond_br(is_right, copy.blocks[&head], head);
        for phi in [made.counter, copy.values[&made.counter]] {
            replace_incoming(ir, phi, made.before, check);
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
        let needs_number = rest.any(|it| {
            let is_call = ir.opcode(it) == opcode::CALL;
            is_call && !ir.callee(it).is_some_and(|callee| ir.name(callee).starts_with("llvm."))
        });
        if let Some(store) = number.filter(|_| !needs_number) {
            ir.erase(copy.values[store]);
        }
    }
}

/// Emits the call of the runtime. Returns whether all accesses are right.
fn emit_check(
    search: &Search<'_, '_>,
    group: &GroupLoops,
    (accesses, path): (&[Access], &Path),
    (first, table): (ValueRef, ValueRef),
    block: BlockRef,
) -> ValueRef {
    let ir = search.ir;
    let (i32, i64, byte) = (ir.int(32), ir.int(64), ir.pointer_to(ir.int(8)));
    let mut lane = Lane { counter: first, known: HashMap::new() };
    let end = search.emit(search.end(), &mut lane, block);
    let build = ir.at_end(block);
    let items = build.binary(opcode::SUB, end, first);
    let distance = build.binary(opcode::SUB, items, ir.constant(32, 1));
    let second = build.binary(opcode::ADD, first, ir.constant(32, 1));
    let last = build.binary(opcode::ADD, first, distance);
    let mut lanes = [first, second, last].map(|counter| Lane { counter, known: HashMap::new() });
    let mut is_right = ir.constant(1, 1);
    // Before a branch that no item takes, numbers of its block may have no value.
    let and = |one: ValueRef, other: ValueRef| {
        let build = ir.at_end(block);
        build.binary(opcode::AND, one, build.freeze(other))
    };
    for (index, access) in accesses.iter().enumerate() {
        let [address, next, _] = lanes.each_mut().map(|lane| {
            let address = search.emit(access.address, lane, block);
            ir.at_end(block).cast(opcode::PTR_TO_INT, address, i64)
        });
        let build = ir.at_end(block);
        let stride = build.binary(opcode::SUB, next, address);
        let number = |value: ValueRef| build.cast(opcode::PTR_TO_INT, value, i64);
        let bounds = access.bounds.map(|(_, start, size)| (number(start), size));
        let none = ir.constant(64, 0);
        let (start, size) = bounds.unwrap_or((none, none));
        let words =
            [number(access.site), address, stride, ir.constant(64, access.shape), start, size];
        for (word, value) in words.into_iter().enumerate() {
            let at = 8 * (RANGE_WORDS * index as u64 + word as u64);
            build.store(value, build.field(table, at, i64));
        }
    }
    let values = path.conditions.iter().flat_map(|it| [it.left, it.right]);
    let addresses = accesses.iter().map(|access| access.address);
    for extended in search.extensions(addresses.chain(values).collect()) {
        let is_linear = search.emit_is_linear(extended, &mut lanes, distance, block);
        is_right = and(is_right, is_linear);
    }
    for condition in &path.conditions {
        let holds = search.emit_holds(*condition, &mut lanes, distance, block);
        is_right = and(is_right, holds);
    }
    let parameters = [byte, i32, i32, i32, i64];
    let ty = ll!(ir, LLVMFunctionType(i32, parameters.as_ptr(), parameters.len() as u32, 0));
    let found = ll!(ir, LLVMGetNamedFunction(ir.module, RANGES.as_ptr())).present();
    let function =
        found.unwrap_or_else(|| ll!(ir, LLVMAddFunction(ir.module, RANGES.as_ptr(), ty)));
    let build = ir.at_end(block);
    let table = build.cast(opcode::BIT_CAST, table, byte);
    let start = build.cast(opcode::ZEXT, first, i64);
    let start = build.binary(opcode::ADD, group.first, start);
    let accesses = ir.constant(32, accesses.len() as u64);
    let is_known = build.cast(opcode::ZEXT, is_right, i32);
    let checked = build.call(ty, function, &[table, accesses, items, is_known, start]);
    build.compare(predicate::NE, checked, ir.constant(32, 0))
}

/// The values of an item before the loop.
struct Lane {
    counter: ValueRef,
    known: HashMap<ValueRef, ValueRef>,
}

impl Search<'_, '_> {
    /// Returns the counter's end.
    fn end(&self) -> ValueRef {
        let ir = self.ir;
        ir.operand(ir.operand(ir.terminator(self.made.end), 0), 1)
    }

    /// Returns the accesses that every item makes, at addresses with a fixed distance, and the
    /// conditions for that.
    fn accesses(&mut self) -> (Vec<Access>, Path) {
        let ir = self.ir;
        let (mut found, mut all) = (Vec::new(), Path::default());
        for block in 0..self.graph.blocks.len() {
            let Some(path) = self.path(block) else { continue };
            let before = found.len();
            for call in ir.instructions(self.graph.blocks[block]) {
                if found.len() < MOST {
                    found.extend(self.access(call));
                }
            }
            if found.len() > before {
                for condition in path.conditions {
                    if !all.conditions.contains(&condition) {
                        all.conditions.push(condition);
                    }
                }
                for branch in path.branches {
                    if !all.branches.contains(&branch) {
                        all.branches.push(branch);
                    }
                }
            }
        }
        all.conditions.append(&mut self.needed);
        // The runtime checks neighbours of one place, as in an unrolled loop, together.
        let sites: Vec<ValueRef> = found.iter().map(|access| access.site).collect();
        found.sort_by_key(|access| sites.iter().position(|site| *site == access.site));
        // The accesses of different paths are never all made.
        let is_one_path = all.branches.iter().all(|(branch, value)| {
            !all.branches.iter().any(|(other, it)| other == branch && it != value)
        });
        if is_one_path { (found, all) } else { (Vec::new(), Path::default()) }
    }

    /// Returns what makes all items come to a block; `None` if that is not known.
    fn path(&mut self, block: usize) -> Option<Path> {
        let ir = self.ir;
        let (mut path, mut at) = (Path::default(), block);
        while !self.certain[at] {
            let [from] = *self.graph.predecessors[at] else { return None };
            let (block, to) = (self.graph.blocks[from], self.graph.blocks[at]);
            match *ir.successors(block) {
                [_] => {}
                [yes, no] if yes != no && path.branches.len() < DEEPEST => {
                    let branch = ir.terminator(block);
                    let value = to == yes;
                    if !self.add_conditions(ir.operand(branch, 0), value, &mut path) {
                        return None;
                    }
                    path.branches.push((branch, value));
                }
                _ => return None,
            }
            at = from;
        }
        Some(path)
    }

    /// Adds the comparisons that give a condition this value. Returns `false` if they are not
    /// known.
    fn add_conditions(&mut self, condition: ValueRef, value: bool, path: &mut Path) -> bool {
        let ir = self.ir;
        if !self.is_inside(condition) {
            return false;
        }
        let operands = ir.operands(condition);
        match (ir.opcode(condition), value) {
            (opcode::ICMP, _) => {
                let predicate = ll!(ir, LLVMGetICmpPredicate(condition));
                let [mut left, mut right] = [operands[0], operands[1]];
                let mut predicate = if value { predicate } else { inverted(predicate) };
                let is_number = ir.kind(ir.type_of(left)) == type_kind::INTEGER;
                let forms = [left, right].map(|value| self.form(value));
                match forms {
                    [Some(Form::Linear), Some(Form::Linear)] => return false,
                    [Some(_), Some(Form::Same)] => {}
                    [Some(Form::Same), Some(Form::Linear)] => {
                        (left, right, predicate) = (right, left, swapped(predicate));
                    }
                    _ => return false,
                }
                if predicate == predicate::NE && ir.constant_value(right) == Some(0) {
                    predicate = predicate::UGT;
                }
                if !is_number || predicate == predicate::NE && forms.contains(&Some(Form::Linear)) {
                    return false;
                }
                path.conditions.push(Condition { predicate, left, right });
                true
            }
            (opcode::AND, true) | (opcode::OR, false) => {
                operands.into_iter().all(|part| self.add_conditions(part, value, path))
            }
            // The form of `a && b` and `a || b` that does not look at `b` first.
            (opcode::SELECT, _) => {
                let rest =
                    if value { (operands[2], operands[1]) } else { (operands[1], operands[2]) };
                let is_constant = ir.constant_value(rest.0) == Some(u64::from(!value));
                is_constant
                    && [operands[0], rest.1]
                        .into_iter()
                        .all(|part| self.add_conditions(part, value, path))
            }
            _ => false,
        }
    }

    fn access(&mut self, call: ValueRef) -> Option<Access> {
        let ir = self.ir;
        let name = ir.name(ir.callee(call)?);
        let name = name.strip_prefix(FAST)?;
        // Names of accesses with a greater alignment than their size end with it.
        let name = name.split_once("_by").map_or(name, |(name, _)| name);
        let (verb, bytes) = name.split_at_checked(name.len().checked_sub(1)?)?;
        let bytes: u64 = bytes.parse().ok()?;
        let shape = if verb == "write" { bytes | WRITES } else { bytes };
        let [mut address, site] = [ir.operand(call, 0), ir.operand(call, 1)];
        let bounds = self.bounds(address);
        if let Some((bounds, ..)) = bounds {
            address = ir.operand(bounds, 2);
        }
        self.form(address)?;
        Some(Access { call, address, site, shape, bounds })
    }

    /// Returns the call that checks the address by a variable's bounds, the start and the size, if
    /// that is for one access.
    fn bounds(&self, address: ValueRef) -> Option<(ValueRef, ValueRef, ValueRef)> {
        let ir = self.ir;
        let callee = ir.is_instruction(address).then(|| ir.callee(address)).flatten()?;
        let is_own = self.is_inside(address) && ir.users(address).len() == 1;
        let known = [0, 1].map(|index| ir.operand(address, index));
        let is_constant = known.into_iter().all(|it| !ir.is_instruction(it));
        (is_own && is_constant && ir.name(callee) == BOUNDS)
            .then_some((address, known[0], known[1]))
    }

    fn is_inside(&self, value: ValueRef) -> bool {
        let ir = self.ir;
        ir.is_instruction(value) && self.graph.numbers.contains_key(&ir.block_of(value))
    }

    /// Returns the form of a value that can be computed before the loop.
    fn form(&mut self, value: ValueRef) -> Option<Form> {
        if value == self.made.counter {
            return Some(Form::Linear);
        }
        if !self.is_inside(value) {
            return Some(Form::Same);
        }
        if let Some(known) = self.forms.get(&value) {
            return *known;
        }
        let form = self.computed_form(value);
        self.forms.insert(value, form);
        form
    }

    fn computed_form(&mut self, value: ValueRef) -> Option<Form> {
        let ir = self.ir;
        let operands = ir.operands(value);
        let opcode = ir.opcode(value);
        if opcode == opcode::LOAD {
            return self.is_kept(value).then_some(Form::Same);
        }
        if opcode == opcode::PHI || opcode == opcode::CALL || !is_speculatable(ir, value) {
            return None;
        }
        let forms: Vec<Form> =
            operands.iter().map(|operand| self.form(*operand)).collect::<Option<_>>()?;
        if forms.iter().all(|form| *form == Form::Same) {
            return Some(Form::Same);
        }
        let is_wide = |index: usize| {
            let ty = ir.type_of(operands[index]);
            ir.kind(ty) == type_kind::INTEGER && ll!(ir, LLVMGetIntTypeWidth(ty)) == 64
        };
        let is_linear = match opcode {
            opcode::ADD | opcode::SUB | opcode::TRUNC | opcode::ZEXT | opcode::SEXT => true,
            opcode::BIT_CAST => ir.kind(ir.type_of(value)) == type_kind::POINTER,
            opcode::MUL => forms.contains(&Form::Same),
            opcode::SHL => forms[1] == Form::Same,
            opcode::OR => self.is_sum(value),
            // A narrow index is extended.
            opcode::GET_ELEMENT_PTR => {
                (1..operands.len()).all(|index| forms[index] == Form::Same || is_wide(index))
            }
            _ => false,
        };
        let ty = ir.type_of(value);
        let is_scalar = match ir.kind(ty) {
            type_kind::INTEGER => ll!(ir, LLVMGetIntTypeWidth(ty)) <= 64,
            kind => kind == type_kind::POINTER,
        };
        (is_linear && is_scalar).then_some(Form::Linear)
    }

    /// Returns whether an `or` with a constant is a sum, if small numbers have no bit of the
    /// constant.
    fn is_sum(&mut self, or: ValueRef) -> bool {
        let ir = self.ir;
        let [number, constant] = [ir.operand(or, 0), ir.operand(or, 1)];
        let Some(constant) = ir.constant_value(constant).filter(|it| *it != 0) else {
            return false;
        };
        let limit = ll!(ir, LLVMConstInt(ir.type_of(or), 1 << constant.trailing_zeros(), 0));
        self.needed.push(Condition { predicate: predicate::ULT, left: number, right: limit });
        true
    }

    /// Returns whether a load is of a variable, or an element of one, that keeps its value for the
    /// whole loop.
    fn is_kept(&self, load: ValueRef) -> bool {
        let ir = self.ir;
        let address = ir.operand(load, 0);
        if self.is_inside(address) || !is_plain(ir, load) {
            return false;
        }
        let mut variable = address;
        while ir.is_instruction(variable) && is_step(ir, variable) {
            variable = ir.operand(variable, 0);
        }
        !ll!(ir, LLVMIsAAllocaInst(variable)).is_null() && self.is_only_loaded(variable)
    }

    /// Returns whether the loop does no more with the memory at an address than to load it.
    fn is_only_loaded(&self, address: ValueRef) -> bool {
        let ir = self.ir;
        ir.users(address).into_iter().all(|user| match ir.opcode(user) {
            opcode::LOAD => true,
            opcode::STORE => ir.operand(user, 1) == address && !self.is_inside(user),
            _ => is_step(ir, user) && self.is_only_loaded(user),
        })
    }

    /// Emits a value of a lane at the end of a block.
    fn emit(&self, value: ValueRef, lane: &mut Lane, block: BlockRef) -> ValueRef {
        let ir = self.ir;
        if value == self.made.counter {
            return lane.counter;
        }
        if !self.is_inside(value) {
            return value;
        }
        if let Some(known) = lane.known.get(&value) {
            return *known;
        }
        let operands: Vec<ValueRef> =
            ir.operands(value).into_iter().map(|it| self.emit(it, lane, block)).collect();
        let ty = ir.type_of(value);
        let is_linear = self.forms.get(&value) == Some(&Some(Form::Linear));
        let build = ir.at_end(block);
        // Beyond the loop's rounds, sums may overflow, and addresses may leave their objects.
        let new = match ir.opcode(value) {
            opcode::GET_ELEMENT_PTR if is_linear => {
                let element = ll!(ir, LLVMGetGEPSourceElementType(value));
                build.any_elements(element, operands[0], &operands[1..])
            }
            opcode @ (opcode::TRUNC | opcode::ZEXT | opcode::SEXT | opcode::BIT_CAST)
                if is_linear =>
            {
                build.cast(opcode, operands[0], ty)
            }
            opcode if is_linear => build.binary(opcode, operands[0], operands[1]),
            _ => {
                let new = ll!(ir, LLVMInstructionClone(value));
                ir.insert_at_end(new, block);
                for (index, operand) in operands.into_iter().enumerate() {
                    ll!(ir, LLVMSetOperand(new, index as u32, operand));
                }
                new
            }
        };
        lane.known.insert(value, new);
        new
    }

    /// Emits whether an extension of a narrow number is linear.
    fn emit_is_linear(
        &self,
        extended: ValueRef,
        lanes: &mut [Lane; 3],
        distance: ValueRef,
        block: BlockRef,
    ) -> ValueRef {
        let ir = self.ir;
        let numbers = lanes.each_mut().map(|lane| self.emit(extended, lane, block));
        let build = ir.at_end(block);
        let numbers = numbers.map(|it| build.cast(ir.opcode(extended), it, ir.int(64)));
        leads_to_last(ir, numbers, distance, block)
    }

    /// Emits whether a comparison holds for all items. It does if it holds for the first and the
    /// last item, and if the numbers of all other items are between these two.
    fn emit_holds(
        &self,
        condition: Condition,
        lanes: &mut [Lane; 3],
        distance: ValueRef,
        block: BlockRef,
    ) -> ValueRef {
        let ir = self.ir;
        let Condition { predicate, left, right } = condition;
        let [one, two, last] = lanes.each_mut().map(|lane| self.emit(left, lane, block));
        let limit = self.emit(right, &mut lanes[0], block);
        let build = ir.at_end(block);
        let ends = [one, last].map(|value| build.compare(predicate, value, limit));
        let is_linear = left == self.made.counter
            || self.forms.get(&left).copied().flatten() == Some(Form::Linear);
        if !is_linear {
            return ends[0];
        }
        let is_signed = matches!(predicate, predicate::SGT..=predicate::SLE);
        let between = if ll!(ir, LLVMGetIntTypeWidth(ir.type_of(left))) == 64 {
            // The sum of few small steps wraps around at most once.
            let step = build.binary(opcode::SUB, two, one);
            let is_small = build.compare(predicate::ULT, step, ir.constant(64, 1 << 31));
            let below = if is_signed { predicate::SLE } else { predicate::ULE };
            build.binary(opcode::AND, is_small, build.compare(below, one, last))
        } else {
            let extend = if is_signed { opcode::SEXT } else { opcode::ZEXT };
            let numbers = [one, two, last].map(|it| build.cast(extend, it, ir.int(64)));
            leads_to_last(ir, numbers, distance, block)
        };
        let build = ir.at_end(block);
        build.binary(opcode::AND, build.binary(opcode::AND, ends[0], ends[1]), between)
    }

    /// Returns the extensions of narrow numbers in values, which are linear as long as the number
    /// does not wrap around. That is so if the last item's extension is where the first two lead:
    /// then the other items' extensions are between the first and the last.
    fn extensions(&self, values: Vec<ValueRef>) -> Vec<ValueRef> {
        let ir = self.ir;
        let (mut found, mut seen, mut rest) = (Vec::new(), Vec::new(), values);
        while let Some(value) = rest.pop() {
            let is_linear = self.forms.get(&value) == Some(&Some(Form::Linear));
            if !is_linear || seen.contains(&value) {
                continue;
            }
            seen.push(value);
            let extends = matches!(ir.opcode(value), opcode::ZEXT | opcode::SEXT);
            if extends && ir.operand(value, 0) != self.made.counter {
                found.push(value);
            }
            rest.extend(ir.operands(value));
        }
        found
    }
}

/// Returns whether an instruction makes an address of another one.
fn is_step(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    matches!(ir.opcode(instruction), opcode::GET_ELEMENT_PTR | opcode::BIT_CAST)
}

/// Emits whether the step from the first item's number to the second one's leads to the last one's.
/// The numbers have fewer bits than their type, `i64`, so that no step wraps around. `distance` is
/// the number of steps.
fn leads_to_last(
    ir: &Ir<'_>,
    [one, two, last]: [ValueRef; 3],
    distance: ValueRef,
    block: BlockRef,
) -> ValueRef {
    let build = ir.at_end(block);
    let steps = build.cast(opcode::ZEXT, distance, ir.int(64));
    let step = build.binary(opcode::SUB, two, one);
    let expected = build.binary(opcode::ADD, one, build.binary(opcode::MUL, step, steps));
    build.compare(predicate::EQ, last, expected)
}

/// Makes a phi take a value from another block than before.
fn replace_incoming(ir: &Ir<'_>, phi: ValueRef, from: BlockRef, to: BlockRef) {
    let new = ir.before(phi).phi(ir.type_of(phi));
    for (value, block) in ir.incoming(phi) {
        ir.add_incoming(new, value, if block == from { to } else { block });
    }
    ir.replace(phi, new);
    ir.erase(phi);
}
