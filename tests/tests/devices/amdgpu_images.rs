//! The statements of `docs/amdgpu-images.md`, on the first AMD device: one trial for each
//! statement.

mod faults;
mod forms;
mod profiles;
mod refusals;
mod survival;

use crate::gpu_images::{self, Check, Compiler, Setting, messages};
use libtest_mimic::Trial;
use longshore_tests::amdgpu::{self, processor};
use longshore_tests::doubled::AMDGPU;
use longshore_tests::suites::Suite;
use std::path::Path;

const COMPILER: Compiler = Compiler { compile, forms };

pub(crate) const SUITE: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe {
        AMDGPU.take_driver();
        // The double accepts the output of this linker.
        std::env::set_var("LONGSHORE_AMDGPU_LINKER", amdgpu::LINKER);
    },
    child: || faults::is_done() || survival::is_done() || messages::is_done(&AMDGPU),
    ..Suite::new("amdgpu_images", trials)
};

fn trials() -> Vec<Trial> {
    let checks =
        [forms::CHECKS, refusals::CHECKS, survival::CHECKS, profiles::CHECKS, faults::CHECKS];
    gpu_images::trials(&AMDGPU, COMPILER, &checks.concat())
}

fn compile(source: &Path, target: &str, options: &[&str]) -> Option<Vec<u8>> {
    amdgpu::compiled(source, processor(target), options)
}

/// Returns a code object, and a relocatable object that the backend links.
fn forms(setting: &Setting<'_>, text: &str) -> Vec<Vec<u8>> {
    let source = setting.source(text);
    let object = amdgpu::compiled(&source, processor(&setting.arch), &["-c"]);
    let object = object.filter(|object| amdgpu::linked(object).is_some());
    [setting.image(text), object].into_iter().flatten().collect()
}
