//! Loaded images.

use crate::backend::{Image, StreamBackend};
use crate::device_core::DeviceCore;
use crate::handle::Function;
use crate::kernel::StreamKernel;
use crate::module_core::ModuleCore;
use longshore_plugin_api::{Error, ErrorCode, GlobalAddress, ImageBytes, Result, SymbolKind};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// A module of the driver.
///
/// LLVM: `DeviceImageTy`.
pub struct StreamModule<B: StreamBackend> {
    pub(crate) core: ModuleCore<B::Driver>,
    pub(crate) image: B::Image,
    pub(crate) kernels: Mutex<HashMap<String, Arc<StreamKernel<B::Driver>>>>,
}

impl<B: StreamBackend> StreamModule<B> {
    /// Loads an image. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for an image that the device does not run, errors of the backend.
    pub(crate) fn load(
        device: &Arc<DeviceCore<B::Driver>>,
        bytes: ImageBytes,
    ) -> Result<StreamModule<B>> {
        device.refuse_if_lost()?;
        B::suitability(bytes.get(), device)
            .map_err(|why| Error::new(ErrorCode::InvalidBinary, why))?;
        let (raw, image) = B::load(device, bytes)?;
        let core = ModuleCore::new(device, raw);
        match image.was_loaded(&core) {
            Ok(()) => Ok(StreamModule { core, image, kernels: Mutex::default() }),
            Err(error) => core.unload().and(Err(error)),
        }
    }

    /// Returns the driver's function for a kernel of the program.
    pub(crate) fn function(&self, name: &str) -> Result<Option<Function>> {
        match self.image.has(name, SymbolKind::Kernel) {
            true => self.core.function(name),
            false => Ok(None),
        }
    }

    /// Returns the driver's variable for a global of the program.
    pub(crate) fn variable(&self, name: &str) -> Result<Option<GlobalAddress>> {
        match self.image.has(name, SymbolKind::Global) {
            true => self.core.variable(name),
            false => Ok(None),
        }
    }
}
