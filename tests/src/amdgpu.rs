//! Images for AMD's GPUs, made for tests.

use crate::doubled::{compiler_knowing, read, run, share_twin, twin_by, with_source};
use longshore::{ImageKind, OffloadImage, OffloadKind};
use std::path::Path;
use std::process::Command;

/// The linker of relocatable objects.
pub const LINKER: &str = "ld.lld-19";

/// Compilers of code objects: first a version whose images every HIP accepts, then a version that
/// knows more processors.
const COMPILERS: [&str; 2] = ["clang-19", "clang-22"];

/// Compiles C to a code object for a target ("gfx90a", "gfx90a:xnack-"), and registers its twin
/// with the double. With `-c` among the options, the code object is relocatable. Returns `None`,
/// and prints a line, without a compiler that knows the processor.
///
/// # Panics
/// If the source does not compile.
pub fn compiled(source: &Path, target: &str, options: &[&str]) -> Option<Vec<u8>> {
    compiled_by_any(&COMPILERS, source, target, options)
}

/// Compiles like [`compiled`], by the compiler with this name. Returns `None`, and prints a line,
/// if the compiler is missing or does not know the processor.
///
/// # Panics
/// If the source does not compile.
pub fn compiled_by(
    compiler: &str,
    source: &Path,
    target: &str,
    options: &[&str],
) -> Option<Vec<u8>> {
    compiled_by_any(&[compiler], source, target, options)
}

fn compiled_by_any(
    compilers: &[&str],
    source: &Path,
    target: &str,
    options: &[&str],
) -> Option<Vec<u8>> {
    let compiler = compiler_knowing(compilers, processor(target))?;
    let image = compile(compiler, source, target, options);
    let twin_options: Vec<_> = options.iter().copied().filter(|option| *option != "-c").collect();
    twin_by(compiler, &image, source, &twin_options);
    Some(image)
}

/// Compiles like [`compiled`], but without a twin: the twin needs other options, or the source
/// cannot have one.
///
/// # Panics
/// If the source does not compile.
pub fn compiled_without_twin(source: &Path, target: &str, options: &[&str]) -> Option<Vec<u8>> {
    let compiler = compiler_knowing(&COMPILERS, processor(target))?;
    Some(compile(compiler, source, target, options))
}

/// Returns the processor of a target: "gfx90a" for "gfx90a:sramecc+:xnack-".
pub fn processor(target: &str) -> &str {
    target.split(':').next().expect("a part")
}

fn compile(compiler: &str, source: &Path, target: &str, options: &[&str]) -> Vec<u8> {
    let mut compiler = Command::new(compiler);
    let folder = tempfile::tempdir().expect("a folder for the image");
    let image = folder.path().join("image.co");
    compiler.args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-ffreestanding", "-fuse-ld=lld"]);
    compiler.arg(format!("-mcpu={target}")).arg("-o").arg(&image);
    run(with_source(&mut compiler, source, options));
    read(&image)
}

/// Returns the backend's output for a relocatable object, linked by [`LINKER`], with the object's
/// twin. Returns `None`, and prints a line, without the linker.
///
/// # Panics
/// If the linker refuses the object.
pub fn linked(object: &[u8]) -> Option<Vec<u8>> {
    if Command::new(LINKER).arg("--version").output().is_err() {
        eprintln!("not tried: {LINKER} is not installed");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder for the image");
    let [from, to] = ["object.o", "linked.co"].map(|name| folder.path().join(name));
    std::fs::write(&from, object).expect("the folder is writable");
    run(Command::new(LINKER).args(["-shared", "-z", "defs", "-o"]).arg(&to).arg(&from));
    let image = read(&to);
    share_twin(object, &image);
    Some(image)
}

/// Gives the backend's repaired copy of a stripped code object the twin of the original.
///
/// # Panics
/// If the backend refuses the stripped code object.
pub fn share_with_repaired(image: &[u8], stripped: &[u8]) {
    let repaired = longshore_format_amdgpu::loadable(stripped).expect("it can be repaired");
    share_twin(image, &repaired);
}

/// Returns an entry of a container, for the triple of most compilers.
pub fn entry<'a>(arch: &'a str, bytes: &'a [u8]) -> OffloadImage<'a> {
    OffloadImage::new(bytes)
        .with_image_kind(ImageKind::Object)
        .with_offload_kind(OffloadKind::Hip)
        .with_triple("amdgcn-amd-amdhsa")
        .with_arch(arch)
}
