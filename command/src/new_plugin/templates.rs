//! The files of projects. The folder `templates/` has them as a project for the backend `acme`.

use super::name::PluginName;
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The language of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    C,
    Cpp,
}

/// A file of a project.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Path below the project's folder.
    path: String,
    text: String,
}

/// The texts that take the places of the template's own.
pub(super) struct Substitutions<'a> {
    pub(super) name: &'a PluginName,
    /// The manifest's lines on the interface, for Rust.
    pub(super) dependency: String,
    /// The date of Debian's changelog.
    pub(super) date: String,
}

/// Path in a project, and text.
type Template = (&'static str, &'static str);

/// Lists files of a folder of `templates/`, with their paths in the project where these differ.
macro_rules! templates {
    ($folder:literal: $($file:literal $(=> $path:literal)?,)*) => {
        &[$((
            templates!(@path $file $($path)?),
            include_str!(concat!("../../templates/", $folder, "/", $file)),
        ),)*]
    };
    (@path $file:literal) => { $file };
    (@path $file:literal $path:literal) => { $path };
}

const COMMON: &[Template] = templates! { "common":
    "gitignore" => ".gitignore",
    "debian/changelog",
    "debian/copyright",
    "debian/source/format",
};

/// The files of C and C++.
const CMAKE: &[Template] = templates! { "cmake":
    "plugin.map" => "src/plugin.map",
    "debian/control",
    "debian/rules",
    "plugin.spec" => "longshore-plugin-acme.spec",
    "github/ci.yml" => ".github/workflows/ci.yml",
};

const C: &[Template] = templates! { "c":
    "CMakeLists.txt",
    "README.md",
    "src/answer.c",
    "src/command.c",
    "src/device.c",
    "src/error.c",
    "src/event.c",
    "src/memory.c",
    "src/module.c",
    "src/platform.c",
    "src/plugin.c",
    "src/plugin.h",
    "src/queue.c",
    "src/queue.h",
};

const CPP: &[Template] = templates! { "cpp":
    "CMakeLists.txt",
    "README.md",
    "src/answer.cpp",
    "src/answer.hpp",
    "src/command.cpp",
    "src/device.cpp",
    "src/error.cpp",
    "src/error.hpp",
    "src/event.cpp",
    "src/memory.cpp",
    "src/module.cpp",
    "src/platform.cpp",
    "src/plugin.cpp",
    "src/plugin.hpp",
    "src/queue.cpp",
    "src/queue.hpp",
};

const RUST: &[Template] = templates! { "rust":
    "Cargo.toml.in" => "Cargo.toml",
    "README.md",
    "src/device.rs",
    "src/lib.rs",
    "src/memory.rs",
    "src/module.rs",
    "src/platform.rs",
    "src/queue.rs",
    "debian/control",
    "debian/rules",
    "plugin.spec" => "longshore-plugin-acme.spec",
    "github/ci.yml" => ".github/workflows/ci.yml",
};

/// Returns the files of a project.
pub(super) fn files(language: Language, substitutions: &Substitutions<'_>) -> Vec<File> {
    let own = match language {
        Language::Rust => [RUST, &[]],
        Language::C => [CMAKE, C],
        Language::Cpp => [CMAKE, CPP],
    };
    let templates = [COMMON].into_iter().chain(own).flatten();
    let texts = substitutions.texts(language);
    let made = |(path, text): &Template| File {
        path: substituted(path, &texts),
        text: substituted(text, &texts),
    };
    templates.map(made).collect()
}

impl Language {
    /// Returns the shell command that builds a project.
    pub(super) fn build(self) -> &'static str {
        match self {
            Language::Rust => "cargo build",
            Language::C | Language::Cpp => "cmake -S . -B build && cmake --build build",
        }
    }

    /// Returns the path of a built plugin below the project's folder.
    pub(super) fn library(self, name: &PluginName) -> String {
        let folder = match self {
            Language::Rust => "target/debug",
            Language::C | Language::Cpp => "build",
        };
        format!("{folder}/liblongshore_plugin_{name}.so")
    }

    /// Returns the package of the compiler in an RPM distribution.
    fn compiler(self) -> &'static str {
        match self {
            Language::Rust => "cargo",
            Language::C => "gcc",
            Language::Cpp => "gcc-c++",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Language::Rust => "Rust",
            Language::C => "C",
            Language::Cpp => "C++",
        })
    }
}

