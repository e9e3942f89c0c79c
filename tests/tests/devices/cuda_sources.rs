//! Sources in CUDA and HIP, compiled for GPUs by `longshore cc`, on the doubles of both drivers.
//!
//! The doubles run kernels by their images for the CPU. The tests thus show that the drivers' forms
//! of images and arguments are right, that `ptxas` accepts the PTX, and that code objects link.

use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::cuda::nvidia_tool;
use longshore_tests::cuda_kernels::{SOURCES, Source, check_on_double, compiler, images, succeed};
use longshore_tests::doubled::{AMDGPU, CUDA, Doubled};
use longshore_tests::effort;
use longshore_tests::suites::Suite;
use std::process::Command;

pub(crate) const FOR_CUDA: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe { CUDA.take_double("devices=1") },
    ..Suite::new("cuda_sources_for_cuda", || trials(&CUDA, &NVIDIA, 0))
};

pub(crate) const FOR_AMDGPU: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe { AMDGPU.take_double("devices=1") },
    ..Suite::new("cuda_sources_for_amdgpu", || trials(&AMDGPU, &AMD, 1))
};

/// Targets; the last is that of the double's device.
const NVIDIA: [&str; 2] = ["nvptx64:sm_70", "nvptx64:sm_90"];
const AMD: [&str; 3] = ["amdgcn:gfx942", "amdgcn:gfx1100", "amdgcn:gfx90a"];

/// Sources whose kernels always run on the doubles. All sources do if all is asked for.
const RUN: [&str; 3] = ["language.cu", "samples.hip", "vectors.cu"];

/// Lists the trials of a backend. Sources outside [`RUN`] take turns: a backend compiles every
/// second one, for one of its targets, and begins with the source at index `remainder`.
fn trials(of: &'static Doubled, targets: &'static [&str], remainder: usize) -> Vec<Trial> {
    let is_whole = |file: &str| effort::is_all() || RUN.contains(&file);
    let mut trials = Vec::new();
    for (index, source) in SOURCES.iter().enumerate() {
        if is_whole(source.file) {
            let name = format!("{}: all kernels take their arguments", source.file);
            trials.push(Trial::ignorable_test(name, move || run(source, of, targets)));
        } else if index % 2 == remainder {
            let target = targets[index / 2 % targets.len()];
            let name = format!("{}: compiles for {target}", source.file);
            trials.push(Trial::ignorable_test(name, move || compile(source, &[target])));
        }
    }
    trials
}

fn compile(source: &Source, targets: &[&str]) -> Result<Completion, Failed> {
    let Some(clang) = compiler() else {
        return Ok(Completion::ignored_with("the compiler is not installed"));
    };
    let images = images(source, clang, targets);
    assert_eq!(images.len(), targets.len());
    check(&images, targets);
    Ok(Completion::Completed)
}

fn run(source: &Source, of: &Doubled, targets: &[&str]) -> Result<Completion, Failed> {
    let (Some(clang), Some(_), Some(_)) = (compiler(), of.double(), of.plugin()) else {
        return Ok(Completion::ignored_with("the compiler, or the double, is missing"));
    };
    let images = images(source, clang, &[&["host"], targets].concat());
    let [twin, images @ ..] = images.as_slice() else { panic!("no image for the CPU") };
    assert_eq!(images.len(), targets.len());
    check(images, targets);
    let last = images.last().expect("there is a target");
    check_on_double(source, of, clang, last, twin);
    Ok(Completion::Completed)
}

/// Assembles the images that are PTX.
fn check(images: &[Vec<u8>], targets: &[&str]) {
    for (image, target) in images.iter().zip(targets) {
        if let Some(architecture) = target.strip_prefix("nvptx64:") {
            assemble(image, architecture);
        }
    }
}

/// Assembles PTX, if the assembler is installed.
fn assemble(ptx: &[u8], architecture: &str) {
    let Some(assembler) = nvidia_tool("ptxas") else {
        println!("ptxas is not installed; the PTX was not assembled");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder for the image");
    let [text, code] = ["image.ptx", "image.cubin"].map(|name| folder.path().join(name));
    std::fs::write(&text, ptx).expect("the folder is writable");
    // CUDA 13 no longer makes machine code for sm_70. It takes the PTX for the next architecture.
    let help = Command::new(&assembler).arg("--help").output().expect("the assembler runs");
    let quoted = format!("'{architecture}'");
    let is_known = String::from_utf8_lossy(&help.stdout).contains(&quoted);
    let architecture = if is_known { architecture } else { "sm_75" };
    let mut command = Command::new(assembler);
    succeed(command.args(["-arch", architecture, "-O0", "-o"]).arg(&code).arg(&text));
}
