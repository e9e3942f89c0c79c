//! Forms of images that the backend loads.

use super::{Check, Setting};
use crate::gpu_images::{SOURCE, bitcode};
use longshore::{ImageKind, OffloadImage, OffloadKind, write_offload_binary};
use longshore_tests::cuda;
use longshore_tests::doubled::CUDA;

pub(super) const CHECKS: &[Check] = &[
    ("of a fatbin the entry for the device runs", a_fatbin_runs),
    ("bitcode is compiled to PTX, which the assembler accepts", bitcode_runs),
    ("a container's best entry is loaded", the_best_entry_is_loaded),
];

fn a_fatbin_runs(setting: &Setting<'_>) {
    let Some(ptx) = setting.image(SOURCE) else { return };
    let other = SOURCE.replace("= 5", "= 100");
    let Some(other) = cuda::compiled(&setting.source(&other), "sm_75", &[]) else { return };
    let Some(cubin) = cuda::assembled(&ptx, &setting.arch, &[]) else { return };
    for options in [&[][..], &["--compress-all"][..]] {
        let images = [("sm_75", &other[..]), (&setting.arch[..], &cubin[..])];
        let Some(fatbin) = cuda::fatbin(&images, options) else { return };
        setting.runs(&fatbin, 5);
        let Some(fatbin) = cuda::fatbin(&images[..1], options) else { return };
        setting.runs(&fatbin, 100);
    }
}

fn bitcode_runs(setting: &Setting<'_>) {
    let march = format!("-march={}", setting.arch);
    let options = ["-nogpulib", &march];
    let target = bitcode::Target { of: &CUDA, triple: "nvptx64-nvidia-cuda", options: &options };
    target.refuses_others(setting);
    let Some(ptx) = target.runs(setting) else { return };
    let text = String::from_utf8_lossy(&ptx);
    assert!(text.contains(&format!(".target {}", setting.arch)), "{text}");
    cuda::assembled(&ptx, &setting.arch, &[]);
}

fn the_best_entry_is_loaded(setting: &Setting<'_>) {
    let Some(ptx) = setting.image(SOURCE) else { return };
    let other = SOURCE.replace("= 5", "= 100");
    let Some(old) = cuda::compiled(&setting.source(&other), "sm_75", &[]) else { return };
    let cubin = cuda::assembled(&ptx, &setting.arch, &[]);
    let (ours, old) = (&ptx[..], entry(ImageKind::Ptx, "sm_75", &old));
    let ours = entry(ImageKind::Ptx, &setting.arch, ours);
    setting.runs(&write_offload_binary(&[old]), 100);
    setting.runs(&write_offload_binary(&[old, ours]), 5);
    let Some(cubin) = cubin else { return };
    let ours = entry(ImageKind::Cubin, &setting.arch, &cubin);
    setting.runs(&write_offload_binary(&[old, ours]), 5);
}

fn entry<'a>(image_kind: ImageKind, arch: &'a str, bytes: &'a [u8]) -> OffloadImage<'a> {
    OffloadImage::new(bytes)
        .with_image_kind(image_kind)
        .with_offload_kind(OffloadKind::Cuda)
        .with_triple("nvptx64-nvidia-cuda")
        .with_arch(arch)
}
