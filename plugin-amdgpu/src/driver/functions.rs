//! HIP's functions that the backend uses. Apart from `const`, their signatures are the same in
//! versions 5, 6 and 7. Two functions are for the structure of properties, whose layout changed.

use super::Driver;
use super::types::{
    Access, Copy3d, DevicePtr, Event, Function, Module, Pool, PoolProperties, Properties, Stream,
    Uuid,
};
use libloading::Library;
use longshore_plugin_streams::driver_functions;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// Defines the table.
macro_rules! functions {
    ($($name:ident ($($parameter:ident: $kind:ty),*);)*) => {
        driver_functions! { Driver: $($name ($($parameter: $kind),*);)* }

        impl Functions {
            pub(super) fn find(library: &Library) -> Functions {
                Functions { $($name: {
                    // SAFETY: the library's function of this name has this type; a test compares it
                    // with HIP's header.
                    unsafe { library.get(stringify!($name)) }.ok().map(|found| *found)
                },)* }
            }

            /// Returns each function's name and the types of its parameters.
            #[cfg(test)]
            pub(super) fn signatures() -> Vec<(&'static str, Vec<&'static str>)> {
                vec![$((stringify!($name), vec![$(std::any::type_name::<$kind>()),*]),)*]
            }
        }
    };
}

functions! {
    hipInit(flags: c_uint);
    hipRuntimeGetVersion(version: *mut c_int);

    hipGetDeviceCount(count: *mut c_int);
    hipDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int);
    hipDeviceGetUuid(uuid: *mut Uuid, device: c_int);
    hipDeviceGetPCIBusId(text: *mut c_char, bytes: c_int, device: c_int);
    hipDeviceTotalMem(bytes: *mut usize, device: c_int);
    hipDeviceGetAttribute(value: *mut c_int, which: c_uint, device: c_int);
    hipGetDeviceProperties(properties: *mut Properties, device: c_int);
    hipGetDevicePropertiesR0600(properties: *mut Properties, device: c_int);
    hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
    hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint);
    hipGetDevice(device: *mut c_int);
    hipSetDevice(device: c_int);
    hipDeviceSetLimit(limit: c_uint, value: usize);

    hipMemGetInfo(free: *mut usize, total: *mut usize);
    hipMalloc(address: *mut DevicePtr, bytes: usize);
    hipFree(address: DevicePtr);
    hipHostMalloc(address: *mut DevicePtr, bytes: usize, flags: c_uint);
    hipHostFree(address: DevicePtr);
    hipMallocManaged(address: *mut DevicePtr, bytes: usize, flags: c_uint);
    hipHostRegister(address: *mut c_void, bytes: usize, flags: c_uint);
    hipHostUnregister(address: *mut c_void);
    hipHostGetDevicePointer(device: *mut DevicePtr, address: *mut c_void, flags: c_uint);
    hipDrvPointerGetAttributes
        (count: c_uint, which: *mut c_uint, values: *mut *mut c_void, address: DevicePtr);
    hipMemGetAddressRange(start: *mut DevicePtr, bytes: *mut usize, address: DevicePtr);
    hipMemPoolCreate(pool: *mut Pool, properties: *const PoolProperties);
    hipMemPoolDestroy(pool: Pool);
    hipMemPoolSetAttribute(pool: Pool, which: c_uint, value: *mut c_void);
    hipMemPoolSetAccess(pool: Pool, access: *const Access, count: usize);
    hipMallocFromPoolAsync(address: *mut DevicePtr, bytes: usize, pool: Pool, stream: Stream);
    hipFreeAsync(address: DevicePtr, stream: Stream);

    hipMemcpyAsync(to: DevicePtr, from: DevicePtr, bytes: usize, kind: c_uint, stream: Stream);
    hipMemcpyHtoDAsync(to: DevicePtr, from: *const c_void, bytes: usize, stream: Stream);
    hipMemcpyDtoHAsync(to: *mut c_void, from: DevicePtr, bytes: usize, stream: Stream);
    hipMemcpyPeerAsync
        (to: DevicePtr, to_device: c_int, from: DevicePtr, from_device: c_int, bytes: usize, stream: Stream);
    hipMemcpy3DAsync(copy: *const Copy3d, stream: Stream);
    hipMemsetD8Async(to: DevicePtr, value: u8, count: usize, stream: Stream);
    hipMemsetD16Async(to: DevicePtr, value: u16, count: usize, stream: Stream);
    hipMemsetD32Async(to: DevicePtr, value: c_int, count: usize, stream: Stream);
    hipMemPrefetchAsync(address: DevicePtr, bytes: usize, to: c_int, stream: Stream);

    hipStreamCreateWithFlags(stream: *mut Stream, flags: c_uint);
    hipStreamDestroy(stream: Stream);
    hipStreamSynchronize(stream: Stream);
    hipStreamQuery(stream: Stream);
    hipStreamWaitEvent(stream: Stream, event: Event, flags: c_uint);

    hipEventCreateWithFlags(event: *mut Event, flags: c_uint);
    hipEventDestroy(event: Event);
    hipEventRecord(event: Event, stream: Stream);
    hipEventQuery(event: Event);
    hipEventSynchronize(event: Event);
    hipEventElapsedTime(milliseconds: *mut f32, start: Event, end: Event);

    hipModuleLoadData(module: *mut Module, image: *const c_void);
    hipModuleUnload(module: Module);
    hipModuleGetFunction(function: *mut Function, module: Module, name: *const c_char);
    hipModuleGetGlobal(address: *mut DevicePtr, bytes: *mut usize, module: Module, name: *const c_char);
    hipModuleLaunchKernel
        (function: Function, groups_x: c_uint, groups_y: c_uint, groups_z: c_uint, items_x: c_uint,
         items_y: c_uint, items_z: c_uint, shared_bytes: c_uint, stream: Stream,
         arguments: *mut *mut c_void, extra: *mut *mut c_void);
    hipModuleLaunchCooperativeKernel
        (function: Function, groups_x: c_uint, groups_y: c_uint, groups_z: c_uint, items_x: c_uint,
         items_y: c_uint, items_z: c_uint, shared_bytes: c_uint, stream: Stream, arguments: *mut *mut c_void);
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
        (groups: *mut c_int, function: Function, items: c_int, shared_bytes: usize);
    hipModuleOccupancyMaxPotentialBlockSize
        (groups: *mut c_int, items: *mut c_int, function: Function, shared_bytes: usize, most_items: c_int);
}
