//! Refused images and their messages.

use super::{Check, Setting};
use longshore::{Acceptance, Error, ErrorCode};
use longshore_conformance::TrustedImages;
use longshore_tests::cuda;

pub(super) const CHECKS: &[Check] = &[
    ("the compiler's log is in the message about PTX that it refuses", the_log_is_reported),
    ("functions that nobody defines are named", undefined_functions_are_named),
    ("images for other GPUs are refused, and both are named", other_gpus_are_named),
    ("cut-off images are refused", cut_off_images_are_refused),
    ("PTX with a NUL in it is refused", text_has_no_nul),
];

const SOURCE: &str = "LONGSHORE_KERNEL(nop, (void)) { (void)longshore_self; }\n";

fn refused(setting: &Setting<'_>, image: &[u8], code: ErrorCode) -> Error {
    let error = setting.device.load_trusted(image).map(drop).unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    error
}

fn the_log_is_reported(setting: &Setting<'_>) {
    let text = format!(
        ".version 7.0\n.target {}\n.address_size 64\n.visible .entry nop() {{\n  nonsense;\n}}\n",
        setting.arch
    );
    let error = refused(setting, text.as_bytes(), ErrorCode::CompileFailure);
    assert!(error.message().contains("line 5"), "{error}");
    assert!(error.vendor().is_some(), "{error}");
}

fn undefined_functions_are_named(setting: &Setting<'_>) {
    let source =
        "void missing(void);\nLONGSHORE_KERNEL(k, (void)) { (void)longshore_self; missing(); }\n";
    let source = setting.source(source);
    let Some(ptx) = cuda::compiled_without_twin(&source, &setting.arch, &[]) else { return };
    let error = refused(setting, &ptx, ErrorCode::LinkFailure);
    assert!(error.message().contains("'missing'"), "{error}");
    let Some(object) = cuda::assembled(&ptx, &setting.arch, &["-c"]) else { return };
    let error = refused(setting, &object, ErrorCode::LinkFailure);
    assert!(error.message().contains("missing"), "{error}");
}

fn other_gpus_are_named(setting: &Setting<'_>) {
    let Some(ptx) = cuda::compiled(&setting.source(SOURCE), "sm_75", &[]) else { return };
    let text = String::from_utf8(ptx.clone()).unwrap();
    let later = text.replace(".target sm_75", ".target sm_999");
    let cubin = cuda::assembled(&ptx, "sm_75", &[]);
    for (image, arch) in [(Some(later.into_bytes()), "sm_999"), (cubin, "sm_75")] {
        let Some(image) = image else { continue };
        let Acceptance::Refused(why) = setting.device.accepts(&image).unwrap() else {
            panic!("an image for {arch} is accepted");
        };
        assert!(why.contains(arch) && why.contains(&setting.arch), "{why}");
        refused(setting, &image, ErrorCode::InvalidBinary);
    }
}

fn cut_off_images_are_refused(setting: &Setting<'_>) {
    let Some(ptx) = setting.image(SOURCE) else { return };
    let Some(cubin) = cuda::assembled(&ptx, &setting.arch, &[]) else { return };
    let Some(fatbin) = cuda::fatbin(&[(&setting.arch, &cubin)], &[]) else { return };
    for image in [&cubin, &fatbin] {
        for part in 1..16 {
            let end = image.len() * part / 16;
            let error = refused(setting, &image[..end], ErrorCode::InvalidBinary);
            assert!(error.vendor().is_none(), "the driver was asked about {end} bytes: {error}");
        }
    }
}

fn text_has_no_nul(setting: &Setting<'_>) {
    let Some(mut ptx) = setting.image(SOURCE) else { return };
    let middle = ptx.len() / 2;
    ptx[middle] = 0;
    refused(setting, &ptx, ErrorCode::InvalidBinary);
}
