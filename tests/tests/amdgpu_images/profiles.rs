//! Profiles that clang makes.

use super::gpu_images::profiles::{COUNTED, INSTRUMENT, counts_are_right};
use super::{Check, Setting, compile};

pub(super) const CHECKS: &[Check] =
    &[("llvm-profdata reads the profile of a code object", the_profile_is_read)];

fn the_profile_is_read(setting: &Setting<'_>) {
    let source = setting.source(COUNTED);
    let Some(image) = compile(&source, &setting.arch, &INSTRUMENT) else { return };
    counts_are_right(setting, &image);
}
