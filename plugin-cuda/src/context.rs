//! The context of a device, and making it current on threads.

use crate::driver::Driver;
use crate::driver::types::{Context, Device};
use longshore_plugin_streams::{Call, Code, Failure};
use std::marker::PhantomData;
use std::sync::Arc;

/// A device's primary context, retained once. CUDA's runtime and other libraries of the process
/// share this context.
pub struct PrimaryContext {
    raw: Context,
    device: Device,
    driver: Arc<Driver>,
    released: bool,
}

impl PrimaryContext {
    /// Retains the context; creates it if no other code of the process has retained it. May block.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn retain(driver: &Arc<Driver>, device: Device) -> Result<PrimaryContext, Failure> {
        let mut raw = Context::NULL;
        // SAFETY: the output is a local variable; the driver knows the device.
        unsafe { driver.cuDevicePrimaryCtxRetain(&mut raw, device) }?;
        Ok(PrimaryContext { raw, device, driver: Arc::clone(driver), released: false })
    }

    pub(crate) fn raw(&self) -> Context {
        self.raw
    }

    fn give_up(&mut self) -> Call {
        if std::mem::replace(&mut self.released, true) {
            return Ok(());
        }
        // SAFETY: `retain` retained the context once, and `released` lets this function release it
        // once.
        let released = unsafe { self.driver.cuDevicePrimaryCtxRelease(self.device) };
        self.leave_if_destroyed();
        released
    }

    /// Removes a destroyed context from the calling thread.
    fn leave_if_destroyed(&self) {
        let driver = &self.driver;
        let (mut flags, mut active, mut current) = (0, 0, Context::NULL);
        // SAFETY: the outputs are local variables.
        let known = unsafe {
            driver
                .cuDevicePrimaryCtxGetState(self.device, &mut flags, &mut active)
                .and_then(|()| driver.cuCtxGetCurrent(&mut current))
        };
        if known.is_ok() && active == 0 && current == self.raw {
            // SAFETY: the null context is valid for this call.
            let _ = unsafe { driver.cuCtxSetCurrent(Context::NULL) };
        }
    }
}

impl longshore_plugin_streams::Context for PrimaryContext {
    type CurrentGuard<'a> = CurrentGuard<'a>;

    fn handle(&self) -> u64 {
        self.raw.address()
    }

    /// Makes the context current. A thread without a context keeps this one afterwards, so that the
    /// next call only checks it; a thread with another context gets that one back.
    #[inline]
    fn enter(&self) -> Result<CurrentGuard<'_>, Failure> {
        let (driver, mut current) = (&*self.driver, Context::NULL);
        // SAFETY: the output is a local variable.
        let asked = unsafe { driver.cuCtxGetCurrent(&mut current) };
        if asked.is_ok() && current == self.raw {
            return Ok(CurrentGuard::found());
        }
        if asked.is_ok() && current.is_null() {
            // SAFETY: the context is retained.
            unsafe { driver.cuCtxSetCurrent(self.raw) }?;
            return Ok(CurrentGuard::found());
        }
        self.force()
    }

    fn visit(&self) -> Result<CurrentGuard<'_>, Failure> {
        self.force()
    }

    fn force(&self) -> Result<CurrentGuard<'_>, Failure> {
        let driver = &*self.driver;
        // SAFETY: the context is retained.
        unsafe { driver.cuCtxPushCurrent(self.raw) }?;
        Ok(CurrentGuard { pushed_by: Some(driver), of_thread: PhantomData })
    }

    /// Releases the context. Blocks if no other code has retained it, as the driver then destroys
    /// it.
    fn release(mut self) -> Call {
        self.give_up()
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        if let Err(failure) = self.give_up()
            && !failure.is(Code::DEINITIALIZED)
        {
            log::warn!("the primary context of device {}: {failure:?}", self.device);
        }
    }
}

/// A guard that keeps a context current on its thread.
pub struct CurrentGuard<'a> {
    pushed_by: Option<&'a Driver>,
    /// Marker that keeps the guard on its thread.
    of_thread: PhantomData<*const ()>,
}

impl CurrentGuard<'_> {
    #[inline]
    fn found() -> Self {
        CurrentGuard { pushed_by: None, of_thread: PhantomData }
    }
}

impl Drop for CurrentGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(driver) = self.pushed_by {
            let mut popped = Context::NULL;
            // SAFETY: the output is a local variable; the guard pushed the popped context on this
            // thread.
            let _ = unsafe { driver.cuCtxPopCurrent(&mut popped) };
        }
    }
}
