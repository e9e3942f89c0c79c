//! The mapping table of one device: mapped ranges with their counts.

use super::index::{Place, Range, RangeIndex, Writer};
use crate::gpu::Pin;
use crate::memory::{Memory, Pool};
use longshore::{Device, Event};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes of a copy that runs while the table is locked.
pub(super) const COPIED_LOCKED: u64 = 4 << 10;
/// A count that never changes.
pub(crate) const INFINITE: u64 = u64::MAX;

/// A mapped range. LLVM: `HostDataToTargetTy`.
pub(crate) struct Entry {
    /// Base address on the host; may be less than `begin`.
    pub(crate) base: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Device address of `begin`.
    pub(crate) target: u64,
    /// Device memory of the range; `None` for memory that the table does not own.
    pub(crate) memory: Option<Memory>,
    /// Name in the form `;name;file;line;column;;`; may be null.
    pub(crate) name: *const c_char,
    /// Count of `map` clauses; [`INFINITE`] for variables of the program.
    pub(crate) dynamic: u64,
    /// Count of `map` clauses with `ompx_hold`.
    pub(crate) hold: u64,
    /// Number of constructs that are leaving the range.
    pub(crate) ending: u32,
    /// Number of threads that copy the contents, to the device or the host.
    pub(crate) copying: u32,
    /// An event behind the last queued copy.
    pub(crate) copied: Option<Event>,
    /// Pointers in the range that were attached to their pointees, by their addresses on the host.
    pub(crate) shadows: BTreeMap<u64, Shadow>,
    /// The page-lock of the range's memory on the host.
    #[expect(dead_code, reason = "its drop unlocks the memory")]
    pub(crate) pin: Option<Box<Pin>>,
}

// SAFETY: the name is text of a program, which any thread may read.
unsafe impl Send for Entry {}

/// A pointer that was attached to its pointee on the device. LLVM: `ShadowPtrInfoTy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shadow {
    /// Address of the pointer on the host.
    pub(crate) host: u64,
    /// Address of the pointer on the device.
    pub(crate) target: u64,
    /// Contents on the device: the pointer, and the rest of a Fortran descriptor.
    pub(crate) target_contents: Box<[u8]>,
}

impl Entry {
    /// Creates an entry without memory, name and counts, with the base address and the range on the
    /// host, and the device address.
    #[inline]
    pub(crate) fn new(base: u64, (begin, end): (u64, u64), target: u64) -> Entry {
        Entry {
            base,
            begin,
            end,
            target,
            memory: None,
            name: std::ptr::null(),
            dynamic: 0,
            hold: 0,
            ending: 0,
            copying: 0,
            copied: None,
            shadows: BTreeMap::new(),
            pin: None,
        }
    }

    /// Creates an entry for memory that the table does not own, with an infinite count.
    pub(crate) fn associated((begin, end): (u64, u64), target: u64) -> Entry {
        Entry { dynamic: INFINITE, ..Entry::new(begin, (begin, end), target) }
    }

    /// Begins a copy of the contents, and returns the event behind the earlier ones.
    /// [`MappingTable::end_copy`] ends it.
    pub(super) fn begin_copy(&mut self) -> Option<Event> {
        self.copying += 1;
        self.copied.clone()
    }

    /// Returns the sum of both counts.
    pub(crate) fn total(&self) -> u64 {
        self.dynamic.saturating_add(self.hold)
    }

    fn count(&mut self, hold: bool) -> &mut u64 {
        if hold { &mut self.hold } else { &mut self.dynamic }
    }

    pub(crate) fn increment(&mut self, hold: bool) {
        let count = self.count(hold);
        if *count != INFINITE {
            *count += 1;
        }
    }

    pub(crate) fn decrement(&mut self, hold: bool) {
        let count = self.count(hold);
        if *count != INFINITE {
            *count = count.saturating_sub(1);
        }
    }

    /// Sets a count to 1, so that the next decrement is the last.
    pub(crate) fn reset(&mut self, hold: bool) {
        let count = self.count(hold);
        if *count != INFINITE {
            *count = 1;
        }
    }

    /// Returns whether the next decrement removes the range; `deletes` for the decrement of a
    /// `delete`.
    pub(crate) fn is_last(&self, hold: bool, deletes: bool) -> bool {
        let (this, other) =
            if hold { (self.hold, self.dynamic) } else { (self.dynamic, self.hold) };
        other == 0 && if deletes { this != INFINITE } else { this == 1 }
    }

