//! The outcomes of candidates, as data and as text.

use longshore_executor::plugin::IsolatedProcess;
use longshore_plugin_api::{Error, Note};
use std::fmt;
use std::path::PathBuf;

/// A file that discovery considered as a plugin, a plugin that is linked into the program, or a
/// named place without a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// The absolute path; for a linked plugin, of the executable or library that contains it.
    pub path: PathBuf,
    /// The backend in the file's name; empty if the name is not that of a plugin. A linked plugin
    /// names its backend itself.
    pub backend: String,
    /// Whether the plugin is linked into the program.
    pub is_linked: bool,
    /// The file's ELF note, if the file was read and has one.
    pub note: Option<Note>,
    /// The outcome, with its cause.
    pub outcome: Outcome,
}

/// The outcome of discovery for a candidate. [`Outcome::label`] names the case, [`Outcome::reason`]
/// the cause.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Success: the plugin is loaded and connected in this process.
    Loaded,
    /// Success: the plugin is loaded and connected in a process of its own.
    Isolated(IsolatedProcess),
    /// A usable file that was only listed:
    /// [`HostBuilder::candidates`](crate::HostBuilder::candidates) loads no plugin.
    NotOpened,
    /// A missing driver of the vendor, with the plugin's reason. Normal on a machine without the
    /// vendor's devices.
    NoDriver(String),
    /// A driver without a device, with the plugin's reason. Normal on a machine without the
    /// vendor's devices.
    NoDevice(String),
    /// A file behind an earlier file for the same backend.
    Shadowed {
        /// The earlier file.
        by: PathBuf,
    },
    /// A backend outside the selection of backends, with the selection. The file was not loaded.
    RuledOut(String),
    /// A file or folder that was named and does not exist.
    Missing,
    /// A file that an untrusted user can write, with the user and a remedy. The file was not
    /// loaded.
    Refused(String),
    /// A file that is no shared library for this process, with the reason. The file was not loaded.
    NotALibrary(String),
    /// A shared library that is no plugin, or whose name is not that of a plugin, with the reason.
    NotAPlugin(String),
    /// A plugin for a backend other than the one in the file's name.
    Misnamed {
        /// The backend that the plugin itself names.
        says: String,
    },
    /// A plugin for another major version of the plugin interface.
    WrongInterface {
        /// Major and minor version of the plugin.
        plugin: (u32, u32),
        /// Major and minor version of the host.
        host: (u32, u32),
    },
    /// An entry or a table in breach of the plugin interface, with the difference.
    WrongLayout(String),
    /// An error of reading, loading or connecting the plugin.
    Failed(Error),
    /// A plugin that ended its probe or its own process, or exceeded the time limit, with the
    /// details.
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

    /// Returns the cause of the outcome; empty if the label is complete without one.
    pub fn reason(&self) -> String {
        match self {
            Outcome::Loaded | Outcome::NotOpened => String::new(),
            Outcome::Isolated(process) => format!("process {}", process.id()),
            Outcome::Missing => "it does not exist".to_owned(),
            Outcome::Shadowed { by } => format!("by '{}'", by.display()),
            Outcome::RuledOut(selection) => format!("the selection is \"{selection}\""),
            Outcome::Misnamed { says } => format!("the plugin names its backend '{says}'"),
            Outcome::WrongInterface { plugin, host } => format!(
                "it has interface {}.{}, this host has {}.{}",
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

    /// Returns whether the outcome is a fault of the file or plugin. Loaded, listed, shadowed and
    /// unselected files, and missing drivers and devices, are no faults.
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
        let (path, outcome) = (self.path.display(), &self.outcome);
        match self.is_linked {
            true => write!(f, "'{}', linked into {path}: {outcome}", self.backend),
            false => write!(f, "{path}: {outcome}"),
        }
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
            is_linked: false,
            note: None,
            outcome: Outcome::Loaded,
        };
        assert_eq!(candidate.to_string(), "/x/liblongshore_plugin_toy.so: loaded");
        candidate.outcome = Outcome::WrongInterface { plugin: (2, 1), host: (1, 0) };
        let shown = candidate.to_string();
        assert!(shown.ends_with("wrong interface: it has interface 2.1, this host has 1.0"));
        let program = Candidate { path: "/x/app".into(), is_linked: true, ..candidate };
        assert!(program.to_string().starts_with("'toy', linked into /x/app: wrong"), "{program}");
    }
}
