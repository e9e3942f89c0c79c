//! Regions: parts of memory with their shadow.

use longshore_plugin_api::MemoryKind;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// An allocation, a variable of an image, or shared memory of a group.
///
/// Only the thread that runs the checked launch uses the shadow, and a thread that copies; the
/// platform's launches exclude each other. So the cells need no lock.
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    /// Whether items of one group share the memory.
    pub(crate) is_shared: bool,
    /// Whether reads of unwritten bytes are errors.
    pub(crate) is_tracked: bool,
    /// The part that inlined checks use.
    pub(crate) face: Face,
    /// Whether each byte has a cell of its own, not only each word.
    pub(crate) is_fine: Cell<bool>,
    pub(crate) is_freed: Cell<bool>,
    /// A bit for each written byte.
    written: Shadow,
    /// A set bit for each byte, for inlined checks of a region that is not tracked.
    all_written: Cell<Option<Shadow>>,
    cells: Cell<*mut Cells>,
    more: Cell<*mut MoreCells>,
    cell_count: Cell<usize>,
}

// SAFETY: see the type.
unsafe impl Send for Region {}
// SAFETY: see the type.
unsafe impl Sync for Region {}

/// The part of a region that the inlined checks of `jit/checks/src/fast.rs` use.
#[repr(C)]
pub(crate) struct Face {
    start: u64,
    /// Number of offsets at which an access of four or eight bytes begins; 0 if each access needs
    /// the runtime.
    ends: [AtomicU64; 2],
    /// The bits of written bytes; all are set for memory that counts as written.
    written: Cell<*mut u8>,
    cells: Cell<*mut Cells>,
    more: Cell<*mut MoreCells>,
    /// Segments below this one are over for certain.
    pub(crate) past_end: Cell<u32>,
    /// Records of earlier accesses with segments below this one do not count.
    pub(crate) first: Cell<u32>,
}

/// The contents of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Allocation(MemoryKind),
    Pinned,
    /// Memory of the device's heap, by `malloc` in a kernel.
    Heap,
    /// A variable of an image.
    Variable(String),
    /// `LONGSHORE_SHARED` or `LONGSHORE_PRIVATE` memory.
    Shared(String),
    DynamicShared,
}

/// Records of the last accesses of a word or byte.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Cells {
    pub(crate) write: Record,
    /// A read, which also states whether there are further records.
    pub(crate) read: Record,
}

/// Further records of a word or byte. Most accesses need none of this memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MoreCells {
    pub(crate) older_write: Record,
    pub(crate) other_read: Record,
}

/// An access: its segment, its place, and the bytes of its word.
///
/// | bits | contents |
/// | --- | --- |
/// | 0 to 31 | segment; 0 is no access |
/// | 32 to 35 | bytes of the word |
/// | 36 | whether the access is atomic |
/// | 37 to 58 | number of the place |
/// | 59 | for the read of [`Cells`]: whether [`MoreCells`] have records |
///
/// The inlined checks of `jit/checks/src/fast.rs` know the bits too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Record(u64);

impl Record {
    pub(crate) const NONE: Record = Record(0);
    /// The statement that the word has further records.
    pub(crate) const MORE: u64 = 1 << 59;

