//! Memory for values that cross from one region to another.

use std::collections::HashMap;

use longshore_llvm::types::{BlockRef, TypeRef, ValueRef, opcode};

use crate::chunk::{Chunk, WIDTH};
use crate::ir::{Ir, ll};
use crate::regions::Obstacle;
use crate::shape::{GroupLoops, ItemLoop, Place, Sizes};
use crate::uniformity::Level;

/// Memory in the group's stack frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) ty: TypeRef,
    memory: ValueRef,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One element.
    One,
    /// An element for each item of a chunk.
    Lanes,
    /// An element for each item of the group.
    Items,
    /// An element for each chunk, at the index of its first item.
    Chunks,
}

impl Kind {
    /// Returns the kind for values of a level; `stays` if no use is in another region of the group.
    pub(crate) fn for_level(level: Level, stays: bool) -> Kind {
        match (level, stays) {
            (Level::Group, _) | (Level::Chunk, true) => Kind::One,
            (Level::Item, true) => Kind::Lanes,
            (Level::Item, false) => Kind::Items,
            (Level::Chunk, false) => Kind::Chunks,
        }
    }
}

/// The slots of a function, and the addresses of items' elements.
pub(crate) struct Slots<'i, 'l> {
    ir: &'i Ir<'l>,
    /// The function's first block, where slots are allocated.
    start: BlockRef,
    sizes: Sizes,
    chunk: Chunk,
    addresses: HashMap<(ValueRef, usize, usize), ValueRef>,
    /// Bytes of slots for each item of a group.
    pub(crate) item_bytes: u64,
}

/// The loops of all regions.
pub(crate) struct Loops {
    pub(crate) groups: Vec<GroupLoops>,
    pub(crate) items: Vec<Vec<ItemLoop>>,
}

impl<'i, 'l> Slots<'i, 'l> {
    pub(crate) fn new(
        ir: &'i Ir<'l>,
        start: BlockRef,
        sizes: Sizes,
        chunk: Chunk,
    ) -> Slots<'i, 'l> {
        Slots { ir, start, sizes, chunk, addresses: HashMap::new(), item_bytes: 0 }
    }

    /// Allocates a slot.
    pub(crate) fn allocate(&mut self, ty: TypeRef, kind: Kind) -> Slot {
        let ir = self.ir;
        let data = ll!(ir, LLVMGetModuleDataLayout(ir.module));
        let bytes = ll!(ir, LLVMABISizeOfType(data, ty));
        let place = ir.terminator(self.start);
        let memory = match kind {
            Kind::One => ir.before(place).alloca(ty),
            Kind::Lanes if self.chunk != Chunk::Row => {
                ir.before(place).array_alloca(ty, ir.constant(64, WIDTH))
            }
            Kind::Lanes => ir.before(place).array_alloca(ty, self.sizes.items[0]),
            Kind::Items | Kind::Chunks => ir.before(place).array_alloca(ty, self.sizes.all),
        };
        if kind != Kind::One {
            self.item_bytes += bytes;
        }
        Slot { ty, memory, kind }
    }

    /// Aligns the memory of a slot at least so.
    pub(crate) fn align(&self, slot: Slot, bytes: u32) {
        if bytes > ll!(self.ir, LLVMGetAlignment(slot.memory)) {
            ll!(self.ir, LLVMSetAlignment(slot.memory, bytes));
        }
    }

    /// Returns the address of the slot at a place. Code for it goes before `at`, or to the
    /// beginning of the loop over items.
    pub(crate) fn address(
        &mut self,
        slot: Slot,
        place: Place,
        loops: &Loops,
    ) -> Result<ValueRef, Obstacle> {
        if slot.kind == Kind::One {
            return Ok(slot.memory);
        }
        let lost = Obstacle { at: None, what: "a value of an item is used for the whole group" };
        if slot.kind == Kind::Chunks {
            let in_chunk = !matches!(place, Place::Group(_));
            let group = place.group().filter(|_| in_chunk).ok_or(lost)?;
            let loops = &loops.groups[group];
            let make = || self.ir.at_end(loops.chunk).element(slot.ty, slot.memory, loops.first);
            return Ok(*self
                .addresses
                .entry((slot.memory, group, usize::MAX))
                .or_insert_with(make));
        }
        let Place::Item(group, item) = place else { return Err(lost) };
        let loop_of = &loops.items[group][item];
        let index = if slot.kind == Kind::Lanes { loop_of.lane } else { loop_of.index };
        let ir = self.ir;
        let make = || ir.at_end(loop_of.begin).element(slot.ty, slot.memory, index);
        Ok(*self.addresses.entry((slot.memory, group, item)).or_insert_with(make))
    }

    /// Returns the address of a lane's element in a slot of kind `Lanes`.
    pub(crate) fn lane_address(&self, slot: Slot, lane: ValueRef, block: BlockRef) -> ValueRef {
        self.ir.at_end(block).element(slot.ty, slot.memory, lane)
    }

    /// Returns the address of an item's element in a slot of kind `Items`.
    pub(crate) fn item_address(&self, slot: Slot, index: ValueRef, block: BlockRef) -> ValueRef {
        self.ir.at_end(block).element(slot.ty, slot.memory, index)
    }

    /// Returns the memory of a slot of kind `One`.
    pub(crate) fn memory(&self, slot: Slot) -> ValueRef {
        slot.memory
    }

    /// Stores a value before an instruction.
    pub(crate) fn store(
        &mut self,
        slot: Slot,
        value: ValueRef,
        before: ValueRef,
        place: Place,
        loops: &Loops,
    ) -> Result<(), Obstacle> {
        let address = self.address(slot, place, loops)?;
        self.ir.before(before).store(value, address);
        Ok(())
    }

    /// Loads the value before an instruction.
    pub(crate) fn load(
        &mut self,
        slot: Slot,
        before: ValueRef,
        place: Place,
        loops: &Loops,
    ) -> Result<ValueRef, Obstacle> {
        let address = self.address(slot, place, loops)?;
        Ok(self.ir.before(before).load(slot.ty, address))
    }
}

/// Returns the uses of a value in `user`: the operand's index, and the instruction before which
/// code for the use must be. For a phi it is the end of the block from which the value comes.
pub(crate) fn use_points(ir: &Ir<'_>, value: ValueRef, user: ValueRef) -> Vec<(u32, ValueRef)> {
    let operands = ir.operands(user);
    let is_phi = ir.opcode(user) == opcode::PHI;
    let mut points = Vec::new();
    for (index, operand) in operands.into_iter().enumerate() {
        if operand == value {
            let point = match is_phi {
                true => ir.terminator(ll!(ir, LLVMGetIncomingBlock(user, index as u32))),
                false => user,
            };
            points.push((index as u32, point));
        }
    }
    points
}
