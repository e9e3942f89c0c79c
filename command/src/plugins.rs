//! `longshore plugins`.

use crate::common::{CommonOptions, selection_failure};
use crate::failure::{Exit, Failure};
use crate::{output, table};
use clap::Args;
use longshore::{Candidate, Environment, Host, HostBuilder, Probe};
use serde::Serialize;

/// List every file considered as a plugin, with its outcome
///
/// Each plugin is first tried in its own process, so that the list can report a plugin that crashes
/// or hangs. If the selection of backends or devices is not valid, the list ignores it, and the
/// command fails.
#[derive(Args)]
pub(crate) struct Plugins {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
    /// Load the plugins into this process, without trying them first
    #[arg(long)]
    no_probe: bool,
}

/// The JSON of a candidate.
#[derive(Serialize)]
struct PluginFacts<'a> {
    path: String,
    backend: &'a str,
    linked: bool,
    outcome: &'static str,
    reason: String,
    fault: bool,
    interface: Option<String>,
    image_formats: Vec<&'a str>,
    driver: Option<&'a str>,
}

impl Plugins {
    pub(crate) fn execute(&self, common: &CommonOptions) -> Result<(), Failure> {
        let (host, selected) = self.find(common)?;
        let candidates = host.candidates();
        if self.json {
            let facts: Vec<_> = candidates.iter().map(PluginFacts::new).collect();
            output::print_json(&facts)?;
        } else if !candidates.is_empty() {
            let header = ["BACKEND", "OUTCOME", "INTERFACE", "FORMATS", "FILE", "REASON"];
            output::print(&table::render(header, candidates.iter().map(row).collect()))?;
        }
        selected?;
        if candidates.is_empty() {
            return Err(none(&host));
        }
        Ok(())
    }

    /// Returns the selected host. If the selection is not valid, returns a host without it, and the
    /// error.
    fn find(&self, common: &CommonOptions) -> Result<(Host, Result<(), Failure>), Failure> {
        let error = match self.build(common.builder()) {
            Ok(host) => return Ok((host, Ok(()))),
            Err(error) => error,
        };
        let any_device = Environment::from_process().with("LONGSHORE_DEVICES", "");
        let any_backend = any_device.clone().with("LONGSHORE_BACKEND", "");
        let of_backends = CommonOptions { devices: None, ..common.clone() };
        let all = CommonOptions { backend: None, ..of_backends.clone() };
        let host = self
            .build(of_backends.builder().with_environment(any_device))
            .or_else(|_| self.build(all.builder().with_environment(any_backend)))?;
        Ok((host, Err(selection_failure(error))))
    }

    /// Builds a host. A setting that a plugin refuses is the reason in the plugin's row.
    fn build(&self, builder: HostBuilder) -> longshore::Result<Host> {
        let mut builder = builder.with_refused_settings_as_outcomes();
        if let Some(probe) = self.probe() {
            builder = builder.with_probe(probe);
        }
        builder.build()
    }

    fn probe(&self) -> Option<Probe> {
        if self.no_probe {
            return None;
        }
        // Without its own path, the command loads the plugins itself.
        std::env::current_exe().ok().map(Probe::new)
    }
}

impl PluginFacts<'_> {
    fn new(candidate: &Candidate) -> PluginFacts<'_> {
        let note = candidate.note.as_ref();
        PluginFacts {
            path: candidate.path.display().to_string(),
            backend: &candidate.backend,
            linked: candidate.is_linked,
            outcome: candidate.outcome.label(),
            reason: candidate.outcome.reason(),
            fault: candidate.outcome.is_fault(),
            interface: interface(candidate),
            image_formats: note.map(|note| formats(&note.image_formats)).unwrap_or_default(),
            driver: note.map(|note| note.driver.as_str()).filter(|driver| !driver.is_empty()),
        }
    }
}

fn row(candidate: &Candidate) -> [String; 6] {
    let formats = candidate.note.as_ref().map(|note| formats(&note.image_formats).join(", "));
    let path = candidate.path.display();
    [
        candidate.backend.clone(),
        candidate.outcome.label().to_owned(),
        interface(candidate).unwrap_or_default(),
        formats.unwrap_or_default(),
        if candidate.is_linked { format!("linked into {path}") } else { path.to_string() },
        candidate.outcome.reason(),
    ]
}

/// Returns the interface version that the plugin was built with, such as "1.0".
fn interface(candidate: &Candidate) -> Option<String> {
    let note = candidate.note.as_ref()?;
    Some(format!("{}.{}", note.interface_major, note.interface_minor))
}

fn formats(listed: &str) -> Vec<&str> {
    listed.split(',').map(str::trim).filter(|format| !format.is_empty()).collect()
}

fn none(host: &Host) -> Failure {
    let places: Vec<_> =
        host.searched().iter().map(|place| format!("'{}'", place.display())).collect();
    let message = format!("there is no plugin in {}", places.join(", "));
    Failure::new(Exit::NothingFound, message).or_hint(
        "a plugin is a file 'liblongshore_plugin_<backend>.so': put one there, name it with --plugin, \
         or its folder in LONGSHORE_PLUGIN_PATH",
    )
}
