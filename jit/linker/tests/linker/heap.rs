//! The linker's use of the heap, which this program counts: never in proportion to a number that a
//! file claims, and without leaks.

mod hostile;
mod rounds;
mod usage;

/// Returns whether tests try every case, and not a choice of similar ones.
fn is_all() -> bool {
    std::env::var("LONGSHORE_TEST_ALL").as_deref() == Ok("1")
}
