//! An installed validator: the shared library, else the command.

mod command;
mod exit;
#[cfg(test)]
pub(super) mod fake_validator;
mod library;
mod probe;
#[cfg(test)]
mod tests;
mod verdicts;

use super::rules::{Rules, ValidatorError, Verdict};
use command::Command;
use library::Library;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::OnceLock;
use verdicts::{Key, VerdictCache};

/// Soname of SPIRV-Tools in Vulkan SDKs.
const LIBRARY: &str = "libSPIRV-Tools-shared.so";

/// The validator of this machine. The search runs once, for the first module.
pub(super) struct Tool {
    /// Name by which the library is opened.
    soname: OsString,
    /// Folders of the command, in the form of `PATH`. `None` if the command must not be run.
    path: Option<OsString>,
    verdicts: VerdictCache,
    library: OnceLock<Result<Library, String>>,
    command: OnceLock<Result<Command, String>>,
}

impl Tool {
    /// Creates the validator of this machine. Verdicts of the command are kept in the folder, which
    /// need not exist.
    pub(super) fn new(cache: Option<&Path>) -> Tool {
        Tool::named(LIBRARY.as_ref(), command::search_path().as_deref(), cache)
    }

    /// Creates a validator that is searched for under these names at the first use.
    pub(super) fn named(soname: &OsStr, path: Option<&OsStr>, cache: Option<&Path>) -> Tool {
        Tool {
            soname: soname.to_owned(),
            path: path.map(OsStr::to_owned),
            verdicts: VerdictCache::new(cache),
            library: OnceLock::new(),
            command: OnceLock::new(),
        }
    }

    /// Judges a module. Blocks; runs the command unless its verdict was kept.
    pub(super) fn verdict(&self, words: &[u32], rules: Rules) -> Result<Verdict, ValidatorError> {
        let without_library = match self.library() {
            Ok(library) => match library.verdict(words, rules) {
                Some(verdict) => return verdict.map_err(ValidatorError::Failed),
                None => format!("{}: the process is about to end", self.soname.display()),
            },
            Err(why) => why.clone(),
        };
        let missing = |why: String| ValidatorError::Missing(format!("{without_library}; {why}"));
        let command = self.command().map_err(missing)?;
        let key = Key::new(&command.identity().map_err(missing)?, words, rules);
        if let Some(verdict) = self.verdicts.find(&key) {
            return Ok(verdict);
        }
        command.probe(rules.environment).map_err(missing)?;
        let verdict = command.verdict(words, rules).map_err(ValidatorError::Failed)?;
        self.verdicts.keep(&key, &verdict);
        Ok(verdict)
    }

    /// Returns whether a verdict on this module exists, or a validator can give one. Blocks.
    pub(super) fn can_judge(&self, words: &[u32], rules: Rules) -> bool {
        if self.library().is_ok() {
            return true;
        }
        let Ok(command) = self.command() else { return false };
        let Ok(identity) = command.identity() else { return false };
        self.verdicts.find(&Key::new(&identity, words, rules)).is_some()
            || command.probe(rules.environment).is_ok()
    }

    /// Returns the validator's name. Blocks.
    ///
    /// # Errors
    /// The reasons that neither the library nor the command can be used.
    pub(super) fn description(&self) -> Result<String, String> {
        let without_library = match self.library() {
            Ok(library) => return Ok(library.description()),
            Err(why) => why,
        };
        let command = self.command().and_then(|command| command.probe_all().map(|()| command));
        command
            .map(|command| command.program().display().to_string())
            .map_err(|why| format!("{without_library}; {why}"))
    }

    fn library(&self) -> &Result<Library, String> {
        self.library.get_or_init(|| {
            let opened = Library::open(&self.soname);
            if let Err(why) = &opened {
                log::debug!("SPIRV-Tools' library is not used: {why}");
            }
            opened
        })
    }

    fn command(&self) -> Result<&Command, String> {
        let found = self.command.get_or_init(|| Command::find(self.path.as_deref()));
        found.as_ref().map_err(String::clone)
    }
}
