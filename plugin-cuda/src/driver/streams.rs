//! Implementation of the trait `Driver` of `longshore-plugin-streams` for CUDA.

use super::types::{
    Access, Copy3d, Copy3dEnd, DevicePtr, Event, Function, LaunchAttribute, LaunchConfig, Location,
    Module, Pool, PoolProperties, Stream, attach, event_flag, function_attribute, host_memory,
    memory_type, pointer_attribute, pool_attribute, stream_flag,
};
use super::{Driver, result};
use crate::context::PrimaryContext;
use crate::device::CudaDeviceData;
use longshore_plugin_api::{ErrorCode, LaunchShape, WorkerPool};
use longshore_plugin_streams::{
    BusyQueue, Call, Code, EventKind, RectCopy, RectEnd, Registrations, forward,
};
use std::ffi::{CStr, c_int, c_uint, c_void};

impl<Host> Copy3dEnd<Host> {
    /// Creates an end. `host` makes a pointer of an address, and `null` is the null pointer.
    fn new(end: &RectEnd, host: impl FnOnce(u64) -> Host, null: Host) -> Copy3dEnd<Host> {
        let address = end.span.address();
        let (memory, host, device) = match end.is_of_host {
            true => (memory_type::HOST, host(address), 0),
            false => (memory_type::DEVICE, null, address),
        };
        Copy3dEnd {
            offsets: [0; 4],
            memory,
            host,
            device,
            array: [std::ptr::null_mut(); 2],
            pitch: end.span.pitch().row as usize,
            height: end.slice_rows() as usize,
        }
    }
}

/// `CU_DEVICE_CPU`.
const CPU: c_int = -1;

static REGISTRATIONS: Registrations = Registrations::new();
static WORKER_POOL: WorkerPool<BusyQueue> = BusyQueue::worker_pool("longshore-cu");

impl longshore_plugin_streams::Driver for Driver {
    type Context = PrimaryContext;
    type DeviceData = CudaDeviceData;

    const NAME: &'static str = "CUDA";
    const CAPTURED_BYTES: u64 = 64 << 10;

    fn version_text(&self) -> String {
        format!("{}.{}", self.version / 1000, self.version % 1000 / 10)
    }

    fn name(&self, result: Code) -> Option<String> {
        result::name(result).map(str::to_owned)
    }

    fn text(&self, result: Code) -> Option<String> {
        let mut text = std::ptr::null();
        // SAFETY: the output is a local variable.
        unsafe { self.cuGetErrorString(result, &mut text) }.ok()?;
        // SAFETY: a successful call returns a constant, NUL-terminated string.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
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

    fn worker_pool() -> &'static WorkerPool<BusyQueue> {
        &WORKER_POOL
    }

    forward! {
        create_stream(stream: &mut Stream) => cuStreamCreate(stream, stream_flag::NON_BLOCKING);
        destroy_stream(stream: Stream) => cuStreamDestroy(stream);
        synchronize_stream(stream: Stream) => cuStreamSynchronize(stream);
        query_stream(stream: Stream) => cuStreamQuery(stream);
        wait_event(stream: Stream, event: Event) => cuStreamWaitEvent(stream, event, 0);
        destroy_event(event: Event) => cuEventDestroy(event);
        record_event(event: Event, stream: Stream) => cuEventRecord(event, stream);
        query_event(event: Event) => cuEventQuery(event);
        synchronize_event(event: Event) => cuEventSynchronize(event);
        elapsed(milliseconds: &mut f32, start: Event, end: Event) => cuEventElapsedTime(milliseconds, start, end);
        destroy_pool(pool: Pool) => cuMemPoolDestroy(pool);
        allocate_from(address: &mut DevicePtr, bytes: usize, pool: Pool, stream: Stream) => cuMemAllocFromPoolAsync(address, bytes, pool, stream);
        free_on(address: DevicePtr, stream: Stream) => cuMemFreeAsync(address, stream);
        allocate(address: &mut DevicePtr, bytes: usize) => cuMemAlloc(address, bytes);
        free(address: DevicePtr) => cuMemFree(address);
        free_host(address: DevicePtr) => cuMemFreeHost(address as *mut c_void);
        allocate_managed(address: &mut DevicePtr, bytes: usize) => cuMemAllocManaged(address, bytes, attach::GLOBAL);
        unregister(address: u64) => cuMemHostUnregister(address as *mut c_void);
        device_address(device: &mut DevicePtr, address: u64) => cuMemHostGetDevicePointer(device, address as *mut c_void, 0);
        copy(to: DevicePtr, from: DevicePtr, bytes: usize, stream: Stream) => cuMemcpyAsync(to, from, bytes, stream);
        copy_to_device(to: DevicePtr, from: *const c_void, bytes: usize, stream: Stream) => cuMemcpyHtoDAsync(to, from, bytes, stream);
        copy_to_host(to: *mut c_void, from: DevicePtr, bytes: usize, stream: Stream) => cuMemcpyDtoHAsync(to, from, bytes, stream);
        fill_8(to: DevicePtr, value: u8, count: usize, stream: Stream) => cuMemsetD8Async(to, value, count, stream);
        fill_16(to: DevicePtr, value: u16, count: usize, stream: Stream) => cuMemsetD16Async(to, value, count, stream);
        fill_32(to: DevicePtr, value: u32, count: usize, stream: Stream) => cuMemsetD32Async(to, value, count, stream);
        enable_access(peer: &PrimaryContext) => cuCtxEnablePeerAccess(peer.raw(), 0);
        unload(module: Module) => cuModuleUnload(module);
        function(function: &mut Function, module: Module, name: &CStr) => cuModuleGetFunction(function, module, name.as_ptr());
        global(address: &mut DevicePtr, bytes: &mut usize, module: Module, name: &CStr) => cuModuleGetGlobal(address, bytes, module, name.as_ptr());
        active_groups(groups: &mut i32, function: Function, items: i32, shared: usize) => cuOccupancyMaxActiveBlocksPerMultiprocessor(groups, function, items, shared);
    }

