//! The statements of `docs/cuda-images.md`, on the first CUDA device: one trial for each statement.

mod faults;
mod forms;
mod profiles;
mod refusals;

use crate::gpu_images::{self, Check, Compiler, Setting, messages};
use libtest_mimic::Trial;
use longshore_tests::cuda;
use longshore_tests::doubled::CUDA;
use longshore_tests::suites::Suite;

/// The compiler to PTX, from which the assembler makes further forms.
const COMPILER: Compiler = Compiler { compile: cuda::compiled, forms };

pub(crate) const SUITE: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe { CUDA.take_driver() },
    child: || faults::is_done() || messages::is_done(&CUDA),
    ..Suite::new("cuda_images", trials)
};

fn trials() -> Vec<Trial> {
    let checks = [forms::CHECKS, refusals::CHECKS, profiles::CHECKS, faults::CHECKS];
    gpu_images::trials(&CUDA, COMPILER, &checks.concat())
}

/// Returns PTX, a cubin, and a cubin that the driver links.
fn forms(setting: &Setting<'_>, text: &str) -> Vec<Vec<u8>> {
    let Some(ptx) = setting.image(text) else { return Vec::new() };
    let cubin = cuda::assembled(&ptx, &setting.arch, &[]);
    let object = cuda::assembled(&ptx, &setting.arch, &["-c"]);
    [Some(ptx), cubin, object].into_iter().flatten().collect()
}
