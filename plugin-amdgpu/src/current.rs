//! Which device is current on a thread. HIP has no other context that a program must know of.

use crate::driver::Driver;
use longshore_plugin_streams::{Call, Context, Failure};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

/// A device, as what can be current.
pub struct Current {
    ordinal: c_int,
    driver: Arc<Driver>,
}

impl Current {
    pub(crate) fn new(driver: &Arc<Driver>, ordinal: c_int) -> Current {
        Current { ordinal, driver: Arc::clone(driver) }
    }

    /// HIP's number for the device.
    pub(crate) fn ordinal(&self) -> c_int {
        self.ordinal
    }
}

impl Context for Current {
    type Entered<'a> = Entered<'a>;

    #[inline]
    fn enter(&self) -> Result<Entered<'_>, Failure> {
        let mut before = 0;
        // SAFETY: the output is ours.
        if unsafe { self.driver.hipGetDevice(&mut before) }.is_err() {
            return self.force();
        }
        let entered = Entered { before: None, of_thread: PhantomData };
        if before == self.ordinal {
            return Ok(entered);
        }
        // SAFETY: HIP knows the device.
        unsafe { self.driver.hipSetDevice(self.ordinal) }?;
        Ok(Entered { before: Some((&self.driver, before)), ..entered })
    }

    fn visit(&self) -> Result<Entered<'_>, Failure> {
        self.enter()
    }

    fn force(&self) -> Result<Entered<'_>, Failure> {
        // SAFETY: HIP knows the device.
        unsafe { self.driver.hipSetDevice(self.ordinal) }?;
        Ok(Entered { before: None, of_thread: PhantomData })
    }

    fn release(self) -> Call {
        Ok(())
    }
}

/// A device is current on this thread until this is dropped.
pub struct Entered<'a> {
    /// What is to be current again.
    before: Option<(&'a Driver, c_int)>,
    /// Not to be dropped on another thread.
    of_thread: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((driver, before)) = self.before {
            // SAFETY: HIP has said that it was this one.
            let _ = unsafe { driver.hipSetDevice(before) };
        }
    }
}
