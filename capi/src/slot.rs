//! [`Slot`]: a place for one object after another, each looked at by many threads until one destroys it.

use crate::sync::{AtomicU64, Ordering};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// A place for an object. Nothing here blocks. Whoever looks stops that by [`Slot::leave`], once for each time.
///
/// The state is a generation, which counts the objects that were here before, two flags, and how many look. Who looks
/// adds one and sees by the same step whether there is what it wants; an empty place may be looked at as well.
pub(crate) struct Slot<T> {
    state: AtomicU64,
    object: UnsafeCell<MaybeUninit<T>>,
}

const GENERATION_SHIFT: u32 = 32;
/// There is an object.
const FULL: u64 = 1 << 31;
/// It is not destroyed.
const LIVE: u64 = 1 << 30;
const LOOKING: u64 = LIVE - 1;

// SAFETY: an object is shared by those that look at it, and taken out by whichever is the last.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
    pub(crate) fn empty() -> Slot<T> {
        Slot { state: AtomicU64::new(0), object: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Puts an object in, and answers its generation. In one order with [`Slot::clear`] and other `SeqCst` operations.
    ///
    /// # Safety
    /// The place is empty, and nobody else fills it.
    pub(crate) unsafe fn fill(&self, object: T) -> u32 {
        // SAFETY: who looks at an empty place does not look at the object.
        unsafe { (*self.object.get()).write(object) };
        (self.state.fetch_or(FULL | LIVE, Ordering::SeqCst) >> GENERATION_SHIFT) as u32
    }

    /// Begins to look, and answers whether the object of this generation is there and not destroyed.
    #[inline]
    pub(crate) fn look(&self, generation: u32) -> bool {
        // Acquires what `fill` released; changes between are modifications of the same number.
        let before = self.state.fetch_add(1, Ordering::Acquire);
        before & !LOOKING == (u64::from(generation) << GENERATION_SHIFT) | FULL | LIVE
    }

    /// The object.
    ///
    /// # Safety
    /// The caller looks at it, and [`Slot::look`] has answered true.
    #[inline]
    pub(crate) unsafe fn object(&self) -> &T {
        // SAFETY: it is there until nobody looks.
        unsafe { (*self.object.get()).assume_init_ref() }
    }

    /// Destroys the object, for a caller that looks at it; false if that was done before.
    pub(crate) fn destroy(&self) -> bool {
        self.state.fetch_and(!LIVE, Ordering::AcqRel) & LIVE != 0
    }

    /// Destroys the object, if there is one, and takes it out, unless somebody looks at it and so will.
    pub(crate) fn clear(&self) -> Option<T> {
        self.state.fetch_add(1, Ordering::SeqCst);
        self.state.fetch_and(!LIVE, Ordering::SeqCst);
        self.leave()
    }

    /// Ends looking. The last to look at a destroyed object gets it; the place is empty then.
    #[inline]
    pub(crate) fn leave(&self) -> Option<T> {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        let is_last = before & (FULL | LIVE | LOOKING) == FULL | 1;
        if is_last { self.take(before - 1) } else { None }
    }

    /// Takes the object out, unless the state has changed: of those that see it destroyed one succeeds.
    #[cold]
    fn take(&self, state: u64) -> Option<T> {
        let next = ((state >> GENERATION_SHIFT) as u32).wrapping_add(1);
        let empty = u64::from(next) << GENERATION_SHIFT;
        self.state.compare_exchange(state, empty, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // SAFETY: it was full and nobody looks; from now on it is empty, and filled when the caller gives it back.
        Some(unsafe { (*self.object.get()).assume_init_read() })
    }
}
