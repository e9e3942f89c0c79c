//! The parts that a backend supplies in addition to its driver.

use crate::device_core::DeviceCore;
use crate::driver::Driver;
use crate::facts::Facts;
use crate::handle::{Function, Module};
use crate::module_core::ModuleCore;
#[cfg(doc)]
use longshore_plugin_api::KernelDescription;
use longshore_plugin_api::{
    CodeTarget, ImageBytes, ImageEntry, KernelAttributes, PlatformInfo, ProfileSection, Result,
    SymbolKind,
};
use std::borrow::Cow;
use std::sync::Arc;

/// A backend over a driver with streams.
pub trait StreamBackend: Sized + Send + Sync + 'static {
    /// The backend's driver.
    type Driver: Driver;
    /// The backend's settings from the environment.
    type Settings: Send + Sync + 'static;
    /// A device before it is opened.
    type Physical: Physical;
    /// The backend's own data of a loaded image.
    type Image: Image<Self::Driver>;

    /// Answers a query about the platform.
    ///
    /// # Errors
    /// `Unimplemented` if there is no answer.
    fn platform_info(driver: &Self::Driver, query: PlatformInfo) -> Result<String>;

    /// Retains a device's context. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    fn retain(
        driver: &Arc<Self::Driver>,
        physical: &Arc<Self::Physical>,
    ) -> Result<<Self::Driver as Driver>::Context>;

    /// Prepares a device according to the settings and returns the backend's own data of it. The
    /// device is being opened, and its context is current.
    ///
    /// # Errors
    /// Errors of the driver.
    fn prepare(
        driver: &Self::Driver,
        physical: &Arc<Self::Physical>,
        settings: &Self::Settings,
    ) -> Result<<Self::Driver as Driver>::DeviceData>;

    /// Returns the score of an image for a device, at least 1.
    ///
    /// # Errors
    /// The reason why the device does not run the image, as text for the user.
    fn suitability(image: &[u8], device: &DeviceCore<Self::Driver>) -> Result<u32, String>;

    /// Returns the score of an image of a container; 0 if the device does not run it.
    fn score(entry: &ImageEntry<'_>, device: &DeviceCore<Self::Driver>) -> u32;

    /// Returns the target for which LLVM compiles code for a device.
    fn code_target(device: &DeviceCore<Self::Driver>) -> CodeTarget;

    /// Loads an image that suits the device. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for an image that the device does not run, `CompileFailure`, `LinkFailure`,
    /// errors of the driver.
    fn load(
        device: &Arc<DeviceCore<Self::Driver>>,
        image: ImageBytes,
    ) -> Result<(Module, Self::Image)>;
}

/// A device of the driver, open or not.
pub trait Physical: Send + Sync + 'static {
    /// Returns the constant properties of the device.
    fn facts(&self) -> &Arc<Facts>;
    /// Returns the driver's number of the device.
    fn ordinal(&self) -> i32;
}

/// The backend's own data of a loaded image: its symbols, and its constructors and destructors.
pub trait Image<D: Driver>: Send + Sync + 'static {
    /// Completes the data. The driver has loaded the image, and none of its code has run yet.
    ///
    /// # Errors
    /// Errors of the driver; the caller then unloads the image.
    fn was_loaded(&self, _module: &ModuleCore<D>) -> Result<()> {
        Ok(())
    }

    /// Returns whether the driver may look up this name for the program. Functions that run
    /// constructors or destructors are excluded, and some drivers crash when they look up a symbol
    /// of another kind.
    fn has(&self, name: &str, kind: SymbolKind) -> bool;

    /// Returns the attributes of a kernel.
    ///
    /// # Errors
    /// Errors of the driver.
    fn attributes(
        &self,
        module: &ModuleCore<D>,
        name: &str,
        function: Function,
    ) -> Result<KernelAttributes>;

    /// Returns the bytes that describe a kernel ([`KernelDescription`]), if the image has any.
    fn description(&self, kernel: &str) -> Option<Cow<'_, [u8]>>;

    /// Returns the kernels and the globals of the program.
    fn symbols(&self) -> Vec<(String, SymbolKind)>;

    /// Runs the constructors and waits for them.
    ///
    /// # Errors
    /// `InvalidBinary` for a missing symbol of the image; errors of the driver.
    fn run_constructors(&self, module: &ModuleCore<D>) -> Result<()>;

    /// Runs the destructors and waits for them.
    ///
    /// # Errors
    /// As for [`Image::run_constructors`].
    fn run_destructors(&self, module: &ModuleCore<D>) -> Result<()>;

    /// Returns the present contents of the profile's variables. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    fn profile(&self, module: &ModuleCore<D>) -> Result<Vec<ProfileSection>>;
}
