//! Making images for AMD's GPUs.

use crate::doubled::{compiler, compiler_named, read, run, share_twin, twin, twin_by, with_source};
use std::path::Path;
use std::process::Command;

/// The linker of relocatable objects.
pub const LINKER: &str = "ld.lld-19";

/// A code object of a source in C for a target ("gfx90a", "gfx90a:xnack-"), with its twin where the double finds it;
/// nothing without the compiler, which is printed. With `-c` among the options it is a relocatable one.
///
/// # Panics
/// If the source does not compile.
pub fn compiled(source: &Path, target: &str, options: &[&str]) -> Option<Vec<u8>> {
    let image = compiled_without_twin(source, target, options)?;
    let of_twin: Vec<_> = options.iter().copied().filter(|option| *option != "-c").collect();
    twin(&image, source, &of_twin);
    Some(image)
}

/// The same by a compiler of this name. Nothing without it, which is printed.
///
/// # Panics
/// If the source does not compile.
pub fn compiled_by(
    compiler: &str,
    source: &Path,
    target: &str,
    options: &[&str],
) -> Option<Vec<u8>> {
    let image = compile(compiler_named(compiler)?, source, target, options);
    twin_by(compiler_named(compiler)?, &image, source, options);
    Some(image)
}

/// The same without a twin, as options for it differ, or as there can be none.
///
/// # Panics
/// If the source does not compile.
pub fn compiled_without_twin(source: &Path, target: &str, options: &[&str]) -> Option<Vec<u8>> {
    Some(compile(compiler()?, source, target, options))
}

fn compile(mut compiler: Command, source: &Path, target: &str, options: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder for the image");
    let image = folder.path().join("image.co");
    compiler.args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-ffreestanding", "-fuse-ld=lld"]);
    compiler.arg(format!("-mcpu={target}")).arg("-o").arg(&image);
    run(with_source(&mut compiler, source, options));
    read(&image)
}

/// What the backend makes of a relocatable object with [`LINKER`], with that one's twin. Nothing without that,
/// which is printed.
///
/// # Panics
/// If the linker refuses it.
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
