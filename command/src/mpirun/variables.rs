//! The variables of the environment that the processes of a job get.

use crate::failure::{Exit, Failure};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The variables of this process and the changes to them.
#[derive(Default)]
pub(super) struct Variables {
    own: BTreeMap<OsString, OsString>,
    changes: BTreeMap<OsString, OsString>,
}

const LIBRARY: &str = "LONGSHORE_MPI_LIBRARY";

impl Variables {
    pub(super) fn from_process() -> Variables {
        Variables { own: std::env::vars_os().collect(), changes: BTreeMap::new() }
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        let value = value.into();
        let is_same = match self.own.get(OsStr::new(name)) {
            Some(own) => *own == value,
            None => value.is_empty(),
        };
        match is_same {
            true => drop(self.changes.remove(OsStr::new(name))),
            false => drop(self.changes.insert(name.into(), value)),
        }
    }

    /// Returns a variable; an empty one counts as not set.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        let name = OsStr::new(name);
        let value = self.changes.get(name).or_else(|| self.own.get(name))?;
        (!value.is_empty()).then_some(value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the changes.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.changes.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns the variables for all processes, on all machines.
    pub(super) fn passed_on(&self) -> BTreeMap<&OsStr, &OsStr> {
        let all = self.own.iter().chain(&self.changes);
        let mut passed: BTreeMap<_, _> =
            all.map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
        passed.retain(|name, value| {
            let is_ours = name.as_encoded_bytes().starts_with(b"LONGSHORE_");
            (is_ours || *name == "RUST_LOG") && !value.is_empty()
        });
        passed
    }

    pub(super) fn plugin_path(&self) -> Vec<PathBuf> {
        let path = self.get("LONGSHORE_PLUGIN_PATH").map(std::env::split_paths);
        path.into_iter().flatten().collect()
    }

    /// Returns the MPI library that the user has chosen.
    ///
    /// # Errors
    /// A path without a file.
    pub(super) fn library(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(library) = self.get(LIBRARY).map(PathBuf::from) else { return Ok(None) };
        if library.components().count() > 1 && !library.is_file() {
            let message = format!("{LIBRARY} is '{}', which is no file", library.display());
            return Err(Failure::new(Exit::NothingFound, message));
        }
        Ok(Some(library))
    }

    /// Returns whether this process is part of a job of a batch system, which gives each host its
    /// number of processes.
    pub(super) fn is_in_batch_job(&self) -> bool {
        let names = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "PE_HOSTFILE"];
        names.iter().any(|name| self.has(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_longshore_are_passed_on_with_their_changes() {
        let own = [("LONGSHORE_A", "1"), ("LONGSHORE_B", "2"), ("HOME", "/h"), ("RUST_LOG", "x")];
        let own = own.map(|(name, value)| (name.into(), value.into())).into();
        let mut variables = Variables { own, changes: BTreeMap::new() };
        variables.set("LONGSHORE_B", "3");
        variables.set("LONGSHORE_A", "");
        variables.set("LONGSHORE_C", "");
        let passed: Vec<_> = variables.passed_on().into_iter().collect();
        let expected = [("LONGSHORE_B", "3"), ("RUST_LOG", "x")];
        assert_eq!(passed, expected.map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
        assert_eq!(variables.changed().count(), 2);
        variables.set("LONGSHORE_B", "2");
        assert_eq!(variables.changed().count(), 1);
    }
}
