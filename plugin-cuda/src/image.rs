//! Scores of images for a device.

use longshore_format_nvidia::{Arch, Contents, Kind, Variant, cubin_arch, fatbin};
use longshore_plugin_api::{ImageEntry, is_bitcode};

/// Base scores: machine code is better than PTX, and newer code is better than older code.
const CUBIN: u32 = 10_000;
const PTX: u32 = 1_000;

/// Returns the score of an image for a device, at least 1.
///
/// # Errors
/// The reason why the device does not run the image, as text for the user.
pub(crate) fn suitability(image: &[u8], device: Arch) -> Result<u32, String> {
    match Kind::recognise(image) {
        Some(Kind::Ptx) => ptx_score(Contents::from_ptx(image).arch, device),
        Some(Kind::Cubin | Kind::Object) => {
            cubin_score(cubin_arch(image).map_err(|malformed| malformed.to_string())?, device)
        }
        Some(Kind::Fatbin) => {
            let entries = fatbin(image).map_err(|malformed| malformed.to_string())?;
            let suited = entries.iter().map(|entry| match entry.kind {
                Kind::Ptx => ptx_score(Some(entry.arch), device),
                _ => cubin_score(entry.arch, device),
            });
            let best = suited.filter_map(Result::ok).max();
            let archs: Vec<_> = entries.iter().map(|entry| entry.arch.to_string()).collect();
            best.ok_or_else(|| format!("the fatbin has {}, none for {device}", archs.join(", ")))
        }
        _ => Err("the image is neither PTX nor a cubin nor a CUDA fatbin".to_owned()),
    }
}

/// Returns the score of an image of a container. Bitcode counts as the PTX that LLVM makes of it.
pub(crate) fn score(entry: &ImageEntry<'_>, device: Arch) -> u32 {
    let is_for_us = entry.triple.is_empty() || entry.triple.starts_with("nvptx64");
    let is_known = entry.arch.is_empty()
        || Arch::parse(entry.arch)
            .is_some_and(|arch| arch.ptx_runs_on(device) || arch.cubin_runs_on(device));
    match is_for_us && is_known {
        true if is_bitcode(entry.bytes) => {
            Arch::parse(entry.arch).map_or(PTX, |arch| PTX + closeness(arch))
        }
        true => suitability(entry.bytes, device).unwrap_or(0),
        false => 0,
    }
}

fn ptx_score(arch: Option<Arch>, device: Arch) -> Result<u32, String> {
    let arch = arch.ok_or("the PTX has no .target directive with an architecture")?;
    match arch.ptx_runs_on(device) {
        true => Ok(PTX + closeness(arch)),
        false => Err(format!("the PTX is for {arch}, which {device} does not run")),
    }
}

fn cubin_score(arch: Arch, device: Arch) -> Result<u32, String> {
    match arch.cubin_runs_on(device) {
        true => Ok(CUBIN + closeness(arch)),
        false => Err(format!("the cubin is for {arch}, which {device} does not run")),
    }
}

/// Returns the part of the score for the architecture: newer is better, and so is code for this
/// device alone.
fn closeness(arch: Arch) -> u32 {
    let variant = match arch.variant {
        Variant::Any => 0,
        Variant::Family => 1,
        Variant::Specific => 2,
    };
    arch.number.min(1_000) * 3 + variant
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ptx(target: &str) -> String {
        format!(".version 8.0\n.target {target}\n.address_size 64\n")
    }

    #[test]
    fn the_nearest_of_several_images_that_runs_is_best() {
        let device = Arch::new(9, 0);
        let score = |target: &str, triple, arch| {
            let text = ptx(target);
            score(&ImageEntry::new(text.as_bytes(), triple, arch), device)
        };
        let [old, near, exact, own] =
            ["sm_52", "sm_80", "sm_90", "sm_90a"].map(|arch| score(arch, "", arch));
        assert!(0 < old && old < near && near < exact && exact < own);
        assert_eq!(score("sm_100", "", ""), 0);
        assert_eq!(score("sm_90", "amdgcn-amd-amdhsa", ""), 0);
        assert_eq!(score("sm_90", "nvptx64-nvidia-cuda", "gfx942"), 0);
        assert!(suitability(b"\x7fELF", device).is_err());
    }
}
