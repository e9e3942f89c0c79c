//! Compilation of the sources of the conformance suite's images for x86-64, each once. An object
//! gets the hash of every image made from its source as a name.

#[path = "../gpu/src/hash.rs"]
pub mod hash;

use hash::image_hash;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CLANG: &str = "clang-19";
const OBJCOPY: &str = "llvm-objcopy-19";
/// Extensions of images that doubles of drivers load.
const FORMS: [&str; 3] = ["ptx", "cubin", "co"];

fn main() {
    let [images, sources, include] = ["IMAGES", "SOURCES", "INCLUDE"].map(published);
    let twins = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("twins");
    fs::create_dir_all(&twins).expect("OUT_DIR is writable");
    for folder in [&images, &sources, &include] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed=../gpu/src/hash.rs");
    println!("cargo::rerun-if-changed=build.rs");
    for tool in [CLANG, OBJCOPY] {
        if let Err(error) = Command::new(tool).arg("--version").output() {
            println!("cargo::warning=doubles of drivers get no twins of images: {tool}: {error}");
            return;
        }
    }
    for (source, images) in by_source(&images, &sources) {
        let twin = twins.join("twin.o");
        compile(&source, &include, &twin);
        for image in images {
            let place = twins.join(image_hash(&image)).with_extension("o");
            fs::copy(&twin, place).expect("OUT_DIR is writable");
        }
        fs::remove_file(twin).expect("it was just written");
    }
}

/// Returns a path that the suite's build script has published under a name.
fn published(name: &str) -> PathBuf {
    let variable = format!("DEP_LONGSHORE_CONFORMANCE_{name}");
    std::env::var_os(&variable).unwrap_or_else(|| panic!("the suite says {name}")).into()
}

/// Returns the images of each source. An image without bytes was not built.
fn by_source(images: &Path, sources: &Path) -> BTreeMap<PathBuf, Vec<Vec<u8>>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for entry in fs::read_dir(images).expect("the suite has made the folder") {
        let file = entry.expect("a readable folder").path();
        let form = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default();
        if FORMS.contains(&form) {
            let image = fs::read(&file).expect("the suite has written it");
            let source_images = found.entry(sources.join(name).with_extension("c")).or_default();
            source_images.extend((!image.is_empty()).then_some(image));
        }
    }
    found
}

fn compile(source: &Path, include: &Path, twin: &Path) {
    let mut compiler = Command::new(CLANG);
    compiler.args(["--target=x86_64-linux-gnu", "-fPIC", "-fstack-clash-protection", "-O2", "-c"]);
    run(compiler.arg("-I").arg(include).arg("-o").arg(twin).arg(source));
    // The double also looks for functions and variables with file scope; not for sections.
    run(Command::new(OBJCOPY).args(["--wildcard", "--globalize-symbol=?*"]).arg(twin));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}
