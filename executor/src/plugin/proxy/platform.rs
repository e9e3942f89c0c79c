//! A platform whose devices are another process's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use longshore_plugin_api::{DeviceInfo, InfoValue, Platform, PlatformInfo, Result};
use parking_lot::Mutex;

use super::Isolated;
use super::device::IsolatedDevice;
use super::isolation::{IsolatedDescription, Isolation};
use super::link::Link;
use crate::plugin::protocol::Request;

/// The platform of a plugin in another process. If that is gone, opening a device starts another.
pub struct IsolatedPlatform {
    isolation: Isolation,
    description: IsolatedDescription,
    devices: u32,
    link: Mutex<Arc<Link>>,
    process: IsolatedProcess,
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
        description: IsolatedDescription,
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
            platform_facts: Mutex::default(),
            device_facts: Mutex::default(),
        }
    }

    /// What the plugin says of itself.
    pub fn description(&self) -> &IsolatedDescription {
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
}

impl Platform<Isolated> for IsolatedPlatform {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        if let Some(known) = self.platform_facts.lock().get(&query) {
            return known.clone();
        }
        let link = self.link()?;
        let answer = link.ask(&Request::PlatformInfo { query: query as u32 });
        if answer.is_ok() || link.is_alive() {
            self.platform_facts.lock().insert(query, answer.clone());
        }
        answer
    }

    fn device_count(&self) -> u32 {
        self.devices
    }

    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        if let Some(known) = self.device_facts.lock().get(&(index, query)) {
            return known.clone();
        }
        let link = self.link()?;
        let answer = link.ask::<Vec<u8>>(&Request::DeviceInfo { index, query: query as u32 });
        let answer = answer.and_then(|bytes| InfoValue::from_bytes(query.value_type(), &bytes));
        if query != DeviceInfo::FreeMemory && (answer.is_ok() || link.is_alive()) {
            self.device_facts.lock().insert((index, query), answer.clone());
        }
        answer
    }

    fn open(&self, index: u32) -> Result<IsolatedDevice> {
        let link = self.link()?;
        let id = link.ask(&Request::Open { index })?;
        Ok(IsolatedDevice::new(link, id))
    }
}
