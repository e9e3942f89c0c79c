//! Small blocks: slots of a size class, many in each mapping.
//!
//! The table of slots lies outside of the mapping. So a kernel that overruns its block changes
//! other blocks of the class, but no data of the program.

use super::mapping::Mapping;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// Size of the smallest slots in bytes; all sizes are multiples of it.
const SMALLEST: usize = 64;
/// Number of slot sizes for each power of two.
const STEPS: usize = 4;
/// Number of slots of a slab, within the next two limits of its bytes.
const SLOTS: usize = 16;
const LEAST_BYTES: usize = 1 << 20;
const MOST_BYTES: usize = 4 << 20;
/// Least size in bytes of a freed slot whose memory is returned to the system at once.
const DISCARDED: usize = 16 << 10;

/// The slabs of a device, by the size of their slots.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    classes: BTreeMap<usize, Class>,
}

/// Slabs of one size, by address.
#[derive(Debug, Default)]
struct Class {
    slabs: BTreeMap<usize, Slab>,
    with_room: BTreeSet<usize>,
}

#[derive(Debug)]
struct Slab {
    mapping: Mapping,
    /// Number of slots that were ever taken, and the addresses of the free ones among them.
    begun: usize,
    freed: Vec<usize>,
}

/// A taken slot: the address of its slab, and the size of its slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    slab: usize,
    bytes: usize,
}

impl Slabs {
    /// Takes a slot of at least `bytes` bytes at a multiple of `alignment`, a power of two up to a
    /// page.
    ///
    /// # Errors
    /// Errors of [`Mapping::new`].
    pub(super) fn take(&mut self, bytes: usize, alignment: usize) -> Result<(usize, Slot), Errno> {
        let bytes = slot_bytes(bytes, alignment);
        let class = self.classes.entry(bytes).or_default();
        let slab = match class.with_room.last() {
            Some(slab) => *slab,
            None => class.add(bytes)?,
        };
        let found = class.slabs.get_mut(&slab).expect("it has room");
        let address = found.take(bytes);
        if found.is_full(bytes) {
            class.with_room.remove(&slab);
        }
        Ok((address, Slot { slab, bytes }))
    }

    /// Frees a slot. Unmaps a slab without blocks, unless it is the only slab with room.
    pub(super) fn give_back(&mut self, address: usize, Slot { slab, bytes }: Slot) {
        let class = self.classes.get_mut(&bytes).expect("a slot of the class was taken");
        let found = class.slabs.get_mut(&slab).expect("a slot of the slab was taken");
        found.freed.push(address);
        if bytes >= DISCARDED {
            found.mapping.discard(address, bytes);
        }
        class.with_room.insert(slab);
        if found.is_empty() {
            found.reset();
            if class.with_room.len() > 1 {
                class.remove(slab);
            }
        }
    }

    /// Unmaps slabs without blocks. Returns whether any existed.
    pub(super) fn trim(&mut self) -> bool {
        let mut any = false;
        for class in self.classes.values_mut() {
            let empty: Vec<usize> =
                class.slabs.iter().filter(|(_, s)| s.is_empty()).map(|(at, _)| *at).collect();
            any |= !empty.is_empty();
            empty.into_iter().for_each(|slab| class.remove(slab));
        }
        any
    }
}

impl Class {
    fn add(&mut self, slot_bytes: usize) -> Result<usize, Errno> {
        let bytes = (slot_bytes * SLOTS).clamp(LEAST_BYTES, MOST_BYTES);
        // The last slot ends at the fence.
        let mapping = Mapping::new(bytes / slot_bytes * slot_bytes, 1)?;
        let slab = mapping.start();
        self.slabs.insert(slab, Slab { mapping, begun: 0, freed: Vec::new() });
        self.with_room.insert(slab);
        Ok(slab)
    }

    fn remove(&mut self, slab: usize) {
        self.slabs.remove(&slab);
        self.with_room.remove(&slab);
    }
}

