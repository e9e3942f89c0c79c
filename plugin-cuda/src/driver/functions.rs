//! The driver's functions that the backend uses, with their names, versions and signatures.

use super::Driver;
use super::library::Symbols;
use super::types::{
    Access, Context, Copy3d, Device, DevicePtr, Event, Function, LaunchConfig, Link, Location,
    Module, Pool, PoolProperties, SharedBytesOf, Stream, Uuid,
};
use longshore_plugin_streams::{Code, driver_functions};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// Defines the table. A line has these parts:
///
/// - the function's name for `cuGetProcAddress`, with `_v1` if a later version has the same name;
/// - the CUDA version that introduced this signature;
/// - the name of the library's export;
/// - the parameters.
macro_rules! functions {
    ($($name:ident $version:literal $exported:ident ($($parameter:ident: $kind:ty),*);)*) => {
        driver_functions! { Driver: $($name ($($parameter: $kind),*);)* }

        impl Functions {
            pub(super) fn find(symbols: &Symbols<'_>) -> Functions {
                Functions { $($name: {
                    // SAFETY: the driver's function of this name and version has this type; a test
                    // compares it with the driver's header.
                    unsafe { symbols.find(stringify!($name).trim_end_matches("_v1"), $version, stringify!($exported)) }
                },)* }
            }

            /// Returns each function's name, with the types of its parameters here and in the
            /// driver's header.
            #[cfg(test)]
            pub(super) fn signatures() -> Vec<(&'static str, [Vec<&'static str>; 2])> {
                use super::tests::{Parameters, unknown};
                vec![$((stringify!($exported), [
                    vec![$(std::any::type_name::<$kind>()),*],
                    (cudarc::driver::sys::$exported as unsafe fn($(unknown!($kind)),*) -> _).parameters(),
                ]),)*]
            }
        }
    };
}

