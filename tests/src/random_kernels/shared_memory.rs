//! Shared memory of an interpreted group, with a record of the accesses since the last barrier.

use super::ast::{Combine, Extent, Kernel};

pub(super) struct SharedMemory {
    arrays: Vec<Vec<Element>>,
    phase: u32,
}

#[derive(Clone, Default)]
struct Element {
    /// `None` until the first write.
    value: Option<u64>,
    /// The phase that the accesses belong to.
    phase: u32,
    reader: Touch,
    writer: Touch,
    atomic: Option<Combine>,
}

/// The items with an access of one kind.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Touch {
    #[default]
    None,
    One(u32),
    Several,
}

impl SharedMemory {
    pub(super) fn new(kernel: &Kernel) -> SharedMemory {
        let length = |extent| match extent {
            // The rest of such an array stays unused.
            Extent::Items(_) | Extent::Dynamic => kernel.volume(),
            Extent::Fixed(length) => length,
        };
        let arrays = kernel.shared.iter();
        let arrays = arrays.map(|array| vec![Element::default(); length(array.extent) as usize]);
        SharedMemory { arrays: arrays.collect(), phase: 0 }
    }

    /// Makes the earlier accesses of all items ordered before the later ones.
    pub(super) fn begin_phase(&mut self) {
        self.phase += 1;
    }

    pub(super) fn load(&mut self, array: usize, index: u64, item: u32) -> Result<u64, String> {
        let element = self.element(array, index)?;
        if element.writer.is_other(item) || element.atomic.is_some() {
            return Err(format!("items race for s{array}[{index}]"));
        }
        element.reader.add(item);
        element.value.ok_or_else(|| format!("s{array}[{index}] is read before a write"))
    }

    pub(super) fn store(
        &mut self,
        array: usize,
        index: u64,
        item: u32,
        value: u64,
    ) -> Result<(), String> {
        let element = self.element(array, index)?;
        let is_touched = element.writer.is_other(item) || element.reader.is_other(item);
        if is_touched || element.atomic.is_some() {
            return Err(format!("items race for s{array}[{index}]"));
        }
        element.writer.add(item);
        element.value = Some(value);
        Ok(())
    }

    /// Changes an element atomically.
    pub(super) fn update(
        &mut self,
        array: usize,
        index: u64,
        combine: Combine,
        next: impl Fn(u64) -> u64,
    ) -> Result<(), String> {
        let element = self.element(array, index)?;
        let is_touched = element.writer != Touch::None || element.reader != Touch::None;
        if is_touched || element.atomic.is_some_and(|other| other != combine) {
            return Err(format!("items race for s{array}[{index}]"));
        }
        element.atomic = Some(combine);
        let old = element.value.ok_or_else(|| format!("s{array}[{index}] is undefined"))?;
        element.value = Some(next(old));
        Ok(())
    }

    fn element(&mut self, array: usize, index: u64) -> Result<&mut Element, String> {
        let phase = self.phase;
        let element = self.arrays[array].get_mut(index as usize);
        let element = element.ok_or_else(|| format!("s{array}[{index}] is out of bounds"))?;
        if element.phase != phase {
            *element = Element { value: element.value, phase, ..Element::default() };
        }
        Ok(element)
    }
}

impl Touch {
    fn is_other(self, item: u32) -> bool {
        self != Touch::None && self != Touch::One(item)
    }

    fn add(&mut self, item: u32) {
        *self = if self.is_other(item) { Touch::Several } else { Touch::One(item) };
    }
}
