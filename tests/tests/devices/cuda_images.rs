//! What `docs/cuda-images.md` promises, on the first device of CUDA: a trial for each sentence.

mod faults;
mod forms;
#[path = "../gpu_images/shared.rs"]
mod gpu_images;
mod profiles;
mod refusals;

use gpu_images::{Check, Compiler, Setting, messages};
use longshore_tests::cuda;
use longshore_tests::doubled::CUDA;
use std::process::ExitCode;

/// PTX, which is assembled.
const COMPILER: Compiler = Compiler { compile: cuda::compiled, forms };

fn main() -> ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { CUDA.take_driver() };
    if faults::is_done() || messages::is_done(&CUDA) {
        return ExitCode::SUCCESS;
    }
    let checks = [forms::CHECKS, refusals::CHECKS, profiles::CHECKS, faults::CHECKS];
    gpu_images::main(&CUDA, COMPILER, &checks.concat())
}

/// PTX, a cubin, and a cubin that the driver links.
fn forms(setting: &Setting<'_>, text: &str) -> Vec<Vec<u8>> {
    let Some(ptx) = setting.image(text) else { return Vec::new() };
    let cubin = cuda::assembled(&ptx, &setting.arch, &[]);
    let object = cuda::assembled(&ptx, &setting.arch, &["-c"]);
    [Some(ptx), cubin, object].into_iter().flatten().collect()
}
