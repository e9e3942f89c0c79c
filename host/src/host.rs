//! The host: what plugins and devices there are.

use crate::PluginDescription;
use crate::absence::Absence;
use crate::device::{Device, DeviceInner};
use crate::discovery::{
    self, Candidate, Discovery, DiscoveryConfig, IsolateConfig, IsolateLimits, IsolateSandbox,
    LoadedPlugin, Outcome, Probe,
};
use crate::environment::Environment;
use crate::image::Image;
use crate::memory::{
    AllocationInfo, AllocationTable, DevicePointer, HostTracker, Ledger, MemoryReport,
};
use crate::selection::{BackendSelection, DeviceFacts, DeviceSelection};
use longshore_plugin_api::{
    DeviceInfo, DeviceType, Error, ErrorCode, InfoValue, Platform as _, PlatformInfo, Result,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

const DEFAULT_CACHE_LIMIT: u64 = 256 << 20;

/// The plugins that were found and the devices that were selected. LLVM: `olInit` and
/// `olIterateDevices`.
///
/// Several may live in one process. Dropping one does not close devices that are still in use.
pub struct Host {
    shared: Arc<HostShared>,
    candidates: Vec<Candidate>,
    searched: Vec<PathBuf>,
    devices: Vec<DeviceEntry>,
    excluded: Vec<DeviceFacts>,
    /// The selection that left the devices out, as messages call it.
    selections: Vec<String>,
}

/// What a host and its devices share.
pub(crate) struct HostShared {
    pub(crate) table: Arc<AllocationTable>,
    pub(crate) environment: Environment,
    pub(crate) cache_limit: u64,
    pub(crate) track: bool,
    /// There if `track` is set.
    pub(crate) tracker: Option<Arc<HostTracker>>,
    pub(crate) open_devices: Mutex<HashMap<u64, Weak<DeviceInner>>>,
    /// How many there are of them.
    pub(crate) open_count: AtomicUsize,
}

/// A device that is there, open or not.
pub struct DeviceEntry {
    facts: DeviceFacts,
    plugin: Arc<LoadedPlugin>,
    host: Arc<HostShared>,
    opened: Mutex<Weak<DeviceInner>>,
}

/// How a [`Host`] is made, other than by the environment alone.
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

impl Host {
    /// Finds plugins and devices as the environment says. Blocks while drivers start.
    ///
    /// # Errors
    /// `NotFound` if `LONGSHORE_BACKEND` or `LONGSHORE_DEVICES` name something that is not there;
    /// the message lists what is. `InvalidValue` if they cannot be parsed. Having no device at all
    /// is no error.
    pub fn new() -> Result<Host> {
        Host::builder().build()
    }

    /// To say more than the environment does.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Every file that was considered as a plugin, and what became of it, in search order.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The files and folders that were searched for plugins, in order, there or not.
    pub fn searched(&self) -> &[PathBuf] {
        &self.searched
    }

    /// The selected devices, in order of preference.
    pub fn devices(&self) -> &[DeviceEntry] {
        &self.devices
    }

    /// The devices of connected plugins that the selection leaves out.
    pub fn excluded(&self) -> &[DeviceFacts] {
        &self.excluded
    }

    /// Says why there is no device, for a host without one.
    #[doc(hidden)]
    pub fn why_no_device(&self) -> String {
        self.absence().cause()
    }

    /// Opens the first selected device.
    ///
    /// # Errors
    /// `NotFound` if there is none, with what became of each plugin, where none was found, or which
    /// selection leaves out what there is; those of the driver.
    pub fn default_device(&self) -> Result<Device> {
        match self.devices.first() {
            Some(entry) => entry.open(),
            None => Err(self.absence().error()),
        }
    }

    /// Opens the first selected device that a selection like "cuda:1" or "vulkan:*llvmpipe*"
    /// names.
    ///
    /// # Errors
    /// `NotFound` if an entry of it names none, `InvalidValue` if it cannot be parsed; those of the driver.
    pub fn device(&self, selection: &str) -> Result<Device> {
        let facts: Vec<_> = self.devices.iter().map(|entry| entry.facts.clone()).collect();
        match DeviceSelection::parse(selection)?.select(&facts)?.first() {
            Some(index) => self.devices[*index].open(),
            None if facts.is_empty() => Err(self.absence().error()),
            None => Err(Absence {
                selections: vec![format!("\"{selection}\"")],
                excluded: facts.iter().collect(),
                ..self.absence()
            }
            .error()),
        }
    }

    /// Opens the first selected device that takes an image, or one of those that a container holds.
    /// Devices that cannot be opened are passed over. LLVM: `olIsValidBinary` for each device.
    ///
    /// # Errors
    /// `NotFound` if there is no device; if none takes the image, the first one's error, with what
    /// the others say.
    pub fn device_for(&self, image: &Image) -> Result<Device> {
        let mut refusals = Vec::new();
        for entry in &self.devices {
            let opened = entry.open();
            match opened.and_then(|device| device.check_suits(image).map(|()| device)) {
                Ok(device) => return Ok(device),
                Err(error) => refusals.push(error),
            }
        }
        let Some(first) = refusals.first() else { return Err(self.absence().error()) };
        let messages: Vec<_> = refusals.iter().map(Error::message).collect();
        Err(Error::new(first.code(), messages.join("\n")))
    }

    /// The live allocation or global that an address lies in, on whichever device. O(log n).
    /// LLVM: `olGetMemInfo`.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn allocation_at(&self, address: DevicePointer) -> Result<AllocationInfo> {
        self.shared.table.find(address.address()).ok_or_else(|| {
            let message = format!("{:#x} is in no live allocation", address.address());
            Error::new(ErrorCode::NotFound, message)
        })
    }

    /// Frees an allocation that was given up by
    /// [`Allocation::into_raw`](crate::Allocation::into_raw). LLVM: `olMemFree`.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not the first address of a live allocation. Those of the driver, if
    /// the memory is not kept for reuse; it is gone all the same.
    ///
    /// # Safety
    /// No [`Allocation`](crate::Allocation) or [`Buffer`](crate::Buffer) owns it, and nothing but work
    /// that was queued before uses it any more.
    pub unsafe fn free(&self, address: DevicePointer) -> Result<()> {
        let table = &self.shared.table;
        let not_live = || table.not_live(address.address());
        let block = table.block_at(address.address()).ok_or_else(not_live)?;
        let device = self.shared.open_device(block.device)?;
        if device.release(block)? { Ok(()) } else { Err(not_live()) }
    }

    /// What is and was allocated on all devices, those that were closed as well, and what open
    /// ones keep for reuse.
    pub fn memory_report(&self) -> MemoryReport {
        const NAME: &str = "all devices";
        let report = match &self.shared.tracker {
            Some(tracker) => {
                let (ledger, elapsed) = tracker.snapshot();
                ledger.report(NAME, elapsed, true)
            }
            None => {
                let live = self.shared.table.live(None);
                Ledger::of_live(live).report(NAME, Duration::ZERO, false)
            }
        };
        let ids: Vec<u64> = self.shared.open_devices.lock().keys().copied().collect();
        let open = ids.into_iter().filter_map(|id| self.shared.open_device(id).ok());
        open.fold(report, |report, device| report.with_cached(device.inner().cached()))
    }

    fn absence(&self) -> Absence<'_> {
        Absence {
            searched: &self.searched,
            candidates: &self.candidates,
            selections: self.selections.clone(),
            excluded: self.excluded.iter().collect(),
        }
    }
}

