//! The core of an open device, which all its objects share.

use crate::logical::LogicalDevice;
use crate::memory::Memory;
use crate::physical::PhysicalDevice;
use crate::pipeline_cache::{CacheFile, Identity};
use crate::staging::Staging;
use crate::timestamps::Timestamps;
use crate::validate::Validator;
use ash::vk;
use longshore_plugin_api::Result;
use parking_lot::Mutex;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

/// The user's settings of devices.
#[derive(Clone)]
pub(crate) struct DeviceSettings {
    /// `CACHE`: the folder of pipeline caches and verdicts.
    pub(crate) cache: Option<PathBuf>,
    /// The validator of modules, from the setting `VALIDATOR`.
    pub(crate) validator: Arc<Validator>,
    /// `STAGING=always`, for tests: copies go through staging memory even if the host can access
    /// the device's memory.
    pub(crate) always_stage: bool,
}

/// A logical device with its memory and caches. Every object of the device holds it.
pub(crate) struct DeviceCore {
    pub(crate) logical: Arc<LogicalDevice>,
    pub(crate) memory: Memory,
    pub(crate) timestamps: Arc<Timestamps>,
    pub(crate) cache: vk::PipelineCache,
    pub(crate) always_stage: bool,
    pub(crate) validator: Arc<Validator>,
    /// Staging memory that no copy uses at present.
    pub(crate) staging: Mutex<Vec<Staging>>,
    cache_file: CacheFile,
}

impl DeviceCore {
    /// Creates a logical device with its memory and caches.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn open(
        physical: &Arc<PhysicalDevice>,
        settings: &DeviceSettings,
    ) -> Result<DeviceCore> {
        let logical = LogicalDevice::new(physical)?;
        let memory = Memory::new(&logical)?;
        let cache_file = CacheFile::new(settings.cache.as_deref(), &identity(physical));
        Ok(DeviceCore {
            memory,
            timestamps: Timestamps::new(&logical),
            cache: create_cache(physical, &logical.raw, &cache_file),
            always_stage: settings.always_stage,
            validator: Arc::clone(&settings.validator),
            staging: Mutex::default(),
            cache_file,
            logical,
        })
    }

    /// Writes the pipeline cache to its file.
    pub(crate) fn keep_cache(&self) {
        if self.cache == vk::PipelineCache::null() || self.is_lost() {
            return;
        }
        // SAFETY: the cache is live.
        if let Ok(data) = unsafe { self.raw.get_pipeline_cache_data(self.cache) } {
            self.cache_file.store(&data);
        }
    }
}

impl Deref for DeviceCore {
    type Target = LogicalDevice;

    fn deref(&self) -> &LogicalDevice {
        &self.logical
    }
}

impl Drop for DeviceCore {
    fn drop(&mut self) {
        // SAFETY: every object of the device held the core, so no object is left; submitted work
        // has been waited for.
        unsafe {
            for staging in self.staging.get_mut().drain(..) {
                staging.destroy(&self.logical.raw, &self.memory);
            }
            self.logical.raw.destroy_pipeline_cache(self.cache, None);
        }
    }
}

/// Creates the pipeline cache, or returns a null handle. SwiftShader gets no cache: its keys are a
/// pipeline's own layout and shader. It would never find a pipeline again, and would keep all code
/// as long as the cache lives.
fn create_cache(
    physical: &PhysicalDevice,
    device: &ash::Device,
    file: &CacheFile,
) -> vk::PipelineCache {
    if physical.driver_name == "SwiftShader driver" {
        return vk::PipelineCache::null();
    }
    let kept = file.load();
    let info = vk::PipelineCacheCreateInfo::default().initial_data(&kept);
    // SAFETY: the device is live; the data was checked.
    unsafe { device.create_pipeline_cache(&info, None) }.unwrap_or_else(|result| {
        log::warn!("{}: no pipeline cache: VK_{result:?}", physical.name);
        vk::PipelineCache::null()
    })
}

fn identity(physical: &PhysicalDevice) -> Identity {
    Identity {
        vendor_id: physical.properties.vendor_id,
        device_id: physical.properties.device_id,
        driver_version: physical.properties.driver_version,
        pipeline_cache_uuid: physical.properties.pipeline_cache_uuid,
        driver_name: physical.driver_name.clone(),
    }
}
