//! A device without Longshore. What is made stays until the process ends.

use crate::driver::{DevicePtr, Driver, Handle};
use anyhow::{Context, Result};
use std::ffi::{CStr, CString, c_int, c_uint};
use std::ptr::{null, null_mut};

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `..._MINOR`.
const CAPABILITY: [c_uint; 2] = [75, 76];
/// `CU_STREAM_NON_BLOCKING`: as a queue of Longshore, it does not wait for the default stream.
const NON_BLOCKING: c_uint = 1;
/// `CU_JIT_INPUT_PTX`.
const PTX: c_uint = 1;

/// A device by the driver alone. Its primary context is current on the thread that opened it.
pub(crate) struct Plain {
    pub(crate) driver: Driver,
    /// Its number among the driver's.
    pub(crate) index: c_int,
    device: c_int,
}

/// Which device.
pub(crate) enum Which {
    Uuid([u8; 16]),
    Index(c_int),
}

impl Plain {
    /// Loads the driver, or the library in its place, starts it, and retains the device's context.
    pub(crate) fn open(library: Option<&str>, which: Which) -> Result<Plain> {
        let driver = Driver::open(library)?;
        // SAFETY: the function has no precondition.
        unsafe { driver.cuInit(0) }?;
        let index = match which {
            Which::Index(index) => index,
            Which::Uuid(uuid) => index_of(&driver, uuid)?,
        };
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: the outputs are ours; the device is the driver's, and the context retained.
        unsafe {
            driver.cuDeviceGet(&mut device, index)?;
            driver.cuDevicePrimaryCtxRetain(&mut context, device)?;
            driver.cuCtxSetCurrent(context)?;
        }
        Ok(Plain { driver, index, device })
    }

    pub(crate) fn name(&self) -> Result<String> {
        let mut name = [0; 256];
        // SAFETY: the output is ours and has this size.
        unsafe {
            self.driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, self.device)?;
            Ok(CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
        }
    }

    /// The version of CUDA that the driver is of.
    pub(crate) fn version(&self) -> Result<String> {
        let mut version = 0;
        // SAFETY: the output is ours.
        unsafe { self.driver.cuDriverGetVersion(&mut version) }?;
        Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// "sm_90".
    pub(crate) fn arch(&self) -> Result<String> {
        let [mut major, mut minor] = [0; 2];
        // SAFETY: the outputs are ours.
        unsafe {
            self.driver.cuDeviceGetAttribute(&mut major, CAPABILITY[0], self.device)?;
            self.driver.cuDeviceGetAttribute(&mut minor, CAPABILITY[1], self.device)?;
        }
        Ok(format!("sm_{major}{minor}"))
    }

    pub(crate) fn free_bytes(&self) -> Result<usize> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the outputs are ours.
        unsafe { self.driver.cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok(free)
    }

    pub(crate) fn stream(&self) -> Result<Handle> {
        let mut stream = null_mut();
        // SAFETY: the output is ours.
        unsafe { self.driver.cuStreamCreate(&mut stream, NON_BLOCKING) }?;
        Ok(stream)
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<DevicePtr> {
        let mut address = 0;
        // SAFETY: the output is ours.
        unsafe { self.driver.cuMemAlloc_v2(&mut address, bytes) }?;
        Ok(address)
    }

    /// Loads a module.
    ///
    /// # Safety
    /// It is a whole cubin, or PTX with a NUL at its end.
    pub(crate) unsafe fn load(&self, image: &[u8]) -> Result<Handle> {
        let mut module = null_mut();
        // SAFETY: the output is ours, the image promised by the caller.
        unsafe { self.driver.cuModuleLoadData(&mut module, image.as_ptr().cast()) }?;
        Ok(module)
    }

    /// A kernel of a live module.
    ///
    /// # Safety
    /// The module is live.
    pub(crate) unsafe fn kernel(&self, module: Handle, name: &CStr) -> Result<Handle> {
        let mut function = null_mut();
        // SAFETY: the output is ours, the module promised by the caller.
        unsafe { self.driver.cuModuleGetFunction(&mut function, module, name.as_ptr()) }?;
        Ok(function)
    }

    /// Makes a cubin of PTX with the driver's own compiler.
    pub(crate) fn link(&self, ptx: &str) -> Result<Vec<u8>> {
        let ptx = CString::new(ptx)?;
        let (mut link, mut cubin, mut bytes) = (null_mut(), null_mut(), 0);
        let (text, length) = (ptx.as_ptr().cast_mut().cast(), ptx.count_bytes() + 1);
        let (none, no_values) = (null_mut(), null_mut());
        // SAFETY: the outputs are ours, the text ends with NUL, and there are no options; the cubin
        // belongs to the linker and is copied before that is destroyed.
        unsafe {
            self.driver.cuLinkCreate_v2(0, none, no_values, &mut link)?;
            self.driver.cuLinkAddData_v2(link, PTX, text, length, null(), 0, none, no_values)?;
            self.driver.cuLinkComplete(link, &mut cubin, &mut bytes)?;
            let cubin = std::slice::from_raw_parts(cubin.cast::<u8>(), bytes).to_vec();
            self.driver.cuLinkDestroy(link)?;
            Ok(cubin)
        }
    }
}

fn index_of(driver: &Driver, uuid: [u8; 16]) -> Result<c_int> {
    let mut count = 0;
    // SAFETY: the output is ours.
    unsafe { driver.cuDeviceGetCount(&mut count) }?;
    for index in 0..count {
        let (mut device, mut known) = (0, [0; 16]);
        // SAFETY: the outputs are ours.
        unsafe {
            driver.cuDeviceGet(&mut device, index)?;
            driver.cuDeviceGetUuid_v2(&mut known, device)?;
        }
        if known == uuid {
            return Ok(index);
        }
    }
    None.context("the driver has no such device")
}
