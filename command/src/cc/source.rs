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
    /// What `-x` of clang calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "c++",
        }
    }

    /// That of which `-std=` names a standard.
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
    /// Returns a file that is there. Its extension tells the language, unless that is given.
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
            let message = format!("'{shown}' is no source in C (.c) or C++ (.cc, .cpp, .cxx)");
            Failure::new(Exit::Usage, message).or_hint("-x c or -x c++ says what all sources are")
        })?;
        Ok(Source { file: file.to_owned(), language })
    }
}
