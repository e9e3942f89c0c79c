//! The loops around regions: over rows or sub-groups for a region of the group, over items for a
//! region of a chunk.

use std::collections::HashMap;

use longshore_llvm::types::{BlockRef, MetadataRef, ValueRef, opcode, predicate};

use crate::chunk::{Chunk, WIDTH};
use crate::ir::{Ir, ll};
use crate::metadata::{metadata_kind, metadata_value};
use crate::regions::{Node, Nodes, Regions};

/// Number of items of the group in each dimension, and of all of them: `i64` values of the first
/// block.
pub(crate) struct Sizes {
    pub(crate) items: [ValueRef; 3],
    pub(crate) all: ValueRef,
}

/// The loops of a region of the group.
pub(crate) struct GroupLoops {
    /// Block that runs once for the group before the loops.
    pub(crate) before: BlockRef,
    /// Block that runs at the beginning of each chunk.
    pub(crate) chunk: BlockRef,
    /// Block that runs at the end of each chunk.
    pub(crate) chunk_end: BlockRef,
    /// Block behind the loops, without a terminator.
    pub(crate) after: BlockRef,
    /// The chunk's place: first item in x, then y and z, as `i64`. Without meaning for
    /// [`Chunk::Flat`].
    pub(crate) place: [ValueRef; 3],
    /// Number of the chunk's items.
    pub(crate) lanes: ValueRef,
    /// Index in the group of the chunk's first item.
    pub(crate) first: ValueRef,
}

/// The loop of a region of a chunk.
pub(crate) struct ItemLoop {
    /// Block that runs once for the chunk before the loop.
    pub(crate) before: BlockRef,
    /// Beginning of an item: its values, without a terminator.
    pub(crate) begin: BlockRef,
    /// End of an item.
    pub(crate) end: BlockRef,
    /// Block behind the loop, without a terminator.
    pub(crate) after: BlockRef,
    /// The loop's counter: the lane as `i32`, like ids, which LLVM then knows not to wrap around.
    pub(crate) counter: ValueRef,
    /// Index of the item in its chunk, and in its group, as `i64`.
    pub(crate) lane: ValueRef,
    pub(crate) index: ValueRef,
    /// The item's id in x, as `i32`.
    pub(crate) x: ValueRef,
    /// The ids in y and z for [`Chunk::Flat`].
    pub(crate) rows: [ValueRef; 2],
}

/// A loop that counts up, with at least one round.
struct Counter {
    begin: BlockRef,
    /// Last block of a round.
    end: BlockRef,
    after: BlockRef,
    value: ValueRef,
}

/// Emits loops into a function.
pub(crate) struct Shaper<'i, 'l> {
    pub(crate) ir: &'i Ir<'l>,
    pub(crate) function: ValueRef,
    pub(crate) sizes: Sizes,
    pub(crate) chunk: Chunk,
    /// Metadata of loops whose rounds are independent.
    pub(crate) parallel: MetadataRef,
}

impl Shaper<'_, '_> {
    /// Makes the loops of a region of the group. The blocks of the region are still without them:
    /// `before` ends with a branch to its entry, and `chunk` has no terminator.
    pub(crate) fn group_loops(&self, entry: BlockRef) -> GroupLoops {
        let ir = self.ir;
        let before = ir.split_before(ir.instructions(entry)[0], c"group");
        ir.erase(ir.terminator(before));
        if self.chunk == Chunk::Flat {
            return self.flat_loop(before);
        }
        let [nx, ny, nz] = self.sizes.items;
        let zs = self.counter(before, nz, 1, 64);
        let ys = self.counter(zs.begin, ny, 1, 64);
        let base = {
            let build = ir.at_end(ys.begin);
            let rows = build.add(build.multiply(zs.value, ny), ys.value);
            build.multiply(rows, nx)
        };
        let zero = ir.constant(64, 0);
        let (chunk, chunk_end, x, lanes) = if self.chunk == Chunk::Subgroup {
            let xs = self.counter(ys.begin, nx, WIDTH, 64);
            let lanes = self.lanes(&xs, nx);
            ir.at_end(xs.after).br(ys.end);
            self.mark_outer(ir.terminator(xs.end));
            (xs.begin, xs.end, xs.value, lanes)
        } else {
            (ys.begin, ys.end, zero, nx)
        };
        ir.at_end(ys.after).br(zs.end);
        for end in [zs.end, ys.end] {
            self.mark_outer(ir.terminator(end));
        }
        let first = ir.at_end(chunk).add(base, x);
        let place = [x, ys.value, zs.value];
        GroupLoops { before, chunk, chunk_end, after: zs.after, place, lanes, first }
    }

