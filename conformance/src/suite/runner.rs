//! The runner of behaviours: a host and a fresh device for each, a time limit, panics, leaks.

use super::context::Context;
use super::promises::{OPENING, Step, step_to_a_device};
use super::{Behaviour, Outcome, behaviours};
use crate::amount;
use crate::fixtures::Fixtures;
use longshore::{
    Candidate, Device, DeviceEntry, DeviceFacts, Environment, Host, HostBuilder, Result,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The time limit of a behaviour in a full test ([`amount::limit`]).
const LIMIT: Duration = Duration::from_secs(60);

/// The plugins, devices and images of a run. Cloning is cheap.
#[derive(Clone)]
pub struct Setup {
    environment: Environment,
    plugins: Vec<PathBuf>,
    backends: Option<String>,
    devices: Option<String>,
    isolated: Option<Isolated>,
    fixtures: Fixtures,
}

/// The settings of plugins in processes of their own.
#[derive(Clone)]
struct Isolated {
    executor: PathBuf,
    shares_memory: bool,
}

/// The name of a device of a [`Setup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The backend of the device.
    pub backend: String,
    /// The index among the devices of the backend.
    pub index: u32,
    /// The name that the plugin reports, such as "NVIDIA H200"; may be empty.
    pub product: String,
    /// The name in output, such as "cuda:0 (NVIDIA H200)".
    pub name: String,
}

/// A selection of behaviours: all whose name or group contains one of several texts.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    texts: Vec<String>,
}

/// The outcomes of [`Setup::run_all`].
#[derive(Clone)]
pub struct Report {
    /// Outcome of each behaviour that was run, in order.
    pub outcomes: Vec<(&'static Behaviour, Outcome)>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::new()
    }
}

impl Setup {
    /// Creates a setup with the environment of the process, the plugins found by it, and the images
    /// of the suite.
    pub fn new() -> Setup {
        Setup {
            environment: Environment::from_process(),
            plugins: Vec::new(),
            backends: None,
            devices: None,
            isolated: None,
            fixtures: Fixtures::built_in(),
        }
    }

    /// Uses these variables instead of the environment of the process.
    #[must_use]
    pub fn with_environment(mut self, environment: Environment) -> Setup {
        self.environment = environment;
        self
    }

    /// Adds a plugin, or a folder of plugins, that is searched before all others.
    #[must_use]
    pub fn with_plugin(mut self, path: impl Into<PathBuf>) -> Setup {
        self.plugins.push(path.into());
        self
    }

    /// Selects backends, as `LONGSHORE_BACKEND` does.
    #[must_use]
    pub fn with_backends(mut self, selection: impl Into<String>) -> Setup {
        self.backends = Some(selection.into());
        self
    }

    /// Selects the devices of [`Setup::devices`], as `LONGSHORE_DEVICES` does.
    #[must_use]
    pub fn with_devices(mut self, selection: impl Into<String>) -> Setup {
        self.devices = Some(selection.into());
        self
    }

    /// Runs the plugins in processes of their own, with this executor, with or without shared
    /// memory.
    #[must_use]
    pub fn with_isolation(mut self, executor: impl Into<PathBuf>, shares_memory: bool) -> Setup {
        self.isolated = Some(Isolated { executor: executor.into(), shares_memory });
        self
    }

    /// Uses these images.
    #[must_use]
    pub fn with_fixtures(mut self, fixtures: Fixtures) -> Setup {
        self.fixtures = fixtures;
        self
    }

    /// Returns the available devices. Blocks while drivers start.
    ///
    /// # Errors
    /// Errors of [`Host::new`].
    pub fn devices(&self) -> Result<Vec<DeviceName>> {
        let host = self.selected_host()?;
        Ok(host.devices().iter().map(|entry| DeviceName::new(entry.facts())).collect())
    }

    /// Returns the reason for a lack of devices, and the next step for the plugin that was named
    /// first. Blocks while drivers start.
    ///
    /// # Errors
    /// Errors of [`Host::new`].
    pub fn why_no_device(&self) -> Result<(String, Option<Step>)> {
        let host = self.selected_host()?;
        let named = |candidate: &&Candidate| match &self.plugins[..] {
            [] => false,
            [plugin, ..] => candidate.path.file_name() == plugin.file_name(),
        };
        let candidate = host.candidates().iter().find(named);
        let step = candidate.and_then(|candidate| step_to_a_device(&candidate.outcome));
        // The author of this plugin needs no facts about other plugins.
        let why = match (candidate, step) {
            (Some(Candidate { path, outcome, .. }), Some(_)) => {
                format!("'{}': {}: {}", path.display(), outcome.label(), outcome.reason())
            }
            _ => host.why_no_device(),
        };
        Ok((why, step))
    }

