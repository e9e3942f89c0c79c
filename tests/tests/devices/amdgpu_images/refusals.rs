//! Refused images and their messages.

use super::{Check, Setting, compile, processor};
use longshore::{Acceptance, Error, ErrorCode};
use longshore_conformance::TrustedImages;
use longshore_tests::amdgpu;

pub(super) const CHECKS: &[Check] = &[
    ("functions that nobody defines are named", undefined_functions_are_named),
    (
        "images for other processors are refused, and both targets are named",
        other_processors_are_named,
    ),
    ("images for other features are refused, and both targets are named", other_features_are_named),
    ("cut-off images are refused", cut_off_images_are_refused),
    ("arguments that the metadata does not have are refused", wrong_arguments_are_refused),
    ("what clang adds to images of HIP is not listed", variables_of_clang_are_not_listed),
    (
        "HIP is asked for no symbol over which it ends the process",
        symbols_of_other_kinds_are_unknown,
    ),
];

const SOURCE: &str = "LONGSHORE_KERNEL(nop, (void)) { (void)longshore_self; }\n";

fn refused(setting: &Setting<'_>, image: &[u8], code: ErrorCode) -> Error {
    let error = setting.device.load_trusted(image).map(drop).unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.vendor().is_none(), "HIP was asked: {error}");
    error
}

fn undefined_functions_are_named(setting: &Setting<'_>) {
    const MISSING: &str = "__attribute__((visibility(\"default\"))) void missing(void);\n\
                           LONGSHORE_KERNEL(k, (void)) { (void)longshore_self; missing(); }\n";
    let (source, processor) = (setting.source(MISSING), processor(&setting.arch));
    let undefined = ["-Wl,--unresolved-symbols=ignore-all"];
    let Some(image) = amdgpu::compiled_without_twin(&source, processor, &undefined) else { return };
    let error = refused(setting, &image, ErrorCode::LinkFailure);
    assert!(error.message().contains("'missing'"), "{error}");
    let Some(object) = amdgpu::compiled_without_twin(&source, processor, &["-c"]) else { return };
    let error = refused(setting, &object, ErrorCode::LinkFailure);
    assert!(error.message().contains("missing"), "{error}");
}

fn names_both(setting: &Setting<'_>, image: &[u8], target: &str) {
    let Acceptance::Refused(why) = setting.device.accepts(image).unwrap() else {
        panic!("an image for {target} is accepted");
    };
    assert!(why.contains(target) && why.contains(&setting.arch), "{why}");
    refused(setting, image, ErrorCode::InvalidBinary);
}

/// Compiles images with clang 19 for several processors, of which one may be the device's own.
fn other_processors_are_named(setting: &Setting<'_>) {
    let others = ["gfx90a", "gfx942", "gfx1100", "gfx1201"];
    for other in others.into_iter().filter(|other| *other != processor(&setting.arch)) {
        let Some(image) = compile(&setting.source(SOURCE), other, &[]) else { return };
        names_both(setting, &image, other);
    }
}

fn other_features_are_named(setting: &Setting<'_>) {
    let opposite = |feature: char| match feature {
        '+' => '-',
        '-' => '+',
        other => other,
    };
    let processor = processor(&setting.arch);
    let features = setting.arch[processor.len()..].chars().map(opposite);
    let target: String = processor.chars().chain(features).collect();
    if target == processor {
        return println!("not tried: the device has no features to differ in");
    }
    let Some(image) = amdgpu::compiled(&setting.source(SOURCE), &target, &[]) else { return };
    names_both(setting, &image, &target);
}

fn cut_off_images_are_refused(setting: &Setting<'_>) {
    let Some(image) = setting.image(SOURCE) else { return };
    for part in 1..64 {
        refused(setting, &image[..image.len() * part / 64], ErrorCode::InvalidBinary);
    }
}

fn wrong_arguments_are_refused(setting: &Setting<'_>) {
    let Some(image) = setting.image(SOURCE) else { return };
    let queue = setting.device.queue().unwrap();
    let program = setting.device.load_trusted(&image[..]).unwrap();
    let nop = program.kernel("nop").unwrap();
    // SAFETY: refused.
    let refused = unsafe { queue.launch(&nop, longshore::Grid::default(), (1u32,)) };
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidArgument);
    drop(nop);
    program.unload().unwrap();
}

fn variables_of_clang_are_not_listed(setting: &Setting<'_>) {
    const WITH_A_NUMBER: &str = "
LONGSHORE_GLOBAL uint8_t __hip_cuid_1f2e3d4c5b6a7988;
LONGSHORE_GLOBAL uint64_t counter = 5;
LONGSHORE_KERNEL(add, (uint64_t more)) { (void)longshore_self; counter += more; }
";
    let Some(image) = setting.image(WITH_A_NUMBER) else { return };
    let program = setting.device.load_trusted(&image[..]).unwrap();
    let mut names: Vec<String> =
        program.symbols().unwrap().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["add", "counter"]);
    program.unload().unwrap();
}

fn symbols_of_other_kinds_are_unknown(setting: &Setting<'_>) {
    const WITH_A_FUNCTION: &str = "
__attribute__((visibility(\"default\"), noinline)) int helper(int x) { return x + 1; }
LONGSHORE_KERNEL(k, (int *out)) { *out = helper(*out); }
__attribute__((constructor)) static void nothing(void) {}
";
    let Some(image) = setting.image(WITH_A_FUNCTION) else { return };
    let program = setting.device.load_trusted(&image[..]).unwrap();
    for name in ["helper", "k.kd", "amdgcn.device.init", "__init_array_start"] {
        assert_eq!(
            program.kernel(name).map(drop).unwrap_err().code(),
            ErrorCode::NotFound,
            "{name}"
        );
        assert_eq!(
            program.global(name).map(drop).unwrap_err().code(),
            ErrorCode::NotFound,
            "{name}"
        );
    }
    program.unload().unwrap();
}
