//! The runtime's functions.

use crate::{attributes, current, image, memory as own_memory, properties, rect, version};
use longshore_double_gpu::driver::launch::{Shape, Values, launch};
use longshore_double_gpu::driver::pool::{Access, Properties};
use longshore_double_gpu::driver::{In, Out, Text, Untyped, take_last_error};
use longshore_double_gpu::driver::{
    device, event, fill, function, host_memory, memory, module, occupancy, ordered_memory, pointer,
    pool, stream, transfer,
};
use std::ffi::{c_char, c_void};

/// UUID of the first device: hexadecimal digits, like the runtime's.
const UUID: [u8; 16] = *b"d0b1e000d0b1e000";
/// HIP's own flags of events: no fence, release to the device, release to the system.
const EVENT_FLAGS: u32 = 0x2000_0000 | 0x4000_0000 | 0x8000_0000;
/// HIP's own attributes of functions with their values: constant memory, caching, the share of
/// shared memory.
const FUNCTION_ATTRIBUTES: [(u32, i32); 3] = [(2, 0), (7, 0), (9, 0)];
/// Tag that ends the list of extras.
const EXTRA_END: usize = 3;

longshore_double_gpu::driver_functions! {
    hipInit 5 Nothing (flags: u32) => version::init(flags);
    hipRuntimeGetVersion 5 Nothing (version: Out<i32>) => version::runtime_version(version);
    hipGetErrorName 5 Nothing (result: u32) -> *const c_char => version::error_name(result);
    hipGetErrorString 5 Nothing (result: u32) -> *const c_char => version::error_text(result);

    hipGetLastError 5 Nothing () => take_last_error();

    hipGetDeviceCount 5 Nothing (count: Out<i32>) => version::device_count(count);
    hipDeviceGetName 5 Driver (name: Out<u8>, room: i32, device: i32) => device::name(name, room, device);
    hipDeviceGetUuid 5 Driver (uuid: Out<[u8; 16]>, device: i32) => device::uuid(uuid, device, UUID);
    hipDeviceGetPCIBusId 5 Driver (text: Out<u8>, room: i32, device: i32) => device::bus_id(text, room, device);
    hipDeviceTotalMem 5 Driver (bytes: Out<usize>, device: i32) => device::total_memory(bytes, device);
    hipDeviceGetAttribute 5 Driver (value: Out<i32>, which: u32, device: i32)
        => attributes::attribute(value, which, device);
    hipGetDeviceProperties 5 Driver (properties: Out<[u8; properties::FIRST_BYTES]>, device: i32)
        => properties::first(properties, device);
    hipGetDevicePropertiesR0600 6 Driver (properties: Out<[u8; properties::SECOND_BYTES]>, device: i32)
        => properties::second(properties, device);
    hipDeviceCanAccessPeer 5 Driver (can: Out<i32>, device: i32, peer: i32)
        => memory::can_access_peer(can, device, peer);
    hipDeviceEnablePeerAccess 5 Driver (peer: i32, flags: u32) => own_memory::enable_peer(peer, flags);
    hipGetDevice 5 Driver (device: Out<i32>) => current::get(device);
    hipSetDevice 5 Driver (device: i32) => current::set(device);
    hipDeviceSetLimit 6 Driver (limit: u32, value: usize) => current::set_limit(limit, value);

    hipMemGetInfo 5 Driver (free: Out<usize>, total: Out<usize>) => memory::info(free, total);
    hipMalloc 5 Driver (address: Out<u64>, bytes: usize) => own_memory::allocate(address, bytes);
    hipFree 5 Driver (address: u64) => memory::free(address);
    hipHostMalloc 5 Driver (address: Out<u64>, bytes: usize, flags: u32)
        => own_memory::allocate_host(address, bytes, flags);
    hipHostFree 5 Driver (address: u64) => host_memory::free(address);
    hipMallocManaged 5 Driver (address: Out<u64>, bytes: usize, flags: u32)
        => memory::allocate_managed(address, bytes, flags);
    hipHostRegister 5 Driver (address: usize, bytes: usize, flags: u32)
        => own_memory::register(address, bytes, flags);
    hipHostUnregister 5 Driver (address: u64) => host_memory::unregister(address);
    hipHostGetDevicePointer 5 Driver (device: Out<u64>, address: u64, flags: u32)
        => host_memory::device_pointer(device, address, flags);
    hipPointerGetAttribute 5 Driver (value: Untyped, which: u32, pointer: u64)
        => pointer::attribute(value, which, pointer);
    hipDrvPointerGetAttributes 5 Driver (count: u32, which: In<u32>, values: In<Untyped>, pointer: u64)
        => pointer::attributes(count, which, values, pointer);
    hipMemGetAddressRange 5 Driver (start: Out<u64>, bytes: Out<usize>, pointer: u64)
        => pointer::range(start, bytes, pointer);

    hipMemPoolCreate 5 Driver (pool: Out<usize>, properties: In<Properties>) => pool::create(pool, properties);
    hipMemPoolDestroy 5 Driver (pool: usize) => pool::destroy(pool);
    hipMemPoolSetAttribute 5 Driver (pool: usize, which: u32, value: Untyped)
        => pool::set_attribute(pool, which, value);
    hipMemPoolSetAccess 5 Driver (pool: usize, accesses: In<Access>, count: usize)
        => pool::set_access(pool, accesses, count);
    hipMallocFromPoolAsync 5 Driver (address: Out<u64>, bytes: usize, pool: usize, stream: usize)
        => own_memory::allocate_from_pool(address, bytes, pool, stream);
    hipFreeAsync 5 Driver (address: u64, stream: usize) => ordered_memory::free(address, stream);

    hipMemcpyAsync 5 Driver (to: u64, from: u64, bytes: usize, kind: u32, stream: usize)
        => own_memory::copy(to, from, bytes, kind, stream);
    hipMemcpyHtoDAsync 5 Driver (to: u64, from: usize, bytes: usize, stream: usize)
        => transfer::to_device_async(to, from, bytes, stream);
    hipMemcpyDtoHAsync 5 Driver (to: usize, from: u64, bytes: usize, stream: usize)
        => transfer::to_host_async(to, from, bytes, stream);
    hipMemcpyPeerAsync 5 Driver
        (to: u64, to_device: i32, from: u64, from_device: i32, bytes: usize, stream: usize)
        => own_memory::copy_between(to, to_device, from, from_device, bytes, stream);
    hipMemcpy3DAsync 5 Driver (copy: In<rect::Copy3d>, stream: usize) => rect::copy_rect(copy, stream);
    hipMemsetD8Async 5 Driver (to: u64, value: u8, count: usize, stream: usize)
        => fill::fill(to, &[value], count, stream);
    hipMemsetD16Async 5 Driver (to: u64, value: u16, count: usize, stream: usize)
        => fill::fill(to, &value.to_le_bytes(), count, stream);
    hipMemsetD32Async 5 Driver (to: u64, value: i32, count: usize, stream: usize)
        => fill::fill(to, &value.to_le_bytes(), count, stream);
    hipMemPrefetchAsync 5 Driver (address: u64, bytes: usize, device: i32, stream: usize)
        => memory::prefetch(address, bytes, device, stream);

    hipStreamCreateWithFlags 5 Driver (stream: Out<usize>, flags: u32) => stream::create(stream, flags);
    hipStreamDestroy 5 Driver (stream: usize) => stream::destroy(stream);
    hipStreamSynchronize 5 Driver (stream: usize) => stream::synchronize(stream);
    hipStreamQuery 5 Driver (stream: usize) => stream::query(stream);
    hipStreamWaitEvent 5 Driver (stream: usize, event: usize, flags: u32)
        => event::wait_in_stream(stream, event, flags);

    hipEventCreateWithFlags 5 Driver (event: Out<usize>, flags: u32) => event::create(event, flags, EVENT_FLAGS);
    hipEventDestroy 5 Driver (event: usize) => event::destroy(event);
    hipEventRecord 5 Driver (event: usize, stream: usize) => event::record(event, stream);
    hipEventQuery 5 Driver (event: usize) => event::query(event);
    hipEventSynchronize 5 Driver (event: usize) => event::synchronize(event);
    hipEventElapsedTime 5 Driver (milliseconds: Out<f32>, start: usize, end: usize)
        => event::elapsed(milliseconds, start, end);

    hipModuleLoadData 5 Driver (module: Out<usize>, image: In<c_void>) => image::load(module, image);
    hipModuleUnload 5 Driver (module: usize) => image::unload(module);
    hipModuleGetFunction 5 Driver (function: Out<usize>, module: usize, name: Text)
        => function::named(function, module, name);
    hipModuleGetGlobal 5 Driver (address: Out<u64>, bytes: Out<usize>, module: usize, name: Text)
        => module::global(address, bytes, module, name);
    hipFuncGetAttribute 5 Driver (value: Out<i32>, which: u32, function: usize)
        => function::attribute(value, which, function, &FUNCTION_ATTRIBUTES);
    hipModuleLaunchKernel 5 Driver
        (function: usize, groups_x: u32, groups_y: u32, groups_z: u32, items_x: u32, items_y: u32, items_z: u32,
         shared_bytes: u32, stream: usize, pointers: In<usize>, extra: In<usize>)
        => launch(function,
            Shape::new([groups_x, groups_y, groups_z], [items_x, items_y, items_z], shared_bytes),
            stream, Values { pointers, extra, extra_end: EXTRA_END });
    hipModuleLaunchCooperativeKernel 6 Driver
        (function: usize, groups_x: u32, groups_y: u32, groups_z: u32, items_x: u32, items_y: u32, items_z: u32,
         shared_bytes: u32, stream: usize, pointers: In<usize>)
        => launch(function,
            Shape::new([groups_x, groups_y, groups_z], [items_x, items_y, items_z], shared_bytes).cooperative(),
            stream, Values::new(pointers));
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor 5 Driver
        (count: Out<i32>, function: usize, items: i32, shared_bytes: usize)
        => occupancy::active_groups(count, function, items, shared_bytes, 0);
    hipModuleOccupancyMaxPotentialBlockSize 5 Driver
        (grid: Out<i32>, best: Out<i32>, function: usize, shared_bytes: usize, limit: i32)
        => occupancy::best_size(grid, best, function, None, shared_bytes, limit);
}
