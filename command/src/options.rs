//! The command line, and the host that it asks for.

use crate::cc::Cc;
use crate::check::Check;
use crate::completions::Completions;
use crate::devices::Devices;
use crate::failure::{Exit, Failure};
use crate::inspect::Inspect;
use crate::link::Link;
use crate::manual::Manual;
use crate::plugins::Plugins;
use crate::probe::Probe;
use crate::run::Run;
use clap::{ArgAction, Args, Parser};
use longshore::{Candidate, Device, Environment, ErrorCode, Host, HostBuilder, Image, Outcome};
use std::path::PathBuf;
use std::sync::LazyLock;

const AFTER_HELP: &str = "\
Environment:
  LONGSHORE_PLUGIN_PATH   Folders or files, separated by ':', searched for plugins
  LONGSHORE_BACKEND       Backends to use, in order of preference; --backend replaces it
  LONGSHORE_DEVICES       Devices to use; --devices replaces it
  LONGSHORE_CACHE         Folder for what backends keep; 'off': they keep nothing
  LONGSHORE_TRACK         '1': track memory, print leaks and memory-pool totals
  LONGSHORE_CLANG         The compiler of `longshore cc`; --clang replaces it
  LONGSHORE_LOG           What to log, such as 'debug' or 'longshore=trace'; else RUST_LOG

Exit codes:
  0  Success
  1  The runtime, a plugin, the driver, the kernel's image, a compilation or a link failed
  2  Bad usage: an option or a selection cannot be understood
  3  Nothing found: no plugin, no device, none that the selection names, or no compiler
  4  A check failed";

/// The version and the commit, which `cargo xtask install` tells the compiler.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("LONGSHORE_COMMIT").unwrap_or("unknown");
        format!("{} (commit {commit})", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}

/// Runs kernels on GPUs and CPUs through vendor plugins that are found at run time.
#[derive(Parser)]
#[command(name = "longshore", version = version(), after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
pub(crate) enum Subcommand {
    Devices(Devices),
    Plugins(Plugins),
    Run(Run),
    Inspect(Inspect),
    Cc(Box<Cc>),
    Link(Box<Link>),
    Check(Check),
    Completions(Completions),
    #[command(name = "__manual", hide = true)]
    Manual(Manual),
    #[command(name = "__probe", hide = true)]
    Probe(Probe),
}

/// What every subcommand takes.
#[derive(Args, Clone)]
#[command(next_help_heading = "Common options")]
pub(crate) struct CommonOptions {
    /// Use only these backends, in order of preference: "cuda,host"
    #[arg(long, value_name = "NAMES", global = true)]
    pub(crate) backend: Option<String>,
    /// Use only these devices: "cuda:0,2;vulkan:*;!vulkan:*llvmpipe*"
    #[arg(long, value_name = "SELECTION", global = true)]
    pub(crate) devices: Option<String>,
    /// Search this plugin file, or folder of plugins, before all others; may be repeated
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) plugin: Vec<PathBuf>,
    /// Log more: -v what happens, -vv details, -vvv everything
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
}

impl CommonOptions {
    /// The level that `-v` asks for.
    pub(crate) fn log_level(&self) -> Option<&'static str> {
        match self.verbose {
            0 => None,
            1 => Some("info"),
            2 => Some("debug"),
            _ => Some("trace"),
        }
    }

    /// A host's builder with these options.
    pub(crate) fn builder(&self) -> HostBuilder {
        let builder = Host::builder().environment(self.environment());
        let mut builder = self.plugin.iter().fold(builder, HostBuilder::plugin);
        if let Some(backends) = &self.backend {
            builder = builder.backends(backends);
        }
        if let Some(devices) = &self.devices {
            builder = builder.devices(devices);
        }
        builder
    }

    /// The environment without the selections that the options replace.
    fn environment(&self) -> Environment {
        let mut environment = Environment::of_process();
        if self.backend.is_some() {
            environment.set("LONGSHORE_BACKEND", "");
        }
        if self.devices.is_some() {
            environment.set("LONGSHORE_DEVICES", "");
        }
        environment
    }

    /// The host with these options.
    pub(crate) fn host(&self) -> Result<Host, Failure> {
        build(self.builder())
    }

    /// The device that `--device` names, or the preferred one of those that take the image; its memory
    /// tracked if wanted.
    pub(crate) fn open(
        &self,
        device: Option<&str>,
        image: &Image,
        track: bool,
    ) -> Result<Device, Failure> {
        let builder = self.builder();
        let host = build(if track { builder.track(true) } else { builder })?;
        if host.devices().is_empty() {
            return Err(no_device(&host));
        }
        let opened = match device {
            Some(selection) => host.device(selection).map_err(of_selection),
            None => host.device_for(image).map_err(Failure::from),
        };
        opened.map_err(|failure| {
            failure.or_hint("`longshore devices` lists the devices that there are")
        })
    }
}

fn build(builder: HostBuilder) -> Result<Host, Failure> {
    let host = builder.build().map_err(of_selection);
    host.map_err(|failure| {
        failure.or_hint("`longshore plugins` lists what was found and what became of it")
    })
}

/// The failure for an error in what the user selected.
pub(crate) fn of_selection(error: longshore::Error) -> Failure {
    let exit = match error.code() {
        ErrorCode::NotFound => Exit::NothingFound,
        ErrorCode::InvalidValue => Exit::Usage,
        _ => return error.into(),
    };
    Failure::new(exit, error.to_string())
}

/// The failure for a host without a device.
pub(crate) fn no_device(host: &Host) -> Failure {
    let lacks_driver = |candidate: &Candidate| {
        matches!(candidate.outcome, Outcome::NoDriver(_) | Outcome::NoDevice(_))
    };
    let candidates = host.candidates();
    let hint = if !host.excluded().is_empty() {
        "select one of these with --devices or LONGSHORE_DEVICES, or all by neither"
    } else if candidates.is_empty() {
        "put a plugin, 'liblongshore_plugin_<backend>.so', beside this command or into a folder of \
         LONGSHORE_PLUGIN_PATH, or name it with --plugin"
    } else if candidates.iter().any(lacks_driver) {
        "install the driver of a device of this machine, or name the plugin of another backend, such \
         as that of the CPU, with --plugin"
    } else {
        "`longshore plugins` tries each in a process of its own; --plugin names others"
    };
    Failure::new(Exit::NothingFound, host.why_no_device()).or_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}
