//! Runs behaviours: a host and a fresh device for each, time limit, panics, leaks.

use super::context::Context;
use super::{Behaviour, Outcome, behaviours};
use crate::amount;
use crate::fixtures::Fixtures;
use longshore::{DeviceFacts, Environment, Host, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A behaviour that takes longer hangs, unless little is tried ([`amount::limit`]).
const LIMIT: Duration = Duration::from_secs(60);

/// Where the plugins, devices and images of a run come from. Cloning is cheap.
#[derive(Clone)]
pub struct Setup {
    environment: Environment,
    plugins: Vec<PathBuf>,
    backends: Option<String>,
    devices: Option<String>,
    isolated: Option<Isolated>,
    fixtures: Fixtures,
}

/// Runs the plugins in processes of their own.
#[derive(Clone)]
struct Isolated {
    executor: PathBuf,
    shares_memory: bool,
}

/// Which device of a [`Setup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// Its backend.
    pub backend: String,
    /// Its index among the backend's devices.
    pub index: u32,
    /// "cuda:0 (NVIDIA H200)".
    pub name: String,
}

/// Which behaviours: those in whose name or group one of several texts occurs.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    texts: Vec<String>,
}

/// What [`Setup::run_all`] found.
#[derive(Clone)]
pub struct Report {
    /// Each behaviour that was run, in order.
    pub outcomes: Vec<(&'static Behaviour, Outcome)>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup::new()
    }
}

impl Setup {
    /// Returns the process's environment, the plugins that it finds, the images of the suite.
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

    /// Uses these variables instead of the process's own.
    #[must_use]
    pub fn with_environment(mut self, environment: Environment) -> Setup {
        self.environment = environment;
        self
    }

    /// Returns a plugin, or a folder of plugins, that is searched before all others.
    #[must_use]
    pub fn with_plugin(mut self, path: impl Into<PathBuf>) -> Setup {
        self.plugins.push(path.into());
        self
    }

    /// Which backends, as for `LONGSHORE_BACKEND`.
    #[must_use]
    pub fn with_backends(mut self, selection: impl Into<String>) -> Setup {
        self.backends = Some(selection.into());
        self
    }

    /// Which devices [`Setup::devices`] lists, as for `LONGSHORE_DEVICES`.
    #[must_use]
    pub fn with_devices(mut self, selection: impl Into<String>) -> Setup {
        self.devices = Some(selection.into());
        self
    }

    /// Runs the plugins in processes of their own, of this executable, with memory that both have or without.
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

    /// Returns the devices that there are. Blocks while drivers start.
    ///
    /// # Errors
    /// Those of [`Host::new`].
    pub fn devices(&self) -> Result<Vec<DeviceName>> {
        let host = self.host(self.environment.clone(), self.devices.as_deref())?;
        Ok(host.devices().iter().map(|entry| DeviceName::new(entry.facts())).collect())
    }

    /// How long a behaviour may take: a minute, or ten where little is tried.
    pub fn time_limit() -> Duration {
        amount::limit(LIMIT)
    }

    /// Runs one behaviour, at most [`Setup::time_limit`]. Blocks.
    pub fn run(&self, device: &DeviceName, behaviour: &'static Behaviour) -> Outcome {
        log::info!("{}: {behaviour}", device.name);
        let (sender, receiver) = mpsc::channel();
        let (setup, device) = (self.clone(), device.clone());
        let body = move || {
            let attempt = catch_unwind(AssertUnwindSafe(|| setup.attempt(&device, behaviour)));
            let outcome = attempt.unwrap_or_else(|panic| Outcome::Failed(panic_text(&*panic)));
            // Nobody listens any more if the time is over.
            let _ = sender.send(outcome);
        };
        if let Err(error) = thread::Builder::new().name(behaviour.name.to_owned()).spawn(body) {
            return Outcome::Failed(format!("no thread to run it on: {error}"));
        }
        let limit = Setup::time_limit();
        let timed_out = |_| Outcome::Failed(format!("it did not end within {limit:?}"));
        receiver.recv_timeout(limit).unwrap_or_else(timed_out)
    }

    /// Runs all behaviours that the filter lets through, one after the other, and calls
    /// `progress` after each. Blocks.
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

    /// Runs a behaviour on a host and a device of its own, and closes the device.
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
            Err(error) => Outcome::Failed(format!("opening {}: {error:?}", device.name)),
        }
    }

    fn context(&self, device: &DeviceName) -> Result<Context> {
        let profiles = tempfile::tempdir().map_err(|error| {
            let message = format!("no folder for temporary files: {error}");
            longshore::Error::new(longshore::ErrorCode::HostIo, message)
        })?;
        let profile = profiles.path().join("profile.profraw");
        let environment = self.environment.clone().with("LONGSHORE_PROFILE_FILE", &profile);
        // All devices: a behaviour may need a second one of the platform.
        let host = self.host(environment.clone(), None)?;
        Context::open(host, environment, device, self.fixtures.clone(), profiles)
    }

    fn host(&self, environment: Environment, devices: Option<&str>) -> Result<Host> {
        let mut builder = Host::builder().with_environment(environment);
        for plugin in &self.plugins {
            builder = builder.with_plugin(plugin);
        }
        if let Some(backends) = &self.backends {
            builder = builder.with_backends(backends);
        }
        if let Some(isolated) = &self.isolated {
            builder = builder.with_isolated_backends("all").with_executor(&isolated.executor);
            if !isolated.shares_memory {
                builder = builder.with_isolate_shared_memory(false);
            }
        }
        if let Some(devices) = devices {
            builder = builder.with_devices(devices);
        }
        builder.build()
    }
}

impl DeviceName {
    fn new(facts: &DeviceFacts) -> DeviceName {
        let (backend, index) = (facts.backend.clone(), facts.index);
        DeviceName { backend, index, name: facts.to_string() }
    }
}

impl Filter {
    /// Lets every behaviour through.
    pub fn all() -> Filter {
        Filter::default()
    }

    /// Lets those through in whose "group: name" one of the texts occurs; with no texts, all.
    pub fn any_of(texts: impl IntoIterator<Item = String>) -> Filter {
        Filter { texts: texts.into_iter().collect() }
    }

    /// Returns whether it lets this one through.
    pub fn admits(&self, behaviour: &Behaviour) -> bool {
        let name = behaviour.to_string();
        self.texts.is_empty() || self.texts.iter().any(|text| name.contains(text.as_str()))
    }
}

impl Report {
    /// How many behaviours the device shows.
    pub fn passed(&self) -> usize {
        self.count(|outcome| *outcome == Outcome::Passed)
    }

    /// How many the device says that it cannot show.
    pub fn skipped(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Skipped(_)))
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    fn count(&self, admits: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| admits(outcome)).count()
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("with a value that is no text"))
}
