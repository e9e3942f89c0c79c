//! The instance, and the messages of the validation layer.

use crate::error;
use ash::ext::debug_utils;
use ash::prelude::VkResult;
use ash::{Entry, vk};
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// The use of the validation layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Validation {
    /// No validation layer.
    #[default]
    Off,
    /// A validation layer whose messages are logged.
    Log,
    /// A validation layer whose messages also make the closing of a device fail.
    Strict,
}

/// A connection to Vulkan's loader. Destroyed with its last device.
pub(crate) struct Instance {
    pub(crate) raw: ash::Instance,
    /// Version 1.2 or later.
    pub(crate) version: u32,
    /// Whether debugging tools can get names of objects and labels.
    pub(crate) has_debug_utils: bool,
    pub(crate) validation: Validation,
    messenger: Option<(debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    complaints: Box<ValidationMessages>,
    // Keeps the loader loaded while its functions are used.
    _entry: Entry,
}

/// Pending messages of the validation layer.
#[derive(Default)]
pub(crate) struct ValidationMessages(Mutex<Vec<String>>);

/// The reason that no instance exists.
pub(crate) enum InstanceError {
    /// A missing loader, or a loader older than version 1.2.
    NoLoader(String),
    /// A missing driver.
    NoDriver(String),
    /// An unexpected failure.
    Failed(Error),
}

impl Instance {
    /// Loads Vulkan's loader and creates an instance.
    pub(crate) fn new(validation: Validation) -> Result<Arc<Instance>, InstanceError> {
        // SAFETY: the loader's initialisers have no requirements; the ability to replace the
        // system's libvulkan.so.1 implies control of the process anyway.
        let entry = unsafe { Entry::load() }
            .map_err(|error| InstanceError::NoLoader(format!("Vulkan's loader: {error}")))?;
        let failed = |doing: &str, result| InstanceError::Failed(error::driver(doing, result));
        // SAFETY: the entry is loaded; the call has no other requirements.
        let version = unsafe { entry.try_enumerate_instance_version() }
            .map_err(|result| failed("asking for Vulkan's version", result))?
            .unwrap_or(vk::API_VERSION_1_0);
        if version < vk::API_VERSION_1_2 {
            let message =
                format!("Vulkan's loader has version {}, expected at least 1.2", Version(version));
            return Err(InstanceError::NoLoader(message));
        }
        Instance::create(entry, version, validation)
    }

    fn create(
        entry: Entry,
        version: u32,
        validation: Validation,
    ) -> Result<Arc<Instance>, InstanceError> {
        let validates = validation != Validation::Off;
        if validates {
            check_layer(&entry).map_err(InstanceError::Failed)?;
        }
        let mut complaints = Box::<ValidationMessages>::default();
        let mut has_debug_utils = true;
        let mut raw = make(&entry, version, validates.then_some(&mut *complaints), true);
        // A check in advance would make the loader read every manifest again.
        if !validates && matches!(raw, Err(vk::Result::ERROR_EXTENSION_NOT_PRESENT)) {
            has_debug_utils = false;
            raw = make(&entry, version, None, false);
        }
        let raw = raw.map_err(|result| match result {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
                InstanceError::NoDriver("no Vulkan driver is installed".to_owned())
            }
            result => InstanceError::Failed(error::driver("making a Vulkan instance", result)),
        })?;
        let messenger = validates.then(|| {
            let functions = debug_utils::Instance::new(&entry, &raw);
            // SAFETY: the callback's data, `complaints`, is boxed and outlives the messenger, which
            // is destroyed first.
            let messenger = unsafe {
                functions.create_debug_utils_messenger(&self::listener(&mut complaints), None)
            };
            messenger.ok().map(|messenger| (functions, messenger))
        });
        Ok(Arc::new(Instance {
            raw,
            version,
            has_debug_utils,
            validation,
            messenger: messenger.flatten(),
            complaints,
            _entry: entry,
        }))
    }

