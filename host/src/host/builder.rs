//! How a host is made: which plugins and devices it has.

use super::shared::HostShared;
use super::{DeviceEntry, Host};
use crate::discovery::{
    self, Candidate, Discovery, DiscoveryConfig, IsolateConfig, IsolateLimits, IsolateSandbox,
    LoadedPlugin, Outcome, Probe,
};
use crate::environment::Environment;
use crate::memory::HostTracker;
use crate::selection::{BackendSelection, DeviceFacts, DeviceSelection};
use longshore_plugin_api::{DeviceInfo, DeviceType, InfoValue, Platform as _, Result};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

const DEFAULT_CACHE_LIMIT: u64 = 256 << 20;

/// How a [`Host`] is made, other than by the environment alone.
///
/// ```
/// // A program with code for two backends. Neither needs a plugin on this machine.
/// let host = longshore::Host::builder()
///     .with_optional_backends("cuda,host")
///     .with_cache_limit(64 << 20)
///     .build()?;
/// let backends = host.devices().iter().map(|entry| entry.facts().backend.as_str());
/// assert!(backends.into_iter().all(|name| ["cuda", "host"].contains(&name)));
/// # Ok::<(), longshore::Error>(())
/// ```
#[derive(Default)]
pub struct HostBuilder {
    environment: Option<Environment>,
    plugins: Vec<PathBuf>,
    only_given_plugins: bool,
    backends: Option<String>,
    backends_may_be_missing: bool,
    devices: Option<String>,
    probe: Option<Probe>,
    isolate: IsolateConfig,
    cache_limit: Option<u64>,
    track: Option<bool>,
}

impl HostBuilder {
    /// Uses these variables instead of the process's own.
    #[must_use]
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Returns a plugin, or a folder of plugins, that is searched before all others.
    #[must_use]
    pub fn with_plugin(mut self, path: impl Into<PathBuf>) -> Self {
        self.plugins.push(path.into());
        self
    }

    /// Searches no folder that neither the program nor `LONGSHORE_PLUGIN_PATH` named.
    #[must_use]
    pub fn with_only_given_plugins(mut self) -> Self {
        self.only_given_plugins = true;
        self
    }

    /// Returns the backends that the program can use: "cuda,host". The user's `LONGSHORE_BACKEND` holds as
    /// well: a backend must be named by both.
    #[must_use]
    pub fn with_backends(mut self, selection: impl Into<String>) -> Self {
        self.backends = Some(selection.into());
        self
    }

    /// As [`HostBuilder::with_backends`], but a backend that has no plugin is no error.
    #[must_use]
    pub fn with_optional_backends(mut self, selection: impl Into<String>) -> Self {
        self.backends_may_be_missing = true;
        self.with_backends(selection)
    }

    /// Returns the devices that the program can use: "cuda:0,2;!vulkan:*llvmpipe*". The user's
    /// `LONGSHORE_DEVICES` holds as well: a device must be named by both.
    #[must_use]
    pub fn with_devices(mut self, selection: impl Into<String>) -> Self {
        self.devices = Some(selection.into());
        self
    }

