//! The search for accesses of a loop over items whose addresses have a fixed distance from item to
//! item.

use std::collections::{HashMap, HashSet};

use longshore_llvm::types::*;

use crate::checked_graph::Graph;
use crate::ir::{Ir, ll};
use crate::predicates::{inverted, swapped};
use crate::shape::ItemLoop;
use crate::uniformity::{is_plain, is_speculatable};

const FAST: &str = "__longshore_check_fast_";
const BOUNDS: &str = "__longshore_check_bounds";
/// The bit of a range's shape for writes; the lower bits are the number of bytes.
const WRITES: u64 = 1 << 8;
/// Most accesses of a loop that are checked at once.
pub(crate) const MOST: usize = 64;
/// Most branches before an access.
const DEEPEST: usize = 8;

/// A checked access that each item makes.
pub(crate) struct Access {
    /// The call of the check.
    pub(crate) call: ValueRef,
    pub(crate) address: ValueRef,
    pub(crate) site: ValueRef,
    pub(crate) shape: u64,
    /// Another check of the address, by the bounds of a variable: the call, the start and the size.
    pub(crate) bounds: Option<(ValueRef, ValueRef, ValueRef)>,
}

/// A comparison that must hold for all items, with the operands in order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) predicate: u32,
    pub(crate) left: ValueRef,
    pub(crate) right: ValueRef,
}

/// The branches before a block, and the comparisons that lead to it.
#[derive(Clone, Default)]
pub(crate) struct Path {
    pub(crate) conditions: Vec<Condition>,
    /// Branches, with the value of their conditions.
    pub(crate) branches: Vec<(ValueRef, bool)>,
}

/// The dependence of a value on the item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Same,
    /// The value differs by a fixed number from one item to the next, and from one row to the next,
    /// as numbers that wrap around.
    Linear,
}

/// A loop over items.
pub(crate) struct Search<'a, 'l> {
    pub(crate) ir: &'a Ir<'l>,
    pub(crate) made: &'a ItemLoop,
    pub(crate) graph: &'a Graph,
    /// The blocks to which each round of the loop comes.
    certain: Vec<bool>,
    /// The loops over rows around the loop, to check all rows at once.
    pub(crate) rows: Option<Rows>,
    forms: HashMap<ValueRef, Option<Form>>,
    /// Comparisons without which values have no form.
    needed: Vec<Condition>,
}

/// Loops over rows, and over planes of which there is one.
pub(crate) struct Rows {
    pub(crate) blocks: HashSet<BlockRef>,
    /// The blocks of a row before the loop over its items.
    pub(crate) before: HashSet<BlockRef>,
    pub(crate) row: ValueRef,
    pub(crate) plane: ValueRef,
}

impl<'a, 'l> Search<'a, 'l> {
    /// Begins with a loop, and maybe with the loops around it.
    pub(crate) fn new(
        ir: &'a Ir<'l>,
        made: &'a ItemLoop,
        graph: &'a Graph,
        rows: Option<Rows>,
    ) -> Search<'a, 'l> {
        let certain = graph.certain(made.end);
        Search { ir, made, graph, certain, rows, forms: HashMap::new(), needed: Vec::new() }
    }

    /// Returns the counter's end.
    pub(crate) fn end(&self) -> ValueRef {
        let ir = self.ir;
        ir.operand(ir.operand(ir.terminator(self.made.end), 0), 1)
    }

    /// Returns whether the counter's end is known before the loop.
    pub(crate) fn has_end(&mut self) -> bool {
        self.form(self.end()) == Some(Form::Same)
    }

    /// Returns whether a linear value depends on the row.
    pub(crate) fn differs_by_row(&self, value: ValueRef) -> bool {
        let is_row = self.rows.as_ref().is_some_and(|rows| rows.row == value);
        if is_row || self.forms.get(&value) != Some(&Some(Form::Linear)) {
            return is_row;
        }
        match self.stored(value) {
            Some(stored) => self.differs_by_row(stored),
            None => self.ir.operands(value).into_iter().any(|it| self.differs_by_row(it)),
        }
    }

