//! The sources that `longshore cc` compiles.

use crate::failure::{Exit, Failure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A language of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
    /// CUDA C++.
    Cuda,
    /// HIP.
    Hip,
}

impl Language {
    /// All languages.
    pub const ALL: [Language; 4] = [Language::C, Language::Cpp, Language::Cuda, Language::Hip];

    /// Returns the language's name for clang's `-x`.
    pub fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "c++",
            Language::Cuda => "cuda",
            Language::Hip => "hip",
        }
    }

    /// Returns whether the language has kernels of its own, so that `longshore_cuda.h` precedes its
    /// sources.
    pub(crate) fn has_kernels(self) -> bool {
        matches!(self, Language::Cuda | Language::Hip)
    }

    /// Returns the language whose standards `-std=` names for this one.
    pub(crate) fn language_of_standards(self) -> Language {
        match self {
            Language::C => Language::C,
            Language::Cpp | Language::Cuda | Language::Hip => Language::Cpp,
        }
    }

    /// Returns the language of a standard in `-std=`.
    pub(crate) fn from_standard(standard: &str) -> Language {
        match standard.contains("++") {
            true => Language::Cpp,
            false => Language::C,
        }
    }
}

/// A file to compile.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    /// The file that the user named.
    pub(crate) shown: PathBuf,
    pub(crate) language: Language,
    /// Options of clang for this source alone.
    pub(crate) options: Vec<OsString>,
    /// The kernels to make of its templates, such as "k<float, 256>".
    pub(crate) kernels: Vec<String>,
}

impl Source {
    /// Checks that the file exists, and takes the language from its extension unless `language`
    /// sets it.
    pub(crate) fn new(file: &Path, language: Option<Language>) -> Result<Source, Failure> {
        let shown = file.display();
        let error = |message: String| Failure::new(Exit::Runtime, message);
        let metadata = std::fs::metadata(file)
            .map_err(|reason| error(format!("cannot read '{shown}': {reason}")))?;
        if metadata.is_dir() {
            return Err(error(format!(
                "'{shown}' is a folder, expected a source in C, C++, CUDA or HIP"
            )));
        }
        let extension = file.extension().and_then(|extension| extension.to_str());
        let language = language.or(match extension {
            Some("c") => Some(Language::C),
            Some("cc" | "cpp" | "cxx" | "c++" | "C") => Some(Language::Cpp),
            Some("cu" | "cuh") if includes_hip(file) => Some(Language::Hip),
            Some("cu" | "cuh") => Some(Language::Cuda),
            Some("hip") => Some(Language::Hip),
            _ => None,
        });
        let language = language.ok_or_else(|| {
            let message = format!(
                "'{shown}' has no extension of C (.c), C++ (.cc, .cpp, .cxx), CUDA (.cu) or HIP \
                 (.hip)"
            );
            Failure::new(Exit::Usage, message).or_hint(
                "set the language of all sources with -x c, -x c++, -x cuda or -x hip \
                 (with_language in a build script)",
            )
        })?;
        let (file, shown) = (file.to_owned(), file.to_owned());
        Ok(Source { file, shown, language, options: Vec::new(), kernels: Vec::new() })
    }
}

/// Returns whether a file includes HIP's header, and not CUDA's.
fn includes_hip(file: &Path) -> bool {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let includes = |header: &str| {
        let mut lines = text.lines().map(str::trim_start).filter(|line| line.starts_with('#'));
        lines.any(|line| line.contains("include") && line.contains(header))
    };
    includes("hip/hip_runtime") && !includes("cuda_runtime")
}
