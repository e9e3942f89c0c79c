//! The platform: facts about the devices, before they are opened.

use crate::AcmePlugin;
use crate::device::AcmeDevice;
use longshore_plugin_api::{
    DeviceInfo, DeviceType, InfoValue, Platform, PlatformInfo, Plugin, Result,
};

/// The connected platform. Your driver: put its handle here.
pub struct AcmePlatform {
    pub(crate) device_count: u32,
    /// Size of the memory of each device.
    pub(crate) memory_bytes: u64,
}

impl Platform<AcmePlugin> for AcmePlatform {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        let description = AcmePlugin::DESCRIPTION;
        Ok(match query {
            PlatformInfo::Name => "Acme".to_owned(),
            PlatformInfo::VendorName => description.vendor.to_owned(),
            // Your driver: its version.
            PlatformInfo::Version => description.version.to_owned(),
            query => return Err(query.unanswered_by("acme")),
        })
    }

    fn device_count(&self) -> u32 {
        self.device_count
    }

    // Your driver: answer each query from the driver's properties of the device. Queries without
    // an answer are `unanswered_by` (P-20).
    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        Ok(match query {
            DeviceInfo::Type => DeviceType::Gpu.into(),
            DeviceInfo::Name | DeviceInfo::ProductName => "Acme device".into(),
            // A name that no other device of the machine has (P-21): a UUID or a PCI address.
            DeviceInfo::Uid => InfoValue::Text(format!("acme-{index}")),
            DeviceInfo::Vendor => "Acme".into(),
            DeviceInfo::DriverVersion => AcmePlugin::DESCRIPTION.version.into(),
            DeviceInfo::NumComputeUnits => 1u32.into(),
            DeviceInfo::MaxWorkGroupSize => 1024u32.into(),
            DeviceInfo::AddressBits => 64u32.into(),
            DeviceInfo::GlobalMemSize | DeviceInfo::MaxMemAllocSize => self.memory_bytes.into(),
            _ => return Err(query.unanswered_by("acme")),
        })
    }

    // Your driver: create its context here. Each device can be opened again, also while it is
    // open (P-60).
    fn open(&self, index: u32) -> Result<AcmeDevice> {
        Ok(AcmeDevice::new(index, self.memory_bytes))
    }
}
