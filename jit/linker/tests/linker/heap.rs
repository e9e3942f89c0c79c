//! Memory that the linker takes from the heap, which this program counts: never in proportion to a number that a file claims, and
//! all of it comes back.

mod hostile;
mod rounds;
mod usage;

/// Whether tests try all, and not a choice of what is alike.
fn is_all() -> bool {
    std::env::var("LONGSHORE_TEST_ALL").as_deref() == Ok("1")
}
