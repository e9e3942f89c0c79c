//! Images from C sources: for the CPU in LLVM's host form with any compiler, and for GPUs with
//! clang.

use crate::images::{Image, are_installed, on_path, place, sources};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the shared objects to make of the sources alone: without libraries, runtime or start
/// files. The folder `host` has sources for the CPU only, and a header that replaces the device
/// header.
pub(crate) fn for_the_cpu(folder: &Path, out: &Path) -> Vec<Image> {
    // Rust's linker driver is also the compiler.
    let compiler = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let host = folder.join("host");
    let compiled = |source: &PathBuf| {
        let file = place(out, source, "so");
        let mut command = Command::new(&compiler);
        // Some compilers describe the code for debuggers by default.
        command.args(["-O2", "-g0", "-fPIC", "-shared", "-nostdlib", "-I"]).arg(&host);
        command.arg("-o").arg(&file).arg(source);
        Image::new("elf-so", file, vec![command])
    };
    [sources(folder, "c"), sources(&host, "c")].concat().iter().map(compiled).collect()
}

/// Returns bitcode of the same sources.
pub(crate) fn bitcode_for_the_cpu(folder: &Path, out: &Path) -> Vec<Image> {
    const CLANG: &str = "clang-19";
    let host = folder.join("host");
    let compiled = |source: &PathBuf| {
        let file = place(out, source, "bc");
        let mut command = Command::new(CLANG);
        command.arg(format!("--target={}", target())).args(["-O2", "-fPIC", "-emit-llvm", "-c"]);
        command.arg("-I").arg(&host);
        command.arg("-o").arg(&file).arg(source);
        Image::new("bitcode", file, vec![command])
    };
    let is_made = are_installed("bitcode", &[CLANG]);
    let sources = [sources(folder, "c"), sources(&host, "c")].concat();
    sources.iter().filter(|_| is_made).map(compiled).collect()
}

/// Returns LLVM's name of the target, which may be another machine.
fn target() -> String {
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    format!("{architecture}-pc-linux-gnu")
}

/// A form of images for GPUs.
struct Form {
    format: &'static str,
    extension: &'static str,
    /// Necessary programs; the compiler is the first.
    tools: &'static [&'static str],
    processor: &'static [&'static str],
    options: &'static [&'static str],
}

/// Forms in the order of preference: a device gets the first image that it accepts.
const FORMS: [Form; 14] = [
    // An image for the oldest GPUs of the device header, which all later GPUs run too.
    Form {
        format: "ptx",
        extension: "ptx",
        tools: &["clang-19"],
        processor: &["-march=sm_70"],
        options: &[
            "--target=nvptx64-nvidia-cuda",
            "--cuda-feature=+ptx63",
            "-nogpulib",
            "-ffreestanding",
            "-S",
        ],
    },
    // Images of one GPU each, with its own instructions.
    code_object("gfx908.co", &["-mcpu=gfx908"]),
    code_object("gfx90a.co", &["-mcpu=gfx90a"]),
    code_object("gfx942.co", &["-mcpu=gfx942"]),
    code_object("gfx1030.co", &["-mcpu=gfx1030"]),
    code_object("gfx1100.co", &["-mcpu=gfx1100"]),
    code_object("gfx1200.co", &["-mcpu=gfx1200"]),
    code_object("gfx1201.co", &["-mcpu=gfx1201"]),
    // Images of several GPUs each, for GPUs without an image of their own.
    code_object("gfx9-generic.co", &["-mcpu=gfx9-generic", VERSION_6]),
    Form {
        // clang-19 does not support this target.
        tools: &["clang-22", "ld.lld-22"],
        ..code_object("gfx9-4-generic.co", &["-mcpu=gfx9-4-generic", VERSION_6])
    },
    code_object("gfx10-1-generic.co", &["-mcpu=gfx10-1-generic", VERSION_6]),
    code_object("gfx10-3-generic.co", &["-mcpu=gfx10-3-generic", VERSION_6]),
    code_object("gfx11-generic.co", &["-mcpu=gfx11-generic", VERSION_6]),
    code_object("gfx12-generic.co", &["-mcpu=gfx12-generic", VERSION_6]),
];
/// The first version with generic targets.
const VERSION_6: &str = "-mcode-object-version=6";

const fn code_object(extension: &'static str, processor: &'static [&'static str]) -> Form {
    Form {
        format: "code-object",
        extension,
        tools: &["clang-19", "ld.lld-19"],
        processor,
        options: &[
            "--target=amdgcn-amd-amdhsa",
            "-nogpulib",
            "-ffreestanding",
            "-fuse-ld=lld",
            // The backend must find the missing function of one image.
            "-Wl,--unresolved-symbols=ignore-all",
        ],
    }
}

/// Compiles every source for every form.
pub(crate) fn for_gpus(folder: &Path, include: &Path, out: &Path) -> Vec<Image> {
    let sources = sources(folder, "c");
    let images = |form: &Form| {
        let image = |source: &PathBuf| {
            let file = place(out, source, form.extension);
            let mut compiler = Command::new(form.tools[0]);
            compiler.args(form.options).args(form.processor).arg("-O2");
            compiler.arg("-I").arg(include).arg("-o").arg(&file).arg(source);
            Image::new(form.format, file, vec![compiler])
        };
        let is_made = are_installed(form.extension, form.tools);
        sources.iter().filter(|_| is_made).map(image).collect::<Vec<_>>()
    };
    FORMS.iter().flat_map(images).collect()
}

/// Returns machine code for sm_90 of the PTX images, if NVIDIA's assembler is installed. It refuses
/// an image with an undefined function, which is then left out.
pub(crate) fn cubins(made: &[Image]) -> Vec<Image> {
    println!("cargo::rerun-if-env-changed=PTXAS");
    println!("cargo::rerun-if-changed=../target/nvcc");
    let Some(assembler) = ptxas() else { return Vec::new() };
    let assembled = |image: &Image| {
        let file = image.file.with_extension("cubin");
        let mut command = Command::new(&assembler);
        command.args(["-arch", "sm_90", "-o"]).arg(&file).arg(&image.file);
        Image { is_optional: true, ..Image::new("cubin", file, vec![command]) }
    };
    made.iter().filter(|image| image.format == "ptx").map(assembled).collect()
}

/// Returns the path of NVIDIA's assembler: that of `cargo xtask test --install`, or another
/// installation.
fn ptxas() -> Option<PathBuf> {
    if let Some(path) = env::var_os("PTXAS") {
        return Some(path.into());
    }
    let packages = fs::read_dir("../target/nvcc/nvidia").into_iter().flatten().flatten();
    let mut installed = packages.map(|package| package.path().join("bin/ptxas"));
    installed.find(|path| path.is_file()).or_else(|| on_path("ptxas"))
}
