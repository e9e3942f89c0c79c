//! [`Table`]: the objects of one kind, by their handles. The table never frees its places, so any
//! number can be looked up.
//!
//! The alternative is the crate `sharded-slab`, which gives each thread places of its own. The
//! numbers are nanoseconds per call on a virtual x86-64 machine with 2 cores; "at once" means two
//! threads whose calls overlap:
//!
//! | calls | `Table` | `sharded-slab` |
//! | --- | --- | --- |
//! | look up | 4.3 | 16 |
//! | look up, two objects at once | 4.4 | 54 |
//! | look up, the same object at once | 20 | 59 to 75 |
//! | insert, look up and remove | 26 | 35 |
//! | insert, look up and remove, at once | 54 to 121 | 37 |
//! | insert by one thread, remove by another | 413 | 328 |
//!
//! A launch looks up two handles; a creation or a destruction costs the driver much more than the
//! list of free places. Look-ups therefore decide. A slab that threads share also cannot be
//! cleared, as the last olShutDown does.

use super::handle::{self, MOST_PLACES, Object};
use super::slot::Slot;
use longshore::{Error, ErrorCode, Result};
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Objects that callers create and destroy, by their handles. No method takes a lock or blocks,
/// except for the drop of an object.
pub(crate) struct Table<T> {
    /// Arrays of places, each twice as long as the one before.
    chunks: [OnceLock<Box<[Place<T>]>>; CHUNKS],
    /// Number of places ever used.
    used: AtomicU32,
    /// Number of the next free place, counted from 1, and in the upper half the number of changes
    /// so far.
    free: AtomicU64,
}

const FIRST_CHUNK: u32 = 64;
const CHUNKS: usize = (MOST_PLACES.ilog2() - FIRST_CHUNK.ilog2()) as usize;

/// A place for one object after another.
#[repr(align(64))]
struct Place<T> {
    slot: Slot<T>,
    /// Next place on the list of free places, counted from 1 as in [`Table::free`].
    next: AtomicU32,
}

/// An object in use, which lives at least as long as this value.
pub(crate) struct ObjectGuard<'a, T> {
    table: &'a Table<T>,
    place: &'a Place<T>,
    number: u32,
}

impl<T> Deref for ObjectGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `Table::find` has looked at the slot and found the object; only the drop of this
        // value leaves the slot.
        unsafe { self.place.slot.object() }
    }
}

impl<T> Drop for ObjectGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(object) = self.place.slot.leave() {
            self.table.give_back(self.place, self.number, object);
        }
    }
}

impl<T: Object> Table<T> {
    /// Creates a table without objects.
    pub(crate) const fn new() -> Table<T> {
        Table {
            chunks: [const { OnceLock::new() }; CHUNKS],
            used: AtomicU32::new(0),
            free: AtomicU64::new(0),
        }
    }

    /// Inserts an object and returns its handle.
    ///
    /// # Errors
    /// `OutOfResources` if the table is full.
    pub(crate) fn insert(&self, object: T) -> Result<*mut T::Pointee> {
        let found = self.take_free().or_else(|| self.take_unused());
        let (number, place) = found.ok_or_else(|| {
            let message = format!("there are too many objects of kind '{}'", T::KIND.name);
            Error::new(ErrorCode::OutOfResources, message)
        })?;
        // SAFETY: the place was free or unused, so it is empty and belongs to this call alone.
        let generation = unsafe { place.slot.fill(object) };
        Ok(handle::handle::<T>(generation, number))
    }

    /// Returns the object of a handle, for use. Together with the drop of the result, that takes
    /// two atomic operations on the place.
    ///
    /// # Errors
    /// Errors of [`handle::refused`].
    #[inline]
    pub(crate) fn get(&self, handle: *mut T::Pointee) -> Result<ObjectGuard<'_, T>> {
        self.find(handle).ok_or_else(|| handle::refused::<T>(handle))
    }

    /// Removes an object: no later call finds it. The last user drops it.
    ///
    /// # Errors
    /// Errors of [`handle::refused`].
    pub(crate) fn remove(&self, handle: *mut T::Pointee) -> Result<()> {
        let held = self.get(handle)?;
        if held.place.slot.destroy() { Ok(()) } else { Err(handle::refused::<T>(handle)) }
    }

    /// Removes all objects.
    pub(crate) fn clear(&self) {
        for number in 0..self.used.load(Ordering::SeqCst) {
            // A chunk that does not exist yet belongs to an `insert` that comes after this call.
            let Some(place) = self.place(number) else { continue };
            if let Some(object) = place.slot.clear() {
                self.give_back(place, number, object);
            }
        }
    }

    #[inline]
    fn find(&self, handle: *mut T::Pointee) -> Option<ObjectGuard<'_, T>> {
        let (number, generation) = handle::parts::<T>(handle)?;
        let place = self.place(number)?;
        if place.slot.look(generation) {
            return Some(ObjectGuard { table: self, place, number });
        }
        if let Some(object) = place.slot.leave() {
            self.give_back(place, number, object);
        }
        None
    }

    fn take_free(&self) -> Option<(u32, &Place<T>)> {
        let mut free = self.free.load(Ordering::Acquire);
        loop {
            let number = (free as u32).checked_sub(1)?;
            let place = self.place(number)?;
            // If another call takes the place meanwhile, `free` has changed.
            match self.change_free(free, place.next.load(Ordering::Relaxed)) {
                Ok(()) => return Some((number, place)),
                Err(changed) => free = changed,
            }
        }
    }

    fn take_unused(&self) -> Option<(u32, &Place<T>)> {
        let more = |used: u32| (used < MOST_PLACES - FIRST_CHUNK).then_some(used + 1);
        let number = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok()?;
        let (chunk, at) = whereabouts(number);
        let place = |_| Place { slot: Slot::empty(), next: AtomicU32::new(0) };
        let places =
            self.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(place).collect());
        Some((number, &places[at]))
    }

    #[inline]
    fn place(&self, number: u32) -> Option<&Place<T>> {
        let (chunk, at) = whereabouts(number);
        self.chunks.get(chunk)?.get()?.get(at)
    }
}

