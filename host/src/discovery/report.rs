//! What became of each candidate, as data and as text.

use longshore_executor::plugin::IsolatedProcess;
use longshore_plugin_api::{Error, Note};
use std::fmt;
use std::path::PathBuf;

/// A file that was considered as a plugin, or a named place where there was none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// Where it is; absolute.
    pub path: PathBuf,
    /// The backend that its file name says; empty if the name is not a plugin's.
    pub backend: String,
    /// Its ELF note, if it was read and there is one.
    pub note: Option<Note>,
    /// What became of it, and why.
    pub outcome: Outcome,
}

/// What became of a candidate. [`Outcome::label`] names the case, [`Outcome::reason`] the cause.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is loaded and connected.
    Loaded,
    /// It is loaded and connected in a process of its own.
    Isolated(IsolatedProcess),
    /// It would be opened, but only a list was asked for.
    NotOpened,
    /// The vendor's driver is not installed. An ordinary answer of the plugin.
    NoDriver(String),
    /// The driver has no device. An ordinary answer of the plugin.
    NoDevice(String),
    /// A file found earlier provides the same backend.
    Shadowed {
        /// The earlier file.
        by: PathBuf,
    },
    /// The selection of backends does not name it; holds the selection. It was not opened.
    RuledOut(String),
    /// There is no such file or folder, though it was named.
    Missing,
    /// Others may have written it; holds who, and how to mend it. It was not opened.
    Refused(String),
    /// It is no shared library for this process. It was not opened.
    NotALibrary(String),
    /// It is a shared library but no plugin, or its name is not a plugin's.
    NotAPlugin(String),
    /// Its file name says one backend, the plugin another.
    Misnamed {
        /// The backend that the plugin itself names.
        says: String,
    },
    /// It was built for another major version of the interface.
    WrongInterface {
        /// Major and minor version of the plugin.
        plugin: (u32, u32),
        /// Major and minor version of the host.
        host: (u32, u32),
    },
    /// Its entry or one of its tables is not what the interface promises; holds the difference.
    WrongLayout(String),
    /// It could not be read, opened or connected.
    Failed(Error),
    /// It ended the process that tried it, or did not answer in time; holds how.
    Crashed(String),
}

impl Outcome {
    /// Returns the case in a few words: "no driver".
    pub fn label(&self) -> &'static str {
        match self {
            Outcome::Loaded => "loaded",
            Outcome::Isolated(_) => "isolated",
            Outcome::NotOpened => "not opened",
            Outcome::NoDriver(_) => "no driver",
            Outcome::NoDevice(_) => "no device",
            Outcome::Shadowed { .. } => "shadowed",
            Outcome::RuledOut(_) => "ruled out",
            Outcome::Missing => "missing",
            Outcome::Refused(_) => "refused",
            Outcome::NotALibrary(_) => "no library",
            Outcome::NotAPlugin(_) => "no plugin",
            Outcome::Misnamed { .. } => "wrong name",
            Outcome::WrongInterface { .. } => "wrong interface",
            Outcome::WrongLayout(_) => "wrong layout",
            Outcome::Failed(_) => "failed",
            Outcome::Crashed(_) => "crashed",
        }
    }

    /// Why; empty where the label says all.
    pub fn reason(&self) -> String {
        match self {
            Outcome::Loaded | Outcome::NotOpened => String::new(),
            Outcome::Isolated(process) => format!("process {}", process.id()),
            Outcome::Missing => "it does not exist".to_owned(),
            Outcome::Shadowed { by } => format!("by '{}'", by.display()),
            Outcome::RuledOut(selection) => format!("the selection is \"{selection}\""),
            Outcome::Misnamed { says } => format!("the plugin names its backend '{says}'"),
            Outcome::WrongInterface { plugin, host } => format!(
                "it speaks interface {}.{}, this host {}.{}",
                plugin.0, plugin.1, host.0, host.1
            ),
            Outcome::Failed(error) => error.to_string(),
            Outcome::NoDriver(why)
            | Outcome::NoDevice(why)
            | Outcome::Refused(why)
            | Outcome::NotALibrary(why)
            | Outcome::NotAPlugin(why)
            | Outcome::WrongLayout(why)
            | Outcome::Crashed(why) => why.clone(),
        }
    }

    /// Returns whether something is wrong with the file, as opposed to an ordinary answer.
    pub fn is_fault(&self) -> bool {
        !matches!(
            self,
            Outcome::Loaded
                | Outcome::Isolated(_)
                | Outcome::NotOpened
                | Outcome::NoDriver(_)
                | Outcome::NoDevice(_)
                | Outcome::Shadowed { .. }
                | Outcome::RuledOut(_)
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason();
        match reason.as_str() {
            "" => f.write_str(self.label()),
            reason => write!(f, "{}: {reason}", self.label()),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_shown_with_its_outcome_and_reason() {
        let mut candidate = Candidate {
            path: "/x/liblongshore_plugin_toy.so".into(),
            backend: "toy".into(),
            note: None,
            outcome: Outcome::Loaded,
        };
        assert_eq!(candidate.to_string(), "/x/liblongshore_plugin_toy.so: loaded");
        candidate.outcome = Outcome::WrongInterface { plugin: (2, 1), host: (1, 0) };
        let shown = candidate.to_string();
        assert!(shown.ends_with("wrong interface: it speaks interface 2.1, this host 1.0"));
    }
}
