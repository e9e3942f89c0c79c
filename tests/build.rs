//! Builds the images of the suite: shared objects for the CPU with the Rust compiler that builds
//! everything else, the sample device's text images by adding their checksum, and SPIR-V where there
//! are the tools for it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOR_THE_CPU: [&str; 7] =
    ["basic", "echo", "clash", "life", "failing", "stillborn", "undefined"];
const IN_GLSL: [&str; 6] = ["basic", "echo", "clash", "life", "failing", "stillborn"];
/// Nothing that GLSL can say.
const IN_ASSEMBLY: [&str; 1] = ["undefined"];
/// Code for the CPU cannot say that a kernel failed.
const ONLY_FOR_THE_SAMPLE: [&str; 1] = ["faulty"];

fn main() {
    println!("cargo::rerun-if-changed=fixtures");
    println!("cargo::rerun-if-changed=build.rs");
    let sources = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("fixtures");
    let out = PathBuf::from(variable("OUT_DIR"));
    for image in FOR_THE_CPU {
        let source = sources.join("host").join(image).with_extension("rs");
        shared_object(&source, &out.join(image).with_extension("so"));
    }
    for image in FOR_THE_CPU.into_iter().chain(ONLY_FOR_THE_SAMPLE) {
        let source = sources.join("ops").join(image).with_extension("ops");
        with_checksum(&source, &out.join(image).with_extension("ops"));
    }
    if let Err(why) = spirv_modules(&sources.join("vulkan"), &out) {
        println!("cargo::warning=SPIR-V is not tested: {why}");
        for image in IN_GLSL.into_iter().chain(IN_ASSEMBLY) {
            fs::write(out.join(image).with_extension("spv"), "").expect("OUT_DIR is writable");
        }
    }
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
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    fs::write(image, format!("{text}checksum {hash:016x}\n")).expect("OUT_DIR is writable");
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
