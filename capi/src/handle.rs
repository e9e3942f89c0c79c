//! Handles: numbers that look like pointers. One that is none, of what was destroyed, or of an earlier olInit is refused.

use longshore::{Error, ErrorCode, Result};
use sharded_slab::{Config, Entry, Slab};
use std::thread;

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
const CYCLE_SHIFT: u32 = 56;
const VALUE_MASK: usize = (1 << CYCLE_SHIFT) - 1;

impl Kind {
    /// The handle of the object of this number.
    pub(crate) fn handle<T>(self, cycle: u8, value: usize) -> *mut T {
        let cycle = usize::from(cycle & 15);
        (((self as usize) << KIND_SHIFT) | (cycle << CYCLE_SHIFT) | value) as *mut T
    }

    /// The number of the object of a handle, if it is one of this kind and time.
    #[inline]
    pub(crate) fn value<T>(self, cycle: u8, handle: *mut T) -> Option<usize> {
        let bits = handle as usize;
        let head = ((self as usize) << 4) | usize::from(cycle & 15);
        (bits >> CYCLE_SHIFT == head).then_some(bits & VALUE_MASK)
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

/// Objects that are made and destroyed, by their handles. Looking one up takes no lock.
pub(crate) struct Table<T> {
    kind: Kind,
    cycle: u8,
    objects: Slab<T, Numbers>,
}

/// How a slab's numbers are made up: the highest bits are those of kind and cycle.
pub(crate) struct Numbers;

impl Config for Numbers {
    const MAX_THREADS: usize = 1 << 14;
    const MAX_PAGES: usize = 20;
    const INITIAL_PAGE_SIZE: usize = 32;
    const RESERVED_BITS: usize = usize::BITS as usize - CYCLE_SHIFT as usize;
}

/// An object that is there until this is dropped, whoever destroys it.
pub(crate) type Held<'a, T> = Entry<'a, T, Numbers>;

impl<T: Send + Sync> Table<T> {
    pub(crate) fn new(kind: Kind, cycle: u8) -> Table<T> {
        Table { kind, cycle, objects: Slab::new_with_config() }
    }

    /// # Errors
    /// `OutOfResources` if there are too many.
    pub(crate) fn insert<H>(&self, object: T) -> Result<*mut H> {
        let inserted = match HERE.try_with(|_| ()) {
            Ok(()) => self.objects.insert(object),
            // Static destructors run when their thread has given its part of the slab up: another thread's is used.
            Err(_) => thread::scope(|scope| {
                let inserting = scope.spawn(|| self.objects.insert(object));
                inserting.join().ok().flatten()
            }),
        };
        let number = inserted.ok_or_else(|| {
            let message = format!("there are too many objects of kind {:?}", self.kind);
            Error::new(ErrorCode::OutOfResources, message)
        })?;
        Ok(self.kind.handle(self.cycle, number))
    }

    /// # Errors
    /// That of [`Kind::refused`].
    #[inline]
    pub(crate) fn get<H>(&self, handle: *mut H) -> Result<Held<'_, T>> {
        let number = self.kind.value(self.cycle, handle);
        number.and_then(|number| self.objects.get(number)).ok_or_else(|| self.kind.refused(handle))
    }

    /// Takes it out; nobody finds it any more.
    ///
    /// # Errors
    /// That of [`Kind::refused`].
    pub(crate) fn remove<H>(&self, handle: *mut H) -> Result<()> {
        let number = self.kind.value(self.cycle, handle);
        let is_removed = number.is_some_and(|number| self.objects.remove(number));
        if is_removed { Ok(()) } else { Err(self.kind.refused(handle)) }
    }
}

/// Is there as long as a thread has its part of the slabs.
struct Here;

thread_local! {
    static HERE: Here = const { Here };
}

impl Drop for Here {
    /// That there is something to drop lets the thread know that it was dropped.
    fn drop(&mut self) {}
}
