//! The platform: the list of devices.

use crate::device_core::DeviceSettings;
use crate::instance::{Instance, InstanceError, Validation, Version};
use crate::physical::{PhysicalDevice, Unsuitable};
use crate::validate::Validator;
use crate::{VulkanBackend, VulkanDevice};
use longshore_plugin_api::{
    Connected, DeviceInfo, Error, ErrorCode, InfoValue, Platform, PlatformInfo, Result,
};
use std::path::PathBuf;
use std::sync::Arc;

/// The usable devices of Vulkan's loader, in its order.
///
/// LLVM has no equivalent.
pub struct VulkanPlatform {
    instance: Arc<Instance>,
    devices: Vec<Arc<PhysicalDevice>>,
    settings: DeviceSettings,
}

/// The user's settings.
pub(crate) struct Settings {
    /// `VALIDATION`: `1` logs the messages of the validation layer, `strict` makes them errors; off
    /// by default.
    validation: Validation,
    device: DeviceSettings,
}

impl Settings {
    /// Reads the settings: `VALIDATION`, `VALIDATOR`, `CACHE`, `STAGING`.
    ///
    /// # Errors
    /// `InvalidValue` for a malformed setting.
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
        let requires_validator = match setting("VALIDATOR").as_deref().map(str::trim) {
            None | Some("auto") => false,
            Some("require") => true,
            Some(other) => return Err(unknown("VALIDATOR", other, "require or auto")),
        };
        let cache = setting("CACHE").map(PathBuf::from);
        let validator = Arc::new(Validator::new(requires_validator, cache.as_deref()));
        Ok(Settings { validation, device: DeviceSettings { cache, always_stage, validator } })
    }
}

impl VulkanPlatform {
    /// Loads Vulkan's loader and lists its devices.
    pub(crate) fn connect(settings: &Settings) -> Result<Connected<VulkanPlatform>> {
        let instance = match Instance::new(settings.validation) {
            Ok(instance) => instance,
            Err(InstanceError::NoLoader(why) | InstanceError::NoDriver(why)) => {
                return Ok(Connected::NoDriver(why));
            }
            Err(InstanceError::Failed(error)) => return Err(error),
        };
        let (mut devices, mut passed_over) = (Vec::new(), Vec::new());
        for raw in instance.physical_devices()? {
            match PhysicalDevice::query(&instance, raw) {
                Ok(physical) => devices.push(Arc::new(physical)),
                Err(Unsuitable(why)) => passed_over.push(why),
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
        // Only a program that shows this message waits for the search and the test of the
        // validator.
        if log::log_enabled!(log::Level::Info) {
            log::info!("validator of modules: {}", settings.validator.description());
        }
        Ok(Connected::Platform(VulkanPlatform { instance, devices, settings }))
    }
}

impl Platform<VulkanBackend> for VulkanPlatform {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        Ok(match query {
            PlatformInfo::Name => "Vulkan".to_owned(),
            PlatformInfo::VendorName => "Khronos".to_owned(),
            PlatformInfo::Version => Version(self.instance.version).to_string(),
            query => return Err(query.unanswered_by("Vulkan")),
        })
    }

    fn device_count(&self) -> u32 {
        self.devices.len() as u32
    }

    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let value = self.devices[index as usize].info(index, query)?;
        Ok(match (query, value) {
            (DeviceInfo::Properties, InfoValue::Text(lines)) => {
                let validator = self.settings.validator.description();
                InfoValue::Text(format!("{lines}\nvalidator={validator}"))
            }
            (_, value) => value,
        })
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
        for value in ["require", "auto"] {
            read("VALIDATOR", value).unwrap();
        }
        for (name, value) in [("VALIDATION", "maybe"), ("STAGING", ""), ("VALIDATOR", "off")] {
            let error = read(name, value).err().unwrap();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            assert!(error.message().contains(name), "{error}");
        }
    }

    #[cfg(not(feature = "spirv-tools"))]
    mod validators {
        use super::*;
        use crate::validate::Folder;
        use longshore_format_spirv::{Module, Target};
        use longshore_plugin_api::{Acceptance, Device as _, ImageBytes, Loading};
        use std::path::Path;

        const WGSL: &[u8] = b"@compute @workgroup_size(1) fn nothing() {}";

        /// Opens a device that searches for its validator in this folder. `None` without a driver.
        fn device(commands: &Path, is_required: bool) -> Option<(VulkanPlatform, VulkanDevice)> {
            let validator = Validator::looked_for("/nowhere/lib.so", commands, is_required);
            let mut settings = Settings::read(|_| None).unwrap();
            settings.device.validator = Arc::new(validator);
            match VulkanPlatform::connect(&settings).unwrap() {
                Connected::Platform(platform) => {
                    let device = platform.open(0).unwrap();
                    Some((platform, device))
                }
                Connected::NoDriver(why) | Connected::NoDevice(why) => {
                    println!("nothing is tried: {why}");
                    None
                }
            }
        }

        fn spirv() -> Vec<u8> {
            let module = Module::parse(WGSL, Target::new(128)).unwrap();
            module.words().iter().flat_map(|word| word.to_le_bytes()).collect()
        }

        fn load(device: &VulkanDevice, image: &[u8]) -> Result<()> {
            // SAFETY: the image lives until the module is dropped below.
            device.load(unsafe { ImageBytes::new(image) }, Loading::AtOnce).map(drop)
        }

        fn validator(platform: &VulkanPlatform) -> String {
            let InfoValue::Text(lines) = platform.device_info(0, DeviceInfo::Properties).unwrap()
            else {
                panic!("properties are text")
            };
            lines.rsplit_once("\nvalidator=").unwrap().1.to_owned()
        }

        #[test]
        fn spirv_is_verified_only_where_there_is_a_validator() {
            let commands = Folder::with_validator();
            let Some((platform, with)) = device(commands.path(), false) else { return };
            assert_eq!(validator(&platform), commands.path().join("spirv-val").to_str().unwrap());
            assert_eq!(with.accepts(&spirv()).unwrap(), Acceptance::Verified);
            load(&with, &spirv()).unwrap();
            let Some((platform, without)) = device(Path::new("/nowhere"), false) else { return };
            assert!(validator(&platform).starts_with("none (/nowhere/lib.so: "));
            assert_eq!(without.accepts(&spirv()).unwrap(), Acceptance::Accepted);
            assert_eq!(without.accepts(WGSL).unwrap(), Acceptance::Verified);
            for image in [&spirv(), WGSL] {
                load(&without, image).unwrap();
            }
        }

        #[test]
        fn a_required_validator_that_is_missing_makes_loading_an_error() {
            let Some((_platform, device)) = device(Path::new("/nowhere"), true) else { return };
            for image in [&spirv(), WGSL] {
                let error = load(&device, image).unwrap_err();
                assert_eq!(error.code(), ErrorCode::HostToolNotFound);
                assert!(error.message().contains("package spirv-tools"), "{error}");
            }
        }
    }
}
