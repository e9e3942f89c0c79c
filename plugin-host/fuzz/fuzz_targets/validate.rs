//! A fuzz target of the check of host images. The check is total: it answers for any bytes, and an
//! accepted image can be patched and listed.
//!
//! Run it with `cargo +nightly fuzz run validate`, with a few shared objects as a corpus.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_plugin_host::elf;

fuzz_target!(|bytes: &[u8]| {
    if let Some(sections) = elf::Sections::parse(bytes) {
        sections.in_memory("__llvm_prf_cnts");
        sections.symbol("__llvm_profile_raw_version");
    }
    let Ok(image) = elf::validate(bytes) else {
        return;
    };
    assert!(elf::recognise(bytes).is_ok());
    for edit in elf::patch::edits(bytes, &image) {
        assert!(bytes.get(edit.offset..edit.offset + edit.bytes.len()).is_some());
    }
    image.symbols.exported(bytes).for_each(drop);
});
