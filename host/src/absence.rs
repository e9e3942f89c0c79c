//! The message of a host without a device: the reason, and the remedy.

use crate::discovery::{Candidate, Outcome};
use crate::selection::DeviceFacts;
use longshore_plugin_api::{Error, ErrorCode};
use std::path::PathBuf;

/// Adds the plugins that failed, with their reasons, to the error of a search for a device. Without
/// them the message would be about the devices of the other plugins alone.
pub(crate) fn with_faults(error: Error, candidates: &[Candidate]) -> Error {
    match faults(candidates).as_str() {
        "" => error,
        faults => {
            let message = format!("{}{faults}", error.message());
            Error::new(error.code(), message).with_source(error)
        }
    }
}

/// Plugins and devices that a host found and cannot use, and the reason.
pub(crate) struct Absence<'a> {
    /// The files and folders that were searched for plugins, in order.
    pub(crate) searched: &'a [PathBuf],
    /// Outcomes of the plugins that were found.
    pub(crate) candidates: &'a [Candidate],
    /// The selections of devices, each after its origin: `LONGSHORE_DEVICES "cuda:*"`.
    pub(crate) selections: Vec<String>,
    /// The devices that the selections exclude.
    pub(crate) excluded: Vec<&'a DeviceFacts>,
}

impl Absence<'_> {
    /// Returns the error `NotFound`, with the cause and a remedy.
    pub(crate) fn error(&self) -> Error {
        let message = match self.remedy() {
            Some(remedy) => format!("{}\n{remedy}", self.cause()),
            None => self.cause(),
        };
        Error::new(ErrorCode::NotFound, message)
    }

    /// Returns the reason for having no device, without a remedy.
    pub(crate) fn cause(&self) -> String {
        if !self.excluded.is_empty() {
            let found: String = self.excluded.iter().map(|facts| format!("\n  {facts}")).collect();
            let selections = self.selections.join(" and ");
            let faults = faults(self.candidates);
            return format!(
                "there is no device to use; {selections} excludes all devices:{found}{faults}"
            );
        }
        if self.candidates.is_empty() {
            return format!("there is no device to use; no plugin was found{}", self.places());
        }
        let found = self.candidates.iter().map(|candidate| format!("\n  {candidate}"));
        let found: String = found.collect();
        format!("there is no device to use; these plugins were found:{found}")
    }

    /// Returns the searched places as the end of a sentence: " in '/usr/lib/longshore'".
    fn places(&self) -> String {
        let places: Vec<_> =
            self.searched.iter().map(|place| format!("'{}'", place.display())).collect();
        match places.as_slice() {
            [] => ", as no place to search was named".to_owned(),
            [one] => format!(" in {one}"),
            [others @ .., last] => format!(" in {} or {last}", others.join(", ")),
        }
    }

    /// Returns a remedy that does not depend on the program.
    fn remedy(&self) -> Option<&'static str> {
        let lacks_driver = |candidate: &Candidate| {
            matches!(candidate.outcome, Outcome::NoDriver(_) | Outcome::NoDevice(_))
        };
        if !self.excluded.is_empty() {
            return None;
        }
        if self.candidates.is_empty() {
            return Some(
                "put a plugin, a file 'liblongshore_plugin_<backend>.so', into such a folder, or name \
                 it or its folder in LONGSHORE_PLUGIN_PATH. A Rust program contains the CPU's plugin with \
                 the feature 'host' of the crate 'longshore'",
            );
        }
        self.candidates.iter().any(lacks_driver).then_some(
            "install the driver of a device of this machine, or add the plugin of another backend",
        )
    }
}

/// Returns the lines about the plugins that failed; empty if none did.
fn faults(candidates: &[Candidate]) -> String {
    let faults = candidates.iter().filter(|candidate| candidate.outcome.is_fault());
    let faults: String = faults.map(|candidate| format!("\n  {candidate}")).collect();
    if faults.is_empty() { faults } else { format!("\nthese plugins failed:{faults}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(absence: &Absence<'_>) -> String {
        absence.error().message().to_owned()
    }

    fn candidate(outcome: Outcome) -> Candidate {
        let path = "/x/liblongshore_plugin_toy.so".into();
        Candidate { path, backend: "toy".into(), is_linked: false, note: None, outcome }
    }

    #[test]
    fn without_a_plugin_the_places_and_the_way_to_add_one_are_named() {
        let searched = ["/a", "/b", "/c"].map(PathBuf::from);
        let nothing = |searched| Absence {
            searched,
            candidates: &[],
            selections: Vec::new(),
            excluded: Vec::new(),
        };
        let said = message(&nothing(&searched));
        assert!(said.contains("no plugin was found in '/a', '/b' or '/c'\nput a plugin"), "{said}");
        assert!(said.contains("LONGSHORE_PLUGIN_PATH"), "{said}");
        let said = message(&nothing(&[]));
        assert!(said.contains("no place to search was named"), "{said}");
    }

    #[test]
    fn a_missing_driver_is_reported_as_such() {
        let found = [candidate(Outcome::NoDriver("libtoy.so is missing".into()))];
        let absence = |candidates| Absence {
            searched: &[],
            candidates,
            selections: Vec::new(),
            excluded: Vec::new(),
        };
        let said = message(&absence(&found));
        assert!(
            said.contains("toy.so: no driver: libtoy.so is missing\ninstall the driver"),
            "{said}"
        );
        assert!(!said.contains("put a plugin"), "{said}");
        let broken = [candidate(Outcome::Missing)];
        assert!(message(&absence(&broken)).ends_with("missing: it does not exist"));
    }

    #[test]
    fn an_error_about_other_devices_names_the_plugins_that_failed() {
        let error = Error::new(ErrorCode::InvalidBinary, "vulkan:0 cannot load this image");
        let absent = [candidate(Outcome::NoDevice("none plugged in".into()))];
        assert_eq!(with_faults(error.clone(), &absent), error);
        let failed = [candidate(Outcome::Crashed("it aborted".into()))];
        let said = with_faults(error, &failed);
        assert_eq!(said.code(), ErrorCode::InvalidBinary);
        let faults =
            "\nthese plugins failed:\n  /x/liblongshore_plugin_toy.so: crashed: it aborted";
        assert_eq!(said.message(), format!("vulkan:0 cannot load this image{faults}"));
    }

    #[test]
    fn devices_that_a_selection_leaves_out_are_reported_without_the_remedy_for_plugins() {
        let found = [candidate(Outcome::NoDriver("libtoy.so is missing".into()))];
        let left_out = DeviceFacts {
            backend: "host".into(),
            index: 0,
            name: "CPU".into(),
            uuid: None,
            kind: None,
        };
        let absence = Absence {
            searched: &[],
            candidates: &found,
            selections: vec!["LONGSHORE_DEVICES \"!host:*\"".into()],
            excluded: vec![&left_out],
        };
        let said = message(&absence);
        let start = "there is no device to use; LONGSHORE_DEVICES \"!host:*\" excludes all";
        assert!(said.starts_with(start) && said.contains("\n  host:0 "), "{said}");
        assert!(!said.contains("install the driver"), "{said}");
    }
}
