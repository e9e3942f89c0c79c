//! Modules of the driver, and the lookup of their symbols.

use crate::call::Code;
use crate::device_core::DeviceCore;
use crate::driver::Driver;
use crate::handle::{DevicePtr, Function, Module, Stream};
use longshore_plugin_api::{Error, ErrorCode, GlobalAddress, LaunchShape, MemoryKind, Result};
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

/// A module of the driver.
pub struct ModuleCore<D: Driver> {
    device: Arc<DeviceCore<D>>,
    raw: Module,
}

impl<D: Driver> ModuleCore<D> {
    /// Creates the object for a module that the driver has loaded.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>, raw: Module) -> ModuleCore<D> {
        ModuleCore { device: Arc::clone(device), raw }
    }

    /// Returns the device of the module.
    pub fn device(&self) -> &Arc<DeviceCore<D>> {
        &self.device
    }

    /// Returns the driver's function of this name; `None` if the module has none.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
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

    /// Returns the driver's variable of this name; `None` if the module has none.
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
                found.map(|()| Some(GlobalAddress::new(address, bytes as u64)))
            }
        }
    }

    /// Returns the present contents of a variable. Blocks.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
    pub fn read(&self, from: GlobalAddress) -> Result<Vec<u8>> {
        let mut contents = vec![0u8; from.bytes as usize];
        self.device.call("reading a variable", |driver| {
            let (to, service) = (contents.as_mut_ptr().cast(), self.device.service());
            // SAFETY: the buffer is as large as the variable, and this function waits for the copy.
            unsafe {
                driver.copy_to_host(to, from.address, contents.len(), service)?;
                driver.synchronize_stream(service)
            }
        })?;
        Ok(contents)
    }

    /// Writes to memory of the module, or to memory allocated for it. The memory must be at least
    /// as large as `contents`. Blocks.
    ///
    /// # Errors
    /// As for [`ModuleCore::read`].
    pub fn write(&self, to: DevicePtr, contents: &[u8]) -> Result<()> {
        self.device.call("writing a variable", |driver| {
            let service = self.device.service();
            // SAFETY: the caller has the memory from the driver, with at least this size; this
            // function waits for the copy.
            unsafe {
                driver.copy_to_device(to, contents.as_ptr().cast(), contents.len(), service)?;
                driver.synchronize_stream(service)
            }
        })
    }

    /// Runs a kernel without arguments as one work-item, and waits for it. `what` is its purpose.
    ///
    /// # Errors
    /// As for [`ModuleCore::read`].
    pub fn run(&self, kernel: Function, what: &str) -> Result<()> {
        let (service, one): (Stream, _) = (self.device.service(), [1; 3]);
        let shape = LaunchShape::new(one, one).with_wait(true);
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
        self.device.was_waited_for();
        ran
    }

    /// Waits for the launches of [`ModuleCore::run`], and ignores their failures.
    pub fn wait_until_idle(&self) {
        let _ = self.device.try_call(|driver| {
            // SAFETY: the stream is live.
            unsafe { driver.synchronize_stream(self.device.service()) }
        });
    }

    /// Checks that a status variable of device code is 0, if there is one.
    ///
    /// # Errors
    /// `BackendFailure` for another value, with `what` as the work that failed; errors of
    /// [`ModuleCore::read`].
    pub fn check_status(&self, name: &str, what: impl fmt::Display) -> Result<()> {
        let Some(found) = self.variable(name)?.filter(|found| found.bytes >= 4) else {
            return Ok(());
        };
        let value = self.read(GlobalAddress::new(found.address, 4))?;
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
    /// `OutOfResources`; errors of the driver.
    pub fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        self.device.memory.allocate(&self.device, MemoryKind::Device, bytes, 8)
    }

    /// Frees memory of [`ModuleCore::allocate`]. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn free(&self, address: DevicePtr) -> Result<()> {
        self.device.memory.free(&self.device, MemoryKind::Device, address)
    }
}

impl<D: Driver> ModuleCore<D> {
    /// Unloads the module. If the driver fails to unload it, closing the device tries again.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn unload(self) -> Result<()> {
        let ModuleCore { device, raw } = self;
        let unloaded = device.end("unloading an image", |driver| {
            // SAFETY: the module is live, and no queue uses it any more.
            unsafe { driver.unload(raw) }
        });
        if unloaded.is_err() {
            device.abandon(raw);
        }
        unloaded
    }
}
