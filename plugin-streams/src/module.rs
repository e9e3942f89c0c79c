//! Loaded images.

use crate::backend::{Image, StreamBackend};
use crate::call::Code;
use crate::device::DeviceCore;
use crate::driver::Driver;
use crate::handle::{DevicePtr, Function, Module, Stream};
use crate::kernel::StreamKernel;
use longshore_plugin_api::{
    Error, ErrorCode, GlobalAddress, ImageBytes, KernelAttributes, KernelDescription, LaunchShape,
    MemoryKind, PoolTracker, ProfileSection, Result, SymbolKind,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

/// A module of the driver.
///
/// LLVM: `DeviceImageTy`.
pub struct StreamModule<B: StreamBackend> {
    core: ModuleCore<B::Driver>,
    image: B::Image,
    kernels: Mutex<HashMap<String, Arc<StreamKernel<B::Driver>>>>,
}

/// A module of the driver, and what can be found in it.
pub struct ModuleCore<D: Driver> {
    device: Arc<DeviceCore<D>>,
    raw: Module,
}

impl<D: Driver> ModuleCore<D> {
    /// The device that has it.
    pub fn device(&self) -> &Arc<DeviceCore<D>> {
        &self.device
    }

    /// The driver's function of this name.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub fn function(&self, name: &str) -> Result<Option<Function>> {
        let Ok(c_name) = CString::new(name) else { return Ok(None) };
        let mut function = Function::NULL;
        self.device.refuse_if_lost()?;
        let found = self.device.try_call(|driver| {
            // SAFETY: the module is live.
            unsafe { driver.function(&mut function, self.raw, &c_name) }
        });
        match found {
            Err(failure) if failure.is(Code::NOT_FOUND) => Ok(None),
            found => {
                let found = self.device.check(format_args!("looking for kernel '{name}'"), found);
                found.map(|()| Some(function))
            }
        }
    }

    /// The driver's variable of this name.
    ///
    /// # Errors
    /// As for [`ModuleCore::function`].
    pub fn variable(&self, name: &str) -> Result<Option<GlobalAddress>> {
        let Ok(c_name) = CString::new(name) else { return Ok(None) };
        let (mut address, mut bytes): (DevicePtr, usize) = (0, 0);
        self.device.refuse_if_lost()?;
        let found = self.device.try_call(|driver| {
            // SAFETY: the module is live.
            unsafe { driver.global(&mut address, &mut bytes, self.raw, &c_name) }
        });
        match found {
            Err(failure) if failure.is(Code::NOT_FOUND) => Ok(None),
            found => {
                let found = self.device.check(format_args!("looking for global '{name}'"), found);
                found.map(|()| Some(GlobalAddress { address, bytes: bytes as u64 }))
            }
        }
    }

    /// What a variable holds now. Blocks.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub fn read(&self, from: GlobalAddress) -> Result<Vec<u8>> {
        let mut contents = vec![0u8; from.bytes as usize];
        self.device.call("reading a variable", |driver| {
            let (to, service) = (contents.as_mut_ptr().cast(), self.device.service());
            // SAFETY: the buffer has as many bytes as the variable, and the call is waited for.
            unsafe {
                driver.copy_to_host(to, from.address, contents.len(), service)?;
                driver.synchronize_stream(service)
            }
        })?;
        Ok(contents)
    }

    /// Sets what memory of the module, or allocated for it, holds: that much is there. Blocks.
    ///
    /// # Errors
    /// As for [`ModuleCore::read`].
    pub fn write(&self, to: DevicePtr, contents: &[u8]) -> Result<()> {
        self.device.call("writing a variable", |driver| {
            let service = self.device.service();
            // SAFETY: the caller has asked the driver for memory of this size; the call is waited for.
            unsafe {
                driver.copy_to_device(to, contents.as_ptr().cast(), contents.len(), service)?;
                driver.synchronize_stream(service)
            }
        })
    }

    /// Runs a kernel of the module that takes no arguments, as one item, and waits for it. `what` is what
    /// it does.
    ///
    /// # Errors
    /// As for [`ModuleCore::read`].
    pub fn run(&self, kernel: Function, what: &str) -> Result<()> {
        let (service, one): (Stream, _) = (self.device.service(), [1; 3]);
        let shape = LaunchShape {
            groups: one,
            items: one,
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            wait: true,
        };
        let in_flight = self.device.register_service();
        let number = self.device.registry().name_kernel(&what.into());
        in_flight.note(number);
        let ran = self.device.call(format_args!("running {what}"), |driver| {
            // SAFETY: the kernel takes no arguments and is of the live module.
            unsafe {
                let launched = driver.launch(kernel, &shape, std::ptr::null(), service);
                in_flight.was_handed();
                launched?;
                driver.synchronize_stream(service)
            }
        });
        if ran.is_ok() {
            in_flight.are_done(in_flight.handed());
        }
        self.device.registry().forget_kernel(number);
        D::was_waited_for(&self.device);
        ran
    }

    /// Waits for what was launched with [`ModuleCore::run`], whatever becomes of it.
    pub fn settle(&self) {
        let _ = self.device.try_call(|driver| {
            // SAFETY: the stream is live.
            unsafe { driver.synchronize_stream(self.device.service()) }
        });
    }

    /// A variable by which device code says that something failed is 0, if there is one.
    ///
    /// # Errors
    /// `BackendFailure` if it is not; `what` is what failed. As for [`ModuleCore::read`].
    pub fn check_status(&self, name: &str, what: impl fmt::Display) -> Result<()> {
        let Some(found) = self.variable(name)?.filter(|found| found.bytes >= 4) else {
            return Ok(());
        };
        let value = self.read(GlobalAddress { bytes: 4, ..found })?;
        match value.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)) {
            Some(0) | None => Ok(()),
            Some(status) => {
                let message = format!("the image's {what} failed: {name} is {status}, expected 0");
                Err(Error::new(ErrorCode::BackendFailure, message))
            }
        }
    }

    /// Allocates device memory for the module, to be freed with [`ModuleCore::free`]. Blocks.
    ///
    /// # Errors
    /// `OutOfResources`; those of the driver.
    pub fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        self.device.memory.allocate(&self.device, MemoryKind::Device, bytes, 8)
    }

    /// Frees memory of [`ModuleCore::allocate`]. Blocks.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn free(&self, address: DevicePtr) -> Result<()> {
        self.device.memory.free(&self.device, MemoryKind::Device, address)
    }
}

