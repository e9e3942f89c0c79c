//! Which images a device runs, and how well.

use longshore_format_nvidia::{Arch, Contents, Kind, Variant, cubin_arch, fatbin};
use longshore_plugin_api::ImageEntry;

/// Ranks: machine code before text, the newer before the older.
const CUBIN: u32 = 10_000;
const PTX: u32 = 1_000;

/// How well an image suits a device, at least 1.
///
/// # Errors
/// Why the device does not run it, for people.
pub(crate) fn suitability(image: &[u8], device: Arch) -> Result<u32, String> {
    match Kind::recognise(image) {
        Some(Kind::Ptx) => of_ptx(Contents::of_ptx(image).arch, device),
        Some(Kind::Cubin | Kind::Object) => {
            of_cubin(cubin_arch(image).map_err(|malformed| malformed.to_string())?, device)
        }
        Some(Kind::Fatbin) => {
            let entries = fatbin(image).map_err(|malformed| malformed.to_string())?;
            let suited = entries.iter().map(|entry| match entry.kind {
                Kind::Ptx => of_ptx(Some(entry.arch), device),
                _ => of_cubin(entry.arch, device),
            });
            let best = suited.filter_map(Result::ok).max();
            let archs: Vec<_> = entries.iter().map(|entry| entry.arch.to_string()).collect();
            best.ok_or_else(|| format!("the fatbin has {}, none for {device}", archs.join(", ")))
        }
        _ => Err("it is no PTX, no cubin and no CUDA fatbin".to_owned()),
    }
}

/// The rank of an image of a container.
pub(crate) fn rank(entry: &ImageEntry<'_>, device: Arch) -> u32 {
    let is_for_us = entry.triple.is_empty() || entry.triple.starts_with("nvptx64");
    let is_known = entry.arch.is_empty()
        || Arch::parse(entry.arch)
            .is_some_and(|arch| arch.ptx_runs_on(device) || arch.cubin_runs_on(device));
    match is_for_us && is_known {
        true => suitability(entry.bytes, device).unwrap_or(0),
        false => 0,
    }
}

fn of_ptx(arch: Option<Arch>, device: Arch) -> Result<u32, String> {
    let arch = arch.ok_or("the PTX names no architecture (.target)")?;
    match arch.ptx_runs_on(device) {
        true => Ok(PTX + closeness(arch)),
        false => Err(format!("the PTX is for {arch}, which {device} does not run")),
    }
}

fn of_cubin(arch: Arch, device: Arch) -> Result<u32, String> {
    match arch.cubin_runs_on(device) {
        true => Ok(CUBIN + closeness(arch)),
        false => Err(format!("the cubin is for {arch}, which {device} does not run")),
    }
}

/// Of what a device runs, the newest suits it best, and what is made for it alone.
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
    fn of_several_images_the_nearest_that_runs_is_best() {
        let device = Arch::new(9, 0);
        let rank = |target: &str, triple, arch| {
            let text = ptx(target);
            rank(&ImageEntry::new(text.as_bytes(), triple, arch), device)
        };
        let [old, near, exact, own] =
            ["sm_52", "sm_80", "sm_90", "sm_90a"].map(|arch| rank(arch, "", arch));
        assert!(0 < old && old < near && near < exact && exact < own);
        assert_eq!(rank("sm_100", "", ""), 0);
        assert_eq!(rank("sm_90", "amdgcn-amd-amdhsa", ""), 0);
        assert_eq!(rank("sm_90", "nvptx64-nvidia-cuda", "gfx942"), 0);
        assert!(suitability(b"\x7fELF", device).is_err());
    }
}
