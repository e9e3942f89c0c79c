//! The kernels, in the form that everyone gets.

use anyhow::{Context, Result};
use naga::back::spv;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// A kernel `empty` without arguments.
pub(crate) const EMPTY: &str = include_str!("empty.wgsl");
/// A kernel `store` of a number, which is pushed, and a pointer, which is bound.
const STORE: &str = include_str!("store.wgsl");

/// Both in a module of SPIR-V 1.3.
pub(crate) fn module() -> Result<Vec<u32>> {
    let source = [EMPTY, STORE].concat();
    let module = naga::front::wgsl::parse_str(&source).context("the kernels' source")?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).context("the kernels' source")?;
    let options = spv::Options {
        lang_version: (1, 3),
        // Longshore reads the arguments' names.
        flags: spv::WriterFlags::DEBUG,
        ..spv::Options::default()
    };
    spv::write_vec(&module, &info, &options, None).context("the kernels as SPIR-V")
}
