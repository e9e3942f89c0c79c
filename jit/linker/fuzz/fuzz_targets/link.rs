//! A fuzz target: any bytes are an object that links, an archive of such objects, or an error.
//!
//! Run it with `cargo +nightly fuzz run link`, with a few small objects and archives as a corpus.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/linker/heap/hostile/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    let bytes = Bytes::copy_from_slice(bytes);
    for mode in exercise::MODES {
        _ = exercise::read(&bytes);
        _ = exercise::link(&bytes, mode);
    }
});
