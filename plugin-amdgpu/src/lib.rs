//! # The AMDGPU backend of Longshore
//!
//! Makes AMD GPUs devices of Longshore through HIP. Its library, `libamdhip64.so` of versions 5 to
//! 7, is loaded at run time. Without the library, or without a device, the backend reports the
//! reason and is not used.
//!
//! `longshore-plugin-streams` has the code shared with other drivers that have streams: above all
//! queues, events and memory. This crate has:
//!
//! - HIP (`driver/`): the table of its functions, and their use as a driver with streams;
//! - its devices ([`AmdgpuPhysical`]), and making one current on a thread (`current.rs`);
//! - images ([`AmdgpuImage`]): code objects, or relocatable objects that LLVM's linker links
//!   (`link.rs`). `longshore-format-amdgpu` reads the descriptions in an image;
//! - messages of kernels (`messages.rs`).
//!
//! Start reading at [`AmdgpuBackend`], then `module.rs`.

mod current;
mod device;
mod driver;
mod image;
mod link;
mod messages;
mod module;
mod physical;
mod platform;
mod settings;

pub use module::AmdgpuImage;
pub use physical::AmdgpuPhysical;

use current::Current;
use device::{AmdgpuDeviceData, Core};
use driver::Driver;
use longshore_plugin_api::{
    Backend, CodeTarget, Connected, Description, ImageBytes, ImageEntry, PlatformInfo, Plugin,
    Result, Services, export_plugin,
};
use longshore_plugin_streams::{
    Driver as _, Module, StreamBackend, StreamDevice, StreamEvent, StreamKernel, StreamModule,
    StreamPlatform, StreamQueue,
};
use settings::Settings;
use std::sync::Arc;

/// The AMDGPU backend.
pub struct AmdgpuBackend;

/// The GPUs of HIP.
///
/// LLVM: `AMDGPUPluginTy`.
pub type AmdgpuPlatform = StreamPlatform<AmdgpuBackend>;

impl Backend for AmdgpuBackend {
    type Platform = AmdgpuPlatform;
    type Device = StreamDevice<AmdgpuBackend>;
    type Module = StreamModule<AmdgpuBackend>;
    type Kernel = StreamKernel<Driver>;
    type Queue = StreamQueue<AmdgpuBackend>;
    type Event = StreamEvent<Driver>;
}

impl StreamBackend for AmdgpuBackend {
    type Driver = Driver;
    type Settings = Settings;
    type Physical = AmdgpuPhysical;
    type Image = AmdgpuImage;

    fn platform_info(driver: &Driver, query: PlatformInfo) -> Result<String> {
        Ok(match query {
            PlatformInfo::Name => "HIP".to_owned(),
            PlatformInfo::VendorName => "AMD".to_owned(),
            PlatformInfo::Version => driver.version_text(),
            query => return Err(query.unanswered_by("HIP")),
        })
    }

    fn retain(driver: &Arc<Driver>, physical: &Arc<AmdgpuPhysical>) -> Result<Current> {
        Ok(Current::new(driver, physical.ordinal))
    }

    fn prepare(
        driver: &Driver,
        physical: &Arc<AmdgpuPhysical>,
        settings: &Settings,
    ) -> Result<AmdgpuDeviceData> {
        AmdgpuDeviceData::prepare(driver, physical, settings)
    }

    fn suitability(image: &[u8], device: &Core) -> std::result::Result<u32, String> {
        image::suitability(image, &device.device_data().target)
    }

    fn score(entry: &ImageEntry<'_>, device: &Core) -> u32 {
        image::score(entry, &device.device_data().target)
    }

    fn code_target(device: &Core) -> CodeTarget {
        image::code_target(&device.device_data().target)
    }

    fn load(device: &Arc<Core>, image: ImageBytes) -> Result<(Module, AmdgpuImage)> {
        AmdgpuImage::load(device, image)
    }
}

impl Plugin for AmdgpuBackend {
    const DESCRIPTION: Description = Description::new("amdgpu")
        .with_name("Longshore AMDGPU backend")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_vendor("Longshore")
        .with_image_formats("code-object")
        .with_driver("libamdhip64.so");

    fn connect(services: Services) -> Result<Connected<AmdgpuPlatform>> {
        platform::connect(Settings::read(|name| services.setting(name))?)
    }
}

export_plugin!(AmdgpuBackend);
