//! A platform whose devices are another process's.

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

/// The platform of a plugin in another process. If that is gone, opening a device starts another.
pub struct IsolatedPlatform {
    isolation: Isolation,
    description: Description<String>,
    devices: u32,
    link: Mutex<Arc<Link>>,
    process: IsolatedProcess,
    /// Whether a device was opened: then an answer may have to wait for kernels.
    was_opened: AtomicBool,
    /// What was asked before. But for free memory, answers do not change.
    platform_facts: Mutex<HashMap<PlatformInfo, Result<String>>>,
    device_facts: Mutex<HashMap<(u32, DeviceInfo), Result<InfoValue>>>,
}

/// The process that has a plugin, which may become another one.
#[derive(Debug, Clone, Default)]
pub struct IsolatedProcess(Arc<AtomicU32>);

impl PartialEq for IsolatedProcess {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl IsolatedProcess {
    /// Its number.
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

    /// What the plugin says of itself.
    pub fn description(&self) -> &Description<String> {
        &self.description
    }

    /// The process that has the plugin, also when this was given away.
    pub fn process(&self) -> IsolatedProcess {
        self.process.clone()
    }

    /// The process that has the plugin: another one if it is gone.
    fn link(&self) -> Result<Arc<Link>> {
        let mut link = self.link.lock();
        if !link.is_alive() {
            *link = self.isolation.reopen(self.devices)?;
            self.process.0.store(link.process(), Ordering::Relaxed);
        }
        Ok(Arc::clone(&link))
    }

    /// Asks about the platform or a device, which takes no longer than connecting may as long as no device was opened.
    fn ask<T: DeserializeOwned>(&self, link: &Link, request: &Request<'_>) -> Result<T> {
        match self.was_opened.load(Ordering::Relaxed) {
            true => link.ask(request),
            false => self.isolation.ask(link, request),
        }
    }
}

/// Whether a process that was asked something still stands, or would not answer it the next time either.
fn is_final(link: &Link) -> bool {
    link.is_alive() || link.silence().is_some()
}

/// The methods that are written by hand.
impl IsolatedPlatform {
    pub(in crate::plugin) fn info_there(&self, query: PlatformInfo) -> Result<String> {
        if let Some(known) = self.platform_facts.lock().get(&query) {
            return known.clone();
        }
        let link = self.link()?;
        let answer = self.ask::<String>(&link, &Request::Platform(PlatformCall::Info { query }));
        let answer = answer.and_then(|text| {
            let place = format_args!("longshore.platform, info {query:?}");
            bounds::answer(link.backend(), place, &text).map(|()| text)
        });
        if answer.is_ok() || is_final(&link) {
            self.platform_facts.lock().insert(query, answer.clone());
        }
        answer
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
        let answer = self.ask::<InfoValue>(&link, &request);
        let answer = answer.and_then(|value| {
            let place = format_args!("longshore.platform, device_info {query:?} of device {index}");
            bounds::value(link.backend(), place, query, &value).map(|()| value)
        });
        if query != DeviceInfo::FreeMemory && (answer.is_ok() || is_final(&link)) {
            self.device_facts.lock().insert((index, query), answer.clone());
        }
        answer
    }

    pub(in crate::plugin) fn open_there(&self, index: u32) -> Result<IsolatedDevice> {
        let link = self.link()?;
        self.was_opened.store(true, Ordering::Relaxed);
        let id = link.ask(&Request::Platform(PlatformCall::Open { index }))?;
        Ok(IsolatedDevice::new(link, id))
    }
}
