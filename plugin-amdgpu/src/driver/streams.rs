//! Implementation of the trait `Driver` of `longshore-plugin-streams` for HIP.

use super::types::{
    Access, Copy3d, Copy3dEnd, DevicePtr, Event, Function, Location, Module, Pool, PoolProperties,
    Stream, attach, copy_kind, event_flag, host_memory, pointer_attribute, pool_attribute,
    stream_flag,
};
use super::{Driver, result};
use crate::current::Current;
use crate::device::AmdgpuDeviceData;
use longshore_plugin_api::{ErrorCode, LaunchShape, WorkerPool};
use longshore_plugin_streams::{
    BusyQueue, Call, Code, EventKind, Failure, RectCopy, RectEnd, Registrations, forward,
};
use std::ffi::{CStr, c_int, c_uint, c_void};

/// `hipCpuDeviceId`.
const CPU: c_int = -1;

static REGISTRATIONS: Registrations = Registrations::new();
static WORKER_POOL: WorkerPool<BusyQueue> = BusyQueue::worker_pool("longshore-hip");

impl longshore_plugin_streams::Driver for Driver {
    type Context = Current;
    type DeviceData = AmdgpuDeviceData;

    const NAME: &'static str = "HIP";
    const CAPTURED_BYTES: u64 = 0;

    /// Returns the version as text, such as "6.3.42134".
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

    /// Returns whether the device is lost. HIP 7 returns the same result from every call once a
    /// device has failed, whatever that result is.
    fn is_lost(&self, result: Code) -> bool {
        let mut device = 0;
        // SAFETY: the output is a local variable.
        let asked = unsafe { self.hipGetDevice(&mut device) };
        result::is_sticky(result) || asked.is_err_and(|failure| failure.is(result))
    }

