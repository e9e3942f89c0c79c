//! `longshore __probe`: the child process that tries a plugin for [`longshore::Probe`].

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Opens and connects a plugin in this process and writes the outcome.
#[derive(Args)]
pub(crate) struct Probe {
    /// The plugin
    file: PathBuf,
}

impl Probe {
    pub(crate) fn execute(&self) -> ExitCode {
        let code = longshore::probe_main(&self.file);
        ExitCode::from(u8::try_from(code).unwrap_or(1))
    }
}
