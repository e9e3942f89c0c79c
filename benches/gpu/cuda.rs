//! CUDA's driver.

mod images;

use crate::driver::{self, forward, functions};
use crate::images::Many;
use crate::ours;
use crate::raw::{DevicePtr, Handle, Names, Raw, Which};
use anyhow::{Context, Result};
use longshore_tests::doubled::{CUDA, Doubled};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CU_JIT_INPUT_PTX`.
const PTX: c_uint = 1;

functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int);
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int);
    cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int);
    cuCtxSetCurrent(context: Handle);
    cuStreamCreate(stream: *mut Handle, flags: c_uint);
    cuStreamSynchronize(stream: Handle);
    cuModuleLoadData(module: *mut Handle, image: *const c_void);
    cuModuleUnload(module: Handle);
    cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
    cuLaunchKernel(
        function: Handle, groups_x: c_uint, groups_y: c_uint, groups_z: c_uint, items_x: c_uint,
        items_y: c_uint, items_z: c_uint, shared_bytes: c_uint, stream: Handle,
        arguments: *mut *mut c_void, extra: *mut *mut c_void
    );
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(address: *mut DevicePtr, bytes: usize);
    cuMemFree_v2(address: DevicePtr);
    cuMemcpyHtoD_v2(to: DevicePtr, from: *const c_void, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut c_void, from: DevicePtr, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: DevicePtr, from: *const c_void, bytes: usize, stream: Handle);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: DevicePtr, bytes: usize, stream: Handle);
    cuLinkCreate_v2(
        count: c_uint, options: *mut c_uint, values: *mut *mut c_void, link: *mut Handle
    );
    cuLinkAddData_v2(
        link: Handle, kind: c_uint, data: *mut c_void, bytes: usize, name: *const c_char,
        count: c_uint, options: *mut c_uint, values: *mut *mut c_void
    );
    cuLinkComplete(link: Handle, cubin: *mut *mut c_void, bytes: *mut usize);
    cuLinkDestroy(link: Handle);
}

/// A device with a retained primary context.
pub(crate) struct Cuda {
    driver: Driver,
    index: c_int,
    device: c_int,
}

impl Raw for Cuda {
    const OF: Doubled = CUDA;
    const NAMES: Names = Names {
        allocate: "cuMemAlloc",
        free: "cuMemFree",
        upload: "cuMemcpyHtoD",
        download: "cuMemcpyDtoH",
    };

    fn open(library: Option<&str>, which: Which<'_>) -> Result<Cuda> {
        let driver = Driver::find(driver::library(library, &["libcuda.so.1"])?);
        // SAFETY: the function has no precondition.
        unsafe { driver.cuInit(0) }?;
        let index = match which {
            Which::Index(index) => index,
            Which::Same(device) => index_of(&driver, ours::uuid(device)?)?,
        };
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: the outputs are ours; the device is the driver's, and the context retained.
        unsafe {
            driver.cuDeviceGet(&mut device, index)?;
            driver.cuDevicePrimaryCtxRetain(&mut context, device)?;
            driver.cuCtxSetCurrent(context)?;
        }
        Ok(Cuda { driver, index, device })
    }

    fn index(&self) -> c_int {
        self.index
    }

    fn name(&self) -> Result<String> {
        let mut name = [0; 256];
        // SAFETY: the output is ours and has this size.
        unsafe {
            self.driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, self.device)?;
            Ok(CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
        }
    }

    fn version(&self) -> Result<String> {
        let mut version = 0;
        // SAFETY: the output is ours.
        unsafe { self.driver.cuDriverGetVersion(&mut version) }?;
        Ok(format!("CUDA {}.{}", version / 1000, version % 1000 / 10))
    }

    fn free_bytes(&self) -> Result<usize> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the outputs are ours.
        unsafe { self.driver.cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok(free)
    }

    fn stream(&self) -> Result<Handle> {
        let mut stream = null_mut();
        // SAFETY: the output is ours.
        unsafe { self.driver.cuStreamCreate(&mut stream, NON_BLOCKING) }?;
        Ok(stream)
    }

    forward! {
        wait(stream: Handle) => cuStreamSynchronize;
        free(address: DevicePtr) => cuMemFree_v2;
        queue_upload(to: DevicePtr, from: *const c_void, bytes: usize, stream: Handle) => cuMemcpyHtoDAsync_v2;
        queue_download(to: *mut c_void, from: DevicePtr, bytes: usize, stream: Handle) => cuMemcpyDtoHAsync_v2;
    }

    #[inline]
    fn allocate(&self, bytes: usize) -> Result<DevicePtr> {
        let mut address = 0;
        // SAFETY: the output is ours.
        unsafe { self.driver.cuMemAlloc_v2(&mut address, bytes) }?;
        Ok(address)
    }

    #[inline]
    unsafe fn upload(&self, to: DevicePtr, from: *const c_void, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.driver.cuMemcpyHtoD_v2(to, from, bytes) }
    }

    #[inline]
    unsafe fn download(&self, to: *mut c_void, from: DevicePtr, bytes: usize) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.driver.cuMemcpyDtoH_v2(to, from, bytes) }
    }

    unsafe fn load(&self, image: &[u8]) -> Result<Handle> {
        let mut module = null_mut();
        // SAFETY: the output is ours, the image promised by the caller.
        unsafe { self.driver.cuModuleLoadData(&mut module, image.as_ptr().cast()) }?;
        Ok(module)
    }

    unsafe fn unload(&self, module: Handle) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.driver.cuModuleUnload(module) }
    }

    unsafe fn kernel(&self, module: Handle, name: &CStr) -> Result<Handle> {
        let mut function = null_mut();
        // SAFETY: the output is ours, the module promised by the caller.
        unsafe { self.driver.cuModuleGetFunction(&mut function, module, name.as_ptr()) }?;
        Ok(function)
    }

    #[inline]
    unsafe fn launch(&self, function: Handle, stream: Handle) -> Result<()> {
        let none = null_mut();
        // SAFETY: promised by the caller.
        unsafe { self.driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, none, none) }
    }

    fn empty(_arch: &str) -> Result<Vec<u8>> {
        Ok(images::EMPTY.into())
    }

    fn many(&self, arch: &str) -> Result<Many> {
        images::cubin(self, arch)
    }
}

impl Cuda {
    /// Compiles PTX to a cubin by the driver's own compiler.
    fn link(&self, ptx: &str) -> Result<Vec<u8>> {
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