    #[inline]
    pub(crate) fn new(segment: u32, bytes: u32, is_atomic: bool, place: u32) -> Record {
        let flags = u64::from(bytes) << 32 | u64::from(is_atomic) << 36;
        Record(u64::from(segment) | flags | u64::from(place) << 37)
    }

    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) const fn from_bits(bits: u64) -> Record {
        Record(bits)
    }

    #[inline]
    pub(crate) fn segment(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) fn bytes(self) -> u32 {
        (self.0 >> 32) as u32 & 15
    }

    #[inline]
    pub(crate) fn is_atomic(self) -> bool {
        self.0 >> 36 & 1 == 1
    }

    /// Returns whether the access is of a whole word, and not atomic.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        self.0 >> 32 & 31 == 15
    }

    /// Returns the record of an access with a segment, from one without.
    #[inline]
    pub(crate) fn at(self, segment: u32) -> Record {
        Record(self.0 | u64::from(segment))
    }

    /// Returns the record of the same access by an item some segments later.
    #[inline(always)]
    pub(crate) fn later(self, segments: u32) -> Record {
        Record(self.0.wrapping_add(u64::from(segments)))
    }

    pub(crate) fn place(self) -> u32 {
        (self.0 >> 37) as u32 & ((1 << 22) - 1)
    }

    /// Returns whether the word has further records.
    #[inline]
    pub(crate) fn has_more(self) -> bool {
        self.0 >> 59 & 1 == 1
    }

    /// Returns the record with the statement whether the word has further records.
    #[inline]
    pub(crate) fn with_more(self, has_more: bool) -> Record {
        Record(self.0 & !Record::MORE | u64::from(has_more) << 59)
    }

    /// Returns a record that includes the bytes of another one.
    #[inline]
    pub(crate) fn with_bytes(self, bytes: u32) -> Record {
        Record(self.0 | u64::from(bytes) << 32)
    }
}

impl Region {
    /// Creates a region, without written bytes if `is_tracked`. Without memory for the shadow, the
    /// region is not checked for races or unwritten bytes.
    pub(crate) fn new(start: u64, bytes: u64, kind: Kind, is_tracked: bool) -> Region {
        let written = Shadow::new(if is_tracked { bytes / 8 + 16 } else { 0 });
        Region {
            start,
            bytes,
            is_shared: matches!(kind, Kind::Shared(_) | Kind::DynamicShared),
            kind,
            is_tracked: is_tracked && !written.is_empty(),
            face: Face {
                start,
                ends: [AtomicU64::new(0), AtomicU64::new(0)],
                written: Cell::new(null_mut()),
                cells: Cell::new(null_mut()),
                more: Cell::new(null_mut()),
                past_end: Cell::new(0),
                first: Cell::new(0),
            },
            is_fine: Cell::new(false),
            is_freed: Cell::new(false),
            written,
            all_written: Cell::new(None),
            cells: Cell::new(null_mut()),
            more: Cell::new(null_mut()),
            cell_count: Cell::new(0),
        }
    }

    /// Lets inlined checks use the region from now on, if it has records of whole words. Segments
    /// below `first` are over.
    pub(crate) fn show(&self, first: u32) {
        let cells = self.cells();
        if cells.is_null() || self.is_fine.get() || self.is_freed.get() {
            return;
        }
        if self.face.written.get().is_null() {
            let Some(written) = self.written_for_face() else { return };
            self.face.written.set(written);
        }
        self.face.cells.set(cells);
        self.face.more.set(self.more());
        self.face.past_end.set(self.face.past_end.get().max(first).max(self.face.first.get()));
        for (end, bytes) in self.face.ends.iter().zip([4, 8]) {
            end.store((self.bytes + 1).saturating_sub(bytes), Ordering::Relaxed);
        }
        if self.is_freed.get() {
            self.hide();
        }
    }

    /// Returns the bits of written bytes; `None` without memory for them.
    fn written_for_face(&self) -> Option<*mut u8> {
        if self.is_tracked {
            return Some(self.written.start);
        }
        let all = Shadow::new(self.bytes / 8 + 16);
        if all.is_empty() {
            return None;
        }
        // SAFETY: the memory is new, and has this size.
        unsafe { all.start.write_bytes(0xff, all.bytes) };
        let start = all.start;
        self.all_written.set(Some(all));
        Some(start)
    }

    /// Lets the runtime check each access from now on. Any thread may call it.
    pub(crate) fn hide(&self) {
        self.face.ends.iter().for_each(|end| end.store(0, Ordering::Relaxed));
    }

