//! Images and their twins, made by clang.

use longshore_double_gpu::image_hash;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with images and twins. In the process that a test runs in, it is that of the double's settings, where they
/// are already.
pub(crate) struct Twins {
    folder: PathBuf,
    /// Removes the folder in the end.
    _made: Option<tempfile::TempDir>,
}

impl Twins {
    /// An empty one; `None`, with a line that says so, where there is no clang for it.
    pub(crate) fn new() -> Option<Twins> {
        if let Some(folder) = super::setting("twins") {
            return Some(Twins { folder: folder.into(), _made: None });
        }
        let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
        for name in ["clang-19", "llvm-objcopy-19"] {
            if !has(name) {
                println!("{name} is not installed; kernels of the double were not tried");
                return None;
            }
        }
        let made = tempfile::tempdir().expect("there is room for files");
        Some(Twins { folder: made.path().to_owned(), _made: Some(made) })
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Compiles C to PTX and its twin.
    pub(crate) fn ptx(&self, name: &str, source: &str) -> Vec<u8> {
        self.compile(name, source, &[], &[])
    }

    /// The same, with counters of a profile; and a second time, with counters that the driver finds.
    pub(crate) fn instrumented(&self, name: &str, source: &str) -> [Vec<u8>; 2] {
        let flags = ["-Xclang", "-fprofile-instrument=llvm", "-mllvm", "-disable-vp"];
        let ptx = self.compile(name, source, &flags, &["-mllvm", "-profile-correlate=binary"]);
        let text = String::from_utf8(ptx.clone()).expect("PTX is text");
        let counters = ".global .align 8 .b8 __profc_";
        let visible = text.replace(&format!("\n{counters}"), &format!("\n.visible {counters}"));
        self.share_twin(&ptx, visible.as_bytes());
        [ptx, visible.into_bytes()]
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str], for_gpus: &[&str]) -> Vec<u8> {
        let (file, ptx) = (self.file(name, "c"), self.file(name, "ptx"));
        if let Ok(image) = std::fs::read(&ptx) {
            return image;
        }
        std::fs::write(&file, source).expect("there is room for files");
        let mut command = clang(&file, &ptx);
        command.args(["--target=nvptx64-nvidia-cuda", "-march=sm_90", "--cuda-feature=+ptx78"]);
        run(command.args(["-nogpulib", "-ffreestanding", "-S"]).args(flags).args(for_gpus));
        let image = std::fs::read(&ptx).expect("it was just written");
        let twin = self.twin(&image);
        let mut command = clang(&file, &twin);
        run(command.args(["-fPIC", "-fstack-clash-protection", "-c"]).args(flags));
        let mut objcopy = Command::new("llvm-objcopy-19");
        run(objcopy.args(["-w", "--globalize-symbol=?*"]).arg(twin));
        image
    }

    /// Assembles PTX to a cubin, which has the same twin. `flags` are the assembler's.
    pub(crate) fn cubin(&self, name: &str, ptxas: &Path, flags: &[&str]) -> Vec<u8> {
        let (ptx, cubin) = (self.file(name, "ptx"), self.file(name, "cubin"));
        if let Ok(image) = std::fs::read(&cubin) {
            return image;
        }
        let mut command = Command::new(ptxas);
        run(command.arg("-arch=sm_90").args(flags).arg(ptx).arg("-o").arg(&cubin));
        let image = std::fs::read(&cubin).expect("it was just written");
        self.share_twin(&std::fs::read(self.file(name, "ptx")).expect("it is there"), &image);
        image
    }

    /// Gives an image the twin of another.
    fn share_twin(&self, of: &[u8], image: &[u8]) {
        std::fs::copy(self.twin(of), self.twin(image)).expect("there is room for files");
    }

    /// The file in which the twin of an image is looked for.
    fn twin(&self, image: &[u8]) -> PathBuf {
        self.path().join(format!("{}.o", image_hash(image)))
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.path().join(name).with_extension(extension)
    }
}

/// NVIDIA's assembler; `None`, with a line that says so, if it is not there.
pub(crate) fn ptxas() -> Option<PathBuf> {
    let variable = std::env::var_os("PTXAS").map(PathBuf::from);
    let packages = super::root().join("target/nvcc/nvidia/cu13/bin/ptxas");
    let found = variable.into_iter().chain([packages]).find(|path| path.is_file());
    if found.is_none() {
        println!("ptxas is not installed; cubins and links were not tried");
    }
    found
}

fn clang(source: &Path, to: &Path) -> Command {
    let mut command = Command::new("clang-19");
    command.arg("-O2").arg("-I").arg(super::root().join("include"));
    command.arg(source).arg("-o").arg(to);
    command
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
