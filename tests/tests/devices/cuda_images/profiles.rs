//! Profiles of images from clang.

use super::{Check, Setting};
use crate::gpu_images::profiles::{COUNTED, INSTRUMENT, counts_are_right};
use longshore_tests::{cuda, doubled};

pub(super) const CHECKS: &[Check] = &[
    ("llvm-profdata reads the profile of PTX", the_profile_of_ptx_is_read),
    ("llvm-profdata reads the profile of a cubin", the_profile_of_a_cubin_is_read),
];

const FOR_NVPTX: [&str; 2] = ["-mllvm", "-profile-correlate=binary"];

fn the_profile_of_ptx_is_read(setting: &Setting<'_>) {
    let Some(ptx) = instrumented(setting) else { return };
    counts_are_right(setting, &ptx);
}

fn the_profile_of_a_cubin_is_read(setting: &Setting<'_>) {
    let Some(ptx) = instrumented(setting) else { return };
    let Some(cubin) = cuda::assembled(&ptx, &setting.arch, &[]) else { return };
    counts_are_right(setting, &cubin);
}

/// Returns PTX with counters. The double has twins of this PTX and of the PTX from the backend, in
/// which the variables of the profile are visible.
fn instrumented(setting: &Setting<'_>) -> Option<Vec<u8>> {
    let source = setting.source(COUNTED);
    let options = [&INSTRUMENT[..], &FOR_NVPTX[..]].concat();
    let ptx = cuda::compiled_without_twin(&source, &setting.arch, &options)?;
    doubled::twin(&ptx, &source, &INSTRUMENT);
    let text = String::from_utf8(ptx.clone()).expect("PTX is text");
    let is_of_profile = |line: &&str| {
        line.starts_with(".global")
            && ["__profc_", "__profd_", "__llvm_prf_nm"].iter().any(|name| line.contains(name))
    };
    let shown = |line: &str| match is_of_profile(&line) {
        true => format!(".visible {line}\n"),
        false => format!("{line}\n"),
    };
    let shown: String = text.lines().map(shown).collect();
    doubled::twin(shown.as_bytes(), &source, &INSTRUMENT);
    Some(ptx)
}
