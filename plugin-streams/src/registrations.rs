//! Memory of the program that is registered with a driver, which is so for all devices at once: whoever
//! pins it first registers it, whoever unpins it last takes that back.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The registrations of a driver in this process.
pub struct Registrations {
    by_start: Mutex<BTreeMap<u64, Registration>>,
    /// How many there are.
    count: AtomicUsize,
}

struct Registration {
    bytes: u64,
    /// How many devices have pinned some of it.
    users: usize,
}

impl Registrations {
    /// None.
    pub const fn new() -> Registrations {
        Registrations { by_start: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0) }
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Takes part in a registration that has all of a range, or makes one. The answer is its start, to be
    /// given to [`Registrations::leave`]; none if a registration has some of the range alone.
    ///
    /// # Errors
    /// Errors of `register`; there is none then.
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

    /// Gives up what [`Registrations::join`] answered. `unregister` is called for the last one; if it fails,
    /// the registration stays.
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
