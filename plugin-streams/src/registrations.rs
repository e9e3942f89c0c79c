//! Memory of the program that is registered with a driver. A registration holds for all devices at
//! once: the first device to pin the memory registers it, the last one to unpin it unregisters it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The registrations of a driver in this process.
pub struct Registrations {
    by_start: Mutex<BTreeMap<u64, Registration>>,
    /// Number of registrations.
    count: AtomicUsize,
}

struct Registration {
    bytes: u64,
    /// Number of devices that have pinned some of it.
    users: usize,
}

impl Registrations {
    /// Creates an empty list of registrations.
    pub const fn new() -> Registrations {
        Registrations { by_start: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0) }
    }

    /// Returns whether any memory is registered.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Joins a registration that contains a range, or makes one, and returns its start, for
    /// [`Registrations::leave`]. `None` if a registration contains only a part of the range.
    ///
    /// # Errors
    /// Errors of `register`; no registration is made then.
    pub(crate) fn join<E>(
        &self,
        start: u64,
        bytes: u64,
        register: impl FnOnce() -> Result<(), E>,
    ) -> Result<Option<u64>, E> {
        let mut registered = self.by_start.lock();
        let last = start.saturating_add(bytes - 1);
        if let Some((first, found)) = registered.range_mut(..=last).next_back()
            && first.saturating_add(found.bytes) > start
        {
            let has_all = *first <= start && start - first + bytes <= found.bytes;
            found.users += usize::from(has_all);
            return Ok(has_all.then_some(*first));
        }
        register()?;
        registered.insert(start, Registration { bytes, users: 1 });
        self.count.store(registered.len(), Ordering::Release);
        Ok(Some(start))
    }

    /// Leaves the registration that [`Registrations::join`] returned. The last device to leave
    /// calls `unregister`; if that fails, the registration stays.
    ///
    /// # Errors
    /// Errors of `unregister`.
    pub(crate) fn leave<E>(
        &self,
        start: u64,
        unregister: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut registered = self.by_start.lock();
        let Some(found) = registered.get_mut(&start) else { return Ok(()) };
        if found.users > 1 {
            found.users -= 1;
            return Ok(());
        }
        unregister()?;
        registered.remove(&start);
        self.count.store(registered.len(), Ordering::Release);
        Ok(())
    }
}

impl Default for Registrations {
    fn default() -> Self {
        Registrations::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_registers_and_the_last_takes_it_back() {
        let registrations = Registrations::new();
        let start = 0x7777_0000_0000;
        let join = |start, bytes, expected: bool| {
            let mut called = false;
            let joined = registrations.join(start, bytes, || {
                called = true;
                Ok::<(), ()>(())
            });
            assert_eq!(called, expected);
            joined.unwrap()
        };
        let leave = |start, expected: bool| {
            let mut called = false;
            let left = registrations.leave(start, || {
                called = true;
                Ok::<(), ()>(())
            });
            left.unwrap();
            assert_eq!(called, expected);
        };
        assert_eq!(join(start, 100, true), Some(start));
        assert_eq!(join(start + 10, 90, false), Some(start));
        assert_eq!(join(start + 200, 10, true), Some(start + 200));
        for (from, bytes) in [(start, 101), (start + 50, 60), (start - 10, 20), (start - 10, 500)] {
            assert_eq!(join(from, bytes, false), None);
        }
        leave(start, false);
        leave(start, true);
        leave(start, false);
        leave(start + 200, true);
        assert_eq!(registrations.join(start, 1, || Err(7)), Err(7));
        assert_eq!(join(start, 1, true), Some(start));
        assert_eq!(registrations.leave(start, || Err(7)), Err(7));
        leave(start, true);
    }
}
