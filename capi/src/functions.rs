//! The functions of the interface: parameters, refusals in their order, and the functions that do
//! the work.
//!
//! Any thread may call any function. A function refuses invalid handles, and handles of destroyed
//! objects.

mod declare;
mod defaults;
mod device;
mod event;
mod launch;
mod memory;
mod older;
mod platform;
mod program;
mod queue;
mod registration;
mod symbol;

use crate::context;
use crate::types::enumerations::*;
use crate::types::structures::*;
use declare::functions;
use longshore::ErrorCode;
use std::ffi::{c_char, c_void};

functions! {
    /// Starts the library: finds plugins and devices. Each olInit needs an olShutDown. `InitArgs`
    /// may be null, for all backends; only the first call reads it. Blocks while plugins are
    /// loaded.
    olInit, olInitWithCodeLoc(InitArgs: *const ol_init_args_t)
        => context::initialize;

    /// Undoes one olInit. The last call waits for all queues, unloads all programs, frees all
    /// allocations and closes all devices; afterwards no handle is valid. All these steps happen
    /// even if one fails.
    olShutDown, olShutDownWithCodeLoc()
        => context::shut_down;

    /// Writes a property of a platform to `PropValue`, which has `PropSize` bytes, at least as many
    /// as the property. The NUL at the end of a text counts. Does not block.
    olGetPlatformInfo, olGetPlatformInfoWithCodeLoc(
        Platform: ol_platform_handle_t, PropName: ol_platform_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Platform.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => platform::info [PropName PropSize PropValue];

    /// Writes the size of a property of a platform in bytes. Does not block.
    olGetPlatformInfoSize, olGetPlatformInfoSizeWithCodeLoc(
        Platform: ol_platform_handle_t, PropName: ol_platform_info_t, PropSizeRet: *mut usize
    ) {
        Platform.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => platform::info_size;

    /// Registers a function for requests of devices to the host, called before LLVM's own handlers.
    /// Longshore does not serve such requests yet, so it never calls the function.
    olPlatformRegisterRPCCallback, olPlatformRegisterRPCCallbackWithCodeLoc(
        Platform: ol_platform_handle_t, Callback: ol_platform_rpc_cb_t
    ) {
        Platform.is_null() => InvalidNullHandle,
        Callback.is_none() => InvalidNullPointer,
    } => platform::register_callback;

    /// Calls a function for each device, on the calling thread, until the function returns false,
    /// which is also a success. The function may call all functions of the library. The order is
    /// the same every time; device handles are valid until the last olShutDown.
    olIterateDevices, olIterateDevicesWithCodeLoc(Callback: ol_device_iterate_cb_t, UserData: *mut c_void) {
        Callback.is_none() => InvalidNullPointer,
    } => device::iterate;

    /// Writes a property of a device to `PropValue`, which has `PropSize` bytes, at least as many
    /// as the property. The NUL at the end of a text counts. Does not block.
    olGetDeviceInfo, olGetDeviceInfoWithCodeLoc(
        Device: ol_device_handle_t, PropName: ol_device_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => device::info [PropName PropSize PropValue];

    /// Writes the size of a property of a device in bytes. Does not block.
    olGetDeviceInfoSize, olGetDeviceInfoSizeWithCodeLoc(
        Device: ol_device_handle_t, PropName: ol_device_info_t, PropSizeRet: *mut usize
    ) {
        Device.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => device::info_size;

    /// Allocates `Size` bytes for a device. The caller owns the memory until olMemFree or the last
    /// olShutDown. Addresses are unique among all devices. May block.
    olMemAlloc, olMemAllocWithCodeLoc(
        Device: ol_device_handle_t, Type: ol_alloc_type_t, Size: usize, AllocationOut: *mut *mut c_void
    ) {
        Size == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        AllocationOut.is_null() => InvalidNullPointer,
    } => memory::allocate;

    /// Allocates memory as olMemAlloc does, at a multiple of `Alignment`, a power of two.
    olMemAllocAligned, olMemAllocAlignedWithCodeLoc(
        Device: ol_device_handle_t, Type: ol_alloc_type_t, Size: usize, Alignment: usize,
        AllocationOut: *mut *mut c_void
    ) {
        Size == 0 => InvalidSize,
        Alignment == 0 => InvalidArgument,
        (Alignment & (Alignment - 1)) != 0 => InvalidArgument,
        Device.is_null() => InvalidNullHandle,
        AllocationOut.is_null() => InvalidNullPointer,
    } => memory::allocate_aligned;

    /// Frees an allocation by its first address, without waiting: all work that uses the memory
    /// must be done. May block.
    olMemFree, olMemFreeWithCodeLoc(Address: *mut c_void) {
        Address.is_null() => InvalidNullPointer,
    } => memory::free;

    /// Writes a property of the allocation around `Ptr` to `PropValue`, which has `PropSize` bytes,
    /// at least as many as the property. Does not block.
    olGetMemInfo, olGetMemInfoWithCodeLoc(
        Ptr: *const c_void, PropName: ol_mem_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Ptr.is_null() => InvalidNullPointer,
        PropValue.is_null() => InvalidNullPointer,
    } => memory::info [PropName PropSize PropValue];

    /// Writes the size of a property of an allocation in bytes. Does not block.
    olGetMemInfoSize, olGetMemInfoSizeWithCodeLoc(
        Ptr: *const c_void, PropName: ol_mem_info_t, PropSizeRet: *mut usize
    ) {
        Ptr.is_null() => InvalidNullPointer,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => memory::info_size;

    /// Registers `Size` bytes of the program's memory for a device, and page-locks them if `Flags`
    /// request it. Writes the device's address of the memory; null without a page-lock. A range
    /// within a registered range adds a user to that one. The caller owns the memory, and must not
    /// free it before olMemUnregister. May block.
    olMemRegister, olMemRegisterWithCodeLoc(
        Device: ol_device_handle_t, Ptr: *mut c_void, Size: usize, Flags: ol_memory_register_flags_t,
        PinnedPtr: *mut *mut c_void
    ) {
        Size == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        Ptr.is_null() => InvalidNullPointer,
        PinnedPtr.is_null() => InvalidNullPointer,
    } => registration::register;

    /// Undoes an olMemRegister; `Ptr` may be any address in its range. The call for the last user
    /// unlocks the memory. May block.
    olMemUnregister, olMemUnregisterWithCodeLoc(
        Device: ol_device_handle_t, Ptr: *mut c_void, Flags: ol_memory_register_flags_t
    ) {
        Device.is_null() => InvalidNullHandle,
        Ptr.is_null() => InvalidNullPointer,
    } => registration::unregister;

    /// Submits hints about the next place of use of `Count` ranges of memory. Memory that cannot
    /// move stays in place. The call reads both arrays. Does not block.
    olMemPrefetch, olMemPrefetchWithCodeLoc(
        Queue: ol_queue_handle_t, Count: usize, Mems: *mut *const c_void, Sizes: *const usize,
        Flags: ol_mem_migration_flags_t
    ) {
        Count > 0 && Mems.is_null() => InvalidNullPointer,
        Count > 0 && Sizes.is_null() => InvalidNullPointer,
        (Flags & !(OL_MEM_MIGRATION_FLAG_HOST_TO_DEVICE.0 | OL_MEM_MIGRATION_FLAG_DEVICE_TO_HOST.0)) != 0
            => InvalidEnumeration,
        Queue.is_null() => InvalidNullHandle,
    } => memory::prefetch;

    /// Copies `Size` bytes, or none if `Size` is 0. For memory of the program, the device is one of
    /// the platform with the backend OL_PLATFORM_BACKEND_HOST. `Queue` may be null; else the copy
    /// is queued, and both ranges must live until it is done. A copy that needs two plugins is done
    /// before the call returns: a copy between their devices, or on a queue of one plugin for a
    /// device of the other.
    olMemcpy, olMemcpyWithCodeLoc(
        Queue: ol_queue_handle_t, DstPtr: *mut c_void, DstDevice: ol_device_handle_t, SrcPtr: *const c_void,
        SrcDevice: ol_device_handle_t, Size: usize
    ) {
        DstDevice.is_null() => InvalidNullHandle,
        SrcDevice.is_null() => InvalidNullHandle,
        DstPtr.is_null() => InvalidNullPointer,
        SrcPtr.is_null() => InvalidNullPointer,
    } => memory::copy;

    /// Fills `FillSize` bytes with a pattern, which the call reads. `Queue` may be null.
    olMemFill, olMemFillWithCodeLoc(
        Queue: ol_queue_handle_t, Ptr: *mut c_void, PatternSize: usize, PatternPtr: *const c_void, FillSize: usize
    ) {
        PatternSize == 0 || FillSize % PatternSize != 0 => InvalidSize,
        Ptr.is_null() => InvalidNullPointer,
        PatternPtr.is_null() => InvalidNullPointer,
    } => memory::fill;

    /// Creates a queue, whose work runs in order and asynchronously. Several threads may use the
    /// queue at once. The caller owns the queue until olDestroyQueue or the last olShutDown. May
    /// block.
    olCreateQueue, olCreateQueueWithCodeLoc(Device: ol_device_handle_t, Queue: *mut ol_queue_handle_t) {
        Device.is_null() => InvalidNullHandle,
        Queue.is_null() => InvalidNullPointer,
    } => queue::create;

    /// Destroys a queue. Queued work still runs, and events of the queue stay valid. Does not
    /// block.
    olDestroyQueue, olDestroyQueueWithCodeLoc(Queue: ol_queue_handle_t) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::destroy;

    /// Blocks until all queued work is done. Returns the first error that no call has returned yet.
    olSyncQueue, olSyncQueueWithCodeLoc(Queue: ol_queue_handle_t) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::synchronize;

    /// Writes whether all queued work is done. `IsQueueWorkCompleted` may be null. Does not block.
    olQueryQueue, olQueryQueueWithCodeLoc(Queue: ol_queue_handle_t, IsQueueWorkCompleted: *mut bool) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::query;

    /// Makes work queued from now on wait for `NumEvents` events, which may belong to other queues
    /// and devices, and may be destroyed afterwards. The call reads the array. The work runs even
    /// if work before an event fails; that failure becomes one of this queue. Does not block.
    olWaitEvents, olWaitEventsWithCodeLoc(
        Queue: ol_queue_handle_t, Events: *mut ol_event_handle_t, NumEvents: usize
    ) {
        Queue.is_null() => InvalidNullHandle,
        Events.is_null() => InvalidNullPointer,
    } => queue::wait_events;

    /// Writes a property of a queue to `PropValue`, which has `PropSize` bytes, at least as many as
    /// the property. Does not block.
    olGetQueueInfo, olGetQueueInfoWithCodeLoc(
        Queue: ol_queue_handle_t, PropName: ol_queue_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Queue.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => queue::info [PropName PropSize PropValue];

    /// Writes the size of a property of a queue in bytes. Does not block.
    olGetQueueInfoSize, olGetQueueInfoSizeWithCodeLoc(
        Queue: ol_queue_handle_t, PropName: ol_queue_info_t, PropSizeRet: *mut usize
    ) {
        Queue.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => queue::info_size;

    /// Queues a function of the program. It runs after all work queued before, on any thread, which
    /// may be one that waits for the queue; work queued later waits for it. The function must
    /// neither wait for its own queue nor call olInit or olShutDown. The library passes `UserData`
    /// on unchanged. Does not block.
    olLaunchHostFunction, olLaunchHostFunctionWithCodeLoc(
        Queue: ol_queue_handle_t, Callback: ol_host_function_cb_t, UserData: *mut c_void
    ) {
        Queue.is_null() => InvalidNullHandle,
        Callback.is_none() => InvalidNullPointer,
    } => queue::host_function;

    /// Creates an event that is complete when all work queued before is done. The caller owns the
    /// event until olDestroyEvent or the last olShutDown, even if its queue is destroyed. Does not
    /// block.
    olCreateEvent, olCreateEventWithCodeLoc(
        Queue: ol_queue_handle_t, Flags: ol_event_flags_t, Event: *mut ol_event_handle_t
    ) {
        Queue.is_null() => InvalidNullHandle,
        Event.is_null() => InvalidNullPointer,
    } => event::create;

    /// Destroys an event. Work and threads that wait for the event continue to wait. Does not
    /// block.
    olDestroyEvent, olDestroyEventWithCodeLoc(Event: ol_event_handle_t) {
        Event.is_null() => InvalidNullHandle,
    } => event::destroy;

    /// Blocks until an event is complete. Returns the first error of the work before the event that
    /// no olSyncQueue had returned when the event was reached. Each call returns that error, and so
    /// does the next olSyncQueue of the event's queue. OL_ERRC_UNSUPPORTED in a host function
    /// queued before the event, where the call would wait for itself.
    olSyncEvent, olSyncEventWithCodeLoc(Event: ol_event_handle_t) {
        Event.is_null() => InvalidNullHandle,
    } => event::synchronize;

    /// Writes a property of an event to `PropValue`, which has `PropSize` bytes, at least as many
    /// as the property. Does not block.
    olGetEventInfo, olGetEventInfoWithCodeLoc(
        Event: ol_event_handle_t, PropName: ol_event_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Event.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => event::info [PropName PropSize PropValue];

    /// Writes the size of a property of an event in bytes. Does not block.
    olGetEventInfoSize, olGetEventInfoSizeWithCodeLoc(
        Event: ol_event_handle_t, PropName: ol_event_info_t, PropSizeRet: *mut usize
    ) {
        Event.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => event::info_size;

    /// Writes the milliseconds between two complete events of one device, both created with
    /// OL_EVENT_FLAGS_ENABLE_PROFILING. Does not block.
    olGetEventElapsedTime, olGetEventElapsedTimeWithCodeLoc(
        StartEvent: ol_event_handle_t, EndEvent: ol_event_handle_t, ElapsedTime: *mut f32
    ) {
        StartEvent.is_null() => InvalidNullHandle,
        EndEvent.is_null() => InvalidNullHandle,
        ElapsedTime.is_null() => InvalidNullPointer,
    } => event::elapsed;

    /// Loads the image of `ProgDataSize` bytes at `ProgData`, copies its bytes, and runs its
    /// constructors. The caller owns the program until olDestroyProgram or the last olShutDown.
    /// Blocks.
    olCreateProgram, olCreateProgramWithCodeLoc(
        Device: ol_device_handle_t, ProgData: *const c_void, ProgDataSize: usize, Program: *mut ol_program_handle_t
    ) {
        Device.is_null() => InvalidNullHandle,
        ProgData.is_null() => InvalidNullPointer,
        Program.is_null() => InvalidNullPointer,
    } => program::create;

    /// Waits for the queues that use a program, runs its destructors and unloads it. The handles of
    /// its symbols become invalid. If the wait fails, the program and all its handles stay valid:
    /// work of such a queue has failed, or a host function made the call (OL_ERRC_UNSUPPORTED).
    /// Call the function again then; a failure is not returned twice. After a later error, such as
    /// that of a destructor, the program is unloaded nevertheless. Blocks.
    olDestroyProgram, olDestroyProgramWithCodeLoc(Program: ol_program_handle_t) {
        Program.is_null() => InvalidNullHandle,
    } => program::destroy;

    /// Writes whether the bytes of an image suit a device; invalid bytes are not an error. Does not
    /// block.
    olIsValidBinary, olIsValidBinaryWithCodeLoc(
        Device: ol_device_handle_t, ProgData: *const c_void, ProgDataSize: usize, Valid: *mut bool
    ) {
        Device.is_null() => InvalidNullHandle,
        ProgData.is_null() => InvalidNullPointer,
        Valid.is_null() => InvalidNullPointer,
    } => program::is_valid;

    /// Finds a kernel or a global variable by its name. The program owns the handle; the same name
    /// and kind have the same handle. May block.
    olGetSymbol, olGetSymbolWithCodeLoc(
        Program: ol_program_handle_t, Name: *const c_char, Kind: ol_symbol_kind_t, Symbol: *mut ol_symbol_handle_t
    ) {
        Program.is_null() => InvalidNullHandle,
        Name.is_null() => InvalidNullPointer,
        Symbol.is_null() => InvalidNullPointer,
    } => symbol::get;

    /// Writes a property of a symbol to `PropValue`, which has `PropSize` bytes, at least as many
    /// as the property. Does not block.
    olGetSymbolInfo, olGetSymbolInfoWithCodeLoc(
        Symbol: ol_symbol_handle_t, PropName: ol_symbol_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Symbol.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => symbol::info [PropName PropSize PropValue];

    /// Writes the size of a property of a symbol in bytes. Does not block.
    olGetSymbolInfoSize, olGetSymbolInfoSizeWithCodeLoc(
        Symbol: ol_symbol_handle_t, PropName: ol_symbol_info_t, PropSizeRet: *mut usize
    ) {
        Symbol.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => symbol::info_size;

    /// Runs a kernel. `ArgPtrs` points to `NumArgs` addresses of arguments, `ArgSizes` to their
    /// sizes in bytes. The call reads all arrays and arguments. `Properties` may be null; else it
    /// points to an array that ends with OL_KERNEL_LAUNCH_PROP_END. `Queue` may be null; else it
    /// belongs to `Device`, and the call does not block.
    olLaunchKernel, olLaunchKernelWithCodeLoc(
        Queue: ol_queue_handle_t, Device: ol_device_handle_t, Kernel: ol_symbol_handle_t,
        LaunchSizeArgs: *const ol_kernel_launch_size_args_t, Properties: *const ol_kernel_launch_prop_t,
        NumArgs: usize, ArgPtrs: *mut *mut c_void, ArgSizes: *const usize
    ) {
        ArgPtrs.is_null() != ArgSizes.is_null() => InvalidArgument,
        NumArgs > 0 && (ArgPtrs.is_null() || ArgSizes.is_null()) => InvalidArgument,
        Device.is_null() => InvalidNullHandle,
        Kernel.is_null() => InvalidNullHandle,
        LaunchSizeArgs.is_null() => InvalidNullPointer,
    } => launch::launch;

    /// Writes the number of work-items in a group with which a kernel keeps most of a device busy,
    /// if each group has `SharedMemory` bytes of dynamic shared memory. Does not block.
    olCalculateOptimalOccupancy, olCalculateOptimalOccupancyWithCodeLoc(
        Device: ol_device_handle_t, Kernel: ol_symbol_handle_t, SharedMemory: usize, GroupSize: *mut usize
    ) {
        Device.is_null() => InvalidNullHandle,
        Kernel.is_null() => InvalidNullHandle,
        GroupSize.is_null() => InvalidNullPointer,
    } => launch::optimal_group_size;

    /// Writes the maximum number of work-groups in a cooperative launch of a kernel. The call reads
    /// the size of groups and their dynamic shared memory from `LaunchSizeArgs`. Does not block.
    olGetKernelMaxCooperativeGroupCount, olGetKernelMaxCooperativeGroupCountWithCodeLoc(
        Device: ol_device_handle_t, Kernel: ol_symbol_handle_t, LaunchSizeArgs: *const ol_kernel_launch_size_args_t,
        MaxGroupCount: *mut u32
    ) {
        Device.is_null() => InvalidNullHandle,
        Kernel.is_null() => InvalidNullHandle,
        LaunchSizeArgs.is_null() => InvalidNullPointer,
        MaxGroupCount.is_null() => InvalidNullPointer,
    } => launch::max_cooperative_groups;
}

// Functions of LLVM before 23.
functions! {
    /// Writes the number of platforms. A function of LLVM 20. Does not block.
    olGetPlatformCount, olGetPlatformCountWithCodeLoc(NumPlatforms: *mut u32) {
        NumPlatforms.is_null() => InvalidNullPointer,
    } => older::platform_count;

    /// Writes the first `NumEntries` platforms, at most as many as there are. A function of LLVM
    /// 20. Does not block.
    olGetPlatform, olGetPlatformWithCodeLoc(NumEntries: u32, Platforms: *mut ol_platform_handle_t) {
        NumEntries == 0 => InvalidSize,
        Platforms.is_null() => InvalidNullPointer,
    } => older::platforms;

    /// Writes the number of devices of a platform. A function of LLVM 20. Does not block.
    olGetDeviceCount, olGetDeviceCountWithCodeLoc(Platform: ol_platform_handle_t, NumDevices: *mut u32) {
        Platform.is_null() => InvalidNullHandle,
        NumDevices.is_null() => InvalidNullPointer,
    } => older::device_count;

    /// Writes the first `NumEntries` devices of a platform, at most as many as it has. A function
    /// of LLVM 20. Does not block.
    olGetDevice, olGetDeviceWithCodeLoc(
        Platform: ol_platform_handle_t, NumEntries: u32, Devices: *mut ol_device_handle_t
    ) {
        NumEntries == 0 => InvalidSize,
        Platform.is_null() => InvalidNullHandle,
        Devices.is_null() => InvalidNullPointer,
    } => older::devices;

    /// Does the same as olSyncQueue. A function of LLVM 21.
    olWaitQueue, olWaitQueueWithCodeLoc(Queue: ol_queue_handle_t) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::synchronize;

    /// Does the same as olSyncEvent. A function of LLVM 21.
    olWaitEvent, olWaitEventWithCodeLoc(Event: ol_event_handle_t) {
        Event.is_null() => InvalidNullHandle,
    } => event::synchronize;
}
