//! Which addresses the memory of isolated devices has. Processes have address spaces of their own, so two may hand out the same
//! ones, and the host would take one allocation for another.

use std::collections::BTreeMap;

use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;

/// How often an allocation is moved away from addresses that are taken.
const MOST_MOVES: usize = 16;

/// Of this process: end by start; no two overlap.
static TAKEN: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// An address that nobody else has: `allocate` answers one, and `free` takes those back that are taken.
///
/// # Errors
/// Those of `allocate`; `OutOfResources` if all that it answers are taken.
pub(super) fn allocate_apart(
    bytes: u64,
    allocate: impl Fn() -> Result<u64>,
    free: impl Fn(u64),
) -> Result<u64> {
    let mut refused = Vec::new();
    let found = loop {
        match allocate() {
            Ok(address) if claim(address, bytes) => break Ok(address),
            // Kept until there is another, so that it is not handed out again.
            Ok(address) => refused.push(address),
            Err(error) => break Err(error),
        }
        if refused.len() > MOST_MOVES {
            let message = format!(
                "an allocation of {bytes} bytes: the addresses that the plugin offers are those of other isolated devices' memory"
            );
            break Err(Error::new(ErrorCode::OutOfResources, message));
        }
    };
    refused.into_iter().for_each(free);
    found
}

/// Gives an allocation's addresses up.
pub(super) fn give_up(address: u64) {
    TAKEN.lock().remove(&address);
}

fn claim(address: u64, bytes: u64) -> bool {
    let end = address.saturating_add(bytes);
    let mut taken = TAKEN.lock();
    let before = taken.range(..end).next_back();
    if before.is_some_and(|(_, before_end)| *before_end > address) {
        return false;
    }
    taken.insert(address, end);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn an_allocation_is_moved_away_from_addresses_that_are_taken() {
        // No process has such addresses.
        const START: u64 = u64::MAX - (1 << 30);
        let allocate = |first: u64, freed: &RefCell<Vec<u64>>| {
            let next = Cell::new(first);
            let offer = || Ok(next.replace(next.get() + 0x1000));
            allocate_apart(0x2000, offer, |address| freed.borrow_mut().push(address))
        };
        let freed = RefCell::default();
        assert_eq!(allocate(START, &freed), Ok(START));
        assert_eq!(allocate(START, &freed), Ok(START + 0x2000));
        assert_eq!(*freed.borrow(), [START, START + 0x1000]);
        give_up(START);
        assert_eq!(allocate(START - 0x1000, &freed), Ok(START - 0x1000));
        let offers_one = || Ok(START + 0x2000);
        let error = allocate_apart(1, offers_one, |_| {}).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfResources);
        for address in [START - 0x1000, START + 0x2000] {
            give_up(address);
        }
    }
}
