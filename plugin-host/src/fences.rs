//! Mappings of the backend that contain fences: pages without access, at which overruns fault.

use crate::ranges::{Ranges, Registered};
use std::ops::Range;

/// Most registered mappings at a time.
const MOST: usize = 1 << 16;

static FENCED: Ranges<MOST> = Ranges::new();

/// A registered mapping. Dropping it removes the registration, which must happen before the mapping
/// is unmapped.
pub(crate) type FencedMapping = Registered<MOST>;

/// Registers a mapping: its fences and the memory between them.
pub(crate) fn register(mapping: Range<u64>) -> FencedMapping {
    FENCED.register(mapping)
}

/// Returns whether an address lies in a fence. The access to the address must have been denied: the
/// memory between the fences counts too. A signal handler may call it.
pub(crate) fn has(address: u64) -> bool {
    FENCED.find(address).is_some()
}
