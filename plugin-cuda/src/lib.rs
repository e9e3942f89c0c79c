//! # The CUDA backend of Longshore
//!
//! Makes NVIDIA GPUs devices of Longshore through CUDA's driver interface. The driver,
//! `libcuda.so.1`, is loaded at run time. Without the driver, or without a device, the backend
//! reports the reason and is not used.
//!
//! `longshore-plugin-streams` has the code shared with other drivers that have streams: above all
//! queues, events and memory. This crate has:
//!
//! - the driver (`driver/`): the table of its functions, and their use as a driver with streams;
//! - its devices ([`CudaPhysical`]), and their primary contexts (`context.rs`);
//! - images ([`CudaImage`]): PTX, a cubin, a fatbin, or relocatable objects that the driver links
//!   (`jit.rs`). `longshore-format-nvidia` reads the descriptions in an image.
//!
//! Start reading at [`CudaBackend`], then `module.rs`.

mod context;
mod device;
mod driver;
mod image;
mod jit;
mod module;
mod physical;
mod platform;
mod settings;

pub use module::CudaImage;
pub use physical::CudaPhysical;

use context::PrimaryContext;
use device::{Core, CudaDeviceData};
use driver::Driver;
use longshore_plugin_api::{
    Backend, CodeTarget, Connected, Description, ImageBytes, ImageEntry, PlatformInfo, Plugin,
    Result, Services, export_plugin,
};
use longshore_plugin_streams::{
    Driver as _, Module, Physical, StreamBackend, StreamDevice, StreamEvent, StreamKernel,
    StreamModule, StreamPlatform, StreamQueue, driver_error,
};
use settings::Settings;
use std::sync::Arc;

/// The CUDA backend.
pub struct CudaBackend;

/// The GPUs of the CUDA driver.
///
/// LLVM: `CUDAPluginTy`.
pub type CudaPlatform = StreamPlatform<CudaBackend>;

impl Backend for CudaBackend {
    type Platform = CudaPlatform;
    type Device = StreamDevice<CudaBackend>;
    type Module = StreamModule<CudaBackend>;
    type Kernel = StreamKernel<Driver>;
    type Queue = StreamQueue<CudaBackend>;
    type Event = StreamEvent<Driver>;
}

impl StreamBackend for CudaBackend {
    type Driver = Driver;
    type Settings = Settings;
    type Physical = CudaPhysical;
    type Image = CudaImage;

    fn platform_info(driver: &Driver, query: PlatformInfo) -> Result<String> {
        Ok(match query {
            PlatformInfo::Name => "CUDA".to_owned(),
            PlatformInfo::VendorName => "NVIDIA".to_owned(),
            PlatformInfo::Version => driver.version_text(),
            query => return Err(query.unanswered_by("CUDA")),
        })
    }

    fn retain(driver: &Arc<Driver>, physical: &Arc<CudaPhysical>) -> Result<PrimaryContext> {
        PrimaryContext::retain(driver, physical.raw).map_err(|failure| {
            let doing = format!("retaining the context of '{}'", physical.facts().name);
            driver_error(&**driver, &doing, failure)
        })
    }

    fn prepare(
        driver: &Driver,
        physical: &Arc<CudaPhysical>,
        settings: &Settings,
    ) -> Result<CudaDeviceData> {
        CudaDeviceData::prepare(driver, physical, settings)
    }

    fn suitability(image: &[u8], device: &Core) -> std::result::Result<u32, String> {
        image::suitability(image, device.device_data().arch)
    }

    fn score(entry: &ImageEntry<'_>, device: &Core) -> u32 {
        image::score(entry, device.device_data().arch)
    }

    fn code_target(device: &Core) -> CodeTarget {
        device.device_data().code_target()
    }

    fn load(device: &Arc<Core>, image: ImageBytes) -> Result<(Module, CudaImage)> {
        CudaImage::load(device, image)
    }
}

impl Plugin for CudaBackend {
    const DESCRIPTION: Description = Description::new("cuda")
        .with_name("Longshore CUDA backend")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_vendor("Longshore")
        .with_image_formats("cubin,ptx,fatbin")
        .with_driver("libcuda.so.1");

    fn connect(services: Services) -> Result<Connected<CudaPlatform>> {
        platform::connect(Settings::read(|name| services.setting(name))?)
    }
}

export_plugin!(CudaBackend);