    #[inline]
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.start);
        offset < self.bytes && self.bytes - offset >= bytes
    }

    // ---- Written bytes ----

    /// Returns the bits of the eight bytes around an offset.
    #[inline]
    pub(crate) fn written_bits(&self, offset: u64) -> *mut u8 {
        self.written.start.wrapping_add((offset / 8) as usize)
    }

    /// Returns whether bytes are written: all, and any.
    pub(crate) fn is_written(&self, offset: u64, bytes: u64) -> (bool, bool) {
        let (mut all, mut any) = (true, !self.is_tracked);
        for at in (offset..offset + bytes).filter(|_| self.is_tracked) {
            // SAFETY: the offset is inside the region.
            let bit = unsafe { *self.written_bits(at) } >> (at % 8) & 1 == 1;
            (all, any) = (all && bit, any || bit);
        }
        (all, any)
    }

    /// Marks bytes as written.
    pub(crate) fn mark(&self, offset: u64, bytes: u64) {
        self.set_written(offset, bytes, true);
    }

    /// Sets the marks of bytes.
    pub(crate) fn set_written(&self, offset: u64, bytes: u64, is_written: bool) {
        if !self.is_tracked {
            return;
        }
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            if at % 8 == 0 && end - at >= 8 {
                let whole = (end - at) / 8;
                let value = if is_written { 0xff } else { 0 };
                // SAFETY: the bits belong to bytes inside the region.
                unsafe { fill(self.written_bits(at), value, whole as usize) };
                at += whole * 8;
                continue;
            }
            let (first, count) = (at % 8, (8 - at % 8).min(end - at));
            let part = (0xff >> (8 - count) << first) as u8;
            // SAFETY: as above.
            unsafe {
                let bits = self.written_bits(at);
                match is_written {
                    true => *bits |= part,
                    false => *bits &= !part,
                }
            }
            at += count;
        }
    }

    /// Copies the marks of bytes from another region.
    pub(crate) fn copy_marks(&self, offset: u64, from: Option<(&Region, u64)>, bytes: u64) {
        let Some((source, at)) = from.filter(|(source, _)| source.is_tracked) else {
            return self.mark(offset, bytes);
        };
        if !self.is_tracked {
            return;
        }
        if source.is_written(at, bytes).0 {
            return self.mark(offset, bytes);
        }
        let bits: Vec<bool> = (0..bytes).map(|index| source.is_written(at + index, 1).0).collect();
        for (index, bit) in bits.into_iter().enumerate() {
            self.set_written(offset + index as u64, 1, bit);
        }
    }

    /// Forgets all written bytes.
    pub(crate) fn forget(&self) {
        self.set_written(0, self.bytes, false);
    }

    // ---- Cells ----

    /// Returns the number of bytes that share a cell, as a power of two.
    #[inline]
    pub(crate) fn shift(&self) -> u32 {
        if self.is_fine.get() { 0 } else { 2 }
    }

    /// Returns the cells; null without memory for them.
    #[inline]
    pub(crate) fn cells(&self) -> *mut Cells {
        let cells = self.cells.get();
        if cells.is_null() { self.map_cells() } else { cells }
    }

    /// Returns the further records of the words that [`Region::cells`] has.
    #[inline]
    pub(crate) fn more(&self) -> *mut MoreCells {
        self.more.get()
    }

    #[cold]
    fn map_cells(&self) -> *mut Cells {
        let count = (self.bytes >> self.shift()) as usize + 2;
        let cells = Shadow::new((count * size_of::<Cells>()) as u64);
        let more = Shadow::new((count * size_of::<MoreCells>()) as u64);
        if cells.is_empty() || more.is_empty() {
            return null_mut();
        }
        self.cells.set(cells.start.cast());
        self.more.set(more.start.cast());
        self.cell_count.set(count);
        std::mem::forget((cells, more));
        self.cells.get()
    }

    /// Gives each byte a cell of its own.
    #[cold]
    pub(crate) fn make_fine(&self) {
        let (old, count) = (self.cells.get(), self.cell_count.get());
        let old_more = self.more.get();
        self.hide();
        self.is_fine.set(true);
        self.cells.set(null_mut());
        self.cell_count.set(0);
        let new = self.map_cells();
        for index in (0..count).filter(|_| !new.is_null()) {
            // SAFETY: the index is below the number of cells.
            let (cells, more) = unsafe { (*old.add(index), *old_more.add(index)) };
            for byte in 0..4 {
                let only = |record: Record| match record.bytes() >> byte & 1 {
                    1 => record.with_bytes(15),
                    _ => Record::default(),
                };
                let at = index * 4 + byte;
                if at < self.cell_count.get() && cells.is_used() {
                    let cells = Cells {
                        write: only(cells.write),
                        read: only(cells.read).with_more(cells.read.has_more()),
                    };
                    let more = MoreCells {
                        older_write: only(more.older_write),
                        other_read: only(more.other_read),
                    };
                    // SAFETY: as above.
                    unsafe {
                        *new.add(at) = cells;
                        *self.more.get().add(at) = more;
                    }
                }
            }
        }
        drop(Shadow { start: old.cast(), bytes: count * size_of::<Cells>() });
        drop(Shadow { start: old_more.cast(), bytes: count * size_of::<MoreCells>() });
    }

    /// Forgets all accesses.
    pub(crate) fn forget_accesses(&self) {
        self.hide();
        self.face.past_end.set(0);
        let (cells, count) = (self.cells.replace(null_mut()), self.cell_count.replace(0));
        let more = self.more.replace(null_mut());
        drop(Shadow { start: cells.cast(), bytes: count * size_of::<Cells>() });
        drop(Shadow { start: more.cast(), bytes: count * size_of::<MoreCells>() });
    }
}

