//! `longshore check`: the start of the conformance suite, a separate program.

use crate::common::CommonOptions;
use crate::failure::{Exit, Failure};
use clap::Args;
use longshore_cc::path;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SUITE: &str = "longshore-check";

/// Run the conformance suite on the available devices
///
/// Starts the program `longshore-check`, found beside this command or on PATH.
#[derive(Args)]
pub(crate) struct Check {
    /// Check only these devices, such as "cuda:1"
    #[arg(long, short = 'd', value_name = "DEVICE")]
    device: Option<String>,
    /// The folder with the suite's device images
    #[arg(long, value_name = "DIR")]
    fixtures: Option<PathBuf>,
    /// Run each check in its own process: a check that dies has failed, and the others still run
    #[arg(long)]
    isolated: bool,
    /// Write the results as JSON, with the hash of the plugin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "verify"])]
    report: Option<PathBuf>,
    /// Verify a report instead: that it is unchanged, and on the file of --plugin
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    verify: Option<PathBuf>,
    /// List the checks without running them
    #[arg(long)]
    list: bool,
    /// Run only the checks whose "group: name" contains one of these texts
    filter: Vec<String>,
}

impl Check {
    /// Replaces this process by the suite. Returns only if that fails.
    pub(crate) fn execute(&self, common: &CommonOptions) -> Failure {
        let Some(program) = find() else { return missing() };
        let error = self.command(&program, common).exec();
        Failure::new(Exit::Runtime, format!("'{}' cannot be started: {error}", program.display()))
    }

    fn command(&self, program: &Path, common: &CommonOptions) -> Command {
        let mut command = Command::new(program);
        for plugin in &common.plugin {
            command.arg("--plugin").arg(plugin);
        }
        if let Some(device) = &self.device {
            command.args(["--device", device]);
        }
        if let Some(fixtures) = &self.fixtures {
            command.arg("--fixtures").arg(fixtures);
        }
        for (option, file) in [("--report", &self.report), ("--verify", &self.verify)] {
            if let Some(file) = file {
                command.arg(option).arg(file);
            }
        }
        if self.isolated {
            command.arg("--isolated");
        }
        if self.list {
            command.arg("--list");
        }
        command.arg("--").args(&self.filter);
        if let Some(backends) = &common.backend {
            command.env("LONGSHORE_BACKEND", backends);
        }
        if let Some(devices) = &common.devices {
            command.env("LONGSHORE_DEVICES", devices);
        }
        if let Some(level) = common.log_level() {
            command.env("LONGSHORE_LOG", level);
        }
        command
    }
}

fn find() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|this| this.with_file_name(SUITE));
    beside.filter(|file| file.is_file()).or_else(|| path::find(SUITE))
}

fn missing() -> Failure {
    let message =
        format!("the conformance suite '{SUITE}' is neither beside this command nor on PATH");
    Failure::new(Exit::NothingFound, message)
        .or_hint("build it in Longshore's source with `cargo build -p longshore-conformance`")
}
