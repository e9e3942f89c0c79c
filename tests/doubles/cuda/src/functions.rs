//! The driver's functions.

use crate::cluster::{self, Config};
use crate::jit::Options;
use crate::{attributes, current, kernel, link, loading, peer, prefetch, rect, version};
use longshore_double_gpu::driver::launch::{Shape, Values, launch};
use longshore_double_gpu::driver::location::Location;
use longshore_double_gpu::driver::occupancy::SharedBytesOf;
use longshore_double_gpu::driver::pool::{Access, Properties};
use longshore_double_gpu::driver::stream::HostFn;
use longshore_double_gpu::driver::{In, Out, Text, Untyped};
use longshore_double_gpu::driver::{
    context, device, event, fill, function, host_memory, memory, module, occupancy, ordered_memory,
    pointer, pool, stream, transfer,
};
use std::ffi::{c_char, c_void};

/// UUID of the first device.
const UUID: [u8; 16] = *b"longshore-doubl\0";
/// Flags: portable, mapped, write-combined.
const HOST_FLAGS: u32 = 1 | 2 | 4;
/// Flags: portable, mapped.
const REGISTER_FLAGS: u32 = 1 | 2;

longshore_double_gpu::driver_functions! {
    cuInit 2000 Nothing (flags: u32) => version::init(flags);
    cuDriverGetVersion 2020 Nothing (version: Out<i32>) => version::driver_version(version);
    cuGetProcAddress_v2 = "cuGetProcAddress" 12000 Nothing
        (name: Text, function: Out<*const c_void>, version: i32, flags: u64, status: Out<u32>)
        => version::address_of(name, function, version, flags, status);
    cuGetErrorName 6000 Nothing (result: u32, name: Out<*const c_char>)
        => version::error_name(result, name);
    cuGetErrorString 6000 Nothing (result: u32, text: Out<*const c_char>)
        => version::error_text(result, text);

    cuDeviceGetCount 2000 Driver (count: Out<i32>) => device::count(count);
    cuDeviceGet 2000 Driver (device: Out<i32>, ordinal: i32) => attributes::device(device, ordinal);
    cuDeviceGetName 2000 Driver (name: Out<u8>, room: i32, device: i32)
        => device::name(name, room, device);
    cuDeviceGetUuid 9020 Driver (uuid: Out<[u8; 16]>, device: i32) => device::uuid(uuid, device, UUID);
    cuDeviceGetUuid_v2 = "cuDeviceGetUuid" 11040 Driver (uuid: Out<[u8; 16]>, device: i32) => device::uuid(uuid, device, UUID);
    cuDeviceGetPCIBusId 4010 Driver (text: Out<u8>, room: i32, device: i32)
        => device::bus_id(text, room, device);
    cuDeviceTotalMem_v2 = "cuDeviceTotalMem" 3020 Driver (bytes: Out<usize>, device: i32)
        => device::total_memory(bytes, device);
    cuDeviceGetAttribute 2000 Driver (value: Out<i32>, which: u32, device: i32)
        => attributes::attribute(value, which, device);
    cuDeviceGetDefaultMemPool 11020 Driver (pool: Out<usize>, device: i32)
        => pool::default_of(pool, device);
    cuDeviceCanAccessPeer 4000 Driver (can: Out<i32>, device: i32, peer: i32)
        => memory::can_access_peer(can, device, peer);

    cuDevicePrimaryCtxRetain 7000 Driver (context: Out<usize>, device: i32)
        => current::retain(context, device);
    cuDevicePrimaryCtxRelease_v2 = "cuDevicePrimaryCtxRelease" 11000 Driver (device: i32) => current::release(device);
    cuDevicePrimaryCtxReset_v2 = "cuDevicePrimaryCtxReset" 11000 Driver (device: i32) => current::reset(device);
    cuDevicePrimaryCtxGetState 7000 Driver
        (device: i32, flags: Out<u32>, active: Out<i32>) => current::state(device, flags, active);
    cuCtxGetCurrent 4000 Driver (context: Out<usize>) => current::get(context);
    cuCtxSetCurrent 4000 Driver (context: usize) => current::set(context);
    cuCtxPushCurrent_v2 = "cuCtxPushCurrent" 4000 Driver (context: usize) => current::push(context);
    cuCtxPopCurrent_v2 = "cuCtxPopCurrent" 4000 Driver (context: Out<usize>) => current::pop(context);
    cuCtxGetDevice 2000 Driver (device: Out<i32>) => current::device_of(device);
    cuCtxSynchronize 2000 Driver () => context::synchronize();
    cuCtxSetLimit 3010 Driver (limit: u32, value: usize) => current::set_limit(limit, value);
    cuCtxGetLimit 3010 Driver (value: Out<usize>, limit: u32) => current::limit(value, limit);
    cuCtxGetId 12000 Driver (context: usize, id: Out<u64>) => current::id(context, id);
    cuCtxCreate_v2 = "cuCtxCreate" 3020 Driver (context: Out<usize>, flags: u32, device: i32)
        => current::create(context, flags, device);
    cuCtxDestroy_v2 = "cuCtxDestroy" 4000 Driver (context: usize) => current::destroy(context);
    cuCtxEnablePeerAccess 4000 Driver (peer: usize, flags: u32)
        => peer::enable(peer, flags);
    cuCtxDisablePeerAccess 4000 Driver (peer: usize) => peer::disable(peer);
    cuProfilerStart 4000 Driver () => current::profile();
    cuProfilerStop 4000 Driver () => current::profile();

    cuMemGetInfo_v2 = "cuMemGetInfo" 3020 Driver (free: Out<usize>, total: Out<usize>) => memory::info(free, total);
    cuMemAlloc_v2 = "cuMemAlloc" 3020 Driver (address: Out<u64>, bytes: usize) => memory::allocate(address, bytes);
    cuMemFree_v2 = "cuMemFree" 3020 Driver (address: u64) => memory::free(address);
    cuMemAllocManaged 6000 Driver (address: Out<u64>, bytes: usize, flags: u32)
        => memory::allocate_managed(address, bytes, flags);
    cuMemHostAlloc 2020 Driver (address: Out<u64>, bytes: usize, flags: u32)
        => host_memory::allocate(address, bytes, flags, HOST_FLAGS);
    cuMemFreeHost 2000 Driver (address: u64) => host_memory::free(address);
    cuMemHostRegister_v2 = "cuMemHostRegister" 6050 Driver (address: usize, bytes: usize, flags: u32)
        => host_memory::register(address, bytes, flags, REGISTER_FLAGS);
    cuMemHostUnregister 4000 Driver (address: u64) => host_memory::unregister(address);
    cuMemHostGetDevicePointer_v2 = "cuMemHostGetDevicePointer" 3020 Driver
        (device: Out<u64>, address: u64, flags: u32) => host_memory::device_pointer(device, address, flags);
    cuMemHostGetFlags 2030 Driver (flags: Out<u32>, address: u64)
        => host_memory::flags(flags, address);
    cuPointerGetAttribute 4000 Driver (value: Untyped, which: u32, pointer: u64)
        => pointer::attribute(value, which, pointer);
    cuPointerGetAttributes 7000 Driver
        (count: u32, which: In<u32>, values: In<Untyped>, pointer: u64)
        => pointer::attributes(count, which, values, pointer);

    cuMemPoolCreate 11020 Driver (pool: Out<usize>, properties: In<Properties>)
        => pool::create(pool, properties);
    cuMemPoolDestroy 11020 Driver (pool: usize) => pool::destroy(pool);
    cuMemPoolSetAttribute 11020 Driver (pool: usize, which: u32, value: Untyped)
        => pool::set_attribute(pool, which, value);
    cuMemPoolGetAttribute 11020 Driver (pool: usize, which: u32, value: Untyped)
        => pool::attribute(pool, which, value);
    cuMemPoolSetAccess 11020 Driver (pool: usize, accesses: In<Access>, count: usize)
        => pool::set_access(pool, accesses, count);
    cuMemPoolTrimTo 11020 Driver (pool: usize, keep: usize) => pool::trim(pool, keep);
    cuMemAllocFromPoolAsync 11020 Driver
        (address: Out<u64>, bytes: usize, pool: usize, stream: usize) => ordered_memory::allocate(address, bytes, pool, stream);
    cuMemAllocAsync 11020 Driver (address: Out<u64>, bytes: usize, stream: usize)
        => ordered_memory::allocate_default(address, bytes, stream);
    cuMemFreeAsync 11020 Driver (address: u64, stream: usize) => ordered_memory::free(address, stream);
    cuMemPrefetchAsync 8000 Driver (address: u64, bytes: usize, device: i32, stream: usize)
        => memory::prefetch(address, bytes, device, stream);
    cuMemPrefetchAsync_v2 = "cuMemPrefetchAsync" 12020 Driver
        (address: u64, bytes: usize, location: Location, flags: u32, stream: usize)
        => prefetch::prefetch_to(address, bytes, location, flags, stream);

    cuMemcpyHtoD_v2 = "cuMemcpyHtoD" 3020 Driver (to: u64, from: usize, bytes: usize)
        => transfer::to_device(to, from, bytes);
    cuMemcpyDtoH_v2 = "cuMemcpyDtoH" 3020 Driver (to: usize, from: u64, bytes: usize)
        => transfer::to_host(to, from, bytes);
    cuMemcpyDtoD_v2 = "cuMemcpyDtoD" 3020 Driver (to: u64, from: u64, bytes: usize)
        => transfer::within_device(to, from, bytes);
    cuMemcpy 4000 Driver (to: u64, from: u64, bytes: usize) => transfer::anywhere(to, from, bytes);
    cuMemcpyHtoDAsync_v2 = "cuMemcpyHtoDAsync" 3020 Driver (to: u64, from: usize, bytes: usize, stream: usize)
        => transfer::to_device_async(to, from, bytes, stream);
    cuMemcpyDtoHAsync_v2 = "cuMemcpyDtoHAsync" 3020 Driver (to: usize, from: u64, bytes: usize, stream: usize)
        => transfer::to_host_async(to, from, bytes, stream);
    cuMemcpyDtoDAsync_v2 = "cuMemcpyDtoDAsync" 3020 Driver (to: u64, from: u64, bytes: usize, stream: usize)
        => transfer::within_device_async(to, from, bytes, stream);
    cuMemcpyAsync 4000 Driver (to: u64, from: u64, bytes: usize, stream: usize)
        => transfer::anywhere_async(to, from, bytes, stream);
    cuMemcpyPeerAsync 4000 Driver
        (to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: usize)
        => peer::copy(to, to_context, from, from_context, bytes, stream);
    cuMemcpy3DAsync_v2 = "cuMemcpy3DAsync" 3020 Driver (copy: In<rect::Copy3d>, stream: usize)
        => rect::copy_rect(copy, stream);
    cuMemsetD8_v2 = "cuMemsetD8" 3020 Driver (to: u64, value: u8, count: usize) => fill::fill_now(to, &[value], count);
    cuMemsetD8Async 3020 Driver (to: u64, value: u8, count: usize, stream: usize)
        => fill::fill(to, &[value], count, stream);
    cuMemsetD16Async 3020 Driver (to: u64, value: u16, count: usize, stream: usize)
        => fill::fill(to, &value.to_le_bytes(), count, stream);
    cuMemsetD32Async 3020 Driver (to: u64, value: u32, count: usize, stream: usize)
        => fill::fill(to, &value.to_le_bytes(), count, stream);
    cuMemsetD2D8Async 3020 Driver
        (to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: usize)
        => fill::fill_rows(to, pitch, &[value], width, height, stream);
    cuMemsetD2D16Async 3020 Driver
        (to: u64, pitch: usize, value: u16, width: usize, height: usize, stream: usize)
        => fill::fill_rows(to, pitch, &value.to_le_bytes(), width, height, stream);
    cuMemsetD2D32Async 3020 Driver
        (to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: usize)
        => fill::fill_rows(to, pitch, &value.to_le_bytes(), width, height, stream);

    cuStreamCreate 2000 Driver (stream: Out<usize>, flags: u32) => stream::create(stream, flags);
    cuStreamCreateWithPriority 5050 Driver
        (stream: Out<usize>, flags: u32, priority: i32) => stream::create_with_priority(stream, flags, priority);
    cuStreamDestroy_v2 = "cuStreamDestroy" 4000 Driver (stream: usize) => stream::destroy(stream);
    cuStreamSynchronize 2000 Driver (stream: usize) => stream::synchronize(stream);
    cuStreamQuery 2000 Driver (stream: usize) => stream::query(stream);
    cuStreamWaitEvent 3020 Driver (stream: usize, event: usize, flags: u32)
        => event::wait_in_stream(stream, event, flags);
    cuStreamGetCtx 9020 Driver (stream: usize, context: Out<usize>)
        => stream::context_of(stream, context);
    cuLaunchHostFunc 10000 Driver
        (stream: usize, function: Option<HostFn>, argument: *mut c_void)
        => stream::launch_host_function(stream, function, argument);

    cuEventCreate 2000 Driver (event: Out<usize>, flags: u32) => event::create(event, flags, 0);
    cuEventDestroy_v2 = "cuEventDestroy" 4000 Driver (event: usize) => event::destroy(event);
    cuEventRecord 2000 Driver (event: usize, stream: usize) => event::record(event, stream);
    cuEventQuery 2000 Driver (event: usize) => event::query(event);
    cuEventSynchronize 2000 Driver (event: usize) => event::synchronize(event);
    cuEventElapsedTime 2000 Driver (milliseconds: Out<f32>, start: usize, end: usize)
        => event::elapsed(milliseconds, start, end);
    cuEventElapsedTime_v2 = "cuEventElapsedTime" 12080 Driver (milliseconds: Out<f32>, start: usize, end: usize)
        => event::elapsed(milliseconds, start, end);

    cuModuleLoadData 2000 Driver (module: Out<usize>, image: In<c_void>)
        => loading::load(module, image, Options::none());
    cuModuleLoadDataEx 2010 Driver
        (module: Out<usize>, image: In<c_void>, count: u32, numbers: In<u32>, values: *mut *mut c_void)
        => loading::load(module, image, Options { count, numbers, values });
    cuModuleUnload 2000 Driver (module: usize) => module::unload(module);
    cuModuleGetFunction 2000 Driver (function: Out<usize>, module: usize, name: Text)
        => function::named(function, module, name);
    cuModuleGetGlobal_v2 = "cuModuleGetGlobal" 3020 Driver
        (address: Out<u64>, bytes: Out<usize>, module: usize, name: Text)
        => module::global(address, bytes, module, name);
    cuModuleGetLoadingMode 11070 Driver (mode: Out<u32>) => loading::loading_mode(mode);
    cuModuleGetFunctionCount 12040 Driver (count: Out<u32>, module: usize)
        => loading::function_count(count, module);
    cuModuleEnumerateFunctions 12040 Driver
        (functions: *mut usize, count: u32, module: usize) => loading::enumerate(functions, count, module);
    cuFuncGetName 12030 Driver (name: Out<*const c_char>, function: usize)
        => kernel::name(name, function);
    cuFuncGetParamInfo 12040 Driver
        (function: usize, index: usize, offset: Out<usize>, bytes: Out<usize>)
        => kernel::parameter(function, index, offset, bytes);
    cuFuncGetAttribute 2020 Driver (value: Out<i32>, which: u32, function: usize)
        => kernel::attribute(value, which, function);
    cuFuncSetAttribute 9000 Driver (function: usize, which: u32, value: i32)
        => kernel::set_attribute(function, which, value);
    cuFuncLoad 12040 Driver (function: usize) => kernel::load(function);

    cuLinkCreate_v2 = "cuLinkCreate" 6050 Driver
        (count: u32, numbers: In<u32>, values: *mut *mut c_void, state: Out<usize>)
        => link::create(Options { count, numbers, values }, state);
    cuLinkAddData_v2 = "cuLinkAddData" 6050 Driver
        (state: usize, kind: u32, data: In<c_void>, bytes: usize, name: Text, count: u32, numbers: In<u32>,
         values: *mut *mut c_void)
        => link::add(state, kind, data, bytes, name, Options { count, numbers, values });
    cuLinkComplete 5050 Driver (state: usize, cubin: Out<*const u8>, bytes: Out<usize>)
        => link::complete(state, cubin, bytes);
    cuLinkDestroy 5050 Driver (state: usize) => link::destroy(state);

    cuLaunchKernel 4000 Driver
        (function: usize, groups_x: u32, groups_y: u32, groups_z: u32, items_x: u32, items_y: u32, items_z: u32,
         shared_bytes: u32, stream: usize, pointers: In<usize>, extra: In<usize>)
        => launch(function,
            Shape::new([groups_x, groups_y, groups_z], [items_x, items_y, items_z], shared_bytes),
            stream, cluster::values(pointers, extra));
    cuLaunchKernelEx 11060 Driver
        (config: In<Config>, function: usize, pointers: In<usize>, extra: In<usize>)
        => cluster::launch_config(config, function, cluster::values(pointers, extra));
    cuLaunchCooperativeKernel 9000 Driver
        (function: usize, groups_x: u32, groups_y: u32, groups_z: u32, items_x: u32, items_y: u32, items_z: u32,
         shared_bytes: u32, stream: usize, pointers: In<usize>)
        => launch(function,
            Shape::new([groups_x, groups_y, groups_z], [items_x, items_y, items_z], shared_bytes).cooperative(),
            stream, Values::new(pointers));
    cuOccupancyMaxActiveBlocksPerMultiprocessor 6050 Driver
        (count: Out<i32>, function: usize, items: i32, shared_bytes: usize)
        => occupancy::active_groups(count, function, items, shared_bytes, 0);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000
        Driver (count: Out<i32>, function: usize, items: i32, shared_bytes: usize, flags: u32)
        => occupancy::active_groups(count, function, items, shared_bytes, flags);
    cuOccupancyMaxPotentialBlockSize 6050 Driver
        (grid: Out<i32>, best: Out<i32>, function: usize, shared_of: Option<SharedBytesOf>, shared_bytes: usize,
         limit: i32)
        => occupancy::best_size(grid, best, function, shared_of, shared_bytes, limit);
}
