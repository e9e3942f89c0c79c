//! Builds the images of the suite: shared objects for the CPU with the Rust compiler that builds
//! everything else, the sample device's text images by adding their checksum, and SPIR-V, PTX and AMD's code
//! objects where there are the tools for it. Build scripts of dependents are told where the images and their sources are.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOR_THE_CPU: [&str; 8] =
    ["basic", "echo", "clash", "life", "failing", "stillborn", "undefined", "faulty"];
const IN_GLSL: [&str; 6] = ["basic", "echo", "clash", "life", "failing", "stillborn"];
/// Nothing that GLSL can say.
const IN_ASSEMBLY: [&str; 1] = ["undefined"];
const FOR_GPUS: [&str; 7] = ["basic", "echo", "clash", "life", "failing", "stillborn", "undefined"];

fn main() {
    println!("cargo::rerun-if-changed=fixtures");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../include");
    let sources = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("fixtures");
    let out = PathBuf::from(variable("OUT_DIR"));
    for image in FOR_THE_CPU {
        let source = sources.join("host").join(image).with_extension("rs");
        shared_object(&source, &out.join(image).with_extension("so"));
    }
    for image in FOR_THE_CPU {
        let source = sources.join("ops").join(image).with_extension("ops");
        with_checksum(&source, &out.join(image).with_extension("ops"));
    }
    if let Err(why) = spirv_modules(&sources.join("vulkan"), &out) {
        println!("cargo::warning=SPIR-V is not tested: {why}");
        for image in IN_GLSL.into_iter().chain(IN_ASSEMBLY) {
            fs::write(out.join(image).with_extension("spv"), "").expect("OUT_DIR is writable");
        }
    }
    for form in [&[PTX][..], &CODE_OBJECTS, &FOR_GENERIC_TARGETS].concat() {
        if let Err(why) = images(&form, &sources.join("gpu"), &out) {
            println!("cargo::warning={} is not tested: {why}", form.extension);
            for image in FOR_GPUS {
                let image = out.join(image).with_extension(form.extension);
                fs::write(image, "").expect("OUT_DIR is writable");
            }
        }
    }
    println!("cargo::rerun-if-env-changed=PTXAS");
    println!("cargo::rerun-if-changed=../target/nvcc");
    let assembler = ptxas();
    for image in FOR_GPUS {
        cubin(assembler.as_deref(), image, &out);
    }
    println!("cargo::metadata=IMAGES={}", out.display());
    println!("cargo::metadata=SOURCES={}", sources.join("gpu").display());
    println!("cargo::metadata=INCLUDE={}", sources.join("../../include").display());
}

/// Compiles without a standard library, a runtime or start files: what is in the source is what
/// is in the image. The linker keeps all sections, as nothing refers to those of a profile.
fn shared_object(source: &Path, object: &Path) {
    let mut command = Command::new(variable("RUSTC"));
    command.args(["--edition=2024", "--crate-type=cdylib", "--target"]).arg(variable("TARGET"));
    command.args(["-Cpanic=abort", "-Copt-level=2", "-Cdebuginfo=0", "-Ccodegen-units=1"]);
    command.args(["-Clink-arg=-nostartfiles", "-Clink-arg=-Wl,--no-gc-sections"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("-Clinker=");
        option.push(linker);
        command.arg(option);
    }
    let status = command.arg("-o").arg(object).arg(source).status().expect("rustc starts");
    assert!(status.success(), "compiling {} failed: {status}", source.display());
}

fn with_checksum(source: &Path, image: &Path) {
    let text = fs::read_to_string(source)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", source.display()));
    let hash = fnv1a(text.as_bytes());
    fs::write(image, format!("{text}checksum {hash:016x}\n")).expect("OUT_DIR is writable");
}

/// FNV-1a with 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Makes the modules; the error says which tool is not installed.
fn spirv_modules(sources: &Path, out: &Path) -> Result<(), String> {
    for tool in ["glslangValidator", "spirv-link", "spirv-as"] {
        let started = Command::new(tool).arg("--version").output();
        started.map_err(|error| format!("{tool} cannot be started: {error}"))?;
    }
    for image in IN_GLSL {
        link_entry_points(&sources.join(image).with_extension("comp"), out, image);
    }
    for image in IN_ASSEMBLY {
        let mut assembler = Command::new("spirv-as");
        assembler.args(["--target-env", "spv1.5", "-o"]);
        assembler.arg(out.join(image).with_extension("spv"));
        run(assembler.arg(sources.join(image).with_extension("spvasm")));
    }
    Ok(())
}

/// A form of images for GPUs.
#[derive(Clone, Copy)]
struct Form {
    extension: &'static str,
    /// The compiler first.
    tools: &'static [&'static str],
    processor: &'static [&'static str],
    options: &'static [&'static str],
}

/// For the oldest GPUs that the device header knows, which all later ones run too.
const PTX: Form = Form {
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
};
/// For GPUs of which each runs its own code alone.
const CODE_OBJECTS: [Form; 7] = [
    code_object("gfx908.co", &["-mcpu=gfx908"]),
    code_object("gfx90a.co", &["-mcpu=gfx90a"]),
    code_object("gfx942.co", &["-mcpu=gfx942"]),
    code_object("gfx1030.co", &["-mcpu=gfx1030"]),
    code_object("gfx1100.co", &["-mcpu=gfx1100"]),
    code_object("gfx1200.co", &["-mcpu=gfx1200"]),
    code_object("gfx1201.co", &["-mcpu=gfx1201"]),
];