impl Face {
    /// Returns the number of offsets at which an access of four or eight bytes begins; 0 if each
    /// access needs the runtime.
    pub(crate) fn ends(&self, bytes: u64) -> u64 {
        self.ends[usize::from(bytes == 8)].load(Ordering::Relaxed)
    }

    /// Returns the bits of written bytes.
    pub(crate) fn written(&self) -> *const u8 {
        self.written.get()
    }

    #[inline]
    pub(crate) fn cells(&self) -> *mut Cells {
        self.cells.get()
    }
}

impl MoreCells {
    pub(crate) const NONE: MoreCells =
        MoreCells { older_write: Record::NONE, other_read: Record::NONE };

    pub(crate) fn is_used(&self) -> bool {
        self.older_write.segment() != 0 || self.other_read.segment() != 0
    }
}

impl Cells {
    fn is_used(&self) -> bool {
        self.write.segment() != 0 || self.read.segment() != 0
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.forget_accesses();
    }
}

/// Sets bytes, usually few.
///
/// # Safety
/// As for [`pointer::write_bytes`].
#[inline]
unsafe fn fill(mut start: *mut u8, value: u8, mut count: usize) {
    // SAFETY: the caller vouches for all bytes.
    unsafe {
        if count > 128 {
            return start.write_bytes(value, count);
        }
        while count >= 8 {
            start.cast::<u64>().write_unaligned(u64::from_ne_bytes([value; 8]));
            (start, count) = (start.add(8), count - 8);
        }
        for byte in 0..count {
            start.add(byte).write(value);
        }
    }
}

/// Size from which a shadow has huge pages.
const HUGE: usize = 2 << 20;

/// Zeroed pages, which take memory when they are written.
struct Shadow {
    start: *mut u8,
    bytes: usize,
}

impl Shadow {
    fn new(bytes: u64) -> Shadow {
        let bytes = bytes as usize;
        let (access, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: this is a new mapping.
        let start = (bytes > 0)
            .then(|| unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }.ok())
            .flatten();
        let Some(start) = start else { return Shadow { start: null_mut(), bytes: 0 } };
        let advice = if bytes < HUGE { Advice::LinuxNoHugepage } else { Advice::LinuxHugepage };
        // SAFETY: the mapping is new.
        let _ = unsafe { madvise(start, bytes, advice) };
        Shadow { start: start.cast(), bytes }
    }

    fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping is this shadow's own.
            let _ = unsafe { munmap(self.start.cast::<c_void>(), self.bytes) };
        }
    }
}
