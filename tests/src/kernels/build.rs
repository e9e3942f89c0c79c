//! Compilation of the source to an image.

use super::source;
use crate::programs::Position;
use crate::world::root;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A way of compiling the kernels.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The version of clang.
    pub clang: u32,
    /// Language; the source is valid in both.
    pub language: Language,
    /// Flags such as `-O3`.
    pub flags: &'static [&'static str],
    /// Shape of the image.
    pub shape: Shape,
}

/// The language in which a source is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C17.
    C,
    /// C++17.
    Cpp,
}

/// The shape of a compiler's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A relocatable object.
    Object(Position),
    /// A shared object.
    Shared,
}

impl Build {
    /// Returns whether the compiler can be started.
    pub fn is_available(&self) -> bool {
        let mut version = Command::new(self.compiler());
        version.arg("--version").output().is_ok_and(|output| output.status.success())
    }

    /// Compiles the source. Blocks for about a second.
    ///
    /// # Panics
    /// If the compiler fails, or a temporary file cannot be written.
    pub fn image(&self) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = folder.path().join("image");
        let mut compile = Command::new(self.compiler());
        compile.args(self.flags).args(self.language_flags()).args(self.shape_flags());
        // The features that `-march=native` means on a processor newer than the compiler may
        // contradict each other, which clang-19 warns of and clang-14 has no option for.
        compile.args(["-Wno-unknown-warning-option", "-Wno-invalid-feature-combination"]);
        // A kernel has no use for errno, which would keep square roots from being vectorised.
        compile.args(["-fno-math-errno", "-Wall", "-Wextra", "-Werror", "-Wno-pass-failed"]);
        compile.arg("-I").arg(root().join("include")).arg(source()).arg("-o").arg(&image);
        run(&mut compile);
        read(&image)
    }

    fn compiler(&self) -> String {
        format!("clang-{}", self.clang)
    }

    fn language_flags(&self) -> &'static [&'static str] {
        match self.language {
            Language::C => &["-x", "c", "-std=gnu17"],
            Language::Cpp => &["-x", "c++", "-std=gnu++17"],
        }
    }

    fn shape_flags(&self) -> &'static [&'static str] {
        match self.shape {
            Shape::Object(Position::Fixed) => &["-c", "-fno-pic"],
            Shape::Object(Position::Independent) => &["-c", "-fPIC"],
            Shape::Object(Position::Executable) => &["-c", "-fPIE"],
            Shape::Shared => &["-shared", "-fPIC"],
        }
    }
}

/// Writes the compiler and its flags, as on the command line.
impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [self.flags, &self.language_flags()[..2], self.shape_flags()].concat();
        write!(f, "{} {}", self.compiler(), words.join(" "))
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).expect("the compiler wrote it")
}
