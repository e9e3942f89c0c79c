//! The driver as one with streams.

use super::types::{
    Access, DevicePtr, Event, Function, Location, Module, Pool, PoolProperties, REGISTER_READ_ONLY,
    Stream, attach, copy_kind, event_flag, host_memory, pointer_attribute, pool_attribute,
    stream_flag,
};
use super::{Driver, result};
use crate::current::Current;
use crate::device::AmdgpuOwn;
use longshore_plugin_api::ErrorCode;
use longshore_streams::{Call, Code, DeviceCore, EventKind, Launch, Registrations};
use std::ffi::{CStr, c_int, c_uint, c_void};

/// `hipCpuDeviceId`.
const CPU: c_int = -1;

static REGISTRATIONS: Registrations = Registrations::new();

impl longshore_streams::Driver for Driver {
    type Context = Current;
    type Own = AmdgpuOwn;

    const NAME: &'static str = "HIP";
    const THREAD: &'static str = "longshore-hip";
    const CAPTURED_BYTES: u64 = 0;

    /// "6.3.42134".
    fn version_text(&self) -> String {
        let version = self.version();
        let (major, rest) = (version / 10_000_000, version % 10_000_000);
        format!("{major}.{}.{}", rest / 100_000, rest % 100_000)
    }

    fn name(&self, result: Code) -> Option<String> {
        Driver::say(self.name_of, result)
    }

    fn text(&self, result: Code) -> Option<String> {
        Driver::say(self.text_of, result)
    }

    fn error_code(result: Code) -> ErrorCode {
        result::error_code(result)
    }

    fn is_sticky(result: Code) -> bool {
        result::is_sticky(result)
    }

