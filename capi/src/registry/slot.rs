//! [`Slot`]: a place for one object after another, which many threads use until one destroys it.

use crate::sync::{AtomicU64, Ordering};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// A place for an object. No method blocks. Each use of the object begins with [`Slot::look`] and
/// ends with [`Slot::leave`].
///
/// The state consists of a generation (the number of earlier objects in the place), two flags, and
/// the number of users. A user increments that number and checks generation and flags in one
/// `fetch_add`; the place may be empty.
pub(crate) struct Slot<T> {
    state: AtomicU64,
    object: UnsafeCell<MaybeUninit<T>>,
}

const GENERATION_SHIFT: u32 = 32;
/// Flag of a place with an object.
const FULL: u64 = 1 << 31;
/// Flag of an object that is not destroyed.
const LIVE: u64 = 1 << 30;
/// Mask of the number of users.
const LOOKING: u64 = LIVE - 1;

// SAFETY: users on several threads share the object (`Sync`), and the last of them takes it out
// (`Send`).
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
    /// Creates an empty place of generation 0.
    pub(crate) fn empty() -> Slot<T> {
        Slot { state: AtomicU64::new(0), object: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Puts an object into the place, and returns its generation. The operation is in one order
    /// with [`Slot::clear`] and other `SeqCst` operations.
    ///
    /// # Safety
    /// The place is empty, and no other call fills it.
    pub(crate) unsafe fn fill(&self, object: T) -> u32 {
        // SAFETY: the place is empty and the caller fills it alone; users of an empty place do not
        // touch the object.
        unsafe { (*self.object.get()).write(object) };
        (self.state.fetch_or(FULL | LIVE, Ordering::SeqCst) >> GENERATION_SHIFT) as u32
    }

    /// Begins a use, and returns whether the object of this generation is present and not
    /// destroyed.
    #[inline]
    pub(crate) fn look(&self, generation: u32) -> bool {
        // Acquires the release of `fill`: all changes in between modify the same number.
        let before = self.state.fetch_add(1, Ordering::Acquire);
        before & !LOOKING == (u64::from(generation) << GENERATION_SHIFT) | FULL | LIVE
    }

    /// Returns the object.
    ///
    /// # Safety
    /// The caller has begun a use by a [`Slot::look`] that returned true, and has not ended it.
    #[inline]
    pub(crate) unsafe fn object(&self) -> &T {
        // SAFETY: the object was present at the `look`, and stays until the last user leaves.
        unsafe { (*self.object.get()).assume_init_ref() }
    }

    /// Destroys the object, for one of its users; returns false if the object was destroyed before.
    pub(crate) fn destroy(&self) -> bool {
        self.state.fetch_and(!LIVE, Ordering::AcqRel) & LIVE != 0
    }

    /// Destroys the object, if there is one, and returns it unless it is in use; then the last user
    /// gets it.
    pub(crate) fn clear(&self) -> Option<T> {
        self.state.fetch_add(1, Ordering::SeqCst);
        self.state.fetch_and(!LIVE, Ordering::SeqCst);
        self.leave()
    }

    /// Ends a use. The last user of a destroyed object gets the object; the place is empty then.
    #[inline]
    pub(crate) fn leave(&self) -> Option<T> {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        let is_last = before & (FULL | LIVE | LOOKING) == FULL | 1;
        if is_last { self.take(before - 1) } else { None }
    }

    /// Takes the object out, unless the state has changed: of several calls that see the object
    /// destroyed, one succeeds.
    #[cold]
    fn take(&self, state: u64) -> Option<T> {
        let next = ((state >> GENERATION_SHIFT) as u32).wrapping_add(1);
        let empty = u64::from(next) << GENERATION_SHIFT;
        self.state.compare_exchange(state, empty, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // SAFETY: the place was full and without users, and is empty from here on. Nothing fills it
        // before the caller of this function has put it on the list of free places.
        Some(unsafe { (*self.object.get()).assume_init_read() })
    }
}