/// For the GPUs beside these, several each.
const FOR_GENERIC_TARGETS: [Form; 6] = [
    code_object("gfx9-generic.co", &["-mcpu=gfx9-generic", VERSION_6]),
    Form {
        // clang-19 does not know it.
        tools: &["clang-22", "ld.lld-22"],
        ..code_object("gfx9-4-generic.co", &["-mcpu=gfx9-4-generic", VERSION_6])
    },
    code_object("gfx10-1-generic.co", &["-mcpu=gfx10-1-generic", VERSION_6]),
    code_object("gfx10-3-generic.co", &["-mcpu=gfx10-3-generic", VERSION_6]),
    code_object("gfx11-generic.co", &["-mcpu=gfx11-generic", VERSION_6]),
    code_object("gfx12-generic.co", &["-mcpu=gfx12-generic", VERSION_6]),
];
/// Generic targets are in no version before.
const VERSION_6: &str = "-mcode-object-version=6";

const fn code_object(extension: &'static str, processor: &'static [&'static str]) -> Form {
    Form {
        extension,
        tools: &["clang-19", "ld.lld-19"],
        processor,
        options: &[
            "--target=amdgcn-amd-amdhsa",
            "-nogpulib",
            "-ffreestanding",
            "-fuse-ld=lld",
            // One of them lacks a function, which the backend is to find.
            "-Wl,--unresolved-symbols=ignore-all",
        ],
    }
}

/// Compiles the images of a form; the error says which tool is not installed.
fn images(form: &Form, sources: &Path, out: &Path) -> Result<(), String> {
    for tool in form.tools {
        let started = Command::new(tool).arg("--version").output();
        started.map_err(|error| format!("{tool} cannot be started: {error}"))?;
    }
    for image in FOR_GPUS {
        let mut compiler = Command::new(form.tools[0]);
        compiler.args(form.options).args(form.processor).arg("-O2");
        compiler.arg("-I").arg(sources.join("../../../include"));
        compiler.arg("-o").arg(out.join(image).with_extension(form.extension));
        run(compiler.arg(sources.join(image).with_extension("c")));
    }
    Ok(())
}

/// NVIDIA's assembler, where `cargo xtask test --install` puts it and where else it may be.
fn ptxas() -> Option<PathBuf> {
    if let Some(path) = env::var_os("PTXAS") {
        return Some(path.into());
    }
    let packages = fs::read_dir("../target/nvcc/nvidia").into_iter().flatten().flatten();
    let installed = packages.map(|package| package.path().join("bin/ptxas"));
    let folders = env::var_os("PATH").unwrap_or_default();
    let of_path: Vec<_> = env::split_paths(&folders).map(|folder| folder.join("ptxas")).collect();
    installed.chain(of_path).find(|path| path.is_file())
}

/// Makes machine code of an image for sm_90, of its PTX; empty if there is none to be had.
fn cubin(assembler: Option<&Path>, image: &str, out: &Path) {
    let [ptx, cubin] = ["ptx", "cubin"].map(|name| out.join(image).with_extension(name));
    fs::write(&cubin, "").expect("OUT_DIR is writable");
    let has_text = ptx.metadata().expect("it was written, if without content").len() > 0;
    let Some(assembler) = assembler.filter(|_| has_text) else { return };
    let made =
        Command::new(assembler).args(["-arch", "sm_90", "-o"]).arg(&cubin).arg(&ptx).output();
    if !made.is_ok_and(|made| made.status.success()) {
        // Code that lacks a function has no machine code.
        fs::write(&cubin, "").expect("OUT_DIR is writable");
    }
}

/// A source of GLSL has one entry point: it is compiled once for each, and the modules are linked.
fn link_entry_points(source: &Path, out: &Path, image: &str) {
    let mut linker = Command::new("spirv-link");
    linker.args(["--target-env", "vulkan1.2", "-o"]).arg(out.join(image).with_extension("spv"));
    for entry_point in entry_points(source) {
        let module = out.join(format!("{image}-{entry_point}.spv"));
        let mut compiler = Command::new("glslangValidator");
        compiler.args(["--quiet", "--target-env", "vulkan1.2", "-S", "comp"]);
        compiler.args(["--source-entrypoint", "main", "-e", &entry_point]);
        compiler.arg(format!("-D{entry_point}")).arg("-o").arg(&module);
        run(compiler.arg(source));
        linker.arg(module);
    }
    run(&mut linker);
}

/// The names behind `#ifdef` in a source and in those that it includes, in their order.
fn entry_points(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", source.display()));
    let of_line = |line: &str| {
        if let Some(name) = line.strip_prefix("#ifdef ") {
            return vec![name.to_owned()];
        }
        let included = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
        included.map(|file| entry_points(&source.with_file_name(file))).unwrap_or_default()
    };
    text.lines().flat_map(of_line).collect()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"))
}
