//! The host: what plugins and devices there are.

mod builder;
pub(crate) mod shared;

pub use builder::HostBuilder;

use crate::PluginDescription;
use crate::absence::Absence;
use crate::device::Device;
use crate::device::core::DeviceCore;
use crate::discovery::{Candidate, LoadedPlugin};
use crate::image::Image;
use crate::memory::{AllocationInfo, DevicePointer, Ledger, MemoryReport};
use crate::selection::{DeviceFacts, DeviceSelection};
use longshore_plugin_api::{
    DeviceInfo, Error, ErrorCode, InfoValue, Platform as _, PlatformInfo, Result,
};
use parking_lot::Mutex;
use shared::HostShared;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The plugins that were found and the devices that were selected. LLVM: `olInit` and
/// `olIterateDevices`.
///
/// Several may live in one process. Dropping one does not close devices that are still in use.
///
/// ```
/// use longshore::{ErrorCode, Host};
///
/// let host = Host::new()?;
/// for entry in host.devices() {
///     println!("{}: {}", entry.name(), entry.plugin_path().display());
/// }
/// match host.default_device() {
///     Ok(device) => assert_eq!(device.name(), host.devices()[0].name()),
///     // The message has every plugin that was found, with the reason.
///     Err(error) => assert_eq!(error.code(), ErrorCode::NotFound),
/// }
/// # Ok::<(), longshore::Error>(())
/// ```
pub struct Host {
    shared: Arc<HostShared>,
    candidates: Vec<Candidate>,
    searched: Vec<PathBuf>,
    devices: Vec<DeviceEntry>,
    excluded: Vec<DeviceFacts>,
    /// The selection that left the devices out, as messages call it.
    selections: Vec<String>,
}

/// A device that is there, open or not.
///
/// ```
/// let host = longshore::Host::new()?;
/// // Queries open no device.
/// let bytes = |entry: &&longshore::DeviceEntry| entry.global_memory_bytes().unwrap_or(0);
/// if let Some(largest) = host.devices().iter().max_by_key(bytes) {
///     let device = largest.open()?;
///     assert_eq!(device.backend(), largest.facts().backend);
///     assert_eq!(device.id(), largest.open()?.id());
/// }
/// # Ok::<(), longshore::Error>(())
/// ```
pub struct DeviceEntry {
    facts: DeviceFacts,
    plugin: Arc<LoadedPlugin>,
    host: Arc<HostShared>,
    opened: Mutex<Weak<DeviceCore>>,
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

    /// Returns every file that was considered as a plugin, and what became of it, in search order.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Returns the files and folders that were searched for plugins, in order, there or not.
    pub fn searched(&self) -> &[PathBuf] {
        &self.searched
    }

    /// Returns the selected devices, in order of preference.
    pub fn devices(&self) -> &[DeviceEntry] {
        &self.devices
    }

    /// Returns the devices of connected plugins that the selection leaves out.
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
        Err(Error::new(first.code(), messages.join("\n")).with_source(first.clone()))
    }

    /// Returns the live allocation or global that an address lies in, on whichever device. O(log n).
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
        let device = Device::from_id(&self.shared, block.device)?;
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
                Ledger::from_live(live).report(NAME, Duration::ZERO, false)
            }
        };
        let open = Device::all_open(&self.shared);
        open.fold(report, |report, device| report.with_cached(device.core().cached()))
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

impl DeviceEntry {
    /// "cuda:0 (NVIDIA H200)".
    pub fn name(&self) -> String {
        self.facts.to_string()
    }

    /// What it is selected by.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Returns the plugin's file.
    pub fn plugin_path(&self) -> &Path {
        self.plugin.path()
    }

    /// Returns whether its plugin runs in a process of its own. Then neither process can read the memory of
    /// the other, but for host and managed memory of the device.
    pub fn is_isolated(&self) -> bool {
        self.plugin.is_isolated()
    }

    /// What the plugin says of itself.
    pub fn plugin(&self) -> &PluginDescription {
        self.plugin.description()
    }

    /// Answers a query without opening it. A getter, such as [`DeviceEntry::compute_units`], returns
    /// the answer in its own type. LLVM: `olGetDeviceInfo`.
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
        if let Some(core) = opened.upgrade().filter(|core| !core.remote.is_closed()) {
            return Ok(Device::from_core(core));
        }
        let device = Device::open(&self.host, &self.plugin, &self.facts)?;
        *opened = device.downgrade();
        Ok(device)
    }
}
