//! The forms of images that are loaded.

use super::{Check, Setting};
use longshore::{Device, Grid, ImageKind, OffloadImage, OffloadKind, write_offload_binary};
use longshore_tests::cuda;

pub(super) const CHECKS: &[Check] = &[
    ("PTX is compiled by the driver", ptx_runs),
    ("a cubin runs", a_cubin_runs),
    ("of a fatbin the entry for the device runs", a_fatbin_runs),
    ("relocatable objects are linked by the driver", an_object_is_linked),
    ("a container's best entry is loaded", the_best_entry_is_loaded),
    ("symbols are those of the program, whatever the form", symbols_are_the_programs),
];

const SOURCE: &str = "
LONGSHORE_GLOBAL uint64_t counter = 5;
LONGSHORE_CONSTANT float weights[3] = {0.25f, 0.5f, 0.25f};
LONGSHORE_KERNEL(add, (uint64_t more)) { (void)longshore_self; longshore_atomic_add(&counter, more); }
LONGSHORE_KERNEL(weigh, (float *out)) { *out = weights[1]; }
";

/// Loads an image, launches its kernels, and looks at what they did.
fn runs(device: &Device, image: &[u8], start: u64) {
    let queue = device.queue().unwrap();
    let program = device.load(image).unwrap();
    let (add, weigh) = (program.kernel("add").unwrap(), program.kernel("weigh").unwrap());
    let out = device.buffer::<f32>(1).unwrap();
    // SAFETY: `add` takes a number, `weigh` a pointer to a number.
    unsafe {
        queue.launch(&add, Grid::default(), (7u64,)).unwrap();
        queue.launch(&weigh, Grid::default(), (&out,)).unwrap();
    }
    assert_eq!(out.to_vec(&queue).unwrap(), [0.5]);
    assert_eq!(program.global("counter").unwrap().read::<u64>(&queue).unwrap(), start + 7);
    drop((add, weigh));
    program.unload().unwrap();
}

fn ptx_runs(setting: &Setting<'_>) {
    let Some(ptx) = setting.ptx(SOURCE, &[]) else { return };
    runs(setting.device, &ptx, 5);
}

fn a_cubin_runs(setting: &Setting<'_>) {
    let Some(ptx) = setting.ptx(SOURCE, &[]) else { return };
    let Some(cubin) = cuda::assembled(&ptx, &setting.arch, &[]) else { return };
    runs(setting.device, &cubin, 5);
}

fn a_fatbin_runs(setting: &Setting<'_>) {
    let Some(ptx) = setting.ptx(SOURCE, &[]) else { return };
    let other = SOURCE.replace("= 5", "= 100");
    let Some(other) = cuda::compiled(&setting.source(&other), "sm_75", &[]) else { return };
    let Some(cubin) = cuda::assembled(&ptx, &setting.arch, &[]) else { return };
    for options in [&[][..], &["--compress-all"][..]] {
        let images = [("sm_75", &other[..]), (&setting.arch[..], &cubin[..])];
        let Some(fatbin) = cuda::fatbin(&images, options) else { return };
        runs(setting.device, &fatbin, 5);
        let Some(fatbin) = cuda::fatbin(&images[..1], options) else { return };
        runs(setting.device, &fatbin, 100);
    }
}

fn an_object_is_linked(setting: &Setting<'_>) {
    let Some(ptx) = setting.ptx(SOURCE, &[]) else { return };
    let Some(object) = cuda::assembled(&ptx, &setting.arch, &["-c"]) else { return };
    runs(setting.device, &object, 5);
}

fn the_best_entry_is_loaded(setting: &Setting<'_>) {
    let Some(ptx) = setting.ptx(SOURCE, &[]) else { return };
    let other = SOURCE.replace("= 5", "= 100");
    let Some(old) = cuda::compiled(&setting.source(&other), "sm_75", &[]) else { return };
    let cubin = cuda::assembled(&ptx, &setting.arch, &[]);
    let (ours, old) = (&ptx[..], entry(ImageKind::Ptx, "sm_75", &old));
    let ours = entry(ImageKind::Ptx, &setting.arch, ours);
    runs(setting.device, &write_offload_binary(&[old]), 100);
    runs(setting.device, &write_offload_binary(&[old, ours]), 5);
    let Some(cubin) = cubin else { return };
    let ours = entry(ImageKind::Cubin, &setting.arch, &cubin);
    runs(setting.device, &write_offload_binary(&[old, ours]), 5);
}

fn entry<'a>(image_kind: ImageKind, arch: &'a str, bytes: &'a [u8]) -> OffloadImage<'a> {
    OffloadImage {
        bytes,
        offload_kind: OffloadKind::Cuda,
        image_kind,
        triple: "nvptx64-nvidia-cuda",
        arch,
    }
}

fn symbols_are_the_programs(setting: &Setting<'_>) {
    let Some(ptx) = setting.ptx(SOURCE, &[]) else { return };
    let cubin = cuda::assembled(&ptx, &setting.arch, &[]);
    for image in [Some(ptx), cubin].into_iter().flatten() {
        let program = setting.device.load(&image[..]).unwrap();
        let mut names: Vec<_> =
            program.symbols().unwrap().into_iter().map(|symbol| symbol.0).collect();
        names.sort();
        assert_eq!(names, ["add", "counter", "weigh", "weights"]);
        let add = program.kernel("add").unwrap();
        assert_eq!(add.attributes().argument_sizes.as_deref(), Some(&[8][..]));
        drop(add);
        program.unload().unwrap();
    }
}