functions! {
    cuInit 2000 cuInit (flags: c_uint);
    cuGetErrorString 6000 cuGetErrorString (result: Code, text: *mut *const c_char);

    cuDeviceGetCount 2000 cuDeviceGetCount (count: *mut c_int);
    cuDeviceGet 2000 cuDeviceGet (device: *mut Device, ordinal: c_int);
    cuDeviceGetName 2000 cuDeviceGetName (name: *mut c_char, bytes: c_int, device: Device);
    cuDeviceGetUuid 11040 cuDeviceGetUuid_v2 (uuid: *mut Uuid, device: Device);
    cuDeviceGetUuid_v1 9020 cuDeviceGetUuid (uuid: *mut Uuid, device: Device);
    cuDeviceGetPCIBusId 4010 cuDeviceGetPCIBusId (text: *mut c_char, bytes: c_int, device: Device);
    cuDeviceTotalMem 3020 cuDeviceTotalMem_v2 (bytes: *mut usize, device: Device);
    cuDeviceGetAttribute 2000 cuDeviceGetAttribute (value: *mut c_int, which: c_uint, device: Device);
    cuDeviceCanAccessPeer 4000 cuDeviceCanAccessPeer (can: *mut c_int, device: Device, peer: Device);

    cuDevicePrimaryCtxRetain 7000 cuDevicePrimaryCtxRetain (context: *mut Context, device: Device);
    cuDevicePrimaryCtxRelease 11000 cuDevicePrimaryCtxRelease_v2 (device: Device);
    cuDevicePrimaryCtxGetState 7000 cuDevicePrimaryCtxGetState
        (device: Device, flags: *mut c_uint, active: *mut c_int);
    cuCtxGetCurrent 4000 cuCtxGetCurrent (context: *mut Context);
    cuCtxSetCurrent 4000 cuCtxSetCurrent (context: Context);
    cuCtxPushCurrent 4000 cuCtxPushCurrent_v2 (context: Context);
    cuCtxPopCurrent 4000 cuCtxPopCurrent_v2 (context: *mut Context);
    cuCtxSetLimit 3010 cuCtxSetLimit (limit: c_uint, value: usize);
    cuCtxEnablePeerAccess 4000 cuCtxEnablePeerAccess (peer: Context, flags: c_uint);

    cuMemGetInfo 3020 cuMemGetInfo_v2 (free: *mut usize, total: *mut usize);
    cuMemAlloc 3020 cuMemAlloc_v2 (address: *mut DevicePtr, bytes: usize);
    cuMemFree 3020 cuMemFree_v2 (address: DevicePtr);
    cuMemHostAlloc 2020 cuMemHostAlloc (address: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost 2000 cuMemFreeHost (address: *mut c_void);
    cuMemAllocManaged 6000 cuMemAllocManaged (address: *mut DevicePtr, bytes: usize, flags: c_uint);
    cuMemHostRegister 6050 cuMemHostRegister_v2 (address: *mut c_void, bytes: usize, flags: c_uint);
    cuMemHostUnregister 4000 cuMemHostUnregister (address: *mut c_void);
    cuMemHostGetDevicePointer 3020 cuMemHostGetDevicePointer_v2
        (device: *mut DevicePtr, address: *mut c_void, flags: c_uint);
    cuPointerGetAttribute 4000 cuPointerGetAttribute (value: *mut c_void, which: c_uint, address: DevicePtr);
    cuMemPoolCreate 11020 cuMemPoolCreate (pool: *mut Pool, properties: *const PoolProperties);
    cuMemPoolDestroy 11020 cuMemPoolDestroy (pool: Pool);
    cuMemPoolSetAttribute 11020 cuMemPoolSetAttribute (pool: Pool, which: c_uint, value: *mut c_void);
    cuMemPoolSetAccess 11020 cuMemPoolSetAccess (pool: Pool, access: *const Access, count: usize);
    cuMemAllocFromPoolAsync 11020 cuMemAllocFromPoolAsync
        (address: *mut DevicePtr, bytes: usize, pool: Pool, stream: Stream);
    cuMemFreeAsync 11020 cuMemFreeAsync (address: DevicePtr, stream: Stream);

    cuMemcpyAsync 4000 cuMemcpyAsync (to: DevicePtr, from: DevicePtr, bytes: usize, stream: Stream);
    cuMemcpyHtoDAsync 3020 cuMemcpyHtoDAsync_v2
        (to: DevicePtr, from: *const c_void, bytes: usize, stream: Stream);
    cuMemcpyDtoHAsync 3020 cuMemcpyDtoHAsync_v2
        (to: *mut c_void, from: DevicePtr, bytes: usize, stream: Stream);
    cuMemcpyPeerAsync 4000 cuMemcpyPeerAsync
        (to: DevicePtr, to_context: Context, from: DevicePtr, from_context: Context, bytes: usize, stream: Stream);
    cuMemcpy3DAsync 3020 cuMemcpy3DAsync_v2 (copy: *const Copy3d, stream: Stream);
    cuMemsetD8Async 3020 cuMemsetD8Async (to: DevicePtr, value: u8, count: usize, stream: Stream);
    cuMemsetD16Async 3020 cuMemsetD16Async (to: DevicePtr, value: u16, count: usize, stream: Stream);
    cuMemsetD32Async 3020 cuMemsetD32Async (to: DevicePtr, value: c_uint, count: usize, stream: Stream);
    cuMemPrefetchAsync 12020 cuMemPrefetchAsync_v2
        (address: DevicePtr, bytes: usize, to: Location, flags: c_uint, stream: Stream);
    cuMemPrefetchAsync_v1 8000 cuMemPrefetchAsync
        (address: DevicePtr, bytes: usize, to: Device, stream: Stream);

    cuStreamCreate 2000 cuStreamCreate (stream: *mut Stream, flags: c_uint);
    cuStreamDestroy 4000 cuStreamDestroy_v2 (stream: Stream);
    cuStreamSynchronize 2000 cuStreamSynchronize (stream: Stream);
    cuStreamQuery 2000 cuStreamQuery (stream: Stream);
    cuStreamWaitEvent 3020 cuStreamWaitEvent (stream: Stream, event: Event, flags: c_uint);

    cuEventCreate 2000 cuEventCreate (event: *mut Event, flags: c_uint);
    cuEventDestroy 4000 cuEventDestroy_v2 (event: Event);
    cuEventRecord 2000 cuEventRecord (event: Event, stream: Stream);
    cuEventQuery 2000 cuEventQuery (event: Event);
    cuEventSynchronize 2000 cuEventSynchronize (event: Event);
    cuEventElapsedTime 2000 cuEventElapsedTime (milliseconds: *mut f32, start: Event, end: Event);

    cuModuleLoadDataEx 2010 cuModuleLoadDataEx
        (module: *mut Module, image: *const c_void, count: c_uint, options: *mut c_uint, values: *mut *mut c_void);
    cuModuleUnload 2000 cuModuleUnload (module: Module);
    cuModuleGetFunction 2000 cuModuleGetFunction (function: *mut Function, module: Module, name: *const c_char);
    cuModuleGetGlobal 3020 cuModuleGetGlobal_v2
        (address: *mut DevicePtr, bytes: *mut usize, module: Module, name: *const c_char);
    cuFuncGetAttribute 2020 cuFuncGetAttribute (value: *mut c_int, which: c_uint, function: Function);
    cuFuncSetAttribute 9000 cuFuncSetAttribute (function: Function, which: c_uint, value: c_int);
    cuFuncGetParamInfo 12040 cuFuncGetParamInfo
        (function: Function, index: usize, offset: *mut usize, bytes: *mut usize);

    cuLinkCreate 6050 cuLinkCreate_v2
        (count: c_uint, options: *mut c_uint, values: *mut *mut c_void, link: *mut Link);
    cuLinkAddData 6050 cuLinkAddData_v2
        (link: Link, kind: c_uint, data: *mut c_void, bytes: usize, name: *const c_char, count: c_uint,
         options: *mut c_uint, values: *mut *mut c_void);
    cuLinkComplete 5050 cuLinkComplete (link: Link, cubin: *mut *mut c_void, bytes: *mut usize);
    cuLinkDestroy 5050 cuLinkDestroy (link: Link);

    cuLaunchKernel 4000 cuLaunchKernel
        (function: Function, groups_x: c_uint, groups_y: c_uint, groups_z: c_uint, items_x: c_uint,
         items_y: c_uint, items_z: c_uint, shared_bytes: c_uint, stream: Stream,
         arguments: *mut *mut c_void, extra: *mut *mut c_void);
    cuLaunchKernelEx 11060 cuLaunchKernelEx
        (config: *const LaunchConfig, function: Function, arguments: *mut *mut c_void, extra: *mut *mut c_void);
    cuLaunchCooperativeKernel 9000 cuLaunchCooperativeKernel
        (function: Function, groups_x: c_uint, groups_y: c_uint, groups_z: c_uint, items_x: c_uint,
         items_y: c_uint, items_z: c_uint, shared_bytes: c_uint, stream: Stream, arguments: *mut *mut c_void);
    cuOccupancyMaxActiveBlocksPerMultiprocessor 6050 cuOccupancyMaxActiveBlocksPerMultiprocessor
        (groups: *mut c_int, function: Function, items: c_int, shared_bytes: usize);
    cuOccupancyMaxPotentialBlockSize 6050 cuOccupancyMaxPotentialBlockSize
        (groups: *mut c_int, items: *mut c_int, function: Function, shared: SharedBytesOf, shared_bytes: usize,
         most_items: c_int);
}