    /// Returns the text of a count.
    pub(crate) fn count_text(count: u64) -> String {
        if count == INFINITE { "INF".to_owned() } else { count.to_string() }
    }

    /// Returns whether the range is a variable of the program, with memory of an image.
    pub(crate) fn is_variable(&self) -> bool {
        // Associations of the program have no name.
        self.dynamic == INFINITE && !self.name.is_null()
    }

    /// Returns whether the table does not own the range and both addresses are the same.
    pub(crate) fn is_host_memory(&self) -> bool {
        self.memory.is_none() && self.begin == self.target
    }
}

/// The entries of a table, and the device memory behind them.
pub(crate) struct Entries {
    slots: Vec<Option<Entry>>,
    unused: Vec<u32>,
    pub(crate) pool: Pool,
}

impl Entries {
    #[inline]
    pub(crate) fn add(&mut self, entry: Entry) -> u32 {
        match self.unused.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(entry);
                index
            }
            None => {
                self.slots.push(Some(entry));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(crate) fn get(&self, index: u32) -> &Entry {
        self.slots[index as usize].as_ref().expect("the index has only live entries")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Entry {
        self.slots[index as usize].as_mut().expect("the index has only live entries")
    }

    /// Drops an entry, and returns its memory.
    #[inline]
    fn discard(&mut self, index: u32) -> Option<Memory> {
        self.unused.push(index);
        let slot = &mut self.slots[index as usize];
        let memory = slot.as_mut().and_then(|entry| entry.memory.take());
        *slot = None;
        memory
    }

    pub(crate) fn remove(&mut self, index: u32) -> Entry {
        self.unused.push(index);
        self.slots[index as usize].take().expect("the index has only live entries")
    }
}

/// The result of a look-up. LLVM: `LookupResult`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lookup {
    pub(crate) range: Option<Range>,
    /// Whether the range contains all that was asked for.
    pub(crate) is_contained: bool,
    /// Whether the first bytes are not mapped, but later bytes are.
    pub(crate) extends_before: bool,
    /// Whether the first bytes are mapped, but later bytes are not.
    pub(crate) extends_after: bool,
}

impl Lookup {
    /// Returns whether any byte is mapped.
    pub(crate) fn overlaps(&self) -> bool {
        self.is_contained || self.extends_before || self.extends_after
    }

    /// Finds `bytes` bytes from `begin` in the two nearest ranges. `base` returns the base address
    /// of a range: an address between the base and the range counts as contained if `bytes` is 0.
    #[inline]
    fn find(
        (floor, above): (Option<Range>, Option<Range>),
        begin: u64,
        bytes: u64,
        base: impl FnOnce(Range) -> u64,
    ) -> Lookup {
        let end = begin.saturating_add(bytes);
        if let Some(range) = floor.filter(|range| begin < range.end) {
            let is_contained = end <= range.end;
            let range = Some(range);
            return Lookup {
                range,
                is_contained,
                extends_before: false,
                extends_after: !is_contained,
            };
        }
        let Some(range) = above else { return Lookup::default() };
        let (is_contained, extends_before) = match bytes {
            0 => (begin >= base(range), false),
            _ => (false, end > range.begin),
        };
        let extends_after = extends_before && end > range.end;
        Lookup { range: Some(range), is_contained, extends_before, extends_after }
    }
}

/// The mapping table of one device. LLVM: `MappingInfoTy`.
pub(crate) struct MappingTable {
    index: RangeIndex<Entries>,
    /// Number of finished copies, for threads that wait for the copy of another thread.
    copies: Mutex<u64>,
    copy_done: Condvar,
    /// Whether a pointer in a range was ever attached to its pointee.
    has_attached: AtomicBool,
}

/// The locked table.
pub(crate) type Locked<'a> = Writer<'a, Entries>;

impl MappingTable {
    /// Creates an empty table.
    pub(crate) fn new(device: Device, threshold: u64) -> MappingTable {
        let pool = Pool::new(device, threshold);
        let entries = Entries { slots: Vec::new(), unused: Vec::new(), pool };
        MappingTable {
            index: RangeIndex::new(entries),
            copies: Mutex::new(0),
            copy_done: Condvar::new(),
            has_attached: AtomicBool::new(false),
        }
    }

    /// Locks the table. Blocks.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        self.index.lock()
    }

