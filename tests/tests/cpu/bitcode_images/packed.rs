//! Bitcode in the containers that clang's own tools make: offload bundles, and sections of fat
//! objects.

use super::{Shop, answer, clang, own_triple};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::clangs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns a tool of clang's version.
fn tool(clang: &str, name: &str) -> Command {
    Command::new(clang.replace("clang", name))
}

/// Writes a file of the shop.
fn write(shop: &Shop, name: &str, contents: &[u8]) -> PathBuf {
    let path = shop.path().join(name);
    std::fs::write(&path, contents).unwrap();
    path
}

/// Bundles images by `clang-offload-bundler`.
fn bundle(clang: &str, kind: &str, ids: &[&str], files: &[&Path], to: &Path) {
    let mut command = tool(clang, "clang-offload-bundler");
    command.arg(format!("-type={kind}")).arg(format!("-targets={}", ids.join(",")));
    if clang.ends_with("-14") {
        let files: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
        command
            .arg(format!("-inputs={}", files.join(",")))
            .arg(format!("-outputs={}", to.display()));
    } else {
        command.args(files.iter().map(|file| format!("-input={}", file.display())));
        command.arg(format!("-output={}", to.display()));
    }
    run(&mut command);
}

#[test]
fn bitcode_in_a_bundle_of_clangs_bundler_is_compiled() {
    let shop = Shop::new();
    let device = shop.device(&[]);
    let (host, own) = (format!("host-{}", own_triple()), format!("openmp-{}", own_triple()));
    for (number, clang) in (1..).zip(clangs()) {
        let empty = write(&shop, "host.bc", &shop.bitcode(clang, "int host;", &[]));
        let foreign = ["--target=nvptx64-nvidia-cuda", "-nogpulib", "-ffreestanding"];
        let foreign = shop.bitcode(clang, "void answer(void) {}", &foreign);
        let foreign = write(&shop, "foreign.bc", &foreign);
        let bitcode = write(&shop, "device.bc", &shop.answering(clang, number, &[]));
        let bundled = shop.path().join("bundle.bc");
        let ids = [&host, "openmp-nvptx64-nvidia-cuda-sm_70", &own].map(|id: &str| id);
        bundle(clang, "bc", &ids, &[&empty, &foreign, &bitcode], &bundled);
        let image = std::fs::read(&bundled).unwrap();
        assert!(image.starts_with(b"__CLANG_OFFLOAD_BUNDLE__"), "{clang}");
        assert_eq!(answer(&device, image), Ok(number), "{clang}");
    }
}

#[test]
fn bitcode_in_the_section_of_a_fat_object_is_compiled() {
    let shop = Shop::new();
    let device = shop.device(&[]);
    // The object itself is for another machine: the device cannot load it.
    let machine = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
    for (number, clang) in (1..).zip(clangs()).filter(|(_, clang)| !clang.ends_with("-14")) {
        let bitcode = write(&shop, "device.bc", &shop.answering(clang, number, &[]));
        let packed = shop.path().join("packed");
        let image = format!("file={},triple={},arch=,kind=openmp", bitcode.display(), own_triple());
        let mut packager = tool(clang, "clang-offload-packager");
        run(packager.arg("-o").arg(&packed).arg(format!("--image={image}")));
        assert_eq!(answer(&device, std::fs::read(&packed).unwrap()), Ok(number), "{clang}");
        let source = write(&shop, "host.c", b"int host;");
        let object = shop.path().join("fat.o");
        let mut compiler = Command::new(clang);
        compiler.arg(format!("--target={machine}-unknown-linux-gnu")).arg("-c").arg(&source);
        let embed = format!("-fembed-offload-object={}", packed.display());
        run(compiler.args(["-Xclang", &embed, "-o"]).arg(&object));
        assert_eq!(answer(&device, std::fs::read(&object).unwrap()), Ok(number), "{clang}");
    }
}

#[test]
fn damaged_bitcode_in_a_container_is_named_with_its_entry() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[]);
    let good = shop.answering(clang, 1, &[]);
    let cut = &good[..good.len() / 2];
    let container = super::packed(&[(longshore::ImageKind::Bitcode, &own_triple(), "", cut)]);
    let error = device.load_trusted(container).err().unwrap();
    for part in ["openmp, ", &format!("{} bytes, bitcode: damaged bitcode", cut.len())] {
        assert!(error.message().contains(part), "expected '{part}': {error}");
    }
}
