//! What a backend's driver can do.

use crate::call::{Call, Code, Failure};
use crate::crew::BusyLine;
use crate::handle::{DevicePtr, Event, Function, Module, Pool, Stream};
use crate::registrations::Registrations;
use longshore_plugin_api::{Crew, ErrorCode, LaunchShape};
use std::ffi::{CStr, c_void};

/// A loaded driver. Its functions may be called from any thread.
///
/// Those that take no [`Context`] want the context of the device current on the calling thread, if the
/// driver has such a thing; and what is `unsafe` wants handles that are live, and pointers to what the
/// driver reads or writes. They answer [`Failure::missing`] where the driver is too old.
#[allow(clippy::missing_safety_doc, reason = "it is said once, above")]
pub trait Driver: Sized + Send + Sync + 'static {
    /// A device's context.
    type Context: Context;
    /// What a backend keeps for each of its open devices.
    type Own: Send + Sync + 'static;

    /// What people call it: "CUDA".
    const NAME: &'static str;
    /// So many bytes of pageable memory it captures when a copy to the device is queued. Where it captures
    /// less than 64 KiB, queues do so themselves.
    const CAPTURED_BYTES: u64;

    /// Its version, for people.
    fn version_text(&self) -> String;
    /// Its name for a result.
    fn name(&self, result: Code) -> Option<String>;
    /// Its words for a result.
    fn text(&self, result: Code) -> Option<String>;
    /// What a result is for a program.
    fn error_code(result: Code) -> ErrorCode;
    /// Whether nothing works on the device any more after this result.
    fn is_sticky(result: Code) -> bool;
    /// The same, if the driver may be asked.
    fn is_lost(&self, result: Code) -> bool {
        Self::is_sticky(result)
    }
    /// The memory of the process that was registered with the driver by backends.
    fn registrations() -> &'static Registrations;
    /// The threads that do the work which queues keep: a static of [`BusyLine::crew`].
    fn crew() -> &'static Crew<BusyLine>;
    /// Is called when a device has done the work that some queue or event of it was waited for. Blocks the waiting
    /// thread. `is_idle` tells whether all kernels that were launched on the device are known to be done.
    fn was_waited_for(_own: &Self::Own, _is_idle: impl Fn() -> bool) {}
    /// Is called when a device is given up: nothing runs on it. Its context is current.
    fn is_closing(&self, _own: &Self::Own) {}

    /// Blocks while it looks.
    unsafe fn free_bytes(&self, free: &mut u64) -> Call;

    /// `cuStreamCreate`, of a stream that does not wait for the process's default one.
    unsafe fn create_stream(&self, stream: &mut Stream) -> Call;
    /// `cuStreamDestroy`. What is queued goes on.
    unsafe fn destroy_stream(&self, stream: Stream) -> Call;
    /// `cuStreamSynchronize`. Blocks.
    unsafe fn synchronize_stream(&self, stream: Stream) -> Call;
    /// `cuStreamQuery`.
    unsafe fn query_stream(&self, stream: Stream) -> Call;
    /// `cuStreamWaitEvent`.
    unsafe fn wait_event(&self, stream: Stream, event: Event) -> Call;

    /// `cuEventCreate`.
    unsafe fn create_event(&self, event: &mut Event, kind: EventKind) -> Call;
    /// `cuEventDestroy`.
    unsafe fn destroy_event(&self, event: Event) -> Call;
    /// `cuEventRecord`.
    unsafe fn record_event(&self, event: Event, stream: Stream) -> Call;
    /// `cuEventQuery`.
    unsafe fn query_event(&self, event: Event) -> Call;
    /// `cuEventSynchronize`. Blocks.
    unsafe fn synchronize_event(&self, event: Event) -> Call;
    /// `cuEventElapsedTime`.
    unsafe fn elapsed(&self, milliseconds: &mut f32, start: Event, end: Event) -> Call;

    /// A pool of the device's memory that keeps nothing for itself.
    unsafe fn create_pool(&self, pool: &mut Pool, ordinal: i32) -> Call;
    /// `cuMemPoolDestroy`. Needs no context.
    unsafe fn destroy_pool(&self, pool: Pool) -> Call;
    /// `cuMemPoolSetAccess`, so that the device of this ordinal reads and writes.
    unsafe fn allow_pool(&self, pool: Pool, ordinal: i32) -> Call;
    /// `cuMemAllocFromPoolAsync`.
    unsafe fn allocate_from(
        &self,
        address: &mut DevicePtr,
        bytes: usize,
        pool: Pool,
        stream: Stream,
    ) -> Call;
    /// `cuMemFreeAsync`.
    unsafe fn free_on(&self, address: DevicePtr, stream: Stream) -> Call;
    /// `cuMemAlloc`.
    unsafe fn allocate(&self, address: &mut DevicePtr, bytes: usize) -> Call;
    /// `cuMemFree`, of device and of managed memory. Blocks.
    unsafe fn free(&self, address: DevicePtr) -> Call;
    /// `cuMemHostAlloc`, of memory that all devices reach.
    unsafe fn allocate_host(&self, address: &mut DevicePtr, bytes: usize) -> Call;
    /// `cuMemFreeHost`. Blocks.
    unsafe fn free_host(&self, address: DevicePtr) -> Call;
    /// `cuMemAllocManaged`.
    unsafe fn allocate_managed(&self, address: &mut DevicePtr, bytes: usize) -> Call;

    /// `cuMemHostRegister`, for all devices; for reading alone if it cannot be written.
    unsafe fn register(&self, address: u64, bytes: usize) -> Call;
    /// `cuMemHostUnregister`.
    unsafe fn unregister(&self, address: u64) -> Call;
    /// `cuMemHostGetDevicePointer`.
    unsafe fn device_address(&self, device: &mut DevicePtr, address: u64) -> Call;
    /// Whether an address is of managed memory, of whatever device.
    fn is_managed(&self, address: u64) -> bool;
    /// The start and the size of the page-locked memory of the host that an address is of.
    fn page_locked(&self, address: u64) -> Option<(u64, u64)>;

    /// `cuMemcpyAsync`: the driver finds out what the addresses belong to.
    unsafe fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: usize, stream: Stream) -> Call;
    /// `cuMemcpyHtoDAsync`.
    unsafe fn copy_to_device(
        &self,
        to: DevicePtr,
        from: *const c_void,
        bytes: usize,
        stream: Stream,
    ) -> Call;
    /// `cuMemcpyDtoHAsync`.
    unsafe fn copy_to_host(
        &self,
        to: *mut c_void,
        from: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> Call;
    /// `cuMemcpyPeerAsync`.
    unsafe fn copy_between(
        &self,
        to: (DevicePtr, &Self::Context),
        from: (DevicePtr, &Self::Context),
        bytes: usize,
        stream: Stream,
    ) -> Call;
    /// `cuMemsetD8Async`.
    unsafe fn fill_8(&self, to: DevicePtr, value: u8, count: usize, stream: Stream) -> Call;
    /// `cuMemsetD16Async`.
    unsafe fn fill_16(&self, to: DevicePtr, value: u16, count: usize, stream: Stream) -> Call;
    /// `cuMemsetD32Async`.
    unsafe fn fill_32(&self, to: DevicePtr, value: u32, count: usize, stream: Stream) -> Call;
    /// `cuMemPrefetchAsync`.
    unsafe fn prefetch(
        &self,
        address: DevicePtr,
        bytes: usize,
        to: Location,
        stream: Stream,
    ) -> Call;

    /// `cuDeviceCanAccessPeer`.
    unsafe fn can_access(&self, can: &mut bool, ordinal: i32, peer: i32) -> Call;
    /// `cuCtxEnablePeerAccess`.
    unsafe fn enable_access(&self, peer: &Self::Context) -> Call;

    /// `cuModuleUnload`.
    unsafe fn unload(&self, module: Module) -> Call;
    /// `cuModuleGetFunction`.
    unsafe fn function(&self, function: &mut Function, module: Module, name: &CStr) -> Call;
    /// `cuModuleGetGlobal`.
    unsafe fn global(
        &self,
        address: &mut DevicePtr,
        bytes: &mut usize,
        module: Module,
        name: &CStr,
    ) -> Call;

    /// `cuLaunchKernel` and its like. `arguments` points to as many addresses of values as the function
    /// has arguments.
    unsafe fn launch(
        &self,
        function: Function,
        shape: &LaunchShape,
        arguments: *const *const c_void,
        stream: Stream,
    ) -> Call;
    /// Lets a function have so many bytes of dynamic shared memory.
    unsafe fn allow_shared(&self, _function: Function, _bytes: u64) -> Call {
        Err(Failure::missing("dynamic shared memory beyond the usual"))
    }
    /// Lets a function have clusters that not every device has.
    unsafe fn allow_large_clusters(&self, _function: Function) -> Call {
        Err(Failure::missing("large clusters"))
    }
    /// `cuOccupancyMaxPotentialBlockSize`.
    unsafe fn best_group_items(&self, items: &mut i32, function: Function, shared: usize) -> Call;
    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor`.
    unsafe fn active_groups(
        &self,
        groups: &mut i32,
        function: Function,
        items: i32,
        shared: usize,
    ) -> Call;
}

/// A device's context, which is retained while this lives.
pub trait Context: Send + Sync + 'static {
    /// It is current on the calling thread until this is dropped, there.
    type Entered<'a>
    where
        Self: 'a;

    /// Makes it current. Afterwards the thread has the one current again that it had, unless it had none.
    ///
    /// # Errors
    /// Errors of the driver.
    fn enter(&self) -> Result<Self::Entered<'_>, Failure>;

    /// The same, for long, on a thread that may outlive the context: afterwards it has what it had before, be that none.
    ///
    /// # Errors
    /// Errors of the driver.
    fn visit(&self) -> Result<Self::Entered<'_>, Failure>;

    /// The same on a thread that cannot be asked what it has.
    ///
    /// # Errors
    /// Errors of the driver.
    fn force(&self) -> Result<Self::Entered<'_>, Failure>;

    /// Gives it up; dropping it does so too, but does not tell. May block.
    ///
    /// # Errors
    /// Errors of the driver; it is given up all the same.
    fn release(self) -> Call;
}

/// What an event of the driver is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Places alone.
    Plain,
    /// Places and their times.
    Timed,
    /// To be waited for asleep.
    Sleeper,
}

/// Where managed memory can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// On the device of this ordinal.
    Device(i32),
    /// On the host.
    Host,
}