    fn registrations() -> &'static Registrations {
        &REGISTRATIONS
    }

    fn was_waited_for(device: &DeviceCore<Driver>) {
        device.own().print_messages(device);
    }

    fn is_closing(device: &DeviceCore<Driver>) {
        device.own().close(device.driver());
    }

    unsafe fn free_bytes(&self, free: &mut u64) -> Call {
        let (mut bytes, mut total) = (0, 0);
        // SAFETY: promised by the caller.
        unsafe { self.hipMemGetInfo(&mut bytes, &mut total) }?;
        *free = bytes as u64;
        Ok(())
    }

    unsafe fn create_stream(&self, stream: &mut Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipStreamCreateWithFlags(stream, stream_flag::NON_BLOCKING) }
    }

    unsafe fn destroy_stream(&self, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipStreamDestroy(stream) }
    }

    #[inline]
    unsafe fn synchronize_stream(&self, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipStreamSynchronize(stream) }
    }

    unsafe fn query_stream(&self, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipStreamQuery(stream) }
    }

    unsafe fn wait_event(&self, stream: Stream, event: Event) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipStreamWaitEvent(stream, event, 0) }
    }

    unsafe fn create_event(&self, event: &mut Event, kind: EventKind) -> Call {
        let flags = match kind {
            EventKind::Plain => event_flag::DISABLE_TIMING,
            EventKind::Timed => event_flag::DEFAULT,
            EventKind::Sleeper => event_flag::DISABLE_TIMING | event_flag::BLOCKING_SYNC,
        };
        // SAFETY: promised by the caller.
        unsafe { self.hipEventCreateWithFlags(event, flags) }
    }

    unsafe fn destroy_event(&self, event: Event) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipEventDestroy(event) }
    }

    unsafe fn record_event(&self, event: Event, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipEventRecord(event, stream) }
    }

    unsafe fn query_event(&self, event: Event) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipEventQuery(event) }
    }

    unsafe fn synchronize_event(&self, event: Event) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipEventSynchronize(event) }
    }

    unsafe fn elapsed(&self, milliseconds: &mut f32, start: Event, end: Event) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipEventElapsedTime(milliseconds, start, end) }
    }

    unsafe fn create_pool(&self, pool: &mut Pool, ordinal: i32) -> Call {
        const PINNED: c_uint = 1;
        let properties = PoolProperties {
            allocation: PINNED,
            handles: 0,
            location: Location { kind: Location::DEVICE, id: ordinal },
            security: std::ptr::null_mut(),
            reserved: [0; 64],
        };
        let mut kept_bytes = 0u64;
        let value = (&raw mut kept_bytes).cast();
        // SAFETY: the structure is valid during the call, the attribute a number of 64 bits; nothing was
        // allocated from a pool that is destroyed here.
        unsafe {
            self.hipMemPoolCreate(pool, &properties)?;
            let set = self.hipMemPoolSetAttribute(*pool, pool_attribute::RELEASE_THRESHOLD, value);
            set.inspect_err(|_| _ = self.hipMemPoolDestroy(*pool))
        }
    }

    unsafe fn destroy_pool(&self, pool: Pool) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMemPoolDestroy(pool) }
    }

    unsafe fn allow_pool(&self, pool: Pool, ordinal: i32) -> Call {
        const READ_WRITE: c_uint = 3;
        let location = Location { kind: Location::DEVICE, id: ordinal };
        let access = Access { location, flags: READ_WRITE };
        // SAFETY: promised by the caller; the structure is valid during the call.
        unsafe { self.hipMemPoolSetAccess(pool, &access, 1) }
    }

    unsafe fn allocate_from(
        &self,
        address: &mut DevicePtr,
        bytes: usize,
        pool: Pool,
        stream: Stream,
    ) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMallocFromPoolAsync(address, bytes, pool, stream) }
    }

    unsafe fn free_on(&self, address: DevicePtr, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipFreeAsync(address, stream) }
    }

    unsafe fn allocate(&self, address: &mut DevicePtr, bytes: usize) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMalloc(address, bytes) }
    }

    unsafe fn free(&self, address: DevicePtr) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipFree(address) }
    }

    unsafe fn allocate_host(&self, address: &mut DevicePtr, bytes: usize) -> Call {
        let flags = host_memory::PORTABLE | host_memory::MAPPED;
        // SAFETY: promised by the caller.
        unsafe { self.hipHostMalloc(address, bytes, flags) }
    }

    unsafe fn free_host(&self, address: DevicePtr) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipHostFree(address) }
    }

    unsafe fn allocate_managed(&self, address: &mut DevicePtr, bytes: usize) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMallocManaged(address, bytes, attach::GLOBAL) }
    }

    unsafe fn register(&self, address: u64, bytes: usize) -> Call {
        let flags = host_memory::PORTABLE | host_memory::MAPPED;
        let register = |flags| {
            // SAFETY: promised by the caller.
            unsafe { self.hipHostRegister(address as *mut c_void, bytes, flags) }
        };
        match register(flags) {
            Err(failure) if failure.is(Code::INVALID_VALUE) => {
                register(flags | REGISTER_READ_ONLY).map_err(|_| failure)
            }
            registered => registered,
        }
    }

    unsafe fn unregister(&self, address: u64) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipHostUnregister(address as *mut c_void) }
    }

    unsafe fn device_address(&self, device: &mut DevicePtr, address: u64) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipHostGetDevicePointer(device, address as *mut c_void, 0) }
    }

    fn is_managed(&self, address: u64) -> bool {
        self.pointer(pointer_attribute::IS_MANAGED, address) == Some(1)
    }

    fn page_locked(&self, address: u64) -> Option<(u64, u64)> {
        // `hipMemoryTypeHost`.
        let host = u64::from(self.is_renumbered());
        let kind = self.pointer(pointer_attribute::MEMORY_TYPE, address);
        if kind != Some(host) && !self.is_managed(address) {
            return None;
        }
        let start = self.pointer(pointer_attribute::RANGE_START_ADDR, address)?;
        Some((start, self.pointer(pointer_attribute::RANGE_SIZE, address)?))
    }

    unsafe fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: usize, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMemcpyAsync(to, from, bytes, copy_kind::DEFAULT, stream) }
    }

    unsafe fn copy_to_device(
        &self,
        to: DevicePtr,
        from: *const c_void,
        bytes: usize,
        stream: Stream,
    ) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMemcpyHtoDAsync(to, from, bytes, stream) }
    }

    unsafe fn copy_to_host(
        &self,
        to: *mut c_void,
        from: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMemcpyDtoHAsync(to, from, bytes, stream) }
    }

    unsafe fn copy_between(
        &self,
        (to, to_device): (DevicePtr, &Current),
        (from, from_device): (DevicePtr, &Current),
        bytes: usize,
        stream: Stream,
    ) -> Call {
        // SAFETY: promised by the caller.
        unsafe {
            self.hipMemcpyPeerAsync(
                to,
                to_device.ordinal(),
                from,
                from_device.ordinal(),
                bytes,
                stream,
            )
        }
    }

    unsafe fn fill_8(&self, to: DevicePtr, value: u8, count: usize, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMemsetD8Async(to, value, count, stream) }
    }

    unsafe fn fill_16(&self, to: DevicePtr, value: u16, count: usize, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMemsetD16Async(to, value, count, stream) }
    }

    unsafe fn fill_32(&self, to: DevicePtr, value: u32, count: usize, stream: Stream) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMemsetD32Async(to, value.cast_signed(), count, stream) }
    }

    unsafe fn prefetch(
        &self,
        address: DevicePtr,
        bytes: usize,
        to: longshore_streams::Location,
        stream: Stream,
    ) -> Call {
        let device = match to {
            longshore_streams::Location::Device(ordinal) => ordinal,
            longshore_streams::Location::Host => CPU,
        };
        // SAFETY: promised by the caller.
        unsafe { self.hipMemPrefetchAsync(address, bytes, device, stream) }
    }

    unsafe fn can_access(&self, can: &mut bool, ordinal: i32, peer: i32) -> Call {
        let mut answer = 0;
        // SAFETY: promised by the caller.
        unsafe { self.hipDeviceCanAccessPeer(&mut answer, ordinal, peer) }?;
        *can = answer != 0;
        Ok(())
    }

    unsafe fn enable_access(&self, peer: &Current) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipDeviceEnablePeerAccess(peer.ordinal(), 0) }
    }

    unsafe fn unload(&self, module: Module) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipModuleUnload(module) }
    }

    unsafe fn function(&self, function: &mut Function, module: Module, name: &CStr) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipModuleGetFunction(function, module, name.as_ptr()) }
    }

    unsafe fn global(
        &self,
        address: &mut DevicePtr,
        bytes: &mut usize,
        module: Module,
        name: &CStr,
    ) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipModuleGetGlobal(address, bytes, module, name.as_ptr()) }
    }

    #[inline]
    unsafe fn launch(
        &self,
        function: Function,
        launch: &Launch,
        arguments: *const *const c_void,
        stream: Stream,
    ) -> Call {
        let Launch { shape, .. } = launch;
        let ([gx, gy, gz], [x, y, z]) = (shape.groups, shape.items);
        let shared = shape.dynamic_shared_bytes as c_uint;
        let (arguments, none) = (arguments.cast_mut().cast::<*mut c_void>(), std::ptr::null_mut());
        // SAFETY: promised by the caller.
        unsafe {
            if shape.cooperative {
                self.hipModuleLaunchCooperativeKernel(
                    function, gx, gy, gz, x, y, z, shared, stream, arguments,
                )
            } else {
                self.hipModuleLaunchKernel(
                    function, gx, gy, gz, x, y, z, shared, stream, arguments, none,
                )
            }
        }
    }

    unsafe fn best_group_items(&self, items: &mut i32, function: Function, shared: usize) -> Call {
        let mut groups = 0;
        // SAFETY: promised by the caller.
        unsafe {
            self.hipModuleOccupancyMaxPotentialBlockSize(&mut groups, items, function, shared, 0)
        }
    }

    unsafe fn active_groups(
        &self,
        groups: &mut i32,
        function: Function,
        items: i32,
        shared: usize,
    ) -> Call {
        // SAFETY: promised by the caller.
        unsafe {
            self.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(groups, function, items, shared)
        }
    }
}

impl Driver {
    /// What the driver knows of an address.
    fn pointer(&self, which: c_uint, address: u64) -> Option<u64> {
        let mut value = 0u64;
        // SAFETY: no attribute that is asked for has more than 8 bytes; of those with fewer the others
        // stay 0.
        let asked = unsafe { self.hipPointerGetAttribute((&raw mut value).cast(), which, address) };
        asked.is_ok().then_some(value)
    }
}