impl File {
    /// Writes the file below a folder. Rules of a package are executable.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let path = folder.join(&self.path);
        let parent = path.parent().expect("it is below the folder");
        fs::create_dir_all(parent)?;
        fs::write(&path, &self.text)?;
        if self.text.starts_with("#!") {
            let mode = path.metadata()?.permissions().mode();
            // Executable for each class of users that may read it.
            fs::set_permissions(&path, Permissions::from_mode(mode | (mode & 0o444) >> 2))?;
        }
        Ok(())
    }
}

impl Substitutions<'_> {
    /// Returns pairs of a template's text and the project's. A text comes before its own parts.
    fn texts(&self, language: Language) -> [(&'static str, String); 7] {
        [
            ("longshore-plugin-acme", format!("longshore-plugin-{}", self.name.in_package())),
            ("longshore-plugin-api = @interface@", self.dependency.clone()),
            ("@compiler@", language.compiler().to_owned()),
            ("@date@", self.date.clone()),
            ("ACME", self.name.in_capitals()),
            ("Acme", self.name.in_camel_case()),
            ("acme", self.name.to_string()),
        ]
    }
}

/// Returns a text with each occurrence of a pair's first text replaced by its second, in one pass:
/// a replacement is not searched again.
fn substituted(text: &str, pairs: &[(&'static str, String)]) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    let at = |rest: &str| {
        let found = pairs.iter().filter_map(|pair| Some((rest.find(pair.0)?, pair)));
        // The first of several at one place.
        found.min_by_key(|(at, _)| *at).map(|(at, (from, to))| (at, from.len(), to.clone()))
    };
    while let Some((start, bytes, to)) = at(rest) {
        made.push_str(&rest[..start]);
        made.push_str(&to);
        rest = &rest[start + bytes..];
    }
    made + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(language: Language) -> Vec<File> {
        let name = PluginName::parse("acmegpu").unwrap();
        let substitutions =
            Substitutions { name: &name, dependency: "x = \"1\"".to_owned(), date: "today".into() };
        files(language, &substitutions)
    }

    const LANGUAGES: [Language; 3] = [Language::Rust, Language::C, Language::Cpp];

    #[test]
    fn a_replacement_is_not_replaced_again() {
        for language in LANGUAGES {
            for File { path, text } in project(language) {
                assert!(!format!("{path} {text}").contains("gpugpu"), "{path}");
                assert!(!text.contains("Acme ") && !text.contains("\"acme\""), "{path}");
                let placeholder = ["@interface@", "@compiler@", "@date@"];
                assert!(placeholder.iter().all(|word| !text.contains(word)), "{path}");
            }
        }
    }

    #[test]
    fn every_template_belongs_to_a_project() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let mut folders = vec![root.clone()];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    let all = [COMMON, CMAKE, C, CPP, RUST];
                    assert!(all.into_iter().flatten().any(|it| it.1 == text), "{}", path.display());
                    count += 1;
                }
            }
        }
        assert_eq!(count, [COMMON, CMAKE, C, CPP, RUST].map(<[_]>::len).iter().sum::<usize>());
    }

    #[test]
    fn the_rules_of_a_package_are_executable() {
        let folder = tempfile::tempdir().unwrap();
        for file in project(Language::C) {
            file.write(folder.path()).unwrap();
        }
        let mode = |file: &str| folder.path().join(file).metadata().unwrap().permissions().mode();
        assert_eq!(mode("debian/rules") & 0o100, 0o100);
        assert_eq!(mode("debian/control") & 0o111, 0);
    }
}