impl<T> Table<T> {
    /// Puts an empty place onto the list of free places, and drops its former object.
    #[cold]
    fn give_back(&self, place: &Place<T>, number: u32, object: T) {
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            place.next.store(free as u32, Ordering::Relaxed);
            match self.change_free(free, number + 1) {
                Ok(()) => break,
                Err(changed) => free = changed,
            }
        }
        drop(object);
    }

    fn change_free(&self, from: u64, to: u32) -> std::result::Result<(), u64> {
        let changes = (from >> u32::BITS).wrapping_add(1);
        let to = changes << u32::BITS | u64::from(to);
        let change = self.free.compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Acquire);
        change.map(drop)
    }
}

/// Returns the chunk of a place, and the index in the chunk.
#[inline]
fn whereabouts(number: u32) -> (usize, usize) {
    let from_first = number + FIRST_CHUNK;
    let chunk = from_first.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, (from_first - (FIRST_CHUNK << chunk)) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::handle::Kind;
    use super::*;
    use std::ffi::c_void;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    /// An object of a kind for tests.
    struct Tested<T>(T);

    impl<T> Object for Tested<T> {
        type Pointee = c_void;
        const KIND: Kind = Kind { tag: 5, name: "event", code: ErrorCode::InvalidEvent };
    }

    fn insert<T>(table: &Table<Tested<T>>, object: T) -> *mut c_void {
        table.insert(Tested(object)).unwrap()
    }

    #[test]
    fn handles_of_what_was_destroyed_are_refused_also_when_the_place_is_used_again() {
        let table = Table::new();
        let first = insert(&table, 1);
        table.remove(first).unwrap();
        let second = insert(&table, 2);
        let place = |handle| handle::parts::<Tested<i32>>(handle).unwrap().0;
        assert_eq!(place(first), place(second));
        assert_eq!(table.get(first).err().unwrap().code(), ErrorCode::InvalidEvent);
        assert_eq!(table.remove(first).unwrap_err().code(), ErrorCode::InvalidEvent);
        assert_eq!(table.get(second).unwrap().0, 2);
    }

    #[test]
    fn a_value_is_dropped_after_its_last_reader() {
        let (table, object) = (Table::new(), Arc::new(()));
        let handle = insert(&table, Arc::clone(&object));
        let held = table.get(handle).unwrap();
        table.remove(handle).unwrap();
        assert!(table.get(handle).is_err() && table.remove(handle).is_err());
        assert_eq!(Arc::strong_count(&object), 2);
        drop(held);
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn clearing_leaves_no_object_and_no_handle() {
        let (table, object) = (Table::new(), Arc::new(()));
        let handles: Vec<_> = (0..1000).map(|_| insert(&table, Arc::clone(&object))).collect();
        table.clear();
        assert_eq!(Arc::strong_count(&object), 1);
        assert!(handles.iter().all(|handle| table.get(*handle).is_err()));
    }

    #[test]
    fn any_number_can_be_looked_up() {
        let table: Table<Tested<u8>> = Table::new();
        insert(&table, 7);
        for number in [0, 1, usize::MAX, 5 << 60 | 0xfff_ffff << 32, 5 << 60 | 1, 4 << 60] {
            assert!(table.get(number as *mut c_void).is_err(), "{number:#x}");
        }
        assert!(table.get((5usize << 60) as *mut c_void).is_ok());
    }

    /// Each object is dropped once, and only its own handle finds it.
    #[test]
    fn threads_make_look_up_and_destroy_at_once() {
        struct Counted<'a>(&'a AtomicUsize, usize);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        const THREADS: usize = 4;
        const ROUNDS: usize = 20_000;
        let (drops, table) = (AtomicUsize::new(0), Table::new());
        let latest: [AtomicUsize; THREADS] = Default::default();
        let run = |thread: usize| {
            for round in 0..ROUNDS {
                let handle = insert(&table, Counted(&drops, round));
                latest[thread].store(handle as usize, Ordering::Relaxed);
                assert_eq!(table.get(handle).unwrap().0.1, round);
                let other = latest[round % THREADS].load(Ordering::Relaxed) as *mut c_void;
                drop(table.get(other));
                table.remove(handle).unwrap();
                assert!(table.get(handle).is_err());
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let run = &run;
                scope.spawn(move || run(thread));
            }
        });
        assert_eq!(drops.load(Ordering::Relaxed), THREADS * ROUNDS);
    }
}
