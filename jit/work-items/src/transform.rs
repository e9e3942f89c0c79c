//! The transformation of one function: from the work of one item to the work of a group.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;

use longshore_llvm::types::*;

use crate::checked;
use crate::chunk::{Chunk, WIDTH};
use crate::clip::{self, Clip};
use crate::flow::Flow;
use crate::indices::bound_indices;
use crate::ir::{Ir, ll};
use crate::leave::Returned;
use crate::markers::Marker;
use crate::metadata::is_for_debuggers;
use crate::regions::{Node, Nodes, Obstacle, Regions, divide};
use crate::shape::{Place, Shaper, Sizes, places};
use crate::slots::{self, Loops, Slots, use_points};
use crate::uniformity::{Level, Uniformity, is_plain};

/// Facts about a transformed function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transformed {
    /// Bytes on the stack for each item of a group.
    pub(crate) item_bytes: u64,
    /// Number of loops over items.
    pub(crate) loops: usize,
}

/// The kind of a kernel's code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Items may wait for each other.
    Waits,
    /// Items never wait. The value is the function of one item, which stays as it is.
    Plain(ValueRef),
    /// Accesses have checks.
    Checked,
}

/// A function whose regions have loops.
pub(crate) struct Body<'i, 'l> {
    pub(crate) ir: &'i Ir<'l>,
    pub(crate) function: ValueRef,
    pub(crate) start: BlockRef,
    /// The function's own variables in memory.
    variables: Vec<ValueRef>,
    pub(crate) nodes: Nodes,
    pub(crate) uniformity: Uniformity,
    pub(crate) groups: Regions,
    pub(crate) chunks: Vec<Regions>,
    /// Blocks of regions, each after its dominators.
    pub(crate) order: Vec<BlockRef>,
    pub(crate) places: HashMap<BlockRef, Place>,
    pub(crate) loops: Loops,
    pub(crate) shaper: Shaper<'i, 'l>,
    pub(crate) slots: Slots<'i, 'l>,
    /// The common block of all returns.
    pub(crate) end: BlockRef,
    pub(crate) accesses: MetadataRef,
    /// The record of items that have returned, if some may return before others.
    pub(crate) returned: Option<Returned>,
    /// Whether the accesses have checks.
    pub(crate) is_checked: bool,
}

/// Makes a function of one item one of a group. Its parameters are the arguments, the group, and
/// the item's place, which is not used any more. After an error the function is unusable.
pub(crate) fn transform(
    ir: &Ir<'_>,
    function: ValueRef,
    required: [u32; 3],
    chunk: Chunk,
    kind: Kind,
) -> Result<Transformed, Obstacle> {
    let is_checked = kind == Kind::Checked;
    check(ir, function)?;
    erase_lifetimes(ir, function);
    if is_checked {
        checked::erase_waits(ir, function);
    }
    let start = ir.split_before(first_after_allocas(ir, function), c"start");
    let mut variables = ir.instructions(start);
    variables.retain(|it| ir.opcode(*it) == opcode::ALLOCA);
    let (mut nodes, end) = split_at_nodes(ir, function);
    let clip = match kind {
        Kind::Plain(item) => clip::take_returns(ir, start, end, item),
        Kind::Waits | Kind::Checked => None,
    };
    let flow = Flow::new(ir, function);
    let mut uniformity = Uniformity::new(ir, function, &flow, chunk);
    bound_indices(ir, function, &mut uniformity);
    let row = match (chunk, required[0]) {
        (Chunk::Row, 0) => None,
        (Chunk::Row, items) => Some(items.into()),
        _ => Some(WIDTH),
    };
    let mut universe: HashSet<BlockRef> =
        flow.blocks.iter().copied().filter(|block| *block != start).collect();
    let mut groups =
        divide(ir, function, &mut nodes, &uniformity, &mut universe, Level::Group, row)?;
    let mut chunks = Vec::new();
    for region in &mut groups.list {
        let blocks = &mut region.blocks;
        chunks.push(divide(ir, function, &mut nodes, &uniformity, blocks, Level::Chunk, row)?);
    }
    for (number, region) in groups.list.iter().enumerate() {
        groups.of.extend(region.blocks.iter().map(|block| (*block, number)));
    }
    let flow = Flow::new(ir, function);
    let order = flow.post_order().into_iter().rev().map(|block| flow.blocks[block]).collect();
    let sizes = sizes(ir, function, start, required);
    let (accesses, parallel) = parallel_metadata(ir);
    let of_slots = Sizes { items: sizes.items, all: sizes.all };
    let places = places(&nodes, &groups, &chunks);
    let shaper = Shaper { ir, function, sizes, chunk, parallel };
    let slots = Slots::new(ir, start, of_slots, chunk);
    let loops = Loops { groups: Vec::new(), items: Vec::new() };
    let mut body = Body {
        ir,
        function,
        start,
        variables,
        nodes,
        uniformity,
        groups,
        chunks,
        order,
        places,
        loops,
        shaper,
        slots,
        end,
        accesses,
        returned: None,
        is_checked,
    };
    body.run(clip.as_ref())?;
    let loops = body.loops.items.iter().map(Vec::len).sum();
    Ok(Transformed { item_bytes: body.slots.item_bytes, loops })
}