    /// Notes that a pointer in a range is attached to its pointee.
    pub(crate) fn note_attached(&self) {
        self.has_attached.store(true, Ordering::Release);
    }

    /// Returns whether a pointer in a range was ever attached to its pointee.
    #[inline]
    pub(crate) fn has_attached(&self) -> bool {
        self.has_attached.load(Ordering::Acquire)
    }

    /// Finds a range without a lock.
    #[inline]
    pub(crate) fn lookup(&self, begin: u64, bytes: u64) -> Lookup {
        let around = self.index.around(begin);
        let is_near_miss =
            bytes == 0 && around.0.is_none_or(|range| begin >= range.end) && around.1.is_some();
        if is_near_miss {
            return lookup(&self.lock(), begin, bytes);
        }
        Lookup::find(around, begin, bytes, |range| range.begin)
    }

    /// Returns the device address of mapped host memory; `None` if no byte of it is mapped.
    #[inline]
    pub(crate) fn translate(&self, begin: u64, bytes: u64) -> Option<u64> {
        let found = self.lookup(begin, bytes);
        let range = found.range.filter(|_| found.overlaps())?;
        Some(range.target.wrapping_add(begin.wrapping_sub(range.begin)))
    }

    /// Returns the device address of host memory that one range contains, at least 1 byte.
    #[inline]
    pub(crate) fn translate_whole(&self, begin: u64, bytes: u64) -> Option<u64> {
        self.index.translate(begin, begin.saturating_add(bytes))
    }

    /// Waits until a thread has finished a copy, and returns the locked table. The entry may be
    /// gone then.
    #[cold]
    fn wait_for_copy<'a>(&'a self, locked: Locked<'a>) -> Locked<'a> {
        let mut copies = self.copies.lock();
        let seen = *copies;
        drop(locked);
        while *copies == seen {
            self.copy_done.wait(&mut copies);
        }
        drop(copies);
        self.lock()
    }

    /// Locks the table, and finds a range whose contents no other thread is copying. Blocks.
    pub(crate) fn lock_settled(&self, begin: u64, bytes: u64) -> (Locked<'_>, Lookup) {
        let mut locked = self.lock();
        loop {
            let found = lookup(&locked, begin, bytes);
            let is_copied = |range: Range| locked.get(range.entry as u32).copying > 0;
            if !found.range.filter(|_| found.overlaps()).is_some_and(is_copied) {
                return (locked, found);
            }
            locked = self.wait_for_copy(locked);
        }
    }

    /// Ends the copy of an entry's contents, and returns the locked table.
    pub(crate) fn end_copy(&self, entry: u32, event: Option<Event>) -> Locked<'_> {
        let mut locked = self.lock();
        let ended = locked.get_mut(entry);
        ended.copying -= 1;
        if event.is_some() {
            ended.copied = event;
        }
        *self.copies.lock() += 1;
        self.copy_done.notify_all();
        locked
    }
}

/// Finds a range in the locked table.
pub(crate) fn lookup(locked: &Locked<'_>, begin: u64, bytes: u64) -> Lookup {
    let around = locked.around(begin);
    Lookup::find(around, begin, bytes, |range| locked.get(range.entry as u32).base)
}

/// Adds an entry to the locked table, at the place where its range belongs.
#[inline]
pub(crate) fn insert_at(locked: &mut Locked<'_>, place: Place, entry: Entry) {
    let (begin, end, target) = (entry.begin, entry.end, entry.target);
    let entry = u64::from(locked.add(entry));
    locked.insert_at(place, Range { begin, end, target, entry });
}

/// Removes a range and its entry from the locked table, and returns its memory.
#[inline]
pub(crate) fn remove_at(locked: &mut Locked<'_>, place: Place, range: Range) -> Option<Memory> {
    locked.remove_at(place, range);
    locked.discard(range.entry as u32)
}

/// Adds an entry to the locked table, and returns its number.
pub(crate) fn insert(locked: &mut Locked<'_>, entry: Entry) -> u32 {
    let mut range = Range { begin: entry.begin, end: entry.end, target: entry.target, entry: 0 };
    let number = locked.add(entry);
    range.entry = u64::from(number);
    locked.insert(range);
    number
}

/// Removes an entry from the locked table.
pub(crate) fn remove(locked: &mut Locked<'_>, number: u32) -> Entry {
    let entry = Entries::remove(locked, number);
    locked.remove(entry.begin);
    entry
}
