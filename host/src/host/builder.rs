//! The builder of hosts: the choice of plugins and devices.

use super::shared::HostShared;
use super::{DeviceEntry, Host};
use crate::absence::with_faults;
use crate::discovery::{
    self, Candidate, Discovery, DiscoveryConfig, IsolateConfig, IsolateLimits, IsolateSandbox,
    LoadedPlugin, Outcome, Probe,
};
use crate::environment::Environment;
use crate::jit::{Jit, JitConfig, JitSettings};
use crate::memory::HostTracker;
use crate::selection::{BackendSelection, DeviceFacts, DeviceSelection};
use longshore_plugin_api::{
    DeviceInfo, DeviceType, InfoValue, LinkedPlugin, Platform as _, Result,
};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

const DEFAULT_CACHE_LIMIT: u64 = 256 << 20;

/// A builder for a [`Host`], with choices beyond the environment's.
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
    linked: Vec<LinkedPlugin>,
    only_given_plugins: bool,
    backends: Option<String>,
    backends_may_be_missing: bool,
    devices: Option<String>,
    probe: Option<Probe>,
    isolate: IsolateConfig,
    cache_limit: Option<u64>,
    track: Option<bool>,
    jit: JitConfig,
    /// Settings of plugins: backend, name, value.
    settings: Vec<(String, String, String)>,
    tolerates_refused_settings: bool,
}

impl HostBuilder {
    /// Sets the variables to use instead of the process's own.
    #[must_use]
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Adds a plugin, or a folder of plugins, that is searched before all standard places.
    #[must_use]
    pub fn with_plugin(mut self, path: impl Into<PathBuf>) -> Self {
        self.plugins.push(path.into());
        self
    }

    /// Adds a plugin that is part of the program. Files of the same backend that the program or
    /// `LONGSHORE_PLUGIN_PATH` names come before it, and files in the standard folders after it.
    /// The feature `host` of this crate adds the CPU's plugin to each builder.
    ///
    /// Such a plugin cannot be isolated, and is not probed.
    #[must_use]
    pub fn with_linked_plugin(mut self, plugin: LinkedPlugin) -> Self {
        self.linked.push(plugin);
        self
    }

    /// Sets a setting of a backend's plugin, regardless of the user's variable
    /// `LONGSHORE_<BACKEND>_<NAME>`. `docs/environment.md` lists the settings of each backend.
    ///
    /// ```
    /// // Debuggers see the CPU's kernels.
    /// let builder = longshore::Host::builder().with_setting("host", "DEBUG", "gdb");
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn with_setting(
        mut self,
        backend: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.settings.push((backend.into(), name.into(), value.into()));
        self
    }

    /// Makes a setting that a plugin refuses an outcome of its candidate. By default such a setting
    /// is an error of [`HostBuilder::build`], so that no other backend replaces the one that the
    /// user has set up.
    #[must_use]
    pub fn with_refused_settings_as_outcomes(mut self) -> Self {
        self.tolerates_refused_settings = true;
        self
    }

    /// Restricts the search to the places that the program or `LONGSHORE_PLUGIN_PATH` names, and to
    /// linked plugins: the standard folders are not searched.
    #[must_use]
    pub fn with_only_given_plugins(mut self) -> Self {
        self.only_given_plugins = true;
        self
    }

    /// Sets the backends that the program can use, in order of preference: "cuda,host". The user's
    /// `LONGSHORE_BACKEND` applies as well: only backends that both name are used.
    #[must_use]
    pub fn with_backends(mut self, selection: impl Into<String>) -> Self {
        self.backends = Some(selection.into());
        self
    }

    /// Sets the backends as [`HostBuilder::with_backends`] does, but a backend without a plugin is
    /// no error.
    #[must_use]
    pub fn with_optional_backends(mut self, selection: impl Into<String>) -> Self {
        self.backends_may_be_missing = true;
        self.with_backends(selection)
    }

    /// Sets the devices that the program can use: "cuda:0,2;!vulkan:*llvmpipe*";
    /// [`DeviceSelection`] has the grammar. The user's `LONGSHORE_DEVICES` applies as well: only
    /// devices that both select are used.
    #[must_use]
    pub fn with_devices(mut self, selection: impl Into<String>) -> Self {
        self.devices = Some(selection.into());
        self
    }