    fn registrations() -> &'static Registrations {
        &REGISTRATIONS
    }

    fn worker_pool() -> &'static WorkerPool<BusyQueue> {
        &WORKER_POOL
    }

    fn was_waited_for(own: &AmdgpuDeviceData, is_idle: impl Fn() -> bool) {
        own.print_messages(is_idle);
    }

    fn is_closing(&self, own: &AmdgpuDeviceData) {
        own.close(self);
    }

    forward! {
        create_stream(stream: &mut Stream) => hipStreamCreateWithFlags(stream, stream_flag::NON_BLOCKING);
        destroy_stream(stream: Stream) => hipStreamDestroy(stream);
        synchronize_stream(stream: Stream) => hipStreamSynchronize(stream);
        query_stream(stream: Stream) => hipStreamQuery(stream);
        wait_event(stream: Stream, event: Event) => hipStreamWaitEvent(stream, event, 0);
        destroy_event(event: Event) => hipEventDestroy(event);
        record_event(event: Event, stream: Stream) => hipEventRecord(event, stream);
        query_event(event: Event) => hipEventQuery(event);
        synchronize_event(event: Event) => hipEventSynchronize(event);
        elapsed(milliseconds: &mut f32, start: Event, end: Event) => hipEventElapsedTime(milliseconds, start, end);
        destroy_pool(pool: Pool) => hipMemPoolDestroy(pool);
        free_on(address: DevicePtr, stream: Stream) => hipFreeAsync(address, stream);
        allocate(address: &mut DevicePtr, bytes: usize) => hipMalloc(address, bytes);
        free(address: DevicePtr) => hipFree(address);
        free_host(address: DevicePtr) => hipHostFree(address);
        allocate_managed(address: &mut DevicePtr, bytes: usize) => hipMallocManaged(address, bytes, attach::GLOBAL);
        unregister(address: u64) => hipHostUnregister(address as *mut c_void);
        device_address(device: &mut DevicePtr, address: u64) => hipHostGetDevicePointer(device, address as *mut c_void, 0);
        copy(to: DevicePtr, from: DevicePtr, bytes: usize, stream: Stream) => hipMemcpyAsync(to, from, bytes, copy_kind::DEFAULT, stream);
        copy_to_device(to: DevicePtr, from: *const c_void, bytes: usize, stream: Stream) => hipMemcpyHtoDAsync(to, from, bytes, stream);
        copy_to_host(to: *mut c_void, from: DevicePtr, bytes: usize, stream: Stream) => hipMemcpyDtoHAsync(to, from, bytes, stream);
        fill_8(to: DevicePtr, value: u8, count: usize, stream: Stream) => hipMemsetD8Async(to, value, count, stream);
        fill_16(to: DevicePtr, value: u16, count: usize, stream: Stream) => hipMemsetD16Async(to, value, count, stream);
        fill_32(to: DevicePtr, value: u32, count: usize, stream: Stream) => hipMemsetD32Async(to, value.cast_signed(), count, stream);
        enable_access(peer: &Current) => hipDeviceEnablePeerAccess(peer.ordinal(), 0);
        unload(module: Module) => hipModuleUnload(module);
        function(function: &mut Function, module: Module, name: &CStr) => hipModuleGetFunction(function, module, name.as_ptr());
        global(address: &mut DevicePtr, bytes: &mut usize, module: Module, name: &CStr) => hipModuleGetGlobal(address, bytes, module, name.as_ptr());
        active_groups(groups: &mut i32, function: Function, items: i32, shared: usize) => hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(groups, function, items, shared);
    }

    unsafe fn free_bytes(&self, free: &mut u64) -> Call {
        let (mut bytes, mut total) = (0, 0);
        // SAFETY: promised by the caller.
        unsafe { self.hipMemGetInfo(&mut bytes, &mut total) }?;
        *free = bytes as u64;
        Ok(())
    }

    unsafe fn create_event(&self, event: &mut Event, kind: EventKind) -> Call {
        let flags = match kind {
            EventKind::Plain => event_flag::DISABLE_TIMING,
            EventKind::Timed => event_flag::DEFAULT,
            // HIP does not sleep if another flag is set as well.
            EventKind::Sleeper => event_flag::BLOCKING_SYNC,
        };
        // SAFETY: promised by the caller.
        unsafe { self.hipEventCreateWithFlags(event, flags) }
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
        // SAFETY: the structure is valid during the call, and the attribute is a 64-bit number;
        // nothing was allocated from a pool that is destroyed here.
        unsafe {
            self.hipMemPoolCreate(pool, &properties)?;
            let set = self.hipMemPoolSetAttribute(*pool, pool_attribute::RELEASE_THRESHOLD, value);
            set.inspect_err(|_| _ = self.hipMemPoolDestroy(*pool))
        }
    }

    /// Allocates from a pool. Some versions of HIP return success without memory, which counts as
    /// too little memory.
    unsafe fn allocate_from(
        &self,
        address: &mut DevicePtr,
        bytes: usize,
        pool: Pool,
        stream: Stream,
    ) -> Call {
        // SAFETY: promised by the caller.
        unsafe { self.hipMallocFromPoolAsync(address, bytes, pool, stream) }?;
        match *address {
            0 => Err(Failure::new("hipMallocFromPoolAsync", Code::OUT_OF_MEMORY)),
            _ => Ok(()),
        }
    }

    unsafe fn allow_pool(&self, pool: Pool, ordinal: i32) -> Call {
        const READ_WRITE: c_uint = 3;
        let location = Location { kind: Location::DEVICE, id: ordinal };
        let access = Access { location, flags: READ_WRITE };
        // SAFETY: promised by the caller; the structure is valid during the call.
        unsafe { self.hipMemPoolSetAccess(pool, &access, 1) }
    }

    unsafe fn allocate_host(&self, address: &mut DevicePtr, bytes: usize) -> Call {
        let flags = host_memory::PORTABLE | host_memory::MAPPED;
        // SAFETY: promised by the caller.
        unsafe { self.hipHostMalloc(address, bytes, flags) }
    }

    /// Registers memory, unless some of it is page-locked already: HIP would register memory of
    /// other code a second time, and later undo both registrations at once.
    unsafe fn register(&self, address: u64, bytes: usize) -> Call {
        let last = address + (bytes - 1) as u64;
        if self.page_locked(address).is_some() || self.page_locked(last).is_some() {
            let result = Code::HOST_MEMORY_ALREADY_REGISTERED;
            return Err(Failure::new("hipHostRegister", result));
        }
        let flags = host_memory::PORTABLE | host_memory::MAPPED;
        // SAFETY: promised by the caller.
        unsafe { self.hipHostRegister(address as *mut c_void, bytes, flags) }
    }

    fn is_managed(&self, address: u64) -> bool {
        self.pointer(address).is_some_and(|known| known.is_managed)
    }

    #[inline]
    fn page_locked(&self, address: u64) -> Option<(u64, u64)> {
        // HIP does not know most host memory.
        if self.range_start(address) == 0 { None } else { self.locked_range(address) }
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

    unsafe fn copy_rect(&self, rect: &RectCopy, stream: Stream) -> Call {
        let extent = rect.extent;
        let end = |end: &RectEnd| Copy3dEnd {
            array: std::ptr::null_mut(),
            position: [0; 3],
            address: end.span.address(),
            pitch: end.span.pitch().row as usize,
            row_bytes: extent.row_bytes as usize,
            height: end.slice_rows() as usize,
        };
        let copy = Copy3d {
            from: end(&rect.from),
            to: end(&rect.to),
            extent: [extent.row_bytes, extent.rows, extent.slices].map(|number| number as usize),
            kind: match (rect.to.is_of_host, rect.from.is_of_host) {
                (true, _) => copy_kind::DEVICE_TO_HOST,
                (_, true) => copy_kind::HOST_TO_DEVICE,
                _ => copy_kind::DEVICE_TO_DEVICE,
            },
        };
        // SAFETY: promised by the caller; the structure is valid during the call.
        unsafe { self.hipMemcpy3DAsync(&copy, stream) }
    }

    fn has_rects(&self) -> bool {
        self.functions.hipMemcpy3DAsync.is_some()
    }

    unsafe fn prefetch(
        &self,
        address: DevicePtr,
        bytes: usize,
        to: longshore_plugin_streams::Location,
        stream: Stream,
    ) -> Call {
        let device = match to {
            longshore_plugin_streams::Location::Device(ordinal) => ordinal,
            longshore_plugin_streams::Location::Host => CPU,
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
}

/// HIP's description of an address.
struct AddressDescription {
    /// The memory's `hipMemoryType`.
    kind: u32,
    is_managed: bool,
    start: u64,
    /// The lower half of the size in bytes, as HIP writes 32 bits.
    low_bytes: u64,
}

impl Driver {
    /// Returns the start of the memory that contains an address; 0 if HIP does not know it.
    #[inline]
    fn range_start(&self, address: u64) -> u64 {
        let mut start = 0u64;
        let (mut which, mut place) = (pointer_attribute::RANGE_START_ADDR, (&raw mut start).cast());
        // SAFETY: the attribute has 8 bytes.
        let _ = unsafe { self.hipDrvPointerGetAttributes(1, &mut which, &mut place, address) };
        start
    }

    /// Returns the page-locked memory that contains an address.
    #[cold]
    fn locked_range(&self, address: u64) -> Option<(u64, u64)> {
        let known = self.pointer(address)?;
        // The value of `hipMemoryTypeHost`.
        let host = u32::from(self.is_renumbered());
        let is_locked = known.kind == host || known.is_managed;
        is_locked.then(|| (known.start, self.range_bytes(address).unwrap_or(known.low_bytes)))
    }

    fn pointer(&self, address: u64) -> Option<AddressDescription> {
        let (mut kind, mut is_managed, mut start, mut low_bytes) = (0u64, 0u64, 0u64, 0u64);
        let mut which = [
            pointer_attribute::MEMORY_TYPE,
            pointer_attribute::IS_MANAGED,
            pointer_attribute::RANGE_START_ADDR,
            pointer_attribute::RANGE_SIZE,
        ];
        let places = [&raw mut kind, &raw mut is_managed, &raw mut start, &raw mut low_bytes];
        let mut places = places.map(|place| place.cast::<c_void>());
        let count = which.len() as c_uint;
        // SAFETY: none of the attributes has more than 8 bytes; for a smaller one the remaining
        // bytes stay 0.
        let asked = unsafe {
            self.hipDrvPointerGetAttributes(count, which.as_mut_ptr(), places.as_mut_ptr(), address)
        };
        // HIP gives start 0 for memory that it does not know.
        let is_known = asked.is_ok() && start != 0;
        let known =
            AddressDescription { kind: kind as u32, is_managed: is_managed != 0, start, low_bytes };
        is_known.then_some(known)
    }

    /// Returns the size in bytes of the memory that contains an address.
    fn range_bytes(&self, address: u64) -> Option<u64> {
        let (mut start, mut bytes) = (0, 0);
        // SAFETY: the outputs are local variables.
        let asked = unsafe { self.hipMemGetAddressRange(&mut start, &mut bytes, address) };
        (asked.is_ok() && bytes > 0).then_some(bytes as u64)
    }
}