    unsafe fn free_bytes(&self, free: &mut u64) -> Call {
        let (mut bytes, mut total) = (0, 0);
        // SAFETY: promised by the caller.
        unsafe { self.cuMemGetInfo(&mut bytes, &mut total) }?;
        *free = bytes as u64;
        Ok(())
    }

    unsafe fn create_event(&self, event: &mut Event, kind: EventKind) -> Call {
        let flags = match kind {
            EventKind::Plain => event_flag::DISABLE_TIMING,
            EventKind::Timed => event_flag::DEFAULT,
            EventKind::Sleeper => event_flag::DISABLE_TIMING | event_flag::BLOCKING_SYNC,
        };
        // SAFETY: promised by the caller.
        unsafe { self.cuEventCreate(event, flags) }
    }

    unsafe fn create_pool(&self, pool: &mut Pool, ordinal: i32) -> Call {
        const PINNED: c_uint = 1;
        let properties = PoolProperties {
            allocation: PINNED,
            handles: 0,
            location: Location { kind: Location::DEVICE, id: ordinal },
            security: std::ptr::null_mut(),
            max_bytes: 0,
            reserved: [0; 56],
        };
        let mut kept_bytes = 0u64;
        let value = (&raw mut kept_bytes).cast();
        // SAFETY: the structure is valid during the call, and the attribute is a 64-bit number;
        // nothing was allocated from a pool that is destroyed here.
        unsafe {
            self.cuMemPoolCreate(pool, &properties)?;
            let set = self.cuMemPoolSetAttribute(*pool, pool_attribute::RELEASE_THRESHOLD, value);
            set.inspect_err(|_| _ = self.cuMemPoolDestroy(*pool))
        }
    }

    unsafe fn allow_pool(&self, pool: Pool, ordinal: i32) -> Call {
        const READ_WRITE: c_uint = 3;
        let location = Location { kind: Location::DEVICE, id: ordinal };
        let access = Access { location, flags: READ_WRITE };
        // SAFETY: promised by the caller; the structure is valid during the call.
        unsafe { self.cuMemPoolSetAccess(pool, &access, 1) }
    }

    unsafe fn allocate_host(&self, address: &mut DevicePtr, bytes: usize) -> Call {
        let flags = host_memory::PORTABLE | host_memory::DEVICEMAP;
        let mut host = std::ptr::null_mut();
        // SAFETY: promised by the caller.
        unsafe { self.cuMemHostAlloc(&mut host, bytes, flags) }?;
        *address = host as u64;
        Ok(())
    }

    unsafe fn register(&self, address: u64, bytes: usize) -> Call {
        let flags = host_memory::PORTABLE | host_memory::DEVICEMAP;
        let register = |flags| {
            // SAFETY: promised by the caller.
            unsafe { self.cuMemHostRegister(address as *mut c_void, bytes, flags) }
        };
        match register(flags) {
            Err(failure) if failure.is(Code::INVALID_VALUE) => {
                register(flags | host_memory::READ_ONLY).map_err(|_| failure)
            }
            registered => registered,
        }
    }

    fn is_managed(&self, address: u64) -> bool {
        self.pointer(pointer_attribute::IS_MANAGED, address) == Some(1)
    }

    fn page_locked(&self, address: u64) -> Option<(u64, u64)> {
        let kind = self.pointer(pointer_attribute::MEMORY_TYPE, address);
        if kind != Some(u64::from(memory_type::HOST)) && !self.is_managed(address) {
            return None;
        }
        let start = self.pointer(pointer_attribute::RANGE_START_ADDR, address)?;
        Some((start, self.pointer(pointer_attribute::RANGE_SIZE, address)?))
    }

    unsafe fn copy_between(
        &self,
        (to, to_context): (DevicePtr, &PrimaryContext),
        (from, from_context): (DevicePtr, &PrimaryContext),
        bytes: usize,
        stream: Stream,
    ) -> Call {
        // SAFETY: promised by the caller.
        unsafe {
            self.cuMemcpyPeerAsync(to, to_context.raw(), from, from_context.raw(), bytes, stream)
        }
    }

