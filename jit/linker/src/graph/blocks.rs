//! The blocks of an object: six bytes for each of its sections.
//!
//! A block has the number of its section. Sections without content, the object's tables, have a
//! number and no block.

use super::BlockId;
use crate::elf::{Relocation, View};

/// The value for a block without memory. The number of segments is smaller: one for each protection
/// and lifetime, and for each name of sections between bounds.
pub(super) const NO_SEGMENT: u8 = u8::MAX;

/// The data stored for each section of an object.
#[derive(Default)]
pub(super) struct ObjectBlocks {
    states: Box<[State]>,
    /// Offsets of the blocks in bytes from the start of their segment.
    placements: Box<[u32]>,
    /// Blocks whose relocations are not in the section after their own, each with the section of
    /// its relocations; ascending.
    relocations: Vec<(BlockId, u32)>,
}

/// Segment and flags of a section's block.
#[derive(Clone, Copy)]
pub(super) struct State(u16);

impl State {
    const SEGMENT: u16 = NO_SEGMENT as u16;
    const BLOCK: u16 = 1 << 8;
    const LIVE: u16 = 1 << 9;
    /// A flag of a block whose COMDAT group is another object's.
    const DISCARDED: u16 = 1 << 10;
    /// A flag of a block whose relocations are in the next section.
    const RELOCATIONS_NEXT: u16 = 1 << 11;
    /// A flag of a block whose relocations are in another section than the next.
    const RELOCATIONS_ELSEWHERE: u16 = 1 << 12;

    #[inline]
    pub(super) fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    #[inline]
    pub(super) fn is_discarded(self) -> bool {
        self.0 & Self::DISCARDED != 0
    }

    #[inline]
    pub(super) fn segment(self) -> u8 {
        (self.0 & Self::SEGMENT) as u8
    }
}

impl ObjectBlocks {
    /// Creates an empty set of blocks with room for `count` sections.
    pub(super) fn with_sections(count: usize) -> Self {
        Self {
            states: vec![State(State::SEGMENT); count].into(),
            placements: vec![0; count].into(),
            relocations: Vec::new(),
        }
    }

    /// Returns the number of the object's sections, which is the number of the first added block.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.states.len()
    }

    /// Makes a live block of a section.
    pub(super) fn insert(&mut self, section: u32) {
        self.states[section as usize].0 |= State::BLOCK | State::LIVE;
    }

    /// Returns whether one of the object's sections has a block.
    #[inline]
    pub(super) fn contains(&self, section: u32) -> bool {
        self.states[section as usize].0 & State::BLOCK != 0
    }

    /// Returns the block of a section; `None` for an unknown section or one without a block.
    pub(super) fn section_block(&self, section: u32) -> Option<BlockId> {
        let known = (section as usize) < self.count() && self.contains(section);
        known.then_some(BlockId(section))
    }

    /// Returns the blocks, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = BlockId> {
        (0..self.count() as u32).filter(|section| self.contains(*section)).map(BlockId)
    }

    /// Returns a block's state; `None` for a block that is not the object's.
    #[inline]
    pub(super) fn state(&self, block: BlockId) -> Option<State> {
        self.states.get(block.0 as usize).copied()
    }

    /// Returns whether the block is the object's, and live.
    pub(super) fn is_live(&self, block: BlockId) -> bool {
        self.state(block).is_some_and(State::is_live)
    }

    pub(super) fn set_live(&mut self, block: BlockId, live: bool) {
        let state = &mut self.states[block.0 as usize].0;
        *state = *state & !State::LIVE | if live { State::LIVE } else { 0 };
    }

    /// Takes out a block whose group is another object's.
    pub(super) fn discard(&mut self, block: BlockId) {
        self.set_live(block, false);
        self.states[block.0 as usize].0 |= State::DISCARDED;
    }

    /// Returns a block's segment and its offset in bytes there; `None` for a block that is not the
    /// object's.
    #[inline]
    pub(super) fn position(&self, block: BlockId) -> Option<(u8, u32)> {
        Some((self.state(block)?.segment(), self.placements[block.0 as usize]))
    }

    /// Returns the same as [`Self::position`], for a live block only.
    #[inline]
    pub(super) fn live_position(&self, block: BlockId) -> Option<(u8, u32)> {
        let state = self.state(block).filter(|state| state.is_live())?;
        Some((state.segment(), self.placements[block.0 as usize]))
    }

    pub(super) fn set_position(&mut self, block: BlockId, segment: u8, placement: u32) {
        debug_assert!(segment < NO_SEGMENT);
        let state = &mut self.states[block.0 as usize].0;
        *state = *state & !State::SEGMENT | u16::from(segment);
        self.placements[block.0 as usize] = placement;
    }

    /// Returns the relocations of a block of the object.
    #[inline]
    pub(super) fn relocations<'a>(&self, view: View<'a>, block: BlockId) -> &'a [Relocation] {
        let state = self.states[block.0 as usize].0;
        if state & State::RELOCATIONS_NEXT != 0 {
            view.relocations(block.0 + 1)
        } else if state & State::RELOCATIONS_ELSEWHERE != 0 {
            let place = self.relocations.binary_search_by_key(&block, |(block, _)| *block);
            place.map_or(&[], |place| view.relocations(self.relocations[place].1))
        } else {
            &[]
        }
    }

    /// Records the section that holds the relocations of a block; `false` if another one does
    /// already. [`Self::sort_relocations`] must follow.
    pub(super) fn set_relocations(&mut self, block: BlockId, section: u32) -> bool {
        let state = &mut self.states[block.0 as usize].0;
        if *state & (State::RELOCATIONS_NEXT | State::RELOCATIONS_ELSEWHERE) != 0 {
            return false;
        }
        if section == block.0 + 1 {
            *state |= State::RELOCATIONS_NEXT;
        } else {
            *state |= State::RELOCATIONS_ELSEWHERE;
            self.relocations.push((block, section));
        }
        true
    }

    pub(super) fn sort_relocations(&mut self) {
        self.relocations.sort_unstable();
        self.relocations.shrink_to_fit();
    }
}
