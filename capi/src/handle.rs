//! Handles: numbers that look like pointers. One that is none, of what was destroyed, or of an earlier olInit is refused.
//!
//! A handle says what it is of, the place of its object, and the generation: how many objects were there before. What is
//! made and destroyed lies in a [`Table`], whose places are never given back, so that any number can be looked up.

use crate::slot::Slot;
use longshore::{Error, ErrorCode, Result};
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a handle is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Platform = 1,
    Device = 2,
    Queue = 3,
    Event = 4,
    Program = 5,
    Symbol = 6,
}

const KIND_SHIFT: u32 = 60;
const PLACE_SHIFT: u32 = 32;
const MOST_PLACES: u32 = 1 << (KIND_SHIFT - PLACE_SHIFT);

impl Kind {
    /// The handle of what is there in this generation.
    #[inline]
    pub(crate) fn handle<T>(self, generation: u32, place: u32) -> *mut T {
        let head = (self as u64) << KIND_SHIFT | u64::from(place) << PLACE_SHIFT;
        (head | u64::from(generation)) as *mut T
    }

    /// The place of a handle of this kind and generation.
    pub(crate) fn place<T>(self, generation: u32, handle: *mut T) -> Option<usize> {
        let found = self.parts(handle).filter(|(_, of)| *of == generation);
        found.map(|(place, _)| place as usize)
    }

    /// Place and generation of a handle of this kind.
    #[inline]
    fn parts<T>(self, handle: *mut T) -> Option<(u32, u32)> {
        let bits = handle as u64;
        let place = (bits >> PLACE_SHIFT) as u32 & (MOST_PLACES - 1);
        (bits >> KIND_SHIFT == self as u64).then_some((place, bits as u32))
    }

    /// The error for a handle that is none of this kind.
    #[cold]
    pub(crate) fn refused<T>(self, handle: *mut T) -> Error {
        let (code, name) = match self {
            Kind::Platform => (ErrorCode::InvalidPlatform, "platform"),
            Kind::Device => (ErrorCode::InvalidDevice, "device"),
            Kind::Queue => (ErrorCode::InvalidQueue, "queue"),
            Kind::Event => (ErrorCode::InvalidEvent, "event"),
            Kind::Program => (ErrorCode::InvalidArgument, "program"),
            Kind::Symbol => (ErrorCode::InvalidArgument, "symbol"),
        };
        let message =
            format!("{:#x} stands for no {name}, or for one that was destroyed", handle as usize);
        Error::new(code, message)
    }
}

/// Objects that are made and destroyed, by their handles. Nothing here takes a lock or blocks, but for what the drop of an
/// object does.
pub(crate) struct Table<T> {
    kind: Kind,
    /// Each has twice as many places as the one before.
    chunks: [OnceLock<Box<[Place<T>]>>; CHUNKS],
    /// Places that were ever used.
    used: AtomicU32,
    /// The free place that is used next, 1 for the first, and in the upper half how often that has changed.
    free: AtomicU64,
}

const FIRST_CHUNK: u32 = 64;
const CHUNKS: usize = (MOST_PLACES.ilog2() - FIRST_CHUNK.ilog2()) as usize;

/// A place of an object.
#[repr(align(64))]
struct Place<T> {
    slot: Slot<T>,
    /// Behind it on the list of free places, as [`Table::free`].
    next: AtomicU32,
}

