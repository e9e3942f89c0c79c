//! The sources that `longshore cc` compiles.

use crate::failure::{Exit, Failure};
use std::path::{Path, PathBuf};

/// A language of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Language {
    #[value(name = "c")]
    C,
    #[value(name = "c++")]
    Cpp,
}

impl Language {
    /// Returns the language's name for clang's `-x`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "c++",
        }
    }

    /// Returns the language of a standard in `-std=`.
    pub(super) fn from_standard(standard: &str) -> Language {
        match standard.contains("++") {
            true => Language::Cpp,
            false => Language::C,
        }
    }
}

/// A file to compile.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) file: PathBuf,
    pub(super) language: Language,
}

impl Source {
    /// Checks that the file exists, and takes the language from its extension unless `language`
    /// sets it.
    pub(super) fn new(file: &Path, language: Option<Language>) -> Result<Source, Failure> {
        let shown = file.display();
        let error = |message: String| Failure::new(Exit::Runtime, message);
        let metadata = std::fs::metadata(file)
            .map_err(|reason| error(format!("cannot read '{shown}': {reason}")))?;
        if metadata.is_dir() {
            return Err(error(format!("'{shown}' is a folder, expected a source in C or C++")));
        }
        let extension = file.extension().and_then(|extension| extension.to_str());
        let language = language.or(match extension {
            Some("c") => Some(Language::C),
            Some("cc" | "cpp" | "cxx" | "c++" | "C") => Some(Language::Cpp),
            _ => None,
        });
        let language = language.ok_or_else(|| {
            let message = format!("'{shown}' has no extension of C (.c) or C++ (.cc, .cpp, .cxx)");
            Failure::new(Exit::Usage, message)
                .or_hint("set the language of all sources with -x c or -x c++")
        })?;
        Ok(Source { file: file.to_owned(), language })
    }
}
