//! The current device of a thread. HIP has no other context that a program needs.

use crate::driver::Driver;
use longshore_plugin_streams::{Call, Context, Failure};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

/// A device in its role as context.
pub struct Current {
    ordinal: c_int,
    driver: Arc<Driver>,
}

impl Current {
    pub(crate) fn new(driver: &Arc<Driver>, ordinal: c_int) -> Current {
        Current { ordinal, driver: Arc::clone(driver) }
    }

    /// Returns HIP's number of the device.
    pub(crate) fn ordinal(&self) -> c_int {
        self.ordinal
    }
}

impl Context for Current {
    type CurrentGuard<'a> = CurrentGuard<'a>;

    #[inline]
    fn enter(&self) -> Result<CurrentGuard<'_>, Failure> {
        let mut before = 0;
        // SAFETY: the output is a local variable.
        if unsafe { self.driver.hipGetDevice(&mut before) }.is_err() {
            return self.force();
        }
        let entered = CurrentGuard { before: None, of_thread: PhantomData };
        if before == self.ordinal {
            return Ok(entered);
        }
        // SAFETY: HIP knows the device.
        unsafe { self.driver.hipSetDevice(self.ordinal) }?;
        Ok(CurrentGuard { before: Some((&self.driver, before)), ..entered })
    }

    fn visit(&self) -> Result<CurrentGuard<'_>, Failure> {
        self.enter()
    }

    fn force(&self) -> Result<CurrentGuard<'_>, Failure> {
        // SAFETY: HIP knows the device.
        unsafe { self.driver.hipSetDevice(self.ordinal) }?;
        Ok(CurrentGuard { before: None, of_thread: PhantomData })
    }

    fn release(self) -> Call {
        Ok(())
    }
}

/// A guard that keeps a device current on its thread.
pub struct CurrentGuard<'a> {
    /// The device that becomes current again, if the guard changed it.
    before: Option<(&'a Driver, c_int)>,
    /// Marker that keeps the guard on its thread.
    of_thread: PhantomData<*const ()>,
}

impl Drop for CurrentGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((driver, before)) = self.before {
            // SAFETY: HIP returned this number for the previous device.
            let _ = unsafe { driver.hipSetDevice(before) };
        }
    }
}
