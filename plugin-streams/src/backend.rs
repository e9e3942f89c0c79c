//! What a backend brings beside its driver.

use crate::device_core::DeviceCore;
use crate::driver::Driver;
use crate::facts::Facts;
use crate::handle::{Function, Module};
use crate::module_core::ModuleCore;
#[cfg(doc)]
use longshore_plugin_api::KernelDescription;
use longshore_plugin_api::{
    ImageBytes, ImageEntry, KernelAttributes, PlatformInfo, ProfileSection, Result, SymbolKind,
};
use std::borrow::Cow;
use std::sync::Arc;

/// A backend over a driver with streams.
pub trait StreamBackend: Sized + Send + Sync + 'static {
    /// The driver.
    type Driver: Driver;
    /// What the user has set.
    type Settings: Send + Sync + 'static;
    /// A device that can be opened.
    type Physical: Physical;
    /// What a loaded image says of itself.
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

    /// What is kept for a device that is being opened, whose context is current, and prepares the device
    /// as the user wants it.
    ///
    /// # Errors
    /// Errors of the driver.
    fn prepare(
        driver: &Self::Driver,
        physical: &Arc<Self::Physical>,
        settings: &Self::Settings,
    ) -> Result<<Self::Driver as Driver>::Own>;

    /// How well an image suits a device, at least 1.
    ///
    /// # Errors
    /// Why the device does not run it, for people.
    fn suitability(image: &[u8], device: &DeviceCore<Self::Driver>) -> Result<u32, String>;

    /// The rank of an image of a container; 0 if the device does not run it.
    fn rank(entry: &ImageEntry<'_>, device: &DeviceCore<Self::Driver>) -> u32;

    /// Loads an image that suits the device. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for what the device does not run, `CompileFailure`, `LinkFailure`, those of the
    /// driver.
    fn load(
        device: &Arc<DeviceCore<Self::Driver>>,
        image: ImageBytes,
    ) -> Result<(Module, Self::Image)>;
}

/// A device of the driver that may be open or not.
pub trait Physical: Send + Sync + 'static {
    /// What is known of it.
    fn facts(&self) -> &Arc<Facts>;
    /// The driver's number for it.
    fn ordinal(&self) -> i32;
}

/// What a loaded image says of itself, and what its life takes.
pub trait Image<D: Driver>: Send + Sync + 'static {
    /// The driver has loaded the image, and nothing of it has run yet.
    ///
    /// # Errors
    /// Errors of the driver; the image is unloaded then.
    fn was_loaded(&self, _module: &ModuleCore<D>) -> Result<()> {
        Ok(())
    }

    /// Whether the driver may be asked for something of the program's by this name: what runs constructors or
    /// destructors is none of that, and some drivers do not survive being asked for what is of another kind.
    fn has(&self, name: &str, kind: SymbolKind) -> bool;

    /// What is known of a kernel.
    ///
    /// # Errors
    /// Errors of the driver.
    fn attributes(
        &self,
        module: &ModuleCore<D>,
        name: &str,
        function: Function,
    ) -> Result<KernelAttributes>;

    /// The bytes that describe a kernel ([`KernelDescription`]), if the image has any.
    fn description(&self, kernel: &str) -> Option<Cow<'_, [u8]>>;

    /// The kernels and the globals of the program.
    fn symbols(&self) -> Vec<(String, SymbolKind)>;

    /// Runs the constructors and waits for them.
    ///
    /// # Errors
    /// `InvalidBinary` for what the image lacks; those of the driver.
    fn run_constructors(&self, module: &ModuleCore<D>) -> Result<()>;

    /// Runs the destructors and waits for them.
    ///
    /// # Errors
    /// As for [`Image::run_constructors`].
    fn run_destructors(&self, module: &ModuleCore<D>) -> Result<()>;

    /// What the profile's variables hold now. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    fn profile(&self, module: &ModuleCore<D>) -> Result<Vec<ProfileSection>>;
}
