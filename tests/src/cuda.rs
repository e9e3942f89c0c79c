//! Images for CUDA, made for tests.

use crate::doubled::{compiler, read, run, share_twin, twin, with_source};
use crate::world::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a tool of NVIDIA's: from the variable with its name in capitals, from `PATH`, or from
/// the installation of `cargo xtask test --install`.
pub fn nvidia_tool(name: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(name.to_uppercase()) {
        return Some(path.into());
    }
    let starts = Command::new(name).arg("--version").output();
    if starts.is_ok_and(|output| output.status.success()) {
        return Some(name.into());
    }
    let packages = std::fs::read_dir(root().join("target/nvcc/nvidia")).ok()?;
    let mut paths = packages.flatten().map(|package| package.path().join("bin").join(name));
    paths.find(|path| path.is_file())
}

/// Compiles C to PTX for an architecture ("sm_90"), and registers its twin with the double. Returns
/// `None`, and prints a line, without the compiler.
///
/// # Panics
/// If the source does not compile.
pub fn compiled(source: &Path, arch: &str, options: &[&str]) -> Option<Vec<u8>> {
    let image = compiled_without_twin(source, arch, options)?;
    twin(&image, source, options);
    Some(image)
}

/// Compiles like [`compiled`], but without a twin: the twin needs other options, or the source
/// cannot have one.
///
/// # Panics
/// If the source does not compile.
pub fn compiled_without_twin(source: &Path, arch: &str, options: &[&str]) -> Option<Vec<u8>> {
    let mut compiler = compiler()?;
    let folder = tempfile::tempdir().expect("a folder for the image");
    let ptx = folder.path().join("image.ptx");
    compiler.args(["--target=nvptx64-nvidia-cuda", "-nogpulib", "-ffreestanding", "-S"]);
    compiler.arg(format!("-march={arch}")).arg("--cuda-feature=+ptx78").arg("-o").arg(&ptx);
    run(with_source(&mut compiler, source, options));
    Some(read(&ptx))
}

/// Assembles PTX for an architecture, with the twin of the PTX. With `-c` among the options, the
/// result is a linkable object. Returns `None`, and prints a line, without NVIDIA's assembler.
///
/// # Panics
/// If the assembler refuses the PTX.
pub fn assembled(ptx: &[u8], arch: &str, options: &[&str]) -> Option<Vec<u8>> {
    let Some(assembler) = nvidia_tool("ptxas") else {
        eprintln!("not tried: ptxas is not installed");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder for the image");
    let [text, code] = ["image.ptx", "image.cubin"].map(|name| folder.path().join(name));
    std::fs::write(&text, ptx).expect("the folder is writable");
    let mut command = Command::new(assembler);
    run(command.arg("-arch").arg(arch).args(options).arg("-o").arg(&code).arg(&text));
    let image = read(&code);
    share_twin(ptx, &image);
    Some(image)
}

/// Packs images, cubins and PTX with their architectures, into a fatbin. Returns `None`, and prints
/// a line, without NVIDIA's tool.
///
/// # Panics
/// If the tool refuses the images.
pub fn fatbin(images: &[(&str, &[u8])], options: &[&str]) -> Option<Vec<u8>> {
    let Some(tool) = nvidia_tool("fatbinary") else {
        eprintln!("not tried: fatbinary is not installed");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder for the image");
    let mut command = Command::new(tool);
    command.arg("-64").args(options);
    for (number, (arch, image)) in images.iter().enumerate() {
        let file = folder.path().join(number.to_string());
        std::fs::write(&file, image).expect("the folder is writable");
        let (kind, arch) = match image.starts_with(b"\x7fELF") {
            true => ("elf", (*arch).to_owned()),
            false => ("ptx", arch.replace("sm_", "compute_")),
        };
        command.arg(format!(
            "--image3=kind={kind},sm={},file={}",
            &arch[arch.find('_').map_or(0, |at| at + 1)..],
            file.display()
        ));
    }
    let made = folder.path().join("made");
    run(command.arg(format!("--create={}", made.display())));
    let made = read(&made);
    // The tool drops comments of PTX.
    let entries = longshore_format_nvidia::fatbin(&made).expect("the tool makes fatbins");
    for (entry, (_, image)) in entries.iter().zip(images) {
        share_twin(image, &entry.image().expect("the tool makes whole entries"));
    }
    Some(made)
}
