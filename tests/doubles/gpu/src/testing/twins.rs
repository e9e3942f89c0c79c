//! Images and their twins, made by clang.

use super::{TestedDouble, root};
use crate::image_hash;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with images and twins. In the process of a test's part, it is the folder from the
/// double's settings, which has all files already.
pub struct Twins {
    folder: PathBuf,
    /// Guard that removes the folder on drop.
    _made: Option<tempfile::TempDir>,
}

impl Twins {
    /// Creates an empty folder. Returns `None`, and prints a line, if `clang-19`, `llvm-objcopy-19`
    /// or one of `tools` is not installed.
    ///
    /// # Panics
    /// If files cannot be written.
    pub fn new(double: &TestedDouble, tools: &[&str]) -> Option<Twins> {
        if let Some(folder) = double.setting("twins") {
            return Some(Twins { folder: folder.into(), _made: None });
        }
        let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
        for name in ["clang-19", "llvm-objcopy-19"].iter().chain(tools) {
            if !has(name) {
                println!("{name} is not installed; kernels of the double were not tried");
                return None;
            }
        }
        let made = tempfile::tempdir().expect("there is room for files");
        Some(Twins { folder: made.path().to_owned(), _made: Some(made) })
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Compiles C to an image with this extension, and to its twin. `for_all` has options for both,
    /// `for_gpus` for the image.
    ///
    /// # Panics
    /// If the source does not compile.
    pub fn compiled(
        &self,
        name: &str,
        extension: &str,
        source: &str,
        for_all: &[&str],
        for_gpus: &[&str],
    ) -> Vec<u8> {
        let file = self.path().join(name).with_extension("c");
        self.made(name, extension, |to| {
            std::fs::write(&file, source).expect("there is room for files");
            let mut command = clang(&file, to);
            run(command.args(["-nogpulib", "-ffreestanding"]).args(for_gpus).args(for_all));
            let twin = self.twin(&std::fs::read(to).expect("it was just written"));
            let mut command = clang(&file, &twin);
            run(command.args(["-fPIC", "-fstack-clash-protection", "-c"]).args(for_all));
            let mut objcopy = Command::new("llvm-objcopy-19");
            run(objcopy.args(["-w", "--globalize-symbol=?*"]).arg(twin));
        })
    }

    /// Returns the image with this name and extension. `make` writes the file if it is missing.
    ///
    /// # Panics
    /// If the file cannot be read.
    pub fn made(&self, name: &str, extension: &str, make: impl FnOnce(&Path)) -> Vec<u8> {
        let file = self.path().join(name).with_extension(extension);
        if !file.is_file() {
            make(&file);
        }
        std::fs::read(&file).expect("it is there")
    }

    /// Makes the twin of the image `first` the twin of another image, too.
    ///
    /// # Panics
    /// If the first image has no twin.
    pub fn share(&self, first: &[u8], image: &[u8]) {
        std::fs::copy(self.twin(first), self.twin(image)).expect("there is room for files");
    }

    /// Returns the path of an image's twin.
    fn twin(&self, image: &[u8]) -> PathBuf {
        self.path().join(format!("{}.o", image_hash(image)))
    }
}

/// Runs a tool.
///
/// # Panics
/// If it fails.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

fn clang(source: &Path, to: &Path) -> Command {
    let mut command = Command::new("clang-19");
    command.arg("-O2").arg("-I").arg(root().join("include"));
    command.arg(source).arg("-o").arg(to);
    command
}
