//! Code objects.

use crate::images::{KERNELS, Many};
use anyhow::{Context, Result};
use longshore_tests::amdgpu;
use longshore_tests::doubled::AMDGPU;
use std::fmt::Write;

const EMPTY: &str = "LONGSHORE_KERNEL(empty, (void)) { (void)longshore_self; }\n";

/// Returns the code object of a kernel `empty` without arguments.
pub(super) fn empty(arch: &str) -> Result<Vec<u8>> {
    compiled(EMPTY, arch)
}

/// Returns a code object of many kernels.
pub(super) fn many(arch: &str) -> Result<Many> {
    let mut source = String::new();
    for number in 0..KERNELS {
        writeln!(
            source,
            "LONGSHORE_KERNEL(kernel{number}, (uint32_t *place)) \
             {{ (void)longshore_self; *place = {number}; }}"
        )
        .expect("a string can be written to");
    }
    Ok(Many { bytes: compiled(&source, arch)?, form: "code object", maker: "clang" })
}

/// Compiles for the processor with any setting of its features. On the double, the image gets a
/// twin.
fn compiled(source: &str, arch: &str) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("kernels.c");
    std::fs::write(&file, format!("#include \"longshore_device.h\"\n{source}"))?;
    let compile = match AMDGPU.is_double() {
        true => amdgpu::compiled,
        false => amdgpu::compiled_without_twin,
    };
    compile(&file, amdgpu::processor(arch), &[]).context("there is no compiler for the device")
}
