//! Readers are total: for any bytes they return contents or a reason why the bytes are malformed.
//! Ranges of arguments and variables lie within the file.
//!
//! Run it with `cargo +nightly fuzz run read`, with some code objects as a corpus.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_format_amdgpu::{CodeObject, Header, Target};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok(target) = Target::parse(text)
    {
        assert_eq!(Target::parse(&target.to_string()), Ok(target.clone()));
        assert!(target.runs_on(&target).is_ok());
    }
    let Ok(found) = CodeObject::read(bytes) else { return };
    assert_eq!(Header::read(bytes).map(|header| header.version), Ok(found.header.version));
    for kernel in &found.kernels {
        for argument in kernel.arguments.iter().chain(&kernel.hidden) {
            assert!(argument.offset + argument.bytes <= kernel.argument_bytes);
        }
    }
    for variable in &found.variables {
        let stored = variable.initial(bytes).len() as u64;
        assert!(stored == 0 || stored == variable.bytes);
    }
});
