//! Kernels for all contenders.

use anyhow::{Context, Result};
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Source of a kernel `empty` without arguments.
pub(crate) const EMPTY: &str = include_str!("empty.wgsl");
/// Source of a kernel `store` of a number, a push constant, through a pointer, a bound buffer.
const STORE: &str = include_str!("store.wgsl");

/// Returns both kernels in a module of SPIR-V 1.3.
pub(crate) fn module() -> Result<Vec<u32>> {
    let source = [EMPTY, STORE].concat();
    let module = naga::front::wgsl::parse_str(&source).context("the kernels' source")?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).context("the kernels' source")?;
    let options = spv::Options {
        lang_version: (1, 3),
        // Longshore needs the arguments' names.
        flags: spv::WriterFlags::DEBUG,
        ..spv::Options::default()
    };
    spv::write_vec(&module, &info, &options, None).context("the kernels as SPIR-V")
}
