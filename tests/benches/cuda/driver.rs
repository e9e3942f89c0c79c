//! The driver by itself: its functions, called as directly as it goes.

use anyhow::{Context, Result, bail};
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The library, unless the user names another one.
const NAME: &str = "libcuda.so.1";

/// A context, stream, module, function or linker of the driver.
pub(crate) type Handle = *mut c_void;
/// An address on the device.
pub(crate) type DevicePtr = u64;

macro_rules! functions {
    ($($name:ident ($($parameter:ident: $kind:ty),*);)*) => {
        /// The driver's functions. Each fails with the driver's number, and if the driver lacks it.
        #[allow(non_snake_case, reason = "the names are the driver's")]
        pub(crate) struct Driver {
            $($name: Option<unsafe extern "C" fn($($kind),*) -> c_int>,)*
            _library: Library,
        }

        #[allow(non_snake_case, reason = "the names are the driver's")]
        impl Driver {
            fn find(library: Library) -> Driver {
                Driver {
                    $($name: {
                        // SAFETY: the driver's function of this name has this type.
                        let found = unsafe { library.get(stringify!($name)) };
                        found.ok().map(|found| *found)
                    },)*
                    _library: library,
                }
            }

            $(
                /// # Safety
                /// As the driver's documentation of the function says.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "they are the driver's")]
                pub(crate) unsafe fn $name(&self $(, $parameter: $kind)*) -> Result<()> {
                    let name = stringify!($name);
                    let Some(function) = self.$name else { bail!("the driver has no {name}") };
                    // SAFETY: promised by the caller.
                    match unsafe { function($($parameter),*) } {
                        0 => Ok(()),
                        error => bail!("{name}: error {error} of the driver"),
                    }
                }
            )*
        }
    };
}

functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int);
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int);
    cuDeviceGetAttribute(value: *mut c_int, which: c_uint, device: c_int);
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

impl Driver {
    /// Opens the driver's library, or that in its place.
    pub(crate) fn open(path: Option<&str>) -> Result<Driver> {
        let path = path.unwrap_or(NAME);
        // SAFETY: opening the driver's library is what this benchmark is for.
        let library = unsafe { Library::new(path) }.with_context(|| path.to_owned())?;
        Ok(Driver::find(library))
    }
}