impl<D: Driver> ModuleCore<D> {
    fn unload(self) -> Result<()> {
        let ModuleCore { device, raw } = self;
        let unloaded = device.end("unloading an image", |driver| {
            // SAFETY: it is live, and no queue uses it any more.
            unsafe { driver.unload(raw) }
        });
        if unloaded.is_err() {
            device.abandon(raw);
        }
        unloaded
    }
}

impl<B: StreamBackend> StreamModule<B> {
    /// Loads an image. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for what the device does not run, those of the backend.
    pub(crate) fn load(
        device: &Arc<DeviceCore<B::Driver>>,
        bytes: ImageBytes,
    ) -> Result<StreamModule<B>> {
        device.refuse_if_lost()?;
        B::suitability(bytes.get(), device)
            .map_err(|why| Error::new(ErrorCode::InvalidBinary, why))?;
        let (raw, image) = B::load(device, bytes)?;
        let core = ModuleCore { device: Arc::clone(device), raw };
        match image.was_loaded(&core) {
            Ok(()) => Ok(StreamModule { core, image, kernels: Mutex::default() }),
            Err(error) => core.unload().and(Err(error)),
        }
    }

    /// The driver's function of a kernel of the program.
    fn function(&self, name: &str) -> Result<Option<Function>> {
        match self.image.has(name, SymbolKind::Kernel) {
            true => self.core.function(name),
            false => Ok(None),
        }
    }

    /// The driver's variable of a global.
    fn variable(&self, name: &str) -> Result<Option<GlobalAddress>> {
        match self.image.has(name, SymbolKind::Global) {
            true => self.core.variable(name),
            false => Ok(None),
        }
    }
}

impl<B: StreamBackend> longshore_plugin_api::Module<B> for StreamModule<B> {
    fn kernel(&self, name: &str) -> Result<(Arc<StreamKernel<B::Driver>>, KernelAttributes)> {
        if let Some(kernel) = self.kernels.lock().get(name) {
            return Ok((Arc::clone(kernel), kernel.attributes()));
        }
        let Some(function) = self.function(name)? else {
            return Err(match self.variable(name)? {
                Some(_) => wrong_kind(name, "a global", "kernel"),
                None => not_found(name, "kernel"),
            });
        };
        let mut attributes = self.image.attributes(&self.core, name, function)?;
        if let Some(bytes) = self.image.description(name) {
            KernelDescription::parse(&bytes)
                .map_err(|error| error.context(format_args!("kernel '{name}'")))?
                .complete(&mut attributes);
        }
        let kernel =
            Arc::new(StreamKernel::new(&self.core.device, name, function, attributes.clone()));
        let mut kernels = self.kernels.lock();
        let kernel = Arc::clone(kernels.entry(name.to_owned()).or_insert(kernel));
        Ok((kernel, attributes))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        if let Some(found) = self.variable(name)? {
            return Ok(found);
        }
        Err(match self.function(name)?.is_some() {
            true => wrong_kind(name, "a kernel", "global"),
            false => not_found(name, "global"),
        })
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        Ok(self.image.symbols())
    }

    fn run_constructors(&self) -> Result<()> {
        self.image.run_constructors(&self.core)
    }

    fn run_destructors(&self) -> Result<()> {
        self.image.run_destructors(&self.core)
    }

    fn unload(self) -> Result<()> {
        self.core.unload()
    }

    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        let Some(found) = self.variable(PoolTracker::SYMBOL)? else { return Ok(None) };
        PoolTracker::parse(&self.core.read(found)?).map(Some)
    }

    fn profile(&self) -> Result<Vec<ProfileSection>> {
        self.image.profile(&self.core)
    }
}

#[cold]
fn not_found(name: &str, kind: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("the image has no {kind} '{name}'"))
}

#[cold]
fn wrong_kind(name: &str, found: &str, expected: &str) -> Error {
    let message = format!("'{name}' is {found} of the image, expected a {expected}");
    Error::new(ErrorCode::SymbolKind, message)
}
