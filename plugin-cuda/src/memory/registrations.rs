//! Memory of the program that is registered with CUDA, which is so for all devices at once: whoever pins it
//! first registers it, whoever unpins it last takes that back.

use parking_lot::Mutex;
use std::collections::BTreeMap;

static REGISTERED: Mutex<BTreeMap<u64, Registration>> = Mutex::new(BTreeMap::new());

struct Registration {
    bytes: u64,
    /// How many devices have pinned some of it.
    users: usize,
}

/// Takes part in a registration that has all of a range, or makes one. The answer is its start, to be given
/// to [`leave`].
///
/// # Errors
/// Those of `register`; there is none then.
pub(super) fn join<E>(
    start: u64,
    bytes: u64,
    register: impl FnOnce() -> Result<(), E>,
) -> Result<u64, E> {
    let mut registered = REGISTERED.lock();
    if let Some((first, found)) = registered.range_mut(..=start).next_back()
        && start - first + bytes <= found.bytes
    {
        found.users += 1;
        return Ok(*first);
    }
    register()?;
    registered.insert(start, Registration { bytes, users: 1 });
    Ok(start)
}

/// Gives up what [`join`] answered. `unregister` is called for the last one; if it fails, the registration
/// stays.
///
/// # Errors
/// Those of `unregister`.
pub(super) fn leave<E>(start: u64, unregister: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let mut registered = REGISTERED.lock();
    let Some(found) = registered.get_mut(&start) else { return Ok(()) };
    if found.users > 1 {
        found.users -= 1;
        return Ok(());
    }
    unregister()?;
    registered.remove(&start);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_registers_and_the_last_takes_it_back() {
        let start = 0x7777_0000_0000;
        let join = |start, bytes, expected: bool| {
            let mut called = false;
            let joined = join(start, bytes, || {
                called = true;
                Ok::<(), ()>(())
            });
            assert_eq!(called, expected);
            joined.unwrap()
        };
        let leave = |start, expected: bool| {
            let mut called = false;
            leave(start, || {
                called = true;
                Ok::<(), ()>(())
            })
            .unwrap();
            assert_eq!(called, expected);
        };
        assert_eq!(join(start, 100, true), start);
        assert_eq!(join(start + 10, 90, false), start);
        assert_eq!(join(start + 200, 10, true), start + 200);
        leave(start, false);
        leave(start, true);
        leave(start, false);
        leave(start + 200, true);
        assert_eq!(super::join(start, 1, || Err(7)), Err(7));
        assert_eq!(join(start, 1, true), start);
        assert_eq!(super::leave(start, || Err(7)), Err(7));
        leave(start, true);
    }
}
