//! Readers are total: for any bytes they return contents or a reason why the bytes are malformed.
//! Ranges of a variable lie within the variable.
//!
//! Run it with `cargo +nightly fuzz run read`, with some PTX, cubins and fatbins as a corpus.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_format_nvidia::{Contents, Kind, fatbin};

fuzz_target!(|bytes: &[u8]| {
    match Kind::recognise(bytes) {
        Some(Kind::Cubin | Kind::Object) => {
            if let Ok(contents) = Contents::from_cubin(bytes) {
                check(&contents);
            }
        }
        Some(Kind::Fatbin) => {
            for entry in fatbin(bytes).unwrap_or_default() {
                let _ = entry.image();
            }
        }
        _ => check(&Contents::from_ptx(bytes)),
    }
});

fn check(contents: &Contents) {
    for variable in &contents.variables {
        assert!(variable.initial.len() as u64 <= variable.bytes);
        assert!(variable.alignment.is_power_of_two());
        assert!(variable.references.iter().all(|known| known.offset + 8 <= variable.bytes));
        assert!(variable.references.is_sorted_by_key(|known| known.offset));
    }
}
