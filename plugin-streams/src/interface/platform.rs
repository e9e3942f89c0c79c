//! Implementation of the plugin interface for the platform.

use super::Complete;
use crate::backend::Physical;
use crate::device::StreamDevice;
use crate::platform::StreamPlatform;
use longshore_plugin_api::{DeviceInfo, InfoValue, Platform, PlatformInfo, Result};

impl<B: Complete> Platform<B> for StreamPlatform<B> {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        B::platform_info(&self.driver, query)
    }

    fn device_count(&self) -> u32 {
        self.devices.len() as u32
    }

    /// Answers a query about a device. [`DeviceInfo::FreeMemory`] creates the device's context for
    /// the duration of the call if the device is not open, and blocks meanwhile.
    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let physical = &self.devices[index as usize];
        match query {
            DeviceInfo::FreeMemory => self.free_bytes(physical).map(InfoValue::U64),
            _ => physical.facts().info(query),
        }
    }

    fn open(&self, index: u32) -> Result<StreamDevice<B>> {
        StreamDevice::open(&self.driver, &self.devices[index as usize], &self.settings)
    }
}