    /// Calls `read` with the plugin of a device and the device's entry. Blocks while drivers start.
    ///
    /// # Errors
    /// `NotFound` if the device has disappeared.
    pub fn with_subject<T>(
        &self,
        device: &DeviceName,
        read: impl FnOnce(&Candidate, &DeviceEntry) -> T,
    ) -> Result<T> {
        let host = self.host_of(device, self.environment.clone())?;
        let missing = || {
            let message = format!("{} has disappeared", device.name);
            longshore::Error::new(longshore::ErrorCode::NotFound, message)
        };
        // The host has no device of another backend.
        let is_it = |entry: &&DeviceEntry| entry.facts().index == device.index;
        let entry = host.devices().iter().find(is_it).ok_or_else(missing)?;
        let is_loaded = |candidate: &&Candidate| {
            let outcome = &candidate.outcome;
            candidate.backend == device.backend
                && matches!(outcome, longshore::Outcome::Loaded | longshore::Outcome::Isolated(_))
        };
        let candidate = host.candidates().iter().find(is_loaded).ok_or_else(missing)?;
        Ok(read(candidate, entry))
    }

    /// Returns the formats of the images that the device accepts, sorted.
    ///
    /// # Errors
    /// Errors of [`Device::suits`].
    pub fn formats(&self, device: &Device) -> Result<Vec<&'static str>> {
        self.fixtures.formats(device)
    }

    /// Returns the time limit of a behaviour: one minute, or ten minutes in short tests.
    pub fn time_limit() -> Duration {
        amount::limit(LIMIT)
    }

    /// Runs one behaviour for at most [`Setup::time_limit`]. Blocks.
    pub fn run(&self, device: &DeviceName, behaviour: &'static Behaviour) -> Outcome {
        log::info!("{}: {behaviour}", device.name);
        let (sender, receiver) = mpsc::channel();
        let (setup, device) = (self.clone(), device.clone());
        let body = move || {
            let attempt = catch_unwind(AssertUnwindSafe(|| setup.attempt(&device, behaviour)));
            let outcome = attempt.unwrap_or_else(|panic| Outcome::Failed(panic_text(&*panic)));
            // The receiver is gone if the time limit has passed.
            let _ = sender.send(outcome);
        };
        if let Err(error) = thread::Builder::new().name(behaviour.name.to_owned()).spawn(body) {
            return Outcome::Failed(format!("cannot start a thread for it: {error}"));
        }
        let limit = Setup::time_limit();
        let timed_out = |_| Outcome::Failed(format!("it did not end within {limit:?}"));
        receiver.recv_timeout(limit).unwrap_or_else(timed_out)
    }

    /// Runs all behaviours of the filter, one after the other, and calls `progress` after each.
    /// Blocks.
    pub fn run_all(
        &self,
        device: &DeviceName,
        filter: &Filter,
        mut progress: impl FnMut(&'static Behaviour, &Outcome),
    ) -> Report {
        let run = |behaviour| {
            let outcome = self.run(device, behaviour);
            progress(behaviour, &outcome);
            (behaviour, outcome)
        };
        Report { outcomes: behaviours().filter(|b| filter.admits(b)).map(run).collect() }
    }

    /// Runs a behaviour with a host and a device of its own, and closes the device.
    fn attempt(&self, device: &DeviceName, behaviour: &Behaviour) -> Outcome {
        match self.context(device) {
            Ok(context) => {
                let check = catch_unwind(AssertUnwindSafe(|| (behaviour.run)(&context)));
                let outcome = match check {
                    Ok(check) => check.into(),
                    Err(panic) => Outcome::Failed(panic_text(&*panic)),
                };
                match context.close() {
                    Err(what) if !matches!(outcome, Outcome::Failed(_)) => Outcome::Failed(what),
                    _ => outcome,
                }
            }
            Err(error) => Outcome::Failed(format!("{OPENING}{}: {error:?}", device.name)),
        }
    }

    fn context(&self, device: &DeviceName) -> Result<Context> {
        let profiles = tempfile::tempdir().map_err(|error| {
            let message = format!("cannot create a temporary folder: {error}");
            longshore::Error::new(longshore::ErrorCode::HostIo, message)
        })?;
        let profile = profiles.path().join("profile.profraw");
        let environment = self.environment.clone().with("LONGSHORE_PROFILE_FILE", &profile);
        let host = self.host_of(device, environment.clone())?;
        Context::open(host, environment, device, self.fixtures.clone(), profiles)
    }

    /// Creates the host of [`Setup::devices`].
    fn selected_host(&self) -> Result<Host> {
        let mut builder = self.builder(self.environment.clone());
        if let Some(backends) = &self.backends {
            builder = builder.with_backends(backends);
        }
        if let Some(devices) = &self.devices {
            builder = builder.with_devices(devices);
        }
        builder.build()
    }

    /// Creates a host for a behaviour. It has all devices of the platform, because a behaviour may
    /// need a second one, and loads no other plugin, whose faults would fail the behaviour.
    fn host_of(&self, device: &DeviceName, mut environment: Environment) -> Result<Host> {
        if let Some(selection) = environment.devices() {
            // A term without a device would be an error.
            environment.set("LONGSHORE_DEVICES", terms_of(&selection, &device.backend));
        }
        self.builder(environment).with_backends(&device.backend).build()
    }

    fn builder(&self, environment: Environment) -> HostBuilder {
        let mut builder = Host::builder().with_environment(environment);
        for plugin in &self.plugins {
            builder = builder.with_plugin(plugin);
        }
        if let Some(isolated) = &self.isolated {
            builder = builder.with_isolated_backends("all").with_executor(&isolated.executor);
            if !isolated.shares_memory {
                builder = builder.with_isolate_shared_memory(false);
            }
        }
        builder
    }
}