    /// Returns the physical devices, in the loader's order.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>> {
        // SAFETY: the instance is live.
        match unsafe { self.raw.enumerate_physical_devices() } {
            // The loader returns this result if drivers exist, but none has a device.
            Err(vk::Result::ERROR_INITIALIZATION_FAILED) => Ok(Vec::new()),
            listed => listed.map_err(|result| error::driver("listing Vulkan's devices", result)),
        }
    }

    /// Returns the pending messages of the validation layer as an error, if the setting is
    /// `strict`.
    pub(crate) fn complaint(&self) -> Result<()> {
        if self.validation != Validation::Strict {
            return Ok(());
        }
        let said = std::mem::take(&mut *self.complaints.0.lock());
        let Some(first) = said.first() else { return Ok(()) };
        let message = format!(
            "the validation layer reported {} messages, expected none; the first: {first}",
            said.len()
        );
        Err(Error::new(ErrorCode::BackendFailure, message))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: devices hold the instance, so no device is left; the messenger is destroyed
        // first.
        unsafe {
            if let Some((functions, messenger)) = &self.messenger {
                functions.destroy_debug_utils_messenger(*messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

/// A version in Vulkan's encoding, displayed as "1.3.230".
pub(crate) struct Version(pub(crate) u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.0;
        write!(
            f,
            "{}.{}.{}",
            vk::api_version_major(version),
            vk::api_version_minor(version),
            vk::api_version_patch(version)
        )
    }
}

/// Creates an instance. With `complaints`, enables the validation layer, which has debug utilities.
fn make(
    entry: &Entry,
    version: u32,
    complaints: Option<&mut ValidationMessages>,
    has_debug_utils: bool,
) -> VkResult<ash::Instance> {
    let application = vk::ApplicationInfo::default()
        .application_name(c"Longshore")
        .engine_name(c"Longshore")
        .api_version(version.min(vk::API_VERSION_1_3));
    let layers = [VALIDATION_LAYER.as_ptr()];
    let enabled = [debug_utils::NAME, ash::ext::validation_features::NAME];
    let enabled = enabled.map(CStr::as_ptr);
    // The second extension is the layer's own; it enables checks that are off by default.
    let count = usize::from(has_debug_utils) + usize::from(complaints.is_some());
    let checks = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut more = vk::ValidationFeaturesEXT::default().enabled_validation_features(&checks);
    let mut listener = complaints.map(listener);
    let mut info = vk::InstanceCreateInfo::default()
        .application_info(&application)
        .enabled_layer_names(if listener.is_some() { &layers } else { &[] })
        .enabled_extension_names(&enabled[..count]);
    if let Some(listener) = &mut listener {
        info = info.push_next(listener).push_next(&mut more);
    }
    // SAFETY: the structure and its pointers' targets live during the call.
    unsafe { entry.create_instance(&info, None) }
}

fn check_layer(entry: &Entry) -> Result<()> {
    // SAFETY: the entry is loaded.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    if layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER)) {
        return Ok(());
    }
    let message = "LONGSHORE_VULKAN_VALIDATION is set, but the Khronos validation layer is not \
                   installed (Debian: vulkan-validationlayers)";
    Err(Error::new(ErrorCode::NotFound, message))
}

fn listener(complaints: &mut ValidationMessages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    use vk::{
        DebugUtilsMessageSeverityFlagsEXT as Severity, DebugUtilsMessageTypeFlagsEXT as Type,
    };
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::ERROR | Severity::WARNING)
        .message_type(Type::VALIDATION)
        .pfn_user_callback(Some(hear))
        .user_data(std::ptr::from_mut(complaints).cast())
}

/// Receives a message of the validation layer, on any thread.
unsafe extern "system" fn hear(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    complaints: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes a valid structure and the pointer of `listener`, whose target is
    // only shared.
    let (message, complaints) = unsafe {
        let message = (*data).message_as_c_str().unwrap_or(c"no message");
        (message.to_string_lossy().into_owned(), &*complaints.cast::<ValidationMessages>())
    };
    if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) {
        log::error!("{message}");
    } else {
        log::warn!("{message}");
    }
    // The layer's threads have lost track: "most likely a validation bug", by its own words.
    if !message.contains("UNASSIGNED-VkSemaphore-state-timeout") {
        complaints.0.lock().push(message);
    }
    vk::FALSE
}
