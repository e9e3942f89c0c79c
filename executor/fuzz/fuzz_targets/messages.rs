//! Fuzz target for connections: whatever bytes the peer sends or writes into shared memory, a
//! connection goes on or ends.
//!
//! Run it with `cargo +nightly fuzz run messages`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/executor/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    exercise::says(bytes);
    exercise::writes(bytes);
});
