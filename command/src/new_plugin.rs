//! `longshore new-plugin`: a complete project for a new plugin.

mod name;
mod templates;

use crate::failure::{Exit, Failure};
use crate::output;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use longshore_plugin_api::abi;
use name::PluginName;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use templates::{Language, Substitutions};

/// The crate on which a plugin in Rust depends.
const INTERFACE: &str = "longshore-plugin-api";

/// Write a project for a new plugin
///
/// The project builds as it is, and its device passes the conformance suite: it is memory of the
/// host, without kernels. Comments name the places for the calls of a driver. Files for packages
/// and for continuous integration are included.
#[derive(Args)]
pub(crate) struct NewPlugin {
    /// The backend's name: lower-case letters, digits, `-` and `_`
    name: String,
    /// The language of the project
    #[arg(long, value_enum)]
    lang: Lang,
    /// The folder to create; by default NAME
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Clone of Longshore whose crate `plugin-api` a project in Rust uses, not the released one
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// A language, as on the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    Rust,
    C,
    Cpp,
}

impl NewPlugin {
    pub(crate) fn execute(&self) -> Result<(), Failure> {
        let name = PluginName::parse(&self.name)?;
        let language = self.language(&name)?;
        let folder = self.folder.clone().unwrap_or_else(|| self.name.clone().into());
        let substitutions =
            Substitutions { name: &name, dependency: self.dependency()?, date: date()? };
        let files = templates::files(language, &substitutions);
        create(&folder, &files)?;
        let count = files.len();
        let build = language.build();
        output::print(&format!(
            "created '{}' with {count} files, a plugin in {language} for the backend '{name}'\n\n  \
             cd {}\n  {build}\n  longshore check --plugin {}\n\n\
             README.md lists the steps to a backend of your driver",
            folder.display(),
            quoted(&folder),
            language.library(&name),
        ))
    }

    fn language(&self, name: &PluginName) -> Result<Language, Failure> {
        match self.lang {
            Lang::Rust => name.check_for_rust().map(|()| Language::Rust),
            _ if self.path.is_some() => {
                let message = "--path is for plugins in Rust: it names the crate of the interface";
                let hint = "a project in C or C++ takes the folder of the header at its build, by \
                            -DLONGSHORE_INCLUDE=FOLDER";
                Err(Failure::new(Exit::Usage, message).or_hint(hint))
            }
            Lang::C => Ok(Language::C),
            Lang::Cpp => Ok(Language::Cpp),
        }
    }

    /// Returns the lines of the manifest on the interface.
    fn dependency(&self) -> Result<String, Failure> {
        let (major, minor) = (abi::INTERFACE_MAJOR, abi::INTERFACE_MINOR);
        let released = format!("{INTERFACE} = \"{major}.{minor}\"");
        let Some(path) = &self.path else { return Ok(released) };
        let source = interface_in(path)?;
        let text = source.to_str().ok_or_else(|| {
            let message = format!(
                "--path leads to '{}', which is not UTF-8, as all text of a manifest must be",
                source.display()
            );
            Failure::new(Exit::Usage, message).or_hint("rename the folder, or move the clone")
        })?;
        Ok(format!(
            "{released}\n\n# The source of the interface, in the place of the released crate.\n\
             [patch.crates-io]\n{INTERFACE} = {{ path = {} }}",
            toml_string(text)
        ))
    }
}

/// Returns a basic string of TOML, in which only quotes, backslashes and control characters are
/// escaped. The escapes of Rust's `Debug` are others.
fn toml_string(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter.is_ascii_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(letter)));
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// Returns the folder of the interface's crate at or below `path`, as an absolute path.
fn interface_in(path: &Path) -> Result<PathBuf, Failure> {
    let named = format!("name = \"{INTERFACE}\"");
    let has_it = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml"));
        manifest.is_ok_and(|text| text.lines().any(|line| line == named))
    };
    let found = [path.to_owned(), path.join("plugin-api")].into_iter().find(has_it);
    let found = found.and_then(|folder| folder.canonicalize().ok());
    found.ok_or_else(|| {
        let path = path.display();
        let message =
            format!("'{path}' has no crate '{INTERFACE}', and neither has '{path}/plugin-api'");
        Failure::new(Exit::NothingFound, message)
            .or_hint("name a clone of Longshore, or omit --path for the released crate")
    })
}

/// Writes all files into a new folder. A failure leaves nothing behind.
fn create(folder: &Path, files: &[templates::File]) -> Result<(), Failure> {
    if folder.symlink_metadata().is_ok() {
        let message = format!("'{}' exists already", folder.display());
        return Err(Failure::new(Exit::Usage, message)
            .or_hint("choose another folder by --folder, or remove that one"));
    }
    let absolute = std::path::absolute(folder).map_err(|error| unwritable(folder, &error))?;
    let parent = absolute.parent().unwrap_or(&absolute);
    if !parent.is_dir() {
        let message = format!("'{}' is no folder", parent.display());
        return Err(Failure::new(Exit::NothingFound, message).or_hint("create the folder first"));
    }
    let write = || -> io::Result<()> {
        // The usual permissions, which the umask limits.
        let mut builder = tempfile::Builder::new();
        builder.prefix(".new-plugin-").permissions(Permissions::from_mode(0o777));
        let new = builder.tempdir_in(parent)?;
        files.iter().try_for_each(|file| file.write(new.path()))?;
        fs::rename(new.path(), &absolute)?;
        // The folder has another name now.
        let _ = new.keep();
        Ok(())
    };
    write().map_err(|error| unwritable(folder, &error))
}

fn unwritable(folder: &Path, error: &io::Error) -> Failure {
    let message = format!("the project cannot be written to '{}': {error}", folder.display());
    let failure = Failure::new(Exit::Runtime, message);
    match error.kind() {
        ErrorKind::PermissionDenied => failure.or_hint("choose another folder by --folder"),
        _ => failure,
    }
}

/// Returns the date for Debian's changelog: "Mon, 02 Jan 2006 15:04:05 +0000".
fn date() -> Result<String, Failure> {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    rfc2822::to_string(&now).map_err(|error| {
        Failure::new(Exit::Runtime, format!("the clock's time {now} has no date: {error}"))
    })
}

/// Returns a path as a word of a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    shlex::try_quote(&path).map(|word| word.into_owned()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_of_toml_escapes_quotes_backslashes_and_controls() {
        assert_eq!(toml_string("/a b/e\u{301}ß'"), "\"/a b/e\u{301}ß'\"");
        assert_eq!(toml_string("\"\\\t\n\u{7f}"), r#""\"\\\u0009\u000A\u007F""#);
    }
}