impl HostShared {
    /// The open device with this id.
    ///
    pub(crate) fn note_open(&self, id: u64, device: &Arc<DeviceInner>) {
        let mut open = self.open_devices.lock();
        open.insert(id, Arc::downgrade(device));
        self.open_count.store(open.len(), Ordering::Release);
    }

    pub(crate) fn note_closed(&self, id: u64) {
        let mut open = self.open_devices.lock();
        open.remove(&id);
        self.open_count.store(open.len(), Ordering::Release);
    }

    /// # Errors
    /// `InvalidDevice` if it is not open any more.
    pub(crate) fn open_device(&self, id: u64) -> Result<Device> {
        let inner = self.open_devices.lock().get(&id).and_then(Weak::upgrade);
        inner.map(Device::from_inner).ok_or_else(|| {
            Error::new(ErrorCode::InvalidDevice, "the device of this memory was closed")
        })
    }
}

impl DeviceEntry {
    /// "cuda:0 (NVIDIA H200)".
    pub fn name(&self) -> String {
        self.facts.to_string()
    }

    /// What it is selected by.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// The plugin's file.
    pub fn plugin_path(&self) -> &Path {
        self.plugin.path()
    }

    /// Whether its plugin runs in a process of its own. Then neither process can read the memory of
    /// the other, but for host and managed memory of the device.
    pub fn is_isolated(&self) -> bool {
        self.plugin.is_isolated()
    }

    /// What the plugin says of itself.
    pub fn plugin(&self) -> &PluginDescription {
        self.plugin.description()
    }

    /// Answers a query without opening it. LLVM: `olGetDeviceInfo`.
    ///
    /// # Errors
    /// `Unimplemented` if the device has no answer.
    pub fn info(&self, query: DeviceInfo) -> Result<InfoValue> {
        self.plugin.platform().device_info(self.facts.index, query)
    }

    /// Answers a query about its platform. LLVM: `olGetPlatformInfo`.
    ///
    /// # Errors
    /// `Unimplemented` if the platform has no answer.
    pub fn platform_info(&self, query: PlatformInfo) -> Result<String> {
        self.plugin.platform().info(query)
    }

    /// Opens it; the same device again while it is open. May block.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn open(&self) -> Result<Device> {
        let mut opened = self.opened.lock();
        if let Some(inner) = opened.upgrade().filter(|inner| !inner.remote.is_closed()) {
            return Ok(Device::from_inner(inner));
        }
        let device = Device::open(&self.host, &self.plugin, &self.facts)?;
        *opened = device.downgrade();
        Ok(device)
    }
}

