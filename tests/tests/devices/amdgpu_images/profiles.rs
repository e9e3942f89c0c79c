//! Profiles of images from clang.

use super::{Check, Setting, processor};
use crate::gpu_images::profiles::{COUNTED, INSTRUMENT, counts_are_right};
use longshore_tests::amdgpu;

pub(super) const CHECKS: &[Check] =
    &[("llvm-profdata reads the profile of a code object", the_profile_is_read)];

/// The first clang that exports the variables of a profile.
const COMPILER: &str = "clang-22";

fn the_profile_is_read(setting: &Setting<'_>) {
    let source = setting.source(COUNTED);
    let target = processor(&setting.arch);
    let Some(image) = amdgpu::compiled_by(COMPILER, &source, target, &INSTRUMENT) else { return };
    counts_are_right(setting, &image);
}
