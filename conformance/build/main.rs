//! The build of the suite's images: one of each source in `fixtures/` for each format of its
//! language, and their list for `src/fixtures.rs`. Formats without installed tools are left out.
//! Build scripts of dependents get the folders of the images and of the C sources.

mod c;
mod images;
mod text;
mod vulkan;

use images::Image;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=fixtures");
    println!("cargo::rerun-if-changed=../include");
    // Cargo runs the script in the package's folder. Compilers write the paths of sources into
    // images, which must not depend on the place of the repository.
    let (sources, include) = (Path::new("fixtures"), Path::new("../include"));
    let out = path("OUT_DIR");
    let folder = out.join("images");
    // The list would contain images of removed sources.
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("OUT_DIR is writable");
    }
    fs::create_dir_all(&folder).expect("OUT_DIR is writable");

    let mut planned = c::for_the_cpu(sources, &folder);
    planned.extend(text::with_checksums(&sources.join("ops"), &folder));
    planned.extend(vulkan::spirv(&sources.join("vulkan"), &folder));
    planned.extend(text::wgsl(&sources.join("vulkan/wgsl"), &folder));
    planned.extend(c::for_gpus(sources, include, &folder));
    planned.extend(c::bitcode_for_the_cpu(sources, &folder));
    let mut made = images::make(planned);
    made.extend(images::make(c::cubins(&made)));
    fs::write(out.join("images.rs"), list(&made)).expect("OUT_DIR is writable");

    println!("cargo::metadata=IMAGES={}", folder.display());
    let package = path("CARGO_MANIFEST_DIR");
    println!("cargo::metadata=SOURCES={}", package.join(sources).display());
    println!("cargo::metadata=INCLUDE={}", package.join(include).display());
}

/// Returns a Rust expression: format, name and bytes of each image.
fn list(images: &[Image]) -> String {
    let mut list = String::from("&[\n");
    for image in images {
        let (format, name) = (image.format, image.name());
        writeln!(list, "({format:?}, {name:?}, include_bytes!({:?}) as &[u8]),", image.file)
            .expect("a string has room");
    }
    list + "]\n"
}

/// Returns the path in an environment variable of cargo.
fn path(name: &str) -> PathBuf {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")).into()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}
