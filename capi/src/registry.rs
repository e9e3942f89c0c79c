//! Objects that are made and destroyed, by handles which callers may pass at any time. The registry knows no kind of
//! handle: kinds are declared above it, by [`handle::Object`].
//!
//! - `handle.rs`: the numbers that stand for objects.
//! - `slot.rs`: a place for one object after another.
//! - `table.rs`: all places of a kind.

pub(crate) mod handle;
mod slot;
pub(crate) mod table;