impl HostBuilder {
    /// Uses these variables instead of the process's own.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// A plugin, or a folder of plugins, that is searched before all others.
    #[must_use]
    pub fn plugin(mut self, path: impl Into<PathBuf>) -> Self {
        self.plugins.push(path.into());
        self
    }

    /// Searches no folder that neither the program nor `LONGSHORE_PLUGIN_PATH` named.
    #[must_use]
    pub fn only_given_plugins(mut self) -> Self {
        self.only_given_plugins = true;
        self
    }

    /// The backends that the program can use: "cuda,host". The user's `LONGSHORE_BACKEND` holds as
    /// well: a backend must be named by both.
    #[must_use]
    pub fn backends(mut self, selection: impl Into<String>) -> Self {
        self.backends = Some(selection.into());
        self
    }

    /// As [`HostBuilder::backends`], but a backend that has no plugin is no error.
    #[must_use]
    pub fn backends_if_there(mut self, selection: impl Into<String>) -> Self {
        self.backends_may_be_missing = true;
        self.backends(selection)
    }

    /// The devices that the program can use: "cuda:0,2;!vulkan:*llvmpipe*". The user's
    /// `LONGSHORE_DEVICES` holds as well: a device must be named by both.
    #[must_use]
    pub fn devices(mut self, selection: impl Into<String>) -> Self {
        self.devices = Some(selection.into());
        self
    }

    /// Tries each plugin in a process of its own before it is loaded, whatever `LONGSHORE_PROBE`
    /// says.
    #[must_use]
    pub fn probe(mut self, probe: Probe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Runs the plugins of these backends, "cuda,vulkan" or "all", in processes of their own, besides those that the user's
    /// `LONGSHORE_ISOLATE` names. If such a process ends, whatever the cause, its devices answer with an error that says so, and
    /// can be opened again. What it costs is said in `docs/isolation.md`.
    #[must_use]
    pub fn isolate(mut self, selection: impl Into<String>) -> Self {
        self.isolate.backends.push(selection.into());
        self
    }

    /// How long a call to an isolated plugin may take, what waits for kernels too, whatever `LONGSHORE_ISOLATE_TIME_LIMIT` says. Then
    /// its process is killed. Time in which it waits for the program's own functions does not count.
    #[must_use]
    pub fn isolate_time_limit(mut self, limit: Duration) -> Self {
        self.isolate.time_limit = Some(limit);
        self
    }

    /// The rights of the processes of isolated plugins, whatever `LONGSHORE_ISOLATE_SANDBOX` says.
    #[must_use]
    pub fn isolate_sandbox(mut self, sandbox: IsolateSandbox) -> Self {
        self.isolate.sandbox = Some(sandbox);
        self
    }

    /// The resources of each process of an isolated plugin. A limit that is set here goes before the same of
    /// `LONGSHORE_ISOLATE_LIMITS`.
    #[must_use]
    pub fn isolate_limits(mut self, limits: IsolateLimits) -> Self {
        self.isolate.limits = limits;
        self
    }

    /// How long it may take until an isolated plugin is opened and connected, and until it answers each query before a device is
    /// opened, whatever `LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT` says; usually 10 s. Then its process is killed.
    #[must_use]
    pub fn isolate_connect_time_limit(mut self, limit: Duration) -> Self {
        self.isolate.connect_time_limit = Some(limit);
        self
    }

    /// Shares no memory with isolated plugins: all goes over a socket. Host and managed memory are `Unsupported` then.
    #[must_use]
    pub fn isolate_without_shared_memory(mut self) -> Self {
        self.isolate.is_bare = true;
        self
    }

    /// The executable in which isolated plugins run, whatever `LONGSHORE_EXECUTOR` says.
    #[must_use]
    pub fn executor(mut self, executable: impl Into<PathBuf>) -> Self {
        self.isolate.executor = Some(executable.into());
        self
    }

    /// How many bytes of freed memory each device keeps for reuse; 256 MiB by default, 0 for none.
    #[must_use]
    pub fn cache_limit(mut self, bytes: u64) -> Self {
        self.cache_limit = Some(bytes);
        self
    }

    /// Tracks memory, whatever `LONGSHORE_TRACK` says: counts each allocation by the place in the
    /// program, keeps its call stack while it is live, and prints what leaked to standard error
    /// when its device closes. Costs some microseconds for each allocation; nothing if it is off.
    #[must_use]
    pub fn track(mut self, track: bool) -> Self {
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
        let environment = self.environment.clone().unwrap_or_else(Environment::of_process);
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
            true => selection.map(BackendSelection::if_there),
            false => selection,
        })
    }
}

/// All devices of the connected plugins. One that breaks a bound has none, and its candidate says why.
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

/// The devices that every selection names, in the order of the first, and the others.
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
        let named = selection.clone().backends_first(backends_ordered).select(&facts)?;
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