    /// Makes the loop over sub-groups of any group at the end of `before`.
    fn flat_loop(&self, before: BlockRef) -> GroupLoops {
        let ir = self.ir;
        let all = self.counter(before, self.sizes.all, WIDTH, 64);
        self.mark_outer(ir.terminator(all.end));
        let lanes = self.lanes(&all, self.sizes.all);
        let place = [ir.constant(64, 0); 3];
        let (chunk, chunk_end, after) = (all.begin, all.end, all.after);
        GroupLoops { before, chunk, chunk_end, after, place, lanes, first: all.value }
    }

    /// Emits the number of items of a sub-group.
    fn lanes(&self, counter: &Counter, count: ValueRef) -> ValueRef {
        let ir = self.ir;
        let build = ir.at_end(counter.begin);
        let rest = build.binary(opcode::SUB, count, counter.value);
        let width = ir.constant(64, WIDTH);
        let is_whole = build.compare(predicate::UGE, rest, width);
        build.select(is_whole, width, rest)
    }

    /// Makes the loop of a region of a chunk. `begin` and `after` have no terminators.
    pub(crate) fn item_loop(&self, entry: BlockRef, group: &GroupLoops) -> ItemLoop {
        let ir = self.ir;
        let before = ir.split_before(ir.instructions(entry)[0], c"chunk");
        ir.erase(ir.terminator(before));
        let (i32, i64) = (ir.int(32), ir.int(64));
        let build = ir.at_end(before);
        let count = build.cast(opcode::TRUNC, group.lanes, i32);
        let first = build.cast(opcode::TRUNC, group.place[0], i32);
        let Counter { begin, end, after, value: counter } = self.counter(before, count, 1, 32);
        self.mark_parallel(ir.terminator(end));
        let build = ir.at_end(begin);
        let lane = build.cast(opcode::ZEXT, counter, i64);
        let index = build.add(group.first, lane);
        let (x, rows) = match self.chunk {
            Chunk::Flat => {
                let index = build.cast(opcode::TRUNC, index, i32);
                let [nx, ny, _] = self.sizes.items.map(|it| build.cast(opcode::TRUNC, it, i32));
                let row = build.binary(opcode::UDIV, index, nx);
                let rows = [opcode::UREM, opcode::UDIV].map(|it| build.binary(it, row, ny));
                (build.binary(opcode::UREM, index, nx), rows)
            }
            _ => (build.add(first, counter), [first; 2]),
        };
        ItemLoop { before, begin, end, after, counter, lane, index, x, rows }
    }

    /// Makes a loop at the end of `from`: 0, `step` and so on, below `count`, of type `i32` or
    /// `i64`. `begin` and `after` have no terminators.
    fn counter(&self, from: BlockRef, count: ValueRef, step: u64, bits: u32) -> Counter {
        let ir = self.ir;
        let block = |name| ir.append_block(self.function, name);
        let (begin, end, after) = (block(c"round"), block(c"next"), block(c"done"));
        ir.at_end(from).br(begin);
        let value = ir.at_end(begin).phi(ir.int(bits));
        let build = ir.at_end(end);
        let next = build.add(value, ir.constant(bits, step));
        let more = build.compare(predicate::ULT, next, count);
        build.cond_br(more, begin, after);
        ir.add_incoming(value, ir.constant(bits, 0), from);
        ir.add_incoming(value, next, end);
        Counter { begin, end, after, value }
    }

