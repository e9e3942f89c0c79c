//! The conventions of clang 13 to 23, by a program that registers an image by hand.

use super::{Check, Setting, fixture, succeeded};
use longshore::{ImageKind, OffloadImage, OffloadKind, write_offload_binary};
use longshore_tests::{amdgpu, cuda};
use std::path::PathBuf;
use std::process::Command;

pub(super) const CHECKS: &[Check] = &[
    ("kernels of all versions of arguments get what they expect", all_versions),
    ("group memory that the device lacks ends the program without a replacement", no_memory),
];

fn all_versions(setting: &Setting) {
    let Some(program) = program(setting) else { return };
    let Some(image) = image(setting) else { return };
    let triple = setting.by_vendor("amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda");
    let entry = OffloadImage::new(&image)
        .with_image_kind(setting.by_vendor(ImageKind::Object, ImageKind::Ptx))
        .with_offload_kind(OffloadKind::OpenMp)
        .with_triple(triple)
        .with_arch(&setting.arch);
    let container = write_offload_binary(&[entry]);
    let mut forms = vec![image.clone(), container];
    if setting.by_vendor(false, true) {
        forms.extend(cuda::assembled(&image, &setting.arch, &[]));
    }
    let file = setting.folder.path().join("image");
    for form in forms {
        std::fs::write(&file, form).unwrap();
        let variables = [("LIBOMPTARGET_DEVICE_RTL_DEBUG", "3")];
        let arguments = [file.to_str().unwrap()];
        let (said, _) = succeeded(&setting.run(&program, &arguments, &variables));
        if setting.is_double() {
            compare(setting, &said);
        } else {
            assert!(said.contains("n 7\ncalls 0:"), "{said}");
        }
    }
}

/// Compares the words of all launches with the words for the double's device.
fn compare(setting: &Setting, said: &str) {
    let clock = setting.by_vendor("5f5e100", "3b9aca00");
    let (parallelism, ports) = setting.by_vendor(("80", "80"), ("100", "100"));
    let (with_warp, default) = setting.by_vendor(("80", "100"), ("60", "80"));
    let constructed = setting.by_vendor(2, 0);
    let teams = setting.by_vendor("10", "c80");
    const NONE: &str = "ffffffffffffffff";
    let expected = [
        format!("environments 0: 3 2 0 0 3 2 0 0 {clock} 0 0 {parallelism} {constructed}"),
        format!("first 0: 1 1 1 {with_warp} 1 1 0 3e8"),
        format!("first 0: 1 1 1 {default} 1 1 0 3e8"),
        "second 0: 3 1 1 40 1 1 0 3e9".to_owned(),
        "second 0: 4 1 1 20 1 1 0 3e9".to_owned(),
        format!("third 0: {teams} 1 1 80 1 1 {NONE} 3ea"),
        format!("third 0: 7 1 1 80 1 1 {NONE} 3ea"),
        format!("third 0: 7 1 1 80 1 1 {NONE} 3ea"),
        format!("third 0: 1 1 1 80 1 1 {NONE} 3ea"),
        // The counter is 0 in each launch.
        "reduced 0: 5 1 1 60 1 1 0 3eb 3eb".to_owned(),
        "reduced 0: 5 1 1 60 1 1 0 3eb 3eb".to_owned(),
        format!("bare 0: 4 3 2 8 4 2 {NONE} 3ec"),
        format!("undescribed 0: 2 2 1 4 2 1 {NONE} 3ed"),
        "fourth 0: 2 1 1 20 1 1 0 3ee 3ee 0 0".to_owned(),
        "fourth 0: 2 1 1 20 1 1 0 3ee 3ee 0 0".to_owned(),
        "fifth 0: 6 1 1 20 1 1 0 3ef 3ef 0 0".to_owned(),
        "fifth 0: 6 1 1 20 1 1 10000000000 3ef 3ef 0 0".to_owned(),
        "memory 0: 2 1 1 40 1 1 0 3f0 0 20000000000 0".to_owned(),
        "memory 0: 2 1 1 40 1 1 0 3f0 0 0 1".to_owned(),
        "memory 0: 2 1 1 40 1 1 0 3f0 1 10000000000000 2".to_owned(),
        "n 7".to_owned(),
    ];
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..expected.len()], expected);
    // Ports, an address, the size of the arguments, and the number of printed characters.
    let words: Vec<_> = lines[expected.len()].split(' ').collect();
    assert_eq!([words[0], words[1], words[2]], ["calls", "0:", ports]);
    assert_ne!(words[3], "0");
    assert_eq!(words[4..], ["4", "4"]);
}

fn no_memory(setting: &Setting) {
    let Some(program) = program(setting) else { return };
    let Some(image) = image(setting) else { return };
    let file = setting.folder.path().join("image");
    std::fs::write(&file, image).unwrap();
    let output = setting.run(&program, &[file.to_str().unwrap(), "memory"], &[]);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{wrong}");
    assert!(wrong.contains("needs 1048576 bytes of memory for each team"), "{wrong}");
    assert!(wrong.contains("failure of target construct"), "{wrong}");
}

/// Compiles the image, a code object or PTX.
fn image(setting: &Setting) -> Option<Vec<u8>> {
    let (source, arch) = (fixture("conventions.c"), &*setting.arch);
    match setting.by_vendor(true, false) {
        true => amdgpu::compiled(&source, arch, &[]),
        false => cuda::compiled(&source, arch, &[]),
    }
}

/// Compiles the program.
fn program(setting: &Setting) -> Option<PathBuf> {
    let program = setting.folder.path().join("conventions");
    let mut command = Command::new("clang-19");
    command.arg("-L").arg(setting.folder.path()).arg(fixture("conventions_host.c"));
    let output = command.arg("-lomptarget").arg("-o").arg(&program).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(program)
}
