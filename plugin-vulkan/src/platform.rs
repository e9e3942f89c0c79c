//! The platform: which devices there are.

use crate::device::DeviceSettings;
use crate::instance::{Instance, NoInstance, Validation, Version};
use crate::physical::{Physical, Unfit};
use crate::{VulkanBackend, VulkanDevice};
use longshore_plugin_api::{
    Connected, DeviceInfo, Error, ErrorCode, InfoValue, Platform, PlatformInfo, Result,
};
use std::path::PathBuf;
use std::sync::Arc;

/// The devices that Vulkan's loader knows and that can be used, in its order.
///
/// LLVM has no such platform.
pub struct VulkanPlatform {
    instance: Arc<Instance>,
    devices: Vec<Arc<Physical>>,
    settings: DeviceSettings,
}

/// What the user set.
#[derive(Default)]
pub(crate) struct Settings {
    /// `VALIDATION`: `1` logs what the validation layer says, `strict` makes it an error; off.
    validation: Validation,
    device: DeviceSettings,
}

impl Settings {
    /// Reads the settings: `VALIDATION`, `CACHE`, `STAGING`.
    ///
    /// # Errors
    /// `InvalidValue` for one that cannot be understood.
    pub(crate) fn read(setting: impl Fn(&str) -> Option<String>) -> Result<Settings> {
        let validation = match setting("VALIDATION").as_deref().map(str::trim) {
            None | Some("0" | "off") => Validation::Off,
            Some("1" | "on") => Validation::Log,
            Some("strict") => Validation::Strict,
            Some(other) => return Err(unknown("VALIDATION", other, "1, strict or 0")),
        };
        let always_stage = match setting("STAGING").as_deref().map(str::trim) {
            None | Some("0" | "auto") => false,
            Some("1" | "always") => true,
            Some(other) => return Err(unknown("STAGING", other, "always or auto")),
        };
        let cache = setting("CACHE").map(PathBuf::from);
        Ok(Settings { validation, device: DeviceSettings { cache, always_stage } })
    }
}

impl VulkanPlatform {
    /// Looks for Vulkan's loader and its devices.
    pub(crate) fn connect(settings: &Settings) -> Result<Connected<VulkanPlatform>> {
        let instance = match Instance::new(settings.validation) {
            Ok(instance) => instance,
            Err(NoInstance::NoLoader(why) | NoInstance::NoDriver(why)) => {
                return Ok(Connected::NoDriver(why));
            }
            Err(NoInstance::Failed(error)) => return Err(error),
        };
        let (mut devices, mut passed_over) = (Vec::new(), Vec::new());
        for raw in instance.physical_devices()? {
            match Physical::query(&instance, raw) {
                Ok(physical) => devices.push(Arc::new(physical)),
                Err(Unfit(why)) => passed_over.push(why),
            }
        }
        for why in &passed_over {
            log::info!("passed over: {why}");
        }
        if devices.is_empty() {
            let why = match passed_over.is_empty() {
                true => "Vulkan has no device".to_owned(),
                false => format!("Vulkan has no usable device: {}", passed_over.join("; ")),
            };
            return Ok(Connected::NoDevice(why));
        }
        let settings = settings.device.clone();
        Ok(Connected::Platform(VulkanPlatform { instance, devices, settings }))
    }
}

impl Platform<VulkanBackend> for VulkanPlatform {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        Ok(match query {
            PlatformInfo::Name => "Vulkan".to_owned(),
            PlatformInfo::VendorName => "Khronos".to_owned(),
            PlatformInfo::Version => Version(self.instance.version).to_string(),
        })
    }

    fn device_count(&self) -> u32 {
        self.devices.len() as u32
    }

    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        self.devices[index as usize].info(index, query)
    }

    fn open(&self, index: u32) -> Result<VulkanDevice> {
        VulkanDevice::open(&self.devices[index as usize], &self.settings)
    }
}

fn unknown(name: &str, value: &str, expected: &str) -> Error {
    let message = format!("LONGSHORE_VULKAN_{name} is '{value}', expected {expected}");
    Error::new(ErrorCode::InvalidValue, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Settings> {
        Settings::read(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn settings_that_are_not_understood_are_refused() {
        assert_eq!(read("VALIDATION", "strict").unwrap().validation, Validation::Strict);
        assert_eq!(read("VALIDATION", "0").unwrap().validation, Validation::Off);
        assert!(read("STAGING", "always").unwrap().device.always_stage);
        for (name, value) in [("VALIDATION", "maybe"), ("STAGING", "")] {
            let error = read(name, value).err().unwrap();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            assert!(error.message().contains(name), "{error}");
        }
    }
}
