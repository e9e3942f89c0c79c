//! The functions of a backend's driver.

use crate::call::{Call, Code, Failure};
use crate::handle::{DevicePtr, Event, Function, Module, Pool, Stream};
use crate::registrations::Registrations;
use crate::worker_pool::BusyQueue;
use longshore_plugin_api::{ErrorCode, Extent, LaunchShape, PitchedSpan, WorkerPool};
use std::ffi::{CStr, c_void};

/// A loaded driver. Its functions may be called from any thread. Function names in the
/// documentation are CUDA's; HIP has equivalents.
///
/// Functions without a [`Context`] argument require the device's context to be current on the
/// calling thread, if the driver has contexts. An `unsafe` function requires live handles, and
/// pointers to memory that the driver may read or write. A function that the driver is too old for
/// returns [`Failure::missing`].
#[allow(clippy::missing_safety_doc, reason = "it is said once, above")]
pub trait Driver: Sized + Send + Sync + 'static {
    /// A device's context.
    type Context: Context;
    /// A backend's own data for each of its open devices.
    type DeviceData: Send + Sync + 'static;

    /// The driver's common name, such as "CUDA".
    const NAME: &'static str;
    /// Number of bytes of pageable memory that the driver captures when a copy to the device is
    /// queued. Below 64 KiB, queues capture the rest themselves.
    const CAPTURED_BYTES: u64;

    /// Returns the driver's version, as text for the user.
    fn version_text(&self) -> String;
    /// Returns the driver's name of a result.
    fn name(&self, result: Code) -> Option<String>;
    /// Returns the driver's description of a result.
    fn text(&self, result: Code) -> Option<String>;
    /// Returns the interface's error code for a result.
    fn error_code(result: Code) -> ErrorCode;
    /// Returns whether the device is unusable after this result.
    fn is_sticky(result: Code) -> bool;
    /// Returns whether the device is lost after this result; unlike [`Driver::is_sticky`], may call
    /// the driver.
    fn is_lost(&self, result: Code) -> bool {
        Self::is_sticky(result)
    }
    /// Returns the memory of the process that backends have registered with the driver.
    fn registrations() -> &'static Registrations;
    /// Returns the threads that run commands of submission queues: a static of
    /// [`BusyQueue::worker_pool`].
    fn worker_pool() -> &'static WorkerPool<BusyQueue>;
    /// Notifies the backend that a wait for a queue or event of the device has ended. Blocks the
    /// waiting thread. `is_idle` returns whether all kernels launched on the device are known to be
    /// done.
    fn was_waited_for(_own: &Self::DeviceData, _is_idle: impl Fn() -> bool) {}
    /// Notifies the backend that the device is about to close: nothing runs on it. Its context is
    /// current.
    fn is_closing(&self, _own: &Self::DeviceData) {}

    /// Queries the number of free bytes of the device's memory (`cuMemGetInfo`). Blocks.
    unsafe fn free_bytes(&self, free: &mut u64) -> Call;

    /// Creates a stream that does not wait for the process's default stream (`cuStreamCreate`).
    unsafe fn create_stream(&self, stream: &mut Stream) -> Call;
    /// Destroys a stream (`cuStreamDestroy`). Queued work goes on.
    unsafe fn destroy_stream(&self, stream: Stream) -> Call;
    /// Waits for a stream (`cuStreamSynchronize`). Blocks.
    unsafe fn synchronize_stream(&self, stream: Stream) -> Call;
    /// Queries whether a stream is done (`cuStreamQuery`).
    unsafe fn query_stream(&self, stream: Stream) -> Call;
    /// Makes a stream wait for an event (`cuStreamWaitEvent`).
    unsafe fn wait_event(&self, stream: Stream, event: Event) -> Call;

    /// Creates an event (`cuEventCreate`).
    unsafe fn create_event(&self, event: &mut Event, kind: EventKind) -> Call;
    /// Destroys an event (`cuEventDestroy`).
    unsafe fn destroy_event(&self, event: Event) -> Call;
    /// Records an event on a stream (`cuEventRecord`).
    unsafe fn record_event(&self, event: Event, stream: Stream) -> Call;
    /// Queries whether an event is reached (`cuEventQuery`).
    unsafe fn query_event(&self, event: Event) -> Call;
    /// Waits for an event (`cuEventSynchronize`). Blocks.
    unsafe fn synchronize_event(&self, event: Event) -> Call;
    /// Measures the time between two events (`cuEventElapsedTime`).
    unsafe fn elapsed(&self, milliseconds: &mut f32, start: Event, end: Event) -> Call;

    /// Creates a pool of the device's memory that keeps no freed memory (`cuMemPoolCreate`).
    unsafe fn create_pool(&self, pool: &mut Pool, ordinal: i32) -> Call;
    /// Destroys a pool (`cuMemPoolDestroy`). Needs no context.
    unsafe fn destroy_pool(&self, pool: Pool) -> Call;
    /// Gives the device of this ordinal read and write access to a pool (`cuMemPoolSetAccess`).
    unsafe fn allow_pool(&self, pool: Pool, ordinal: i32) -> Call;
    /// Allocates from a pool in a stream's order (`cuMemAllocFromPoolAsync`).
    unsafe fn allocate_from(
        &self,
        address: &mut DevicePtr,
        bytes: usize,
        pool: Pool,
        stream: Stream,
    ) -> Call;
    /// Frees memory of a pool in a stream's order (`cuMemFreeAsync`).
    unsafe fn free_on(&self, address: DevicePtr, stream: Stream) -> Call;
    /// Allocates device memory (`cuMemAlloc`).
    unsafe fn allocate(&self, address: &mut DevicePtr, bytes: usize) -> Call;
    /// Frees device or managed memory (`cuMemFree`). Blocks.
    unsafe fn free(&self, address: DevicePtr) -> Call;
    /// Allocates page-locked host memory that all devices reach (`cuMemHostAlloc`).
    unsafe fn allocate_host(&self, address: &mut DevicePtr, bytes: usize) -> Call;
    /// Frees page-locked host memory (`cuMemFreeHost`). Blocks.
    unsafe fn free_host(&self, address: DevicePtr) -> Call;
    /// Allocates managed memory (`cuMemAllocManaged`).
    unsafe fn allocate_managed(&self, address: &mut DevicePtr, bytes: usize) -> Call;

    /// Page-locks host memory for all devices (`cuMemHostRegister`); for reading alone if the
    /// memory cannot be written.
    unsafe fn register(&self, address: u64, bytes: usize) -> Call;
    /// Undoes [`Driver::register`] (`cuMemHostUnregister`).
    unsafe fn unregister(&self, address: u64) -> Call;
    /// Returns the device's address of page-locked host memory (`cuMemHostGetDevicePointer`).
    unsafe fn device_address(&self, device: &mut DevicePtr, address: u64) -> Call;
    /// Returns whether an address belongs to managed memory, of any device.
    fn is_managed(&self, address: u64) -> bool;
    /// Returns the start and the size, in bytes, of the page-locked host memory that contains an
    /// address.
    fn page_locked(&self, address: u64) -> Option<(u64, u64)>;

    /// Copies (`cuMemcpyAsync`): the driver infers the kind of memory from the addresses.
    unsafe fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: usize, stream: Stream) -> Call;
    /// Copies from host memory to device memory (`cuMemcpyHtoDAsync`).
    unsafe fn copy_to_device(
        &self,
        to: DevicePtr,
        from: *const c_void,
        bytes: usize,
        stream: Stream,
    ) -> Call;
    /// Copies from device memory to host memory (`cuMemcpyDtoHAsync`).
    unsafe fn copy_to_host(
        &self,
        to: *mut c_void,
        from: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> Call;
    /// Copies between the memory of two devices (`cuMemcpyPeerAsync`).
    unsafe fn copy_between(
        &self,
        to: (DevicePtr, &Self::Context),
        from: (DevicePtr, &Self::Context),
        bytes: usize,
        stream: Stream,
    ) -> Call;
    /// Copies a rectangle (`cuMemcpy3DAsync`), of which at most one end is host memory.
    unsafe fn copy_rect(&self, rect: &RectCopy, stream: Stream) -> Call;
    /// Returns whether the driver has a function for rectangles.
    fn has_rects(&self) -> bool;
    /// Fills with 8-bit values (`cuMemsetD8Async`).
    unsafe fn fill_8(&self, to: DevicePtr, value: u8, count: usize, stream: Stream) -> Call;
    /// Fills with 16-bit values (`cuMemsetD16Async`).
    unsafe fn fill_16(&self, to: DevicePtr, value: u16, count: usize, stream: Stream) -> Call;
    /// Fills with 32-bit values (`cuMemsetD32Async`).
    unsafe fn fill_32(&self, to: DevicePtr, value: u32, count: usize, stream: Stream) -> Call;
    /// Moves managed memory to a location ahead of its use (`cuMemPrefetchAsync`).
    unsafe fn prefetch(
        &self,
        address: DevicePtr,
        bytes: usize,
        to: Location,
        stream: Stream,
    ) -> Call;

    /// Queries whether a device can access a peer's memory (`cuDeviceCanAccessPeer`).
    unsafe fn can_access(&self, can: &mut bool, ordinal: i32, peer: i32) -> Call;
    /// Gives the current context access to a peer's memory (`cuCtxEnablePeerAccess`).
    unsafe fn enable_access(&self, peer: &Self::Context) -> Call;

    /// Unloads a module (`cuModuleUnload`).
    unsafe fn unload(&self, module: Module) -> Call;
    /// Looks up a kernel of a module (`cuModuleGetFunction`).
    unsafe fn function(&self, function: &mut Function, module: Module, name: &CStr) -> Call;
    /// Looks up a variable of a module (`cuModuleGetGlobal`).
    unsafe fn global(
        &self,
        address: &mut DevicePtr,
        bytes: &mut usize,
        module: Module,
        name: &CStr,
    ) -> Call;

    /// Launches a kernel (`cuLaunchKernel`, or its variants for clusters and cooperative launches).
    /// `arguments` points to the addresses of the values, one for each argument of the function.
    unsafe fn launch(
        &self,
        function: Function,
        shape: &LaunchShape,
        arguments: *const *const c_void,
        stream: Stream,
    ) -> Call;
    /// Raises a function's limit of dynamic shared memory to a number of bytes.
    unsafe fn allow_shared(&self, _function: Function, _bytes: u64) -> Call {
        Err(Failure::missing("dynamic shared memory beyond the usual"))
    }
    /// Lets a function have clusters of sizes that not every device has.
    unsafe fn allow_large_clusters(&self, _function: Function) -> Call {
        Err(Failure::missing("large clusters"))
    }
    /// Queries the best number of work-items in a work-group (`cuOccupancyMaxPotentialBlockSize`).
    unsafe fn best_group_items(&self, items: &mut i32, function: Function, shared: usize) -> Call;
    /// Queries the number of work-groups that a multiprocessor runs at once
    /// (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
    unsafe fn active_groups(
        &self,
        groups: &mut i32,
        function: Function,
        items: i32,
        shared: usize,
    ) -> Call;
}