impl Slab {
    fn take(&mut self, bytes: usize) -> usize {
        self.freed.pop().unwrap_or_else(|| {
            self.begun += 1;
            self.mapping.end() - self.begun * bytes
        })
    }

    fn is_full(&self, bytes: usize) -> bool {
        let slots = (self.mapping.end() - self.mapping.start()) / bytes;
        self.freed.is_empty() && self.begun == slots
    }

    fn is_empty(&self) -> bool {
        self.freed.len() == self.begun
    }

    /// Returns the memory of a slab without blocks to the system.
    fn reset(&mut self) {
        self.mapping.discard(self.mapping.start(), self.mapping.end() - self.mapping.start());
        self.begun = 0;
        self.freed.clear();
    }
}

/// Returns the size of the slots for a request. Slots lie at multiples of their size before a
/// page's end. So slots are aligned if their size is a multiple of the alignment.
fn slot_bytes(bytes: usize, alignment: usize) -> usize {
    let bytes = bytes.max(SMALLEST);
    let log = (bytes - 1).ilog2();
    let step = ((1 << log) / STEPS).max(SMALLEST);
    let bytes = bytes.next_multiple_of(step);
    let aligned = bytes.next_multiple_of(alignment);
    if aligned == bytes { bytes } else { aligned.next_power_of_two() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn slots_are_aligned_apart_and_used_again() {
        let mut slabs = Slabs::default();
        for (bytes, alignment) in
            [(1, 1), (65, 64), (300, 256), (5000, 64), (4097, 4096), (200 << 10, 256)]
        {
            let mut taken: Vec<_> =
                (0..40).map(|_| slabs.take(bytes, alignment).unwrap()).collect();
            let slot = slot_bytes(bytes, alignment);
            taken.sort_by_key(|(address, _)| *address);
            assert!(taken.windows(2).all(|pair| pair[1].0 - pair[0].0 >= slot.max(bytes)));
            for (address, _) in &taken {
                assert!(address.is_multiple_of(alignment.max(SMALLEST)), "{bytes} {alignment}");
                // SAFETY: the slot was taken.
                unsafe { (*address as *mut u8).write_bytes(1, bytes) };
            }
            let before: HashSet<usize> = taken.iter().map(|(address, _)| *address).collect();
            for (address, slot) in taken.split_off(1) {
                slabs.give_back(address, slot);
            }
            let again = slabs.take(bytes, alignment).unwrap();
            assert!(before.contains(&again.0));
            slabs.give_back(again.0, again.1);
            slabs.give_back(taken[0].0, taken[0].1);
        }
        assert!(slabs.classes.values().all(|class| class.slabs.len() == 1));
        assert!(slabs.trim() && !slabs.trim());
        assert!(slabs.classes.values().all(|class| class.slabs.is_empty()));
    }

    #[test]
    fn sizes_waste_at_most_a_quarter_unless_they_are_small_or_aligned() {
        for bytes in (1..5000).chain([100_000, 200_001]) {
            let slot = slot_bytes(bytes, 1);
            assert!(slot >= bytes && slot.is_multiple_of(64));
            assert!(slot - bytes < 64 || slot - bytes <= bytes / 4, "{bytes}: {slot}");
            assert_eq!(slot_bytes(slot, 1), slot);
        }
    }

    #[test]
    fn memory_of_a_freed_block_is_given_back() {
        let mut slabs = Slabs::default();
        let [(first, slot), (second, _)] = [0, 1].map(|_| slabs.take(64 << 10, 64).unwrap());
        // SAFETY: both slots were taken, and the first stays mapped after it is freed.
        unsafe {
            (first as *mut u8).write_bytes(7, 64 << 10);
            (second as *mut u8).write_bytes(7, 64 << 10);
            slabs.give_back(first, slot);
            assert_eq!(*(first as *const u8), 0);
            assert_eq!(*(second as *const u8), 7);
        }
    }
}