impl<'i, 'l> Body<'i, 'l> {
    fn run(&mut self, clip: Option<&Clip>) -> Result<(), Obstacle> {
        self.make_loops(clip);
        if self.is_checked {
            self.refuse_missing_items()?;
        }
        self.record_returns();
        self.move_phis_to_slots()?;
        self.exchange()?;
        self.hoist();
        self.recompute_cheap_values();
        if clip.is_none() {
            self.bound_loops();
        }
        self.leave_regions()?;
        self.move_values_to_slots()?;
        self.replace_parameters()?;
        self.move_variables_to_slots()?;
        self.mark_accesses();
        let numbers = self.is_checked.then(|| self.number_items());
        self.finish_loops();
        if let Some(numbers) = numbers {
            self.check_ranges(&numbers);
        }
        Ok(())
    }

    /// Makes the loops of all regions. Afterwards, edges to an entry lead to the block before the
    /// loops, and edges out of a loop are still as they were.
    fn make_loops(&mut self, clip: Option<&Clip>) {
        for (number, region) in self.groups.list.iter().enumerate() {
            let mut group = self.shaper.group_loops(region.entry);
            let row = clip.map(|clip| self.clip_row(clip, &mut group));
            let mut items = Vec::new();
            for (item, region) in self.chunks[number].list.iter().enumerate() {
                let made = self.shaper.item_loop(region.entry, &group);
                if let Some(row) = &row {
                    ll!(self.ir, LLVMSetOperand(made.counter, 0, row.first));
                    let more = self.ir.operand(self.ir.terminator(made.end), 0);
                    ll!(self.ir, LLVMSetOperand(more, 1, row.end));
                }
                self.places.insert(made.before, Place::Chunk(number, item));
                self.places.insert(made.after, Place::ChunkNode(number, made.after));
                items.push(made);
            }
            self.places.insert(group.before, Place::Group(number));
            self.places.insert(group.after, Place::GroupNode(group.after));
            self.loops.groups.push(group);
            self.loops.items.push(items);
        }
        self.places.insert(self.start, Place::Start);
    }

    /// Returns the place of an instruction.
    pub(crate) fn place(&self, instruction: ValueRef) -> Place {
        let block = self.ir.block_of(instruction);
        *self.places.get(&block).unwrap_or(&Place::GroupNode(block))
    }

