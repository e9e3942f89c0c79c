//! `longshore __manual`: writes the manual pages, when Longshore is installed.

use crate::failure::{Exit, Failure};
use crate::options::Options;
use clap::{Args, CommandFactory};
use std::path::PathBuf;

/// Write the manual pages
#[derive(Args)]
pub(crate) struct Manual {
    /// The folder to write them to
    folder: PathBuf,
}

impl Manual {
    /// Writes `longshore.1`, and a page for each subcommand.
    pub(crate) fn execute(&self) -> Result<(), Failure> {
        clap_mangen::generate_to(Options::command(), &self.folder).map_err(|error| {
            let message = format!("writing manual pages to '{}': {error}", self.folder.display());
            Failure::new(Exit::Runtime, message)
        })
    }
}