/// An object that is there until this is dropped, whoever destroys it.
pub(crate) struct Held<'a, T> {
    table: &'a Table<T>,
    place: &'a Place<T>,
    number: u32,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this looks at it until it is dropped.
        unsafe { self.place.slot.object() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(object) = self.place.slot.leave() {
            self.table.give_back(self.place, self.number, object);
        }
    }
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Table<T> {
        Table {
            kind,
            chunks: [const { OnceLock::new() }; CHUNKS],
            used: AtomicU32::new(0),
            free: AtomicU64::new(0),
        }
    }

    /// # Errors
    /// `OutOfResources` if there are too many.
    pub(crate) fn insert<H>(&self, object: T) -> Result<*mut H> {
        let found = self.take_free().or_else(|| self.take_unused());
        let (number, place) = found.ok_or_else(|| {
            let message = format!("there are too many objects of kind {:?}", self.kind);
            Error::new(ErrorCode::OutOfResources, message)
        })?;
        // SAFETY: it was free, and is this call's alone.
        let generation = unsafe { place.slot.fill(object) };
        Ok(self.kind.handle(generation, number))
    }

    /// # Errors
    /// That of [`Kind::refused`].
    #[inline]
    pub(crate) fn get<H>(&self, handle: *mut H) -> Result<Held<'_, T>> {
        self.find(handle).ok_or_else(|| self.kind.refused(handle))
    }

    /// Takes it out; nobody finds it any more. It is dropped by whoever is the last to look at it.
    ///
    /// # Errors
    /// That of [`Kind::refused`].
    pub(crate) fn remove<H>(&self, handle: *mut H) -> Result<()> {
        let held = self.get(handle)?;
        if held.place.slot.destroy() { Ok(()) } else { Err(self.kind.refused(handle)) }
    }

    /// Takes all out.
    pub(crate) fn clear(&self) {
        for number in 0..self.used.load(Ordering::SeqCst) {
            // Whoever has just taken a place, and not made it yet, comes after this.
            let Some(place) = self.place(number) else { continue };
            if let Some(object) = place.slot.clear() {
                self.give_back(place, number, object);
            }
        }
    }

    #[inline]
    fn find<H>(&self, handle: *mut H) -> Option<Held<'_, T>> {
        let (number, generation) = self.kind.parts(handle)?;
        let place = self.place(number)?;
        if place.slot.look(generation) {
            return Some(Held { table: self, place, number });
        }
        if let Some(object) = place.slot.leave() {
            self.give_back(place, number, object);
        }
        None
    }

    /// Drops an object, whose place is free now.
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

    fn change_free(&self, from: u64, to: u32) -> std::result::Result<(), u64> {
        let changes = (from >> u32::BITS).wrapping_add(1);
        let to = changes << u32::BITS | u64::from(to);
        let change = self.free.compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Acquire);
        change.map(drop)
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

/// In which chunk a place is, and where there.
#[inline]
fn whereabouts(number: u32) -> (usize, usize) {
    let from_first = number + FIRST_CHUNK;
    let chunk = from_first.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, (from_first - (FIRST_CHUNK << chunk)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_void;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    fn insert<T>(table: &Table<T>, object: T) -> *mut c_void {
        table.insert(object).unwrap()
    }

    #[test]
    fn handles_of_what_was_destroyed_are_refused_also_when_the_place_is_used_again() {
        let table = Table::new(Kind::Event);
        let first = insert(&table, 1);
        table.remove(first).unwrap();
        let second = insert(&table, 2);
        assert_eq!((first as u64) >> PLACE_SHIFT, (second as u64) >> PLACE_SHIFT, "the same place");
        assert_eq!(table.get(first).err().unwrap().code(), ErrorCode::InvalidEvent);
        assert_eq!(table.remove(first).unwrap_err().code(), ErrorCode::InvalidEvent);
        assert_eq!(*table.get(second).unwrap(), 2);
    }

    #[test]
    fn what_is_looked_at_is_dropped_when_nobody_does_any_more() {
        let (table, object) = (Table::new(Kind::Queue), Arc::new(()));
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
        let (table, object) = (Table::new(Kind::Symbol), Arc::new(()));
        let handles: Vec<_> = (0..1000).map(|_| insert(&table, Arc::clone(&object))).collect();
        table.clear();
        assert_eq!(Arc::strong_count(&object), 1);
        assert!(handles.iter().all(|handle| table.get(*handle).is_err()));
    }

    #[test]
    fn any_number_can_be_looked_up() {
        let table: Table<u8> = Table::new(Kind::Program);
        insert(&table, 7);
        for number in [0, 1, usize::MAX, 5 << 60 | 0xfff_ffff << 32, 5 << 60 | 1, 4 << 60] {
            assert!(table.get(number as *mut c_void).is_err(), "{number:#x}");
        }
        assert!(table.get((5usize << 60) as *mut c_void).is_ok());
    }

    /// Each object is dropped once, and found by its own handle alone.
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
        let (drops, table) = (AtomicUsize::new(0), Table::new(Kind::Event));
        let latest: [AtomicUsize; THREADS] = Default::default();
        let run = |thread: usize| {
            for round in 0..ROUNDS {
                let handle = insert(&table, Counted(&drops, round));
                latest[thread].store(handle as usize, Ordering::Relaxed);
                assert_eq!(table.get(handle).unwrap().1, round);
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
