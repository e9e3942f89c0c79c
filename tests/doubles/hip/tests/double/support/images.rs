//! Code objects and their twins, made by clang.

use longshore_double_gpu::testing;
use std::path::Path;

/// Code objects and twins.
pub(crate) struct Twins(testing::Twins);

impl Twins {
    /// Creates an empty folder. Returns `None`, and prints a line, without a suitable clang or
    /// linker.
    pub(crate) fn new() -> Option<Twins> {
        testing::Twins::new(&super::HIP, &["ld.lld-19"]).map(Twins)
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the settings by which the double finds the twins.
    pub(crate) fn settings(&self) -> String {
        format!("twins={}", self.path().display())
    }

    /// Compiles C to a code object for gfx90a, and its twin.
    pub(crate) fn code_object(&self, name: &str, source: &str) -> Vec<u8> {
        self.compile(name, source, &["-mcpu=gfx90a"], &[])
    }

    /// Compiles C to a code object for a target, and its twin. `target` has options for processor
    /// and features.
    pub(crate) fn code_object_for(&self, name: &str, source: &str, target: &[&str]) -> Vec<u8> {
        self.compile(name, source, target, &[])
    }

    fn compile(&self, name: &str, source: &str, target: &[&str], options: &[&str]) -> Vec<u8> {
        let for_gpus = [&["--target=amdgcn-amd-amdhsa", "-fuse-ld=lld"], target].concat();
        self.0.compiled(name, "co", source, options, &for_gpus)
    }
}