    unsafe fn copy_rect(&self, rect: &RectCopy, stream: Stream) -> Call {
        let copy = Copy3d {
            from: Copy3dEnd::new(&rect.from, |address| address as *const c_void, std::ptr::null()),
            to: Copy3dEnd::new(&rect.to, |address| address as *mut c_void, std::ptr::null_mut()),
            row_bytes: rect.extent.row_bytes as usize,
            rows: rect.extent.rows as usize,
            slices: rect.extent.slices as usize,
        };
        // SAFETY: promised by the caller; the structure is valid during the call.
        unsafe { self.cuMemcpy3DAsync(&copy, stream) }
    }

    fn has_rects(&self) -> bool {
        self.functions.cuMemcpy3DAsync.is_some()
    }

    unsafe fn prefetch(
        &self,
        address: DevicePtr,
        bytes: usize,
        to: longshore_plugin_streams::Location,
        stream: Stream,
    ) -> Call {
        let (location, device) = match to {
            longshore_plugin_streams::Location::Device(id) => {
                (Location { kind: Location::DEVICE, id }, id)
            }
            longshore_plugin_streams::Location::Host => {
                (Location { kind: Location::HOST, id: 0 }, CPU)
            }
        };
        // SAFETY: promised by the caller.
        unsafe {
            match self.cuMemPrefetchAsync(address, bytes, location, 0, stream) {
                Err(failure) if failure.result.is_none() => {
                    self.cuMemPrefetchAsync_v1(address, bytes, device, stream)
                }
                hinted => hinted,
            }
        }
    }

    unsafe fn can_access(&self, can: &mut bool, ordinal: i32, peer: i32) -> Call {
        let mut answer = 0;
        // SAFETY: promised by the caller.
        unsafe { self.cuDeviceCanAccessPeer(&mut answer, ordinal, peer) }?;
        *can = answer != 0;
        Ok(())
    }

    #[inline]
    unsafe fn launch(
        &self,
        function: Function,
        shape: &LaunchShape,
        arguments: *const *const c_void,
        stream: Stream,
    ) -> Call {
        let ([gx, gy, gz], [x, y, z]) = (shape.groups, shape.items);
        let shared = shape.dynamic_shared_bytes as c_uint;
        let (arguments, none) = (arguments.cast_mut().cast::<*mut c_void>(), std::ptr::null_mut());
        // SAFETY: promised by the caller.
        unsafe {
            if shape.cluster.is_some() {
                self.launch_in_clusters(function, shape, arguments, stream)
            } else if shape.cooperative {
                self.cuLaunchCooperativeKernel(
                    function, gx, gy, gz, x, y, z, shared, stream, arguments,
                )
            } else {
                self.cuLaunchKernel(function, gx, gy, gz, x, y, z, shared, stream, arguments, none)
            }
        }
    }

    unsafe fn allow_shared(&self, function: Function, bytes: u64) -> Call {
        let which = function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: promised by the caller.
        unsafe { self.cuFuncSetAttribute(function, which, bytes as c_int) }
    }

    unsafe fn allow_large_clusters(&self, function: Function) -> Call {
        let which = function_attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: promised by the caller.
        unsafe { self.cuFuncSetAttribute(function, which, 1) }
    }

    unsafe fn best_group_items(&self, items: &mut i32, function: Function, shared: usize) -> Call {
        let mut groups = 0;
        // SAFETY: promised by the caller.
        unsafe {
            self.cuOccupancyMaxPotentialBlockSize(&mut groups, items, function, None, shared, 0)
        }
    }
}

impl Driver {
    /// Returns an attribute of an address; `None` if the driver does not know the address.
    fn pointer(&self, which: c_uint, address: u64) -> Option<u64> {
        let mut value = 0u64;
        // SAFETY: no attribute that callers pass has more than 8 bytes; for a smaller one the
        // remaining bytes of `value` stay 0.
        let asked = unsafe { self.cuPointerGetAttribute((&raw mut value).cast(), which, address) };
        asked.is_ok().then_some(value)
    }

    /// # Safety
    /// As for `launch`.
    unsafe fn launch_in_clusters(
        &self,
        function: Function,
        shape: &LaunchShape,
        arguments: *mut *mut c_void,
        stream: Stream,
    ) -> Call {
        let cooperative =
            shape.cooperative.then(|| LaunchAttribute::new(LaunchAttribute::COOPERATIVE, &[1]));
        let cluster =
            shape.cluster.map(|sizes| LaunchAttribute::new(LaunchAttribute::CLUSTER, &sizes));
        let attributes: Vec<_> = cooperative.into_iter().chain(cluster).collect();
        let config = LaunchConfig {
            groups: shape.groups,
            items: shape.items,
            shared_bytes: shape.dynamic_shared_bytes as c_uint,
            stream,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as c_uint,
        };
        // SAFETY: promised by the caller; the structure and its attributes live during the call.
        unsafe { self.cuLaunchKernelEx(&config, function, arguments, std::ptr::null_mut()) }
    }
}
