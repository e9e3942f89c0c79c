//! The host trusts no plugin: for any answers the program gets errors, and the host allocates no
//! memory for invented sizes.
//!
//! Run this target with `cargo +nightly fuzz run plugin`; `-malloc_limit_mb=256` limits each
//! allocation to 256 MiB.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

#[path = "../../tests/hostile/seeded.rs"]
mod seeded;

static SEEDED: LazyLock<seeded::Seeded> = LazyLock::new(seeded::Seeded::new);

fuzz_target!(|bytes: &[u8]| {
    SEEDED.walk(bytes, 2);
});
