//! Memory that the linker takes from the heap, which this program counts: never in proportion to a number that a file claims, and
//! all of it comes back.

mod hostile;
mod rounds;
mod usage;
