//! The host believes no plugin: whatever one answers, a program gets errors, and no memory is taken for what it made up.
//!
//! Run it with `cargo +nightly fuzz run plugin`; `-malloc_limit_mb=256` bounds each allocation.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

#[path = "../../tests/hostile/seeded.rs"]
mod seeded;

static SEEDED: LazyLock<seeded::Seeded> = LazyLock::new(seeded::Seeded::new);

fuzz_target!(|bytes: &[u8]| {
    SEEDED.walk(bytes, 2);
});
