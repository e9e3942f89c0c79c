//! The host: the plugins found and their devices.

mod builder;
pub(crate) mod shared;

pub use builder::HostBuilder;

use crate::PluginDescription;
use crate::absence::{Absence, with_faults};
use crate::device::Device;
use crate::device::core::DeviceCore;
use crate::discovery::{Candidate, LoadedPlugin};
use crate::image::{BitcodeHeader, Format, Image};
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

/// The plugins found at run time and the devices selected among theirs. LLVM: `olInit` and
/// `olIterateDevices`.
///
/// A process may have several hosts. Dropping a host does not close devices that are still in use.
/// Any thread may call the methods.
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
    /// The selections that excluded devices, in the wording of messages.
    selections: Vec<String>,
}

/// A device of a connected plugin, open or not. Any thread may call the methods.
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
    /// Creates a host: finds plugins and devices as the variables of
    /// [`Environment`](crate::Environment) direct. Blocks while plugins load and drivers start.
    ///
    /// # Errors
    /// `NotFound` if `LONGSHORE_BACKEND` or `LONGSHORE_DEVICES` names a backend or device that does
    /// not exist; the message lists the existing ones. `InvalidValue` if a variable cannot be
    /// parsed, or a plugin refuses a setting of the user or the program. A host without any device
    /// is no error.
    pub fn new() -> Result<Host> {
        Host::builder().build()
    }

    /// Returns a builder for a host with choices beyond the environment's.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Returns every file that was considered as a plugin, with its outcome, in search order.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Returns the files and folders that were searched for plugins, in order. Missing files and
    /// folders are included.
    pub fn searched(&self) -> &[PathBuf] {
        &self.searched
    }

    /// Returns the selected devices, in order of preference.
    pub fn devices(&self) -> &[DeviceEntry] {
        &self.devices
    }

    /// Returns the devices of connected plugins that the selection excludes.
    pub fn excluded(&self) -> &[DeviceFacts] {
        &self.excluded
    }

    /// Returns the reason for having no device, for a host without devices.
    #[doc(hidden)]
    pub fn why_no_device(&self) -> String {
        self.absence().cause()
    }

    /// Opens the first selected device. May block while its driver starts.
    ///
    /// # Errors
    /// `NotFound` if there is no selected device; the message has the outcome of each plugin, the
    /// places searched, or the selection that excludes all devices. Errors of the driver.
    pub fn default_device(&self) -> Result<Device> {
        match self.devices.first() {
            Some(entry) => entry.open(),
            None => Err(self.absence().error()),
        }
    }

    /// Opens the first of this host's devices that a selection such as "cuda:1" or
    /// "vulkan:*llvmpipe*" names; [`DeviceSelection`] has the grammar. May block while the driver
    /// starts.
    ///
    /// # Errors
    /// `NotFound` if an entry of the selection matches no device; the message has the plugins that
    /// failed. `InvalidValue` if the selection cannot be parsed; errors of the driver.
    pub fn device(&self, selection: &str) -> Result<Device> {
        let facts: Vec<_> = self.devices.iter().map(|entry| entry.facts.clone()).collect();
        let selected = DeviceSelection::parse(selection)?.select(&facts);
        let selected = selected.map_err(|error| with_faults(error, &self.candidates))?;
        match selected.first() {
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

    /// Opens the first selected device that can load the image, or an image of the container.
    /// Devices that fail to open are skipped. May block while drivers start. LLVM:
    /// `olIsValidBinary` for each device.
    ///
    /// # Errors
    /// `NotFound` if there is no selected device, `InvalidBinary` for damaged bitcode. If no device
    /// can load the image, the code of the first device's error, with the messages of all devices
    /// and the reasons of the plugins that failed.
    pub fn device_for(&self, image: &Image) -> Result<Device> {
        if !self.devices.is_empty()
            && image.format() == Format::Bitcode
            && let Err(why) = BitcodeHeader::read(image.bytes())
        {
            // No device's own reason counts.
            let bytes = image.bytes().len();
            let message = format!("no device can load this image ({bytes} bytes): {why}");
            return Err(Error::new(ErrorCode::InvalidBinary, message));
        }
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
        let error = Error::new(first.code(), messages.join("\n")).with_source(first.clone());
        Err(with_faults(error, &self.candidates))
    }

    /// Returns the live allocation or global that contains an address, on any device of this host.
    /// Takes O(log n) time and does not call the driver. LLVM: `olGetMemInfo`.
    ///
    /// # Errors
    /// `NotFound` if no live allocation contains the address.
    pub fn allocation_at(&self, address: DevicePointer) -> Result<AllocationInfo> {
        self.shared.table.find(address.address()).ok_or_else(|| {
            let message = format!("{:#x} is in no live allocation", address.address());
            Error::new(ErrorCode::NotFound, message)
        })
    }

    /// Frees an allocation that [`Allocation::into_raw`](crate::Allocation::into_raw) released from
    /// its owner. Does not wait for work: memory in use by queued work is reused only after that
    /// work is done. LLVM: `olMemFree`.
    ///
    /// # Errors
    /// `InvalidArgument` if `address` is not the first address of a live allocation. Errors of the
    /// driver, if the memory is not kept for reuse; the allocation is gone even then.
    ///
    /// # Safety
    /// No [`Allocation`](crate::Allocation) or [`Buffer`](crate::Buffer) owns the memory, and only
    /// work that was queued before this call still uses the memory.
    pub unsafe fn free(&self, address: DevicePointer) -> Result<()> {
        let table = &self.shared.table;
        let not_live = || table.not_live(address.address());
        let block = table.block_at(address.address()).ok_or_else(not_live)?;
        let device = Device::from_id(&self.shared, block.device)?;
        if device.release(block)? { Ok(()) } else { Err(not_live()) }
    }

    /// Returns a report of the allocations on all devices of this host, closed devices included,
    /// and of the freed memory that open devices keep for reuse. Without tracking the report covers
    /// live allocations only.
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
    /// Returns the plugin that provides the device.
    pub(crate) fn loaded_plugin(&self) -> &Arc<LoadedPlugin> {
        &self.plugin
    }

    /// Returns the device's backend, index and name as one text: "cuda:0 (NVIDIA H200)".
    pub fn name(&self) -> String {
        self.facts.to_string()
    }

    /// Returns the facts by which selections match the device.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Returns the path of the plugin's file; for a plugin that is linked into the program, of the
    /// executable or library that contains it.
    pub fn plugin_path(&self) -> &Path {
        self.plugin.path()
    }

    /// Returns whether the plugin runs in a process of its own. In that case neither process can
    /// read the memory of the other, except host and managed memory of the device.
    pub fn is_isolated(&self) -> bool {
        self.plugin.is_isolated()
    }

    /// Returns whether the plugin is linked into the program.
    pub fn is_linked(&self) -> bool {
        self.plugin.is_linked()
    }

    /// Returns the plugin's description of itself.
    pub fn plugin(&self) -> &PluginDescription {
        self.plugin.description()
    }

    /// Returns the answer to a query, without opening the device. For each query a getter, such as
    /// [`DeviceEntry::compute_units`], returns the answer in its own type. LLVM: `olGetDeviceInfo`.
    ///
    /// # Errors
    /// `Unimplemented` if the device has no answer; errors of the driver.
    pub fn info(&self, query: DeviceInfo) -> Result<InfoValue> {
        self.plugin.platform().device_info(self.facts.index, query)
    }

    /// Returns the answer to a query about the device's platform. LLVM: `olGetPlatformInfo`.
    ///
    /// # Errors
    /// `Unimplemented` if the platform has no answer; errors of the driver.
    pub fn platform_info(&self, query: PlatformInfo) -> Result<String> {
        self.plugin.platform().info(query)
    }

    /// Opens the device. While the device is open, further calls return handles to the same device.
    /// May block while the driver starts.
    ///
    /// # Errors
    /// Errors of the driver.
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
