//! HIP, the driver of AMD's GPUs.

mod images;

use crate::driver::{self, forward, functions};
use crate::images::Many;
use crate::ours;
use crate::raw::{DevicePtr, Handle, Names, Raw, Which};
use anyhow::{Context, Result};
use longshore_tests::doubled::{AMDGPU, Doubled};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

/// The library's names, in the order in which the backend tries them.
const LIBRARIES: [&str; 4] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;

functions! {
    hipInit(flags: c_uint);
    hipRuntimeGetVersion(version: *mut c_int);
    hipGetDeviceCount(count: *mut c_int);
    hipDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int);
    hipDeviceGetPCIBusId(text: *mut c_char, bytes: c_int, device: c_int);
    hipSetDevice(device: c_int);
    hipStreamCreateWithFlags(stream: *mut Handle, flags: c_uint);
    hipStreamSynchronize(stream: Handle);
    hipModuleLoadData(module: *mut Handle, image: *const c_void);
    hipModuleUnload(module: Handle);
    hipModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
    hipModuleLaunchKernel(
        function: Handle, groups_x: c_uint, groups_y: c_uint, groups_z: c_uint, items_x: c_uint,
        items_y: c_uint, items_z: c_uint, shared_bytes: c_uint, stream: Handle,
        arguments: *mut *mut c_void, extra: *mut *mut c_void
    );
    hipMemGetInfo(free: *mut usize, total: *mut usize);
    hipMalloc(address: *mut DevicePtr, bytes: usize);
    hipFree(address: DevicePtr);
    hipMemcpyHtoD(to: DevicePtr, from: *const c_void, bytes: usize);
    hipMemcpyDtoH(to: *mut c_void, from: DevicePtr, bytes: usize);
    hipMemcpyHtoDAsync(to: DevicePtr, from: *const c_void, bytes: usize, stream: Handle);
    hipMemcpyDtoHAsync(to: *mut c_void, from: DevicePtr, bytes: usize, stream: Handle);
}

/// A device of HIP's.
pub(crate) struct Hip {
    driver: Driver,
    index: c_int,
}

impl Raw for Hip {
    const OF: Doubled = AMDGPU;
    const NAMES: Names = Names {
        allocate: "hipMalloc",
        free: "hipFree",
        upload: "hipMemcpyHtoD",
        download: "hipMemcpyDtoH",
    };

    fn open(library: Option<&str>, which: Which<'_>) -> Result<Hip> {
        let driver = Driver::find(driver::library(library, &LIBRARIES)?);
        // SAFETY: the function has no precondition.
        unsafe { driver.hipInit(0) }?;
        let index = match which {
            Which::Index(index) => index,
            Which::Same(device) => index_of(&driver, &ours::pci_address(device)?)?,
        };
        // SAFETY: the function has no precondition.
        unsafe { driver.hipSetDevice(index) }?;
        Ok(Hip { driver, index })
    }

    fn index(&self) -> c_int {
        self.index
    }

    fn name(&self) -> Result<String> {
        // SAFETY: the output has `bytes` bytes.
        text(|name, bytes| unsafe { self.driver.hipDeviceGetName(name, bytes, self.index) })
    }

    fn version(&self) -> Result<String> {
        let mut version = 0;
        // SAFETY: the output is ours.
        unsafe { self.driver.hipRuntimeGetVersion(&mut version) }?;
        let (major, rest) = (version / 10_000_000, version % 10_000_000);
        Ok(format!("HIP {major}.{}.{}", rest / 100_000, rest % 100_000))
    }