    /// Makes a loop over the lanes of a chunk outside of regions. `body` emits a round at the end
    /// of a block, and returns the block where the round ends. Returns the block behind the loop,
    /// without a terminator.
    pub(crate) fn for_lanes(
        &self,
        from: BlockRef,
        count: ValueRef,
        body: impl FnOnce(BlockRef, ValueRef) -> BlockRef,
    ) -> BlockRef {
        let lanes = self.counter(from, count, 1, 64);
        let last = body(lanes.begin, lanes.value);
        self.ir.at_end(last).br(lanes.end);
        lanes.after
    }

    /// Tells LLVM that the rounds of a loop are independent, and to vectorise the loop before it
    /// would unroll it.
    pub(crate) fn mark_parallel(&self, latch: ValueRef) {
        let keep = self.property("llvm.loop.unroll.disable", None);
        self.set_properties(latch, &[self.parallel, keep]);
    }

    /// Keeps LLVM from vectorising a loop in place of the loop over items inside.
    fn mark_outer(&self, latch: ValueRef) {
        let no = ll!(self.ir, LLVMValueAsMetadata(self.ir.constant(1, 0)));
        let none = self.property("llvm.loop.vectorize.enable", Some(no));
        self.set_properties(latch, &[none]);
    }

    fn property(&self, name: &str, value: Option<MetadataRef>) -> MetadataRef {
        let ir = self.ir;
        let name = ll!(ir, LLVMMDStringInContext2(ir.context, name.as_ptr().cast(), name.len()));
        let parts: Vec<MetadataRef> = [name].into_iter().chain(value).collect();
        ll!(ir, LLVMMDNodeInContext2(ir.context, parts.as_ptr(), parts.len()))
    }

    /// Sets the properties of a loop, in metadata that refers to itself.
    fn set_properties(&self, latch: ValueRef, properties: &[MetadataRef]) {
        let ir = self.ir;
        let own = ll!(ir, LLVMTemporaryMDNode(ir.context, std::ptr::null(), 0));
        let parts: Vec<MetadataRef> = [own].into_iter().chain(properties.iter().copied()).collect();
        let id = ll!(ir, LLVMMDNodeInContext2(ir.context, parts.as_ptr(), parts.len()));
        ll!(ir, LLVMMetadataReplaceAllUsesWith(own, id));
        let kind = metadata_kind(ir, "llvm.loop");
        let id = metadata_value(ir, id);
        ll!(ir, LLVMSetMetadata(latch, kind, id));
    }
}

/// The place of an instruction among the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// The function's first block.
    Start,
    /// A block of the group, in no region.
    GroupNode(BlockRef),
    /// The code before the loops of a region of the group.
    Group(usize),
    /// A block of a chunk, in no region of the chunk.
    ChunkNode(usize, BlockRef),
    /// The code before the loop of a region of a chunk.
    Chunk(usize, usize),
    /// The loop of a region of a chunk.
    Item(usize, usize),
}

impl Place {
    /// Returns the region of the group.
    pub(crate) fn group(self) -> Option<usize> {
        match self {
            Place::Start | Place::GroupNode(_) => None,
            Place::Group(group)
            | Place::ChunkNode(group, _)
            | Place::Chunk(group, _)
            | Place::Item(group, _) => Some(group),
        }
    }

    /// Returns whether a value that is defined here can be used there without a slot.
    pub(crate) fn reaches(self, other: Place) -> bool {
        match (self, other) {
            (Place::Start, _) => true,
            (Place::Group(group), other) => other.group() == Some(group),
            (Place::Chunk(group, chunk), Place::Item(other, item)) => {
                (group, chunk) == (other, item)
            }
            (one, other) => one == other,
        }
    }
}

/// Returns the places of all blocks of a function's regions, before their loops are made.
pub(crate) fn places(
    nodes: &Nodes,
    groups: &Regions,
    chunks: &[Regions],
) -> HashMap<BlockRef, Place> {
    let mut places = HashMap::new();
    for (block, node) in nodes {
        let place = match (node, groups.of.get(block)) {
            (Node::Exchange | Node::Branch(_), Some(group)) => Place::ChunkNode(*group, *block),
            _ => Place::GroupNode(*block),
        };
        places.insert(*block, place);
    }
    for (group, regions) in chunks.iter().enumerate() {
        for (block, chunk) in &regions.of {
            places.insert(*block, Place::Item(group, *chunk));
        }
    }
    places
}
