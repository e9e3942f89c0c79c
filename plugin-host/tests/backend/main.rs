//! The CPU backend, loaded as a host loads it.

mod hostile;
mod images;
mod lazy;
mod libraries;
mod objects;
mod offload_entries;
mod relocatable;
mod support;

/// Returns whether tests try every case, rather than a selection of similar cases.
fn is_all() -> bool {
    std::env::var("LONGSHORE_TEST_ALL").as_deref() == Ok("1")
}
