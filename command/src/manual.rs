//! `longshore __manual`: the manual pages, written by the installation of Longshore.

use crate::failure::{Exit, Failure};
use clap::{Args, Command};
use std::path::PathBuf;

/// Write the manual pages
#[derive(Args)]
pub(crate) struct Manual {
    /// The folder for the pages
    folder: PathBuf,
}

impl Manual {
    /// Writes `longshore.1` for `command`, the whole command line, and a page for each subcommand.
    pub(crate) fn execute(&self, command: Command) -> Result<(), Failure> {
        clap_mangen::generate_to(command, &self.folder).map_err(|error| {
            let message =
                format!("cannot write the manual pages to '{}': {error}", self.folder.display());
            Failure::new(Exit::Runtime, message)
        })
    }
}