    /// Tries each plugin in a process of its own before it is loaded, whatever `LONGSHORE_PROBE`
    /// says.
    #[must_use]
    pub fn with_probe(mut self, probe: Probe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Runs the plugins of these backends, "cuda,vulkan" or "all", in processes of their own, besides those that the user's
    /// `LONGSHORE_ISOLATE` names. If such a process ends, whatever the cause, its devices answer with an error that says so, and
    /// can be opened again. What it costs is said in `docs/isolation.md`.
    #[must_use]
    pub fn with_isolated_backends(mut self, selection: impl Into<String>) -> Self {
        self.isolate.backends.push(selection.into());
        self
    }

    /// How long a call to an isolated plugin may take, what waits for kernels too, whatever `LONGSHORE_ISOLATE_TIME_LIMIT` says. Then
    /// its process is killed. Time in which it waits for the program's own functions does not count.
    #[must_use]
    pub fn with_isolate_time_limit(mut self, limit: Duration) -> Self {
        self.isolate.time_limit = Some(limit);
        self
    }

    /// Returns the rights of the processes of isolated plugins, whatever `LONGSHORE_ISOLATE_SANDBOX` says.
    #[must_use]
    pub fn with_isolate_sandbox(mut self, sandbox: IsolateSandbox) -> Self {
        self.isolate.sandbox = Some(sandbox);
        self
    }

    /// Returns the resources of each process of an isolated plugin. A limit that is set here goes before the same of
    /// `LONGSHORE_ISOLATE_LIMITS`.
    #[must_use]
    pub fn with_isolate_limits(mut self, limits: IsolateLimits) -> Self {
        self.isolate.limits = limits;
        self
    }

    /// How long it may take until an isolated plugin is opened and connected, and until it answers each query before a device is
    /// opened, whatever `LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT` says; usually 10 s. Then its process is killed.
    #[must_use]
    pub fn with_isolate_connect_time_limit(mut self, limit: Duration) -> Self {
        self.isolate.connect_time_limit = Some(limit);
        self
    }

    /// Shares memory with isolated plugins, as by default, or does not: then all goes over a socket, and
    /// host and managed memory are `Unsupported`.
    #[must_use]
    pub fn with_isolate_shared_memory(mut self, shared: bool) -> Self {
        self.isolate.is_bare = !shared;
        self
    }

    /// Returns the executable in which isolated plugins run, whatever `LONGSHORE_EXECUTOR` says.
    #[must_use]
    pub fn with_executor(mut self, executable: impl Into<PathBuf>) -> Self {
        self.isolate.executor = Some(executable.into());
        self
    }

    /// How many bytes of freed memory each device keeps for reuse; 256 MiB by default, 0 for none.
    #[must_use]
    pub fn with_cache_limit(mut self, bytes: u64) -> Self {
        self.cache_limit = Some(bytes);
        self
    }

    /// Tracks memory, whatever `LONGSHORE_TRACK` says: counts each allocation by the place in the
    /// program, keeps its call stack while it is live, and prints what leaked to standard error
    /// when its device closes. Costs some microseconds for each allocation; nothing if it is off.
    #[must_use]
    pub fn with_tracking(mut self, track: bool) -> Self {
        self.track = Some(track);
        self
    }

    /// Finds and judges plugin files as [`HostBuilder::build`] does, but opens none.
    ///
    /// # Errors
    /// `InvalidValue` and `NotFound` for backends, as for [`Host::new`].
    pub fn candidates(self) -> Result<Vec<Candidate>> {
        discovery::list(&self.discovery_config()?)
    }

    /// Finds plugins and devices. Blocks while drivers start.
    ///
    /// # Errors
    /// As for [`Host::new`].
    pub fn build(self) -> Result<Host> {
        let config = self.discovery_config()?;
        let environment = config.environment.clone();
        let users = environment.devices();
        let given = [("LONGSHORE_DEVICES", users), ("the selection", self.devices)];
        let given = given.into_iter().filter_map(|(origin, text)| Some((origin, text?)));
        let given: Vec<(&str, String)> = given.collect();
        let selections = given.iter().map(|(_, text)| DeviceSelection::parse(text));
        let selections = selections.collect::<Result<Vec<_>>>()?;
        let discovery = discovery::discover(&config)?;
        let backends = discovery.candidates.iter().map(|candidate| candidate.backend.as_str());
        environment.warn_of_misspelt_with(backends.filter(|backend| !backend.is_empty()));
        let track = self.track.unwrap_or_else(|| environment.track());
        let shared = Arc::new(HostShared {
            table: Arc::default(),
            track,
            tracker: track.then(|| Arc::new(HostTracker::new())),
            environment,
            cache_limit: self.cache_limit.unwrap_or(DEFAULT_CACHE_LIMIT),
            open_devices: Mutex::default(),
            open_count: AtomicUsize::new(0),
        });
        let Discovery { mut candidates, searched, plugins, backends_ordered } = discovery;
        let found = entries(&shared, &plugins, &mut candidates);
        let (devices, excluded) = choose(found, &selections, backends_ordered)?;
        let selections =
            given.iter().map(|(origin, text)| format!("{origin} \"{text}\"")).collect();
        Ok(Host { shared, candidates, searched, devices, excluded, selections })
    }

    fn discovery_config(&self) -> Result<DiscoveryConfig> {
        let environment = self.environment.clone().unwrap_or_else(Environment::from_process);
        Ok(DiscoveryConfig {
            extra: self.plugins.clone(),
            backends: self.backend_selection()?,
            probe: self.probe.clone(),
            isolate: self.isolate.clone(),
            standard_folders: !self.only_given_plugins,
            ..DiscoveryConfig::new(environment)
        })
    }

    fn backend_selection(&self) -> Result<Option<BackendSelection>> {
        let selection = self.backends.as_deref().map(BackendSelection::parse).transpose()?;
        Ok(match self.backends_may_be_missing {
            true => selection.map(BackendSelection::with_optional_backends),
            false => selection,
        })
    }
}

/// Returns all devices of the connected plugins. One that breaks a bound has none, and its candidate says why.
fn entries(
    shared: &Arc<HostShared>,
    plugins: &[Arc<LoadedPlugin>],
    candidates: &mut [Candidate],
) -> Vec<DeviceEntry> {
    let mut entries = Vec::new();
    for plugin in plugins {
        match entries_of(shared, plugin) {
            Ok(found) => entries.extend(found),
            Err(error) => {
                let candidate = candidates.iter_mut().find(|known| known.path == plugin.path());
                if let Some(candidate) = candidate {
                    candidate.outcome = Outcome::Failed(error);
                    log::warn!("{candidate}");
                }
            }
        }
    }
    entries
}

/// # Errors
/// A breach of [`bounds`](longshore_plugin_api::bounds).
fn entries_of(shared: &Arc<HostShared>, plugin: &Arc<LoadedPlugin>) -> Result<Vec<DeviceEntry>> {
    let entry = |index| {
        Ok(DeviceEntry {
            facts: facts(plugin, index)?,
            plugin: Arc::clone(plugin),
            host: Arc::clone(shared),
            opened: Mutex::default(),
        })
    };
    (0..plugin.platform().device_count()).map(entry).collect()
}

/// # Errors
/// A breach. What the device does not tell for another reason is left out.
fn facts(plugin: &LoadedPlugin, index: u32) -> Result<DeviceFacts> {
    let ask = |query| match plugin.platform().device_info(index, query) {
        Err(error) if error.is_breach() => Err(error),
        answer => Ok(answer.ok()),
    };
    let name = match ask(DeviceInfo::ProductName)? {
        None => ask(DeviceInfo::Name)?,
        name => name,
    };
    let kind = ask(DeviceInfo::Type)?.and_then(|kind| kind.as_u64());
    Ok(DeviceFacts {
        backend: plugin.backend().to_owned(),
        index,
        name: name.and_then(|name| name.as_text().map(str::to_owned)).unwrap_or_default(),
        uuid: match ask(DeviceInfo::Uuid)? {
            Some(InfoValue::Uuid(uuid)) => Some(uuid),
            _ => None,
        },
        kind: kind.and_then(|kind| DeviceType::from_raw(u32::try_from(kind).ok()?)),
    })
}

/// Returns the devices that every selection names, in the order of the first, and the others.
fn choose(
    found: Vec<DeviceEntry>,
    selections: &[DeviceSelection],
    backends_ordered: bool,
) -> Result<(Vec<DeviceEntry>, Vec<DeviceFacts>)> {
    let facts: Vec<_> = found.iter().map(|entry| entry.facts.clone()).collect();
    let default = [DeviceSelection::default()];
    let selections = if selections.is_empty() { &default } else { selections };
    let mut chosen: Option<Vec<usize>> = None;
    for selection in selections {
        let named = selection.clone().with_backends_first(backends_ordered).select(&facts)?;
        chosen = Some(match chosen {
            None => named,
            Some(before) => before.into_iter().filter(|index| named.contains(index)).collect(),
        });
    }
    let mut found: Vec<_> = found.into_iter().map(Some).collect();
    let chosen = chosen.unwrap_or_default();
    let chosen = chosen.into_iter().filter_map(|index| found[index].take()).collect();
    let excluded = found.into_iter().flatten().map(|entry| entry.facts);
    Ok((chosen, excluded.collect()))
}
