//! The options of every subcommand, and the host that they describe.

use crate::failure::{Exit, Failure};
use clap::{ArgAction, Args};
use longshore::{Candidate, Device, Environment, ErrorCode, Host, HostBuilder, Image, Outcome};
use std::path::PathBuf;

/// The options of every subcommand.
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
    /// Log more: -v the main steps, -vv details, -vvv everything
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
}

impl CommonOptions {
    /// Returns the log level that `-v` selects.
    pub(crate) fn log_level(&self) -> Option<&'static str> {
        match self.verbose {
            0 => None,
            1 => Some("info"),
            2 => Some("debug"),
            _ => Some("trace"),
        }
    }

    /// Creates a builder of a host with these options.
    pub(crate) fn builder(&self) -> HostBuilder {
        self.selected(Host::builder().with_environment(self.environment()))
    }

    /// Adds the selections of these options to a builder.
    fn selected(&self, builder: HostBuilder) -> HostBuilder {
        let mut builder = self.plugin.iter().fold(builder, HostBuilder::with_plugin);
        if let Some(backends) = &self.backend {
            builder = builder.with_backends(backends);
        }
        if let Some(devices) = &self.devices {
            builder = builder.with_devices(devices);
        }
        builder
    }

    /// Returns the process's environment without the selections that the options replace.
    fn environment(&self) -> Environment {
        let mut environment = Environment::from_process();
        if self.backend.is_some() {
            environment.set("LONGSHORE_BACKEND", "");
        }
        if self.devices.is_some() {
            environment.set("LONGSHORE_DEVICES", "");
        }
        environment
    }

    /// Creates the host with these options.
    pub(crate) fn host(&self) -> Result<Host, Failure> {
        build(self.builder())
    }

    /// Opens the device that `--device` names, else the preferred device that takes the image.
    /// `track` enables the tracking of its memory, `check` the checks of kernels.
    pub(crate) fn open(
        &self,
        device: Option<&str>,
        image: &Image,
        track: bool,
        check: Option<&str>,
    ) -> Result<Device, Failure> {
        let builder = match check {
            None => self.builder(),
            Some(kinds) => {
                let environment = self.environment().with("LONGSHORE_HOST_CHECK", kinds);
                self.selected(Host::builder().with_environment(environment))
            }
        };
        let host = build(if track { builder.with_tracking(true) } else { builder })?;
        if host.devices().is_empty() {
            return Err(no_device(&host));
        }
        let opened = match device {
            Some(selection) => host.device(selection).map_err(selection_failure),
            None => host.device_for(image).map_err(Failure::from),
        };
        opened.map_err(|failure| failure.or_hint("`longshore devices` lists the available devices"))
    }
}

fn build(builder: HostBuilder) -> Result<Host, Failure> {
    let host = builder.build().map_err(selection_failure);
    host.map_err(|failure| {
        failure.or_hint(
            "`longshore plugins` lists the plugins that were found, with the outcome of each",
        )
    })
}

/// Converts an error in the user's selection to a failure.
pub(crate) fn selection_failure(error: longshore::Error) -> Failure {
    let exit = match error.code() {
        ErrorCode::NotFound => Exit::NothingFound,
        ErrorCode::InvalidValue => Exit::Usage,
        _ => return error.into(),
    };
    Failure::new(exit, error.to_string())
}

/// Returns the failure for a host without a device, with a hint for the reason.
pub(crate) fn no_device(host: &Host) -> Failure {
    let lacks_driver = |candidate: &Candidate| {
        matches!(candidate.outcome, Outcome::NoDriver(_) | Outcome::NoDevice(_))
    };
    let candidates = host.candidates();
    let hint = if !host.excluded().is_empty() {
        "select one of these devices with --devices or LONGSHORE_DEVICES, or omit both to use all"
    } else if candidates.is_empty() {
        "put a plugin, 'liblongshore_plugin_<backend>.so', beside this command or into a folder of \
         LONGSHORE_PLUGIN_PATH, or name it with --plugin"
    } else if candidates.iter().any(lacks_driver) {
        "install the driver of a device of this machine, or name the plugin of another backend, such \
         as the CPU's, with --plugin"
    } else {
        "`longshore plugins` tries each plugin in its own process; name other plugins with --plugin"
    };
    Failure::new(Exit::NothingFound, host.why_no_device()).or_hint(hint)
}
