//! Builds the images of the suite: shared objects for the CPU with the Rust compiler that builds
//! everything else, and the sample device's text images by adding their checksum.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOR_THE_CPU: [&str; 6] = ["basic", "clash", "life", "failing", "stillborn", "undefined"];
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

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"))
}