    fn free_bytes(&self) -> Result<usize> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the outputs are ours.
        unsafe { self.driver.hipMemGetInfo(&mut free, &mut total) }?;
        Ok(free)
    }

    fn stream(&self) -> Result<Handle> {
        let mut stream = null_mut();
        // SAFETY: the output is ours.
        unsafe { self.driver.hipStreamCreateWithFlags(&mut stream, NON_BLOCKING) }?;
        Ok(stream)
    }

    forward! {
        wait(stream: Handle) => hipStreamSynchronize;
        free(address: DevicePtr) => hipFree;
        queue_upload(to: DevicePtr, from: *const c_void, bytes: usize, stream: Handle) => hipMemcpyHtoDAsync;
        queue_download(to: *mut c_void, from: DevicePtr, bytes: usize, stream: Handle) => hipMemcpyDtoHAsync;
    }

    #[inline]
    fn allocate(&self, bytes: usize) -> Result<DevicePtr> {
        let mut address = 0;
        // SAFETY: the output is ours.
        unsafe { self.driver.hipMalloc(&mut address, bytes) }?;
        Ok(address)
    }

    /// Copies to the device. If the library lacks the call, as the double does, the copy uses the
    /// default stream.
    #[inline]
    unsafe fn upload(&self, to: DevicePtr, from: *const c_void, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller; the default stream is always live.
        unsafe {
            if self.driver.hipMemcpyHtoD.is_some() {
                return self.driver.hipMemcpyHtoD(to, from, bytes);
            }
            self.queue_upload(to, from, bytes, null_mut())?;
            self.wait(null_mut())
        }
    }

    /// Copies from the device, like [`Raw::upload`].
    #[inline]
    unsafe fn download(&self, to: *mut c_void, from: DevicePtr, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller; the default stream is always live.
        unsafe {
            if self.driver.hipMemcpyDtoH.is_some() {
                return self.driver.hipMemcpyDtoH(to, from, bytes);
            }
            self.queue_download(to, from, bytes, null_mut())?;
            self.wait(null_mut())
        }
    }

    unsafe fn load(&self, image: &[u8]) -> Result<Handle> {
        let mut module = null_mut();
        // SAFETY: the output is ours, the image promised by the caller.
        unsafe { self.driver.hipModuleLoadData(&mut module, image.as_ptr().cast()) }?;
        Ok(module)
    }

    unsafe fn unload(&self, module: Handle) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.driver.hipModuleUnload(module) }
    }

    unsafe fn kernel(&self, module: Handle, name: &CStr) -> Result<Handle> {
        let mut function = null_mut();
        // SAFETY: the output is ours, the module promised by the caller.
        unsafe { self.driver.hipModuleGetFunction(&mut function, module, name.as_ptr()) }?;
        Ok(function)
    }

    #[inline]
    unsafe fn launch(&self, function: Handle, stream: Handle) -> Result<()> {
        // As in the backend: if both pointers are null, HIP may still look for arguments.
        let (mut arguments, none) = ([null_mut(); 1], null_mut());
        let arguments = arguments.as_mut_ptr();
        // SAFETY: promised by the caller.
        unsafe {
            self.driver
                .hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, none)
        }
    }

    fn empty(arch: &str) -> Result<Vec<u8>> {
        images::empty(arch)
    }

    fn many(&self, arch: &str) -> Result<Many> {
        images::many(arch)
    }
}

/// Finds a device by its PCI address, as the versions of HIP define UUIDs differently.
fn index_of(driver: &Driver, pci_address: &str) -> Result<c_int> {
    let mut count = 0;
    // SAFETY: the output is ours.
    unsafe { driver.hipGetDeviceCount(&mut count) }?;
    for index in 0..count {
        // SAFETY: the output has `bytes` bytes.
        let known = text(|text, bytes| unsafe { driver.hipDeviceGetPCIBusId(text, bytes, index) })?;
        if known.eq_ignore_ascii_case(pci_address) {
            return Ok(index);
        }
    }
    None.context("the driver has no such device")
}

/// Returns the text that a function writes, which ends with NUL.
fn text(write: impl Fn(*mut c_char, c_int) -> Result<()>) -> Result<String> {
    let mut bytes = [0u8; 256];
    write(bytes.as_mut_ptr().cast(), bytes.len() as c_int)?;
    Ok(CStr::from_bytes_until_nul(&bytes)?.to_string_lossy().into_owned())
}
