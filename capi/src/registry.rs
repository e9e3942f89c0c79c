//! Objects that callers create and destroy, by handles that callers may pass at any time. The
//! registry depends on no kind of handle: modules above it declare kinds by [`handle::Object`].
//!
//! - `handle.rs`: the numbers that stand for objects.
//! - `slot.rs`: a place for one object after another.
//! - `table.rs`: all places of a kind.

pub(crate) mod handle;
mod slot;
pub(crate) mod table;