    /// Gives each value that is used where it is not visible any more a slot.
    fn move_values_to_slots(&mut self) -> Result<(), Obstacle> {
        let ir = self.ir;
        let mut blocks: Vec<BlockRef> = self.order.clone();
        for (group, items) in self.loops.groups.iter().zip(&self.loops.items) {
            blocks.push(group.before);
            blocks.extend(items.iter().map(|item| item.before));
        }
        blocks.retain(|block| *block != self.start);
        // A value that is computed again has new uses of other values.
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for block in &blocks {
                for value in ir.instructions(*block) {
                    moved |= self.move_value_to_slot(value)?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether there was a use that needed a slot.
    fn move_value_to_slot(&mut self, value: ValueRef) -> Result<bool, Obstacle> {
        let ir = self.ir;
        let own = self.place(value);
        let mut uses = Vec::new();
        for user in ir.users(value) {
            for (index, point) in use_points(ir, value, user) {
                let place = self.place(point);
                if !own.reaches(place) {
                    uses.push((user, index, point, place));
                }
            }
        }
        if uses.is_empty() {
            return Ok(false);
        }
        uses.retain(|(user, index, point, place)| {
            !self.recompute(value, *user, *index, *point, *place)
        });
        if uses.is_empty() {
            return Ok(true);
        }
        let stays = own.group().is_some()
            && uses.iter().all(|(.., place)| {
                place.group() == own.group() && !matches!(place, Place::Group(_))
            });
        let kind = slots::Kind::for_level(self.uniformity.level(value), stays);
        let slot = self.slots.allocate(ir.type_of(value), kind);
        for (user, index, point, place) in uses {
            let loaded = self.slots.load(slot, point, place, &self.loops)?;
            self.uniformity.set(loaded, self.uniformity.level(value));
            ll!(ir, LLVMSetOperand(user, index, loaded));
        }
        let behind = match ir.opcode(value) {
            opcode::PHI => ir.first_after_phis(ir.block_of(value)),
            _ => ll!(ir, LLVMGetNextInstruction(value)),
        };
        self.slots.store(slot, value, behind, own, &self.loops)?;
        Ok(true)
    }

    /// Replaces the parameters for the item's place by the counters of the loops.
    fn replace_parameters(&mut self) -> Result<(), Obstacle> {
        let ir = self.ir;
        let i32 = ir.int(32);
        for dimension in 0..3 {
            let parameter = ir.parameter(self.function, 2 + dimension);
            for user in ir.users(parameter) {
                for (index, point) in use_points(ir, parameter, user) {
                    let counter = self.counter(dimension as usize, self.place(point))?;
                    let id = ir.before(point).cast(opcode::TRUNC, counter, i32);
                    ll!(ir, LLVMSetOperand(user, index, id));
                }
            }
        }
        Ok(())
    }

    fn counter(&self, dimension: usize, place: Place) -> Result<ValueRef, Obstacle> {
        match (dimension, place) {
            (0, Place::Item(group, item)) => Ok(self.loops.items[group][item].x),
            (1 | 2, Place::Item(group, item)) if self.shaper.chunk == Chunk::Flat => {
                Ok(self.loops.items[group][item].rows[dimension - 1])
            }
            (
                1 | 2,
                Place::Item(group, _) | Place::Chunk(group, _) | Place::ChunkNode(group, _),
            ) if self.shaper.chunk != Chunk::Flat => Ok(self.loops.groups[group].place[dimension]),
            _ => Err(Obstacle { at: None, what: "an item's id is used for the whole group" }),
        }
    }

    /// Gives each item its own copy of the function's variables in memory.
    fn move_variables_to_slots(&mut self) -> Result<(), Obstacle> {
        let ir = self.ir;
        for variable in std::mem::take(&mut self.variables) {
            if ll!(ir, LLVMGetFirstUse(variable)).is_null() {
                ir.erase(variable);
                continue;
            }
            let slot = self.slots.allocate(self.padded(variable), slots::Kind::Items);
            self.slots.align(slot, ll!(ir, LLVMGetAlignment(variable)));
            let ty = ir.type_of(variable);
            for user in ir.users(variable) {
                for (index, point) in use_points(ir, variable, user) {
                    let address = self.slots.address(slot, self.place(point), &self.loops)?;
                    let address = ir.before(point).cast(opcode::BIT_CAST, address, ty);
                    ll!(ir, LLVMSetOperand(user, index, address));
                }
            }
            ir.erase(variable);
        }
        Ok(())
    }

    /// Returns the type for an element of an array of variables: the variable's own, or bytes up to
    /// the variable's alignment, which may be greater than the type's.
    fn padded(&self, variable: ValueRef) -> TypeRef {
        let ir = self.ir;
        let ty = ll!(ir, LLVMGetAllocatedType(variable));
        let data = ll!(ir, LLVMGetModuleDataLayout(ir.module));
        let bytes = ll!(ir, LLVMABISizeOfType(data, ty));
        let alignment = u64::from(ll!(ir, LLVMGetAlignment(variable)).max(1));
        match bytes.is_multiple_of(alignment) {
            true => ty,
            false => {
                let bytes = bytes.next_multiple_of(alignment);
                ll!(ir, LLVMArrayType(ir.int(8), bytes as u32))
            }
        }
    }

    /// Tells LLVM that items of a loop do not depend on each other. They do in atomic operations.
    fn mark_accesses(&self) {
        let ir = self.ir;
        let kind = crate::metadata::metadata_kind(ir, "llvm.access.group");
        let group = crate::metadata::metadata_value(ir, self.accesses);
        for (block, place) in &self.places {
            if !matches!(place, Place::Item(..)) {
                continue;
            }
            for instruction in ir.instructions(*block) {
                let is_access = matches!(ir.opcode(instruction), opcode::LOAD | opcode::STORE);
                if is_access && is_plain(ir, instruction) {
                    ll!(ir, LLVMSetMetadata(instruction, kind, group));
                }
            }
        }
    }

    /// Connects the blocks of the loops.
    fn finish_loops(&self) {
        let ir = self.ir;
        for (number, group) in self.loops.groups.iter().enumerate() {
            let entry = self.groups.list[number].entry;
            let first = self.chunks[number].of[&entry];
            ir.at_end(group.chunk).br(self.loops.items[number][first].before);
            for (item, made) in self.loops.items[number].iter().enumerate() {
                ir.at_end(made.begin).br(self.chunks[number].list[item].entry);
            }
        }
    }
}

/// Refuses functions with features that the pass does not know.
fn check(ir: &Ir<'_>, function: ValueRef) -> Result<(), Obstacle> {
    let first = ll!(ir, LLVMGetEntryBasicBlock(function));
    for instruction in ir.all_instructions(function) {
        let what = match ir.opcode(instruction) {
            opcode::INVOKE | opcode::LANDING_PAD | opcode::RESUME => "code for exceptions",
            opcode::INDIRECT_BR | opcode::CALL_BR => "a computed jump",
            opcode::ALLOCA if ir.block_of(instruction) != first => "an array of variable size",
            opcode::ALLOCA if !is_static(ir, instruction) => "an array of variable size",
            _ if ir.kind(ir.type_of(instruction)) == type_kind::TOKEN => "a token",
            _ => continue,
        };
        return Err(Obstacle { at: Some(instruction), what });
    }
    Ok(())
}

fn is_static(ir: &Ir<'_>, alloca: ValueRef) -> bool {
    ir.constant_value(ir.operand(alloca, 0)) == Some(1)
}

/// Removes the marks of variables' lifetimes, which are for variables of one item.
fn erase_lifetimes(ir: &Ir<'_>, function: ValueRef) {
    for call in ir.all_instructions(function) {
        let callee = ir.callee(call).map(|callee| ir.name(callee));
        if callee.is_some_and(|name| name.starts_with("llvm.lifetime.")) {
            ir.erase(call);
        }
    }
}

fn first_after_allocas(ir: &Ir<'_>, function: ValueRef) -> ValueRef {
    let entry = ll!(ir, LLVMGetEntryBasicBlock(function));
    let instructions = ir.instructions(entry);
    let is_alloca = |it: &ValueRef| ir.opcode(*it) == opcode::ALLOCA;
    let first = *instructions.iter().find(|it| !is_alloca(it)).expect("a block has a terminator");
    for late in instructions.into_iter().filter(is_alloca) {
        ir.move_before(late, first);
    }
    first
}

/// Gives each barrier and sub-group operation a block of its own, and all returns a common one.
fn split_at_nodes(ir: &Ir<'_>, function: ValueRef) -> (Nodes, BlockRef) {
    let mut nodes = Nodes::new();
    let split = |instruction: ValueRef, name: &CStr| ir.split_before(instruction, name);
    for call in ir.all_instructions(function) {
        let Some(marker) = Marker::called(ir, call).filter(|marker| marker.waits()) else {
            continue;
        };
        let node = match marker {
            Marker::Barrier => Node::Barrier,
            Marker::BarrierOfRest => Node::BarrierOfRest,
            Marker::GridBarrier => Node::GridBarrier,
            _ => Node::Exchange,
        };
        split(call, c"");
        let alone = split(ll!(ir, LLVMGetNextInstruction(call)), c"together");
        nodes.insert(alone, node);
    }
    let end = ir.append_block(function, c"end");
    for block in ir.blocks(function) {
        let Some(terminator) = ir.terminator(block).present() else { continue };
        if ir.opcode(terminator) == opcode::RET {
            ir.erase(terminator);
            ir.at_end(block).br(end);
        }
    }
    ir.at_end(end).ret();
    separate_returns(ir, function, end);
    nodes.insert(end, Node::Return);
    (nodes, end)
}

/// Gives each way to the return an empty block of its own, so that an early return belongs to the
/// region that it leaves.
fn separate_returns(ir: &Ir<'_>, function: ValueRef, end: BlockRef) {
    let is_empty = |block: &BlockRef| {
        let mut instructions = ir.instructions(*block);
        instructions.retain(|it| !is_for_debuggers(ir, *it));
        instructions.len() == 1 && ir.successors(*block) == [end]
    };
    loop {
        let blocks = ir.blocks(function);
        let leads = |to: BlockRef| move |from: &&BlockRef| ir.successors(**from).contains(&to);
        let several = |to: &&BlockRef| blocks.iter().filter(leads(**to)).count() > 1;
        let Some(shared) = blocks.iter().filter(|it| is_empty(it)).find(several).copied() else {
            return;
        };
        for from in blocks.iter().filter(leads(shared)) {
            let own = ir.append_block(function, c"return");
            ir.at_end(own).br(end);
            ir.redirect(*from, shared, own);
        }
        ll!(ir, LLVMDeleteBasicBlock(shared));
    }
}

/// Emits the numbers of items.
fn sizes(ir: &Ir<'_>, function: ValueRef, start: BlockRef, required: [u32; 3]) -> Sizes {
    let group = ir.parameter(function, 1);
    let end = ir.terminator(start);
    let (i32, i64) = (ir.int(32), ir.int(64));
    let items = [0, 1, 2].map(|dimension| match required[dimension] {
        0 => {
            let build = ir.before(end);
            let items = build.load_field(group, 24 + 4 * dimension as u64, i32);
            build.cast(opcode::ZEXT, items, i64)
        }
        known => ir.constant(64, known.into()),
    });
    let build = ir.before(end);
    let all = build.multiply(build.multiply(items[0], items[1]), items[2]);
    Sizes { items, all }
}

/// Returns the group of memory accesses that are independent among items, and the property of
/// loops that says so.
fn parallel_metadata(ir: &Ir<'_>) -> (MetadataRef, MetadataRef) {
    let accesses = crate::metadata::distinct(ir);
    let name = "llvm.loop.parallel_accesses";
    let name = ll!(ir, LLVMMDStringInContext2(ir.context, name.as_ptr().cast(), name.len()));
    let parts = [name, accesses];
    (accesses, ll!(ir, LLVMMDNodeInContext2(ir.context, parts.as_ptr(), parts.len())))
}
