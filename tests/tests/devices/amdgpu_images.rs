//! What `docs/amdgpu-images.md` promises, on the first device of AMD's: a trial for each sentence.

mod faults;
mod forms;
#[path = "../gpu_images/shared.rs"]
mod gpu_images;
mod profiles;
mod refusals;
mod survival;

use gpu_images::{Check, Compiler, Setting, messages};
use longshore_tests::amdgpu::{self, processor};
use longshore_tests::doubled::AMDGPU;
use std::path::Path;
use std::process::ExitCode;

const COMPILER: Compiler = Compiler { compile, forms };

fn main() -> ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe {
        AMDGPU.take_driver();
        // The double knows what this one makes.
        std::env::set_var("LONGSHORE_AMDGPU_LINKER", amdgpu::LINKER);
    }
    if faults::is_done() || survival::is_done() || messages::is_done(&AMDGPU) {
        return ExitCode::SUCCESS;
    }
    let checks =
        [forms::CHECKS, refusals::CHECKS, survival::CHECKS, profiles::CHECKS, faults::CHECKS];
    gpu_images::main(&AMDGPU, COMPILER, &checks.concat())
}

fn compile(source: &Path, target: &str, options: &[&str]) -> Option<Vec<u8>> {
    amdgpu::compiled(source, processor(target), options)
}

/// A code object, and a relocatable one that the backend links.
fn forms(setting: &Setting<'_>, text: &str) -> Vec<Vec<u8>> {
    let source = setting.source(text);
    let object = amdgpu::compiled(&source, processor(&setting.arch), &["-c"]);
    let object = object.filter(|object| amdgpu::linked(object).is_some());
    [setting.image(text), object].into_iter().flatten().collect()
}