    /// Probes each plugin in a process of its own before loading it, regardless of
    /// `LONGSHORE_PROBE`.
    #[must_use]
    pub fn with_probe(mut self, probe: Probe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Runs the plugins of these backends, "cuda,vulkan" or "all", in processes of their own, in
    /// addition to the backends of the user's `LONGSHORE_ISOLATE`. If such a process ends for any
    /// cause, calls to its devices return an error with the cause, and the devices can be opened
    /// again. `docs/isolation.md` lists the costs.
    #[must_use]
    pub fn with_isolated_backends(mut self, selection: impl Into<String>) -> Self {
        self.isolate.backends.push(selection.into());
        self
    }

    /// Limits the time of each call to an isolated plugin, calls that wait for kernels included,
    /// regardless of `LONGSHORE_ISOLATE_TIME_LIMIT`. A plugin's process that exceeds the limit is
    /// killed. The time that a call waits for the program's own functions does not count.
    #[must_use]
    pub fn with_isolate_time_limit(mut self, limit: Duration) -> Self {
        self.isolate.time_limit = Some(limit);
        self
    }

    /// Sets the rights of the processes of isolated plugins, regardless of
    /// `LONGSHORE_ISOLATE_SANDBOX`.
    #[must_use]
    pub fn with_isolate_sandbox(mut self, sandbox: IsolateSandbox) -> Self {
        self.isolate.sandbox = Some(sandbox);
        self
    }

    /// Limits the resources of each process of an isolated plugin. A limit that is set here
    /// overrides the same limit of `LONGSHORE_ISOLATE_LIMITS`.
    #[must_use]
    pub fn with_isolate_limits(mut self, limits: IsolateLimits) -> Self {
        self.isolate.limits = limits;
        self
    }

    /// Limits the time of opening and connecting an isolated plugin, and of each query before a
    /// device is opened, regardless of `LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT`. The default is 10 s.
    /// A plugin's process that exceeds the limit is killed.
    #[must_use]
    pub fn with_isolate_connect_time_limit(mut self, limit: Duration) -> Self {
        self.isolate.connect_time_limit = Some(limit);
        self
    }

    /// Sets whether the host shares memory with isolated plugins, which is the default. Without
    /// shared memory all data goes over a socket, and host and managed memory are `Unsupported`.
    #[must_use]
    pub fn with_isolate_shared_memory(mut self, shared: bool) -> Self {
        self.isolate.is_bare = !shared;
        self
    }

    /// Sets the executable of isolated plugins and of the compiler of bitcode, regardless of
    /// `LONGSHORE_EXECUTOR`.
    #[must_use]
    pub fn with_executor(mut self, executable: impl Into<PathBuf>) -> Self {
        self.isolate.executor = Some(executable.into());
        self
    }

    /// Sets the most bytes of freed memory that each device keeps for reuse: 256 MiB by default, 0
    /// for none.
    #[must_use]
    pub fn with_cache_limit(mut self, bytes: u64) -> Self {
        self.cache_limit = Some(bytes);
        self
    }

    /// Sets whether the host tracks memory, regardless of `LONGSHORE_TRACK`. Tracking counts each
    /// allocation by its call site, keeps its call stack while it is live, and prints leaks to
    /// standard error when the device is closed. Tracking costs some microseconds per allocation,
    /// and nothing when off.
    #[must_use]
    pub fn with_tracking(mut self, track: bool) -> Self {
        self.track = Some(track);
        self
    }

    /// Sets the optimization level, 0 to 3, of LLVM bitcode that the host compiles, regardless of
    /// `LONGSHORE_JIT_OPT_LEVEL`. [`LoadOptions`](crate::LoadOptions) can set another level for one
    /// image.
    #[must_use]
    pub fn with_jit_optimization(mut self, level: u32) -> Self {
        self.jit.level = Some(level);
        self
    }

    /// Sets whether LLVM compiles bitcode in the program's own process, regardless of
    /// `LONGSHORE_JIT_PROCESS`. The default is a worker process, because LLVM ends its process on
    /// some errors.
    #[must_use]
    pub fn with_jit_in_own_process(mut self, own: bool) -> Self {
        self.jit.in_own_process = Some(own);
        self
    }

    /// Sets the cache folder of compiled bitcode, or no cache, regardless of `LONGSHORE_JIT_CACHE`.
    /// The contents of the folder are executed, so a folder that an untrusted user can write to is
    /// not used. A program with more rights than its caller has no cache.
    #[must_use]
    pub fn with_jit_cache(mut self, folder: Option<PathBuf>) -> Self {
        self.jit.cache = Some(folder);
        self
    }

    /// Sets the most bytes of the cache folder, regardless of `LONGSHORE_JIT_CACHE_BYTES`.
    #[must_use]
    pub fn with_jit_cache_limit(mut self, bytes: u64) -> Self {
        self.jit.cache_bytes = Some(bytes);
        self
    }

    /// Sets the longest compilation of bitcode in a worker process, regardless of
    /// `LONGSHORE_JIT_TIME_LIMIT`. A worker that exceeds the limit is killed, and the load fails
    /// with `BackendFailure`. The default is two minutes.
    #[must_use]
    pub fn with_jit_time_limit(mut self, limit: Duration) -> Self {
        self.jit.time_limit = Some(limit);
        self
    }

    /// Returns the plugin files with their outcomes, found as [`HostBuilder::build`] does, without
    /// loading any.
    ///
    /// # Errors
    /// `InvalidValue` and `NotFound` for backends, as for [`Host::new`].
    pub fn candidates(self) -> Result<Vec<Candidate>> {
        discovery::list(&self.discovery_config()?)
    }

    /// Builds the host: finds plugins and devices. Blocks while plugins load and drivers start.
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
        let jit_config = JitConfig { executor: self.isolate.executor.clone(), ..self.jit };
        let jit = Jit::new(JitSettings::new(&jit_config, &environment)?);
        let discovery = discovery::discover(&config)?;
        let backends = discovery.candidates.iter().map(|candidate| candidate.backend.as_str());
        environment.warn_of_misspelt_with(backends.filter(|backend| !backend.is_empty()));
        let track = self.track.unwrap_or_else(|| environment.track());
        let shared = Arc::new(HostShared {
            table: Arc::default(),
            track,
            tracker: track.then(|| Arc::new(HostTracker::new())),
            environment,
            jit,
            cache_limit: self.cache_limit.unwrap_or(DEFAULT_CACHE_LIMIT),
            open_devices: Mutex::default(),
            open_count: AtomicUsize::new(0),
        });
        let Discovery { mut candidates, searched, plugins, backends_ordered } = discovery;
        let found = entries(&shared, &plugins, &mut candidates);
        let chosen = choose(found, &selections, backends_ordered);
        let (devices, excluded) = chosen.map_err(|error| with_faults(error, &candidates))?;
        let selections =
            given.iter().map(|(origin, text)| format!("{origin} \"{text}\"")).collect();
        Ok(Host { shared, candidates, searched, devices, excluded, selections })
    }