    /// Returns the accesses that every item makes, at addresses with a fixed distance, and the
    /// conditions for that.
    pub(crate) fn accesses(&mut self) -> (Vec<Access>, Path) {
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

    pub(crate) fn is_inside(&self, value: ValueRef) -> bool {
        let ir = self.ir;
        let is_around = |block: &BlockRef| match &self.rows {
            Some(rows) => rows.blocks.contains(block),
            None => false,
        };
        let is_here = |block| self.graph.numbers.contains_key(&block) || is_around(&block);
        ir.is_instruction(value) && is_here(ir.block_of(value))
    }

    /// Returns whether a value is known to be linear.
    pub(crate) fn is_linear(&self, value: ValueRef) -> bool {
        value == self.made.counter || self.forms.get(&value) == Some(&Some(Form::Linear))
    }

    /// Returns the form of a value that can be computed before the loop.
    fn form(&mut self, value: ValueRef) -> Option<Form> {
        match &self.rows {
            _ if value == self.made.counter => return Some(Form::Linear),
            Some(rows) if value == rows.row => return Some(Form::Linear),
            Some(rows) if value == rows.plane => return Some(Form::Same),
            _ => {}
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
        if let Some(stored) = self.stored(value) {
            return self.form(stored);
        }
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

    /// Returns the value that code before the loop stores for each row, if a load in the loop is of
    /// that.
    pub(crate) fn stored(&self, load: ValueRef) -> Option<ValueRef> {
        let ir = self.ir;
        let is_in_loop = |it: &ValueRef| self.graph.numbers.contains_key(&ir.block_of(*it));
        let rows = self.rows.as_ref()?;
        if ir.opcode(load) != opcode::LOAD || !is_plain(ir, load) || !is_in_loop(&load) {
            return None;
        }
        let variable = ir.operand(load, 0);
        if ll!(ir, LLVMIsAAllocaInst(variable)).is_null() {
            return None;
        }
        let mut stores = ir.users(variable);
        stores.retain(|user| ir.opcode(*user) != opcode::LOAD);
        let [store] = stores[..] else { return None };
        let is_before = rows.before.contains(&ir.block_of(store));
        let is_of_all = ir.opcode(store) == opcode::STORE && ir.operand(store, 1) == variable;
        let stored = is_of_all.then(|| ir.operand(store, 0))?;
        (is_before && ir.type_of(stored) == ir.type_of(load)).then_some(stored)
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

    /// Returns the extensions of narrow numbers in values, which are linear as long as the number
    /// does not wrap around. That is so if the last item's extension is where the first two lead:
    /// then the other items' extensions are between the first and the last.
    pub(crate) fn extensions(&self, values: Vec<ValueRef>) -> Vec<ValueRef> {
        let ir = self.ir;
        let (mut found, mut seen, mut rest) = (Vec::new(), Vec::new(), values);
        while let Some(value) = rest.pop() {
            let is_linear = self.forms.get(&value) == Some(&Some(Form::Linear));
            if !is_linear || seen.contains(&value) {
                continue;
            }
            seen.push(value);
            let extends = matches!(ir.opcode(value), opcode::ZEXT | opcode::SEXT);
            let rows = self.rows.as_ref().map(|rows| rows.row);
            let counters = [Some(self.made.counter), rows];
            if extends && !counters.contains(&Some(ir.operand(value, 0))) {
                found.push(value);
            }
            match self.stored(value) {
                Some(stored) => rest.push(stored),
                None => rest.extend(ir.operands(value)),
            }
        }
        found
    }
}

/// Returns whether an instruction makes an address of another one.
fn is_step(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    matches!(ir.opcode(instruction), opcode::GET_ELEMENT_PTR | opcode::BIT_CAST)
}
