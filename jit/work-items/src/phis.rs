//! Phis at the entries of regions: their values come from other regions, through slots.

use longshore_llvm::types::*;

use crate::ir::ll;
use crate::regions::Obstacle;
use crate::shape::Place;
use crate::slots::{Kind, use_points};
use crate::transform::Body;
use crate::uniformity::Level;

/// The place where a phi's value is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// The end of a block.
    Block(BlockRef),
    /// The block behind the loops of a region.
    Region(BlockRef),
}

impl Body<'_, '_> {
    /// Replaces phis at the entries of regions, whose values come from other regions.
    pub(crate) fn move_phis_to_slots(&mut self) -> Result<(), Obstacle> {
        let ir = self.ir;
        let mut phis = Vec::new();
        for (group, regions) in self.chunks.iter().enumerate() {
            for (item, region) in regions.list.iter().enumerate() {
                let is_first = region.entry == self.groups.list[group].entry;
                let all = ir.instructions(region.entry).into_iter();
                let of_entry = all.filter(|it| ir.opcode(*it) == opcode::PHI);
                phis.extend(of_entry.map(|phi| (phi, group, item, is_first)));
            }
        }
        // Then each use of a value is where the value is needed.
        phis.retain(|(phi, ..)| !self.replace_phi_of_one(*phi));
        phis.into_iter().try_for_each(|(phi, group, item, is_first)| {
            self.move_phi_to_slot(phi, group, item, is_first)
        })
    }

    /// Replaces a phi of one value. Returns whether it did.
    fn replace_phi_of_one(&mut self, phi: ValueRef) -> bool {
        let ir = self.ir;
        let [(value, _)] = *ir.incoming(phi) else { return false };
        // Behind a loop that items leave at different times, the value is not uniform any more.
        let level = self.uniformity.level(phi).max(self.uniformity.level(value));
        if ir.is_instruction(value) {
            self.uniformity.set(value, level);
        }
        ir.replace(phi, value);
        ir.erase(phi);
        true
    }

    fn move_phi_to_slot(
        &mut self,
        phi: ValueRef,
        group: usize,
        item: usize,
        is_first: bool,
    ) -> Result<(), Obstacle> {
        let ir = self.ir;
        let level = self.uniformity.level(phi);
        let incoming = ir.incoming(phi);
        let stays = !is_first && (level < Level::Item || self.stays(phi, group));
        let kind = Kind::for_level(level, stays);
        let late = self.late_uses(phi, kind, group);
        let slot = self.slots.allocate(ir.type_of(phi), kind);
        for (value, from) in self.edges(phi, kind, is_first, incoming) {
            match from {
                Edge::Block(block) => {
                    let end = ir.terminator(block);
                    self.slots.store(slot, value, end, self.place(end), &self.loops)?;
                }
                Edge::Region(after) => {
                    let place = self.places[&after];
                    let address = self.slots.address(slot, place, &self.loops)?;
                    ir.at_end(after).store(value, address);
                }
            }
        }
        let value = match (kind, is_first) {
            // The value must be read before an item of the group, or chunk, writes the next one.
            (Kind::One, true) => {
                let end = ir.terminator(self.loops.groups[group].before);
                self.slots.load(slot, end, Place::Group(group), &self.loops)?
            }
            (Kind::One | Kind::Chunks, _) => {
                let end = ir.terminator(self.loops.items[group][item].before);
                self.slots.load(slot, end, Place::Chunk(group, item), &self.loops)?
            }
            _ if late.is_some() => {
                for (user, index, point) in late.into_iter().flatten() {
                    let place = self.place(point);
                    let value = self.slots.load(slot, point, place, &self.loops)?;
                    self.uniformity.set(value, level);
                    ll!(ir, LLVMSetOperand(user, index, value));
                }
                ir.erase(phi);
                return Ok(());
            }
            _ => {
                let first = ir.first_after_phis(ir.block_of(phi));
                self.slots.load(slot, first, Place::Item(group, item), &self.loops)?
            }
        };
        self.uniformity.set(value, level);
        ir.replace(phi, value);
        ir.erase(phi);
        Ok(())
    }

    /// Returns whether all uses of a value are in a region of the group.
    fn stays(&self, value: ValueRef, group: usize) -> bool {
        let ir = self.ir;
        let points = |user| use_points(ir, value, user).into_iter().map(|(_, point)| point);
        let mut points = ir.users(value).into_iter().flat_map(points);
        points.all(|point| self.place(point).group() == Some(group))
    }

    /// Returns the values that a phi takes, with the places where they are known. A value that all
    /// items of a region bring is stored once, behind the region's loops.
    fn edges(
        &self,
        phi: ValueRef,
        kind: Kind,
        is_first: bool,
        mut incoming: Vec<(ValueRef, BlockRef)>,
    ) -> Vec<(ValueRef, Edge)> {
        // The slot keeps its value.
        incoming.retain(|(value, _)| *value != phi);
        let region = |block: BlockRef| match self.places.get(&block) {
            Some(Place::Item(group, _)) if is_first => Some(self.loops.groups[*group].after),
            Some(Place::Item(group, item)) => Some(self.loops.items[*group][*item].after),
            _ => None,
        };
        let is_one = matches!(kind, Kind::One | Kind::Chunks) && !(is_first && kind != Kind::One);
        let mut edges: Vec<(ValueRef, Edge)> = Vec::new();
        for (value, block) in incoming.iter().copied() {
            let after = region(block).filter(|after| {
                let from_there = |it: &&(ValueRef, BlockRef)| region(it.1) == Some(*after);
                is_one && incoming.iter().filter(from_there).all(|it| it.0 == value)
            });
            let edge = after.map_or(Edge::Block(block), Edge::Region);
            if !edges.contains(&(value, edge)) {
                edges.push((value, edge));
            }
        }
        edges
    }

    /// Returns the uses of a phi, if each can load from the phi's slot by itself. The slot gets its
    /// next value at the end of a region, behind these uses.
    fn late_uses(
        &self,
        phi: ValueRef,
        kind: Kind,
        group: usize,
    ) -> Option<Vec<(ValueRef, u32, ValueRef)>> {
        let ir = self.ir;
        let mut uses = Vec::new();
        for user in ir.users(phi) {
            if user == phi {
                continue;
            }
            for (index, point) in use_points(ir, phi, user) {
                let place = self.place(point);
                let is_in_reach = kind == Kind::Items || place.group() == Some(group);
                // Values of phis change places at the end of a block, all at once.
                let moves = matches!(ir.opcode(user), opcode::PHI | opcode::STORE);
                let changes =
                    moves && ir.incoming(phi).iter().any(|(_, from)| *from == ir.block_of(point));
                if !matches!(place, Place::Item(..)) || !is_in_reach || changes {
                    return None;
                }
                uses.push((user, index, point));
            }
        }
        Some(uses)
    }
}