    fn discovery_config(&self) -> Result<DiscoveryConfig> {
        let mut environment = self.environment.clone().unwrap_or_else(Environment::from_process);
        for (backend, name, value) in &self.settings {
            environment.set_setting(backend, name, value);
        }
        Ok(DiscoveryConfig {
            extra: self.plugins.clone(),
            linked: self.linked.clone(),
            backends: self.backend_selection()?,
            probe: self.probe.clone(),
            isolate: self.isolate.clone(),
            standard_folders: !self.only_given_plugins,
            tolerates_refused_settings: self.tolerates_refused_settings,
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

/// Returns all devices of the connected plugins. A plugin that breaches a bound contributes no
/// device, and the outcome of its candidate becomes the error.
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
                // One file can contain several linked plugins.
                let is_of_plugin = |known: &&mut Candidate| {
                    known.path == plugin.path() && known.backend == plugin.backend()
                };
                let candidate = candidates.iter_mut().find(is_of_plugin);
                if let Some(candidate) = candidate {
                    candidate.outcome = Outcome::Failed(error);
                    log::warn!("{candidate}");
                }
            }
        }
    }
    entries
}

/// Returns the devices of a plugin.
///
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

/// Returns the facts of a device. Facts whose query fails otherwise than by a breach are left out.
///
/// # Errors
/// A breach of [`bounds`](longshore_plugin_api::bounds).
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

/// Returns the devices that every selection names, in the order of the first selection, and the
/// excluded devices.
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
