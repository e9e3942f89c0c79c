//! A platform whose devices belong to another process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use longshore_plugin_api::{Description, DeviceInfo, InfoValue, PlatformInfo, Result, bounds};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::device::IsolatedDevice;
use super::isolation::Isolation;
use super::link::Link;
use crate::plugin::interface::messages::PlatformCall;
use crate::plugin::protocol::Request;

/// The platform of a plugin in another process. If the process is gone, opening a device starts
/// another.
pub struct IsolatedPlatform {
    isolation: Isolation,
    description: Description<String>,
    devices: u32,
    link: Mutex<Arc<Link>>,
    process: IsolatedProcess,
    /// Whether a device was opened: afterwards a reply may have to wait for kernels.
    was_opened: AtomicBool,
    /// Earlier replies. Only the reply to a query of free memory changes.
    platform_facts: Mutex<HashMap<PlatformInfo, Result<String>>>,
    device_facts: Mutex<HashMap<(u32, DeviceInfo), Result<InfoValue>>>,
}

/// The process that runs a plugin; a restart changes its number.
#[derive(Debug, Clone, Default)]
pub struct IsolatedProcess(Arc<AtomicU32>);

impl PartialEq for IsolatedProcess {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl IsolatedProcess {
    /// Returns the process's number.
    pub fn id(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl IsolatedPlatform {
    pub(super) fn new(
        isolation: Isolation,
        link: Arc<Link>,
        description: Description<String>,
        devices: u32,
    ) -> Self {
        let process = IsolatedProcess::default();
        process.0.store(link.process(), Ordering::Relaxed);
        Self {
            isolation,
            description,
            devices,
            link: Mutex::new(link),
            process,
            was_opened: AtomicBool::new(false),
            platform_facts: Mutex::default(),
            device_facts: Mutex::default(),
        }
    }

    /// Returns the plugin's description of itself.
    pub fn description(&self) -> &Description<String> {
        &self.description
    }

    /// Returns the process that runs the plugin. The value remains valid when the platform is
    /// moved.
    pub fn process(&self) -> IsolatedProcess {
        self.process.clone()
    }

    /// Returns the process that runs the plugin, after starting another one if it is gone.
    fn link(&self) -> Result<Arc<Link>> {
        let mut link = self.link.lock();
        if !link.is_alive() {
            *link = self.isolation.reopen(self.devices)?;
            self.process.0.store(link.process(), Ordering::Relaxed);
        }
        Ok(Arc::clone(&link))
    }

    /// Queries the platform or a device. Before a device is opened, the limit of connecting
    /// applies.
    fn ask<T: DeserializeOwned>(&self, link: &Link, request: &Request<'_>) -> Result<T> {
        match self.was_opened.load(Ordering::Relaxed) {
            true => link.ask(request),
            false => self.isolation.ask(link, request),
        }
    }
}

/// Returns whether a reply is final: the process is alive, or it was given up for silence and would
/// be silent again.
fn is_final(link: &Link) -> bool {
    link.is_alive() || link.silence().is_some()
}

/// Returns the answer to a query about a device as it holds for this process, whose memory the
/// device's process does not have.
fn from_here(query: DeviceInfo, value: InfoValue) -> InfoValue {
    match query {
        DeviceInfo::HostAccess | DeviceInfo::UnifiedMemory => InfoValue::Bool(false),
        _ => value,
    }
}

/// Methods written by hand.
impl IsolatedPlatform {
    pub(in crate::plugin) fn info_there(&self, query: PlatformInfo) -> Result<String> {
        if let Some(known) = self.platform_facts.lock().get(&query) {
            return known.clone();
        }
        let link = self.link()?;
        let reply = self.ask::<String>(&link, &Request::Platform(PlatformCall::Info { query }));
        let reply = reply.and_then(|text| {
            let place = format_args!("longshore.platform, info {query:?}");
            bounds::reply(link.backend(), place, &text).map(|()| text)
        });
        if reply.is_ok() || is_final(&link) {
            self.platform_facts.lock().insert(query, reply.clone());
        }
        reply
    }

    pub(in crate::plugin) fn device_count_there(&self) -> u32 {
        self.devices
    }

    pub(in crate::plugin) fn device_info_there(
        &self,
        index: u32,
        query: DeviceInfo,
    ) -> Result<InfoValue> {
        if let Some(known) = self.device_facts.lock().get(&(index, query)) {
            return known.clone();
        }
        let link = self.link()?;
        let request = Request::Platform(PlatformCall::DeviceInfo { index, query });
        let reply = self.ask::<InfoValue>(&link, &request);
        let reply = reply.and_then(|value| {
            let place = format_args!("longshore.platform, device_info {query:?} of device {index}");
            bounds::value(link.backend(), place, query, &value).map(|()| from_here(query, value))
        });
        if query != DeviceInfo::FreeMemory && (reply.is_ok() || is_final(&link)) {
            self.device_facts.lock().insert((index, query), reply.clone());
        }
        reply
    }

    pub(in crate::plugin) fn open_there(&self, index: u32) -> Result<IsolatedDevice> {
        let link = self.link()?;
        self.was_opened.store(true, Ordering::Relaxed);
        let id = link.ask(&Request::Platform(PlatformCall::Open { index }))?;
        Ok(IsolatedDevice::new(link, id))
    }
}