/// A device's context, retained for the life of this value.
pub trait Context: Send + Sync + 'static {
    /// A guard: the context is current on the calling thread until the guard is dropped, on that
    /// thread.
    type CurrentGuard<'a>
    where
        Self: 'a;

    /// Returns the driver's handle of the context; 0 if the driver has no contexts.
    fn handle(&self) -> u64 {
        0
    }

    /// Makes the context current. Afterwards the thread's previous context is current again, unless
    /// it had none.
    ///
    /// # Errors
    /// Errors of the driver.
    fn enter(&self) -> Result<Self::CurrentGuard<'_>, Failure>;

    /// Makes the context current for long, on a thread that may outlive the context. Afterwards the
    /// thread's previous state is restored, even if no context was current.
    ///
    /// # Errors
    /// Errors of the driver.
    fn visit(&self) -> Result<Self::CurrentGuard<'_>, Failure>;

    /// Makes the context current without asking the driver for the thread's previous context.
    ///
    /// # Errors
    /// Errors of the driver.
    fn force(&self) -> Result<Self::CurrentGuard<'_>, Failure>;

    /// Releases the context and returns the driver's result, unlike dropping. May block.
    ///
    /// # Errors
    /// Errors of the driver; the context is released even then.
    fn release(self) -> Call;
}

/// One end of a rectangular copy.
#[derive(Clone, Copy)]
pub struct RectEnd {
    /// The rows.
    pub span: PitchedSpan,
    /// Whether the rows are in host memory.
    pub is_of_host: bool,
}

/// A rectangular copy.
#[derive(Clone, Copy)]
pub struct RectCopy {
    /// Memory to copy to.
    pub to: RectEnd,
    /// Memory to copy from.
    pub from: RectEnd,
    /// The extent of both.
    pub extent: Extent,
}

impl RectEnd {
    /// Returns the number of rows that fit between the starts of two slices.
    pub fn slice_rows(&self) -> u64 {
        self.span.pitch().slice / self.span.pitch().row
    }
}

/// The purpose of an event of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Places in streams, without times.
    Plain,
    /// Places in streams, with times.
    Timed,
    /// A place to wait for asleep, without spinning.
    Sleeper,
}

/// A location of managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The device of this ordinal.
    Device(i32),
    /// The host.
    Host,
}
