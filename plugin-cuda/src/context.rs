//! The context of a device, and who has it current.

use crate::driver::types::Context;
use crate::driver::{Call, CuResult, Driver, Failure};
use crate::physical::Physical;
use std::marker::PhantomData;
use std::sync::Arc;

/// A device's primary context, retained once. It is the one that CUDA's runtime and other libraries
/// of the process use too.
pub(crate) struct PrimaryContext {
    raw: Context,
    physical: Arc<Physical>,
    released: bool,
}

impl PrimaryContext {
    /// Makes it, if nobody has retained it. May block.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn retain(physical: &Arc<Physical>) -> Result<PrimaryContext, Failure> {
        let mut raw = Context::NULL;
        // SAFETY: the output is ours; the driver knows the device.
        unsafe { physical.driver.cuDevicePrimaryCtxRetain(&mut raw, physical.raw) }?;
        Ok(PrimaryContext { raw, physical: Arc::clone(physical), released: false })
    }

    pub(crate) fn raw(&self) -> Context {
        self.raw
    }

    /// Makes it current on the calling thread until the answer is dropped. A thread that has none keeps
    /// it afterwards, so that the next time costs a look alone; one that has another gets that back.
    ///
    /// # Errors
    /// Those of the driver.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered<'_>, Failure> {
        let (driver, mut current) = (&*self.physical.driver, Context::NULL);
        // SAFETY: the output is ours.
        unsafe { driver.cuCtxGetCurrent(&mut current) }?;
        if current == self.raw {
            return Ok(Entered::found());
        }
        if current.is_null() {
            // SAFETY: the context is retained.
            unsafe { driver.cuCtxSetCurrent(self.raw) }?;
            return Ok(Entered::found());
        }
        self.push()
    }

    /// Makes it current, whatever was, until the answer is dropped.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn push(&self) -> Result<Entered<'_>, Failure> {
        let driver = &*self.physical.driver;
        // SAFETY: the context is retained.
        unsafe { driver.cuCtxPushCurrent(self.raw) }?;
        Ok(Entered { pushed_by: Some(driver), of_thread: PhantomData })
    }

    /// Gives it up. Blocks if nobody else has it: it is destroyed then.
    ///
    /// # Errors
    /// Those of the driver; it is given up all the same.
    pub(crate) fn release(mut self) -> Call {
        self.give_up()
    }

    fn give_up(&mut self) -> Call {
        if std::mem::replace(&mut self.released, true) {
            return Ok(());
        }
        let driver = &self.physical.driver;
        // SAFETY: it was retained once and is released once.
        let released = unsafe { driver.cuDevicePrimaryCtxRelease(self.physical.raw) };
        self.leave_if_destroyed();
        released
    }

    /// Leaves no context on the calling thread that is not there any more.
    fn leave_if_destroyed(&self) {
        let driver = &self.physical.driver;
        let (mut flags, mut active, mut current) = (0, 0, Context::NULL);
        // SAFETY: the outputs are ours.
        let known = unsafe {
            driver
                .cuDevicePrimaryCtxGetState(self.physical.raw, &mut flags, &mut active)
                .and_then(|()| driver.cuCtxGetCurrent(&mut current))
        };
        if known.is_ok() && active == 0 && current == self.raw {
            // SAFETY: no context is one that can be current.
            let _ = unsafe { driver.cuCtxSetCurrent(Context::NULL) };
        }
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        if let Err(failure) = self.give_up()
            && !failure.is(CuResult::DEINITIALIZED)
        {
            log::warn!("'{}': the primary context: {failure:?}", self.physical.name);
        }
    }
}

/// A context is current on this thread until this is dropped.
pub(crate) struct Entered<'a> {
    pushed_by: Option<&'a Driver>,
    /// Not to be dropped on another thread.
    of_thread: PhantomData<*const ()>,
}

impl Entered<'_> {
    #[inline]
    fn found() -> Self {
        Entered { pushed_by: None, of_thread: PhantomData }
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(driver) = self.pushed_by {
            let mut popped = Context::NULL;
            // SAFETY: the output is ours; what is popped was pushed on this thread.
            let _ = unsafe { driver.cuCtxPopCurrent(&mut popped) };
        }
    }
}