impl DeviceName {
    /// Creates the name of a device whose product is not known: "cuda:0".
    pub fn for_index(backend: &str, index: u32) -> DeviceName {
        let name = format!("{backend}:{index}");
        DeviceName { backend: backend.to_owned(), index, product: String::new(), name }
    }

    fn new(facts: &DeviceFacts) -> DeviceName {
        let (backend, product) = (facts.backend.clone(), facts.name.clone());
        DeviceName { backend, index: facts.index, product, name: facts.to_string() }
    }
}

impl Filter {
    /// Creates a filter for all behaviours.
    pub fn all() -> Filter {
        Filter::default()
    }

    /// Creates a filter for behaviours whose "group: name" contains one of the texts; without
    /// texts, for all.
    pub fn any_of(texts: impl IntoIterator<Item = String>) -> Filter {
        Filter { texts: texts.into_iter().collect() }
    }

    /// Returns whether the filter selects the behaviour.
    pub fn admits(&self, behaviour: &Behaviour) -> bool {
        let name = behaviour.to_string();
        self.texts.is_empty() || self.texts.iter().any(|text| name.contains(text.as_str()))
    }
}

impl Report {
    /// Returns the number of passed behaviours.
    pub fn passed(&self) -> usize {
        self.count(|outcome| *outcome == Outcome::Passed)
    }

    /// Returns the number of skipped behaviours.
    pub fn skipped(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Skipped(_)))
    }

    /// Returns the number of failed behaviours.
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    fn count(&self, admits: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| admits(outcome)).count()
    }
}

/// Returns the terms of a selection of devices that are about a backend.
fn terms_of(selection: &str, backend: &str) -> String {
    let is_about = |term: &&str| {
        let term = term.trim();
        let named = term.strip_prefix('!').unwrap_or(term).split(':').next().unwrap_or_default();
        named.trim().eq_ignore_ascii_case(backend)
    };
    selection.split(';').filter(is_about).collect::<Vec<_>>().join(";")
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("with a value that is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_keeps_its_terms_about_a_backend() {
        let selection = "cuda:0,2; !Vulkan : *llvmpipe*;vulkan:*;vulkan2:0";
        assert_eq!(terms_of(selection, "vulkan"), " !Vulkan : *llvmpipe*;vulkan:*");
        assert_eq!(terms_of(selection, "cuda"), "cuda:0,2");
        assert_eq!(terms_of(selection, "host"), "");
    }
}
