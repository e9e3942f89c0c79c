//! Reflection is total: any bytes give a module or a fault, and a module gives code for every
//! kernel in its own size.
//!
//! Run it with `cargo +nightly fuzz run reflect`, with a few SPIR-V modules and WGSL sources as a
//! corpus.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_format_spirv::{Format, GroupSize, Module, Specialization, Target};

fuzz_target!(|bytes: &[u8]| {
    for target in [Target::new(16), Target::new(128).with_zeroed_shared_memory(true)] {
        let Ok(module) = Module::parse(bytes, target) else {
            return;
        };
        let procedures = module.constructors().iter().chain(module.destructors());
        for kernel in module.kernels().iter().chain(procedures.map(|known| &known.kernel)) {
            let group = kernel.group.map(|size| match size {
                GroupSize::Fixed(size) | GroupSize::Free(size) => size,
            });
            let code = module.code(kernel, &Specialization { group, ..Specialization::default() });
            assert!(code.is_ok() || module.format() == Format::Wgsl);
        }
    }
});
