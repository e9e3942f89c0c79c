//! Fuzz target: reading bitcode is total, so any bytes give a module or a fault.
//!
//! Run it with `cargo +nightly fuzz run bitcode`. The output of `clang -c -emit-llvm` for a few
//! sources is a good corpus.

#![no_main]
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;

#[path = "../../src"]
mod source {
    pub(crate) mod module;
}

use source::module;

fuzz_target!(|bytes: &[u8]| {
    let Ok(module) = module::Module::read(bytes) else { return };
    let pieces = module.for_pieces(bytes);
    assert!(module::Module::read(&pieces).is_ok_and(|again| again.globals == module.globals));
});
