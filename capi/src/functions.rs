//! The functions of the interface: what each takes, what it refuses in which order, and where its work is done.
//!
//! All may be called from any thread. Those that take a handle refuse one that is none, or of what was destroyed.

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
    /// Starts the library: finds plugins and devices. Counted: what olInit starts, as many calls of olShutDown end.
    /// `InitArgs` may be null, for all backends; only the first call looks at it. Blocks while plugins are loaded.
    olInit, olInitWithCodeLoc(InitArgs: *const ol_init_args_t)
        => context::initialize;

    /// Undoes olInit. The last call waits for all queues, unloads what is loaded, frees what is allocated and closes
    /// all devices; no handle is valid afterwards. All of that is done even if some of it fails.
    olShutDown, olShutDownWithCodeLoc()
        => context::shut_down;

    /// Writes a property of a platform to the `PropSize` bytes at `PropValue`, which may be more than it takes. Texts
    /// end with a NUL, which counts. Does not block.
    olGetPlatformInfo, olGetPlatformInfoWithCodeLoc(
        Platform: ol_platform_handle_t, PropName: ol_platform_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Platform.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => platform::info [PropName PropSize PropValue];

    /// Writes how many bytes a property of a platform takes. Does not block.
    olGetPlatformInfoSize, olGetPlatformInfoSizeWithCodeLoc(
        Platform: ol_platform_handle_t, PropName: ol_platform_info_t, PropSizeRet: *mut usize
    ) {
        Platform.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => platform::info_size;

    /// Has a function called for what devices ask of the host, before LLVM's own answers. Longshore serves no such
    /// requests yet, so it is never called.
    olPlatformRegisterRPCCallback, olPlatformRegisterRPCCallbackWithCodeLoc(
        Platform: ol_platform_handle_t, Callback: ol_platform_rpc_cb_t
    ) {
        Platform.is_null() => InvalidNullHandle,
        Callback.is_none() => InvalidNullPointer,
    } => platform::register_callback;

    /// Calls a function for each device, on this thread, until it returns false; that is a success too. It may call
    /// all functions of the library. The order is the same every time; device handles live until the last olShutDown.
    olIterateDevices, olIterateDevicesWithCodeLoc(Callback: ol_device_iterate_cb_t, UserData: *mut c_void) {
        Callback.is_none() => InvalidNullPointer,
    } => device::iterate;

    /// Writes a property of a device to the `PropSize` bytes at `PropValue`, which may be more than it takes. Texts
    /// end with a NUL, which counts. Does not block.
    olGetDeviceInfo, olGetDeviceInfoWithCodeLoc(
        Device: ol_device_handle_t, PropName: ol_device_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => device::info [PropName PropSize PropValue];

    /// Writes how many bytes a property of a device takes. Does not block.
    olGetDeviceInfoSize, olGetDeviceInfoSizeWithCodeLoc(
        Device: ol_device_handle_t, PropName: ol_device_info_t, PropSizeRet: *mut usize
    ) {
        Device.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => device::info_size;

    /// Allocates `Size` bytes for a device. They are the caller's until olMemFree or the last olShutDown. Addresses
    /// are unique among all devices. May block.
    olMemAlloc, olMemAllocWithCodeLoc(
        Device: ol_device_handle_t, Type: ol_alloc_type_t, Size: usize, AllocationOut: *mut *mut c_void
    ) {
        Size == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        AllocationOut.is_null() => InvalidNullPointer,
    } => memory::allocate;

    /// Like olMemAlloc, at a multiple of `Alignment`, a power of two.
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

    /// Frees what was allocated, by its first address. It waits for nothing: whatever uses the memory must be done.
    /// May block.
    olMemFree, olMemFreeWithCodeLoc(Address: *mut c_void) {
        Address.is_null() => InvalidNullPointer,
    } => memory::free;

    /// Writes a property of the allocation that `Ptr` points into to the `PropSize` bytes at `PropValue`, which may
    /// be more than it takes. Does not block.
    olGetMemInfo, olGetMemInfoWithCodeLoc(
        Ptr: *const c_void, PropName: ol_mem_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Ptr.is_null() => InvalidNullPointer,
        PropValue.is_null() => InvalidNullPointer,
    } => memory::info [PropName PropSize PropValue];

    /// Writes how many bytes a property of an allocation takes. Does not block.
    olGetMemInfoSize, olGetMemInfoSizeWithCodeLoc(
        Ptr: *const c_void, PropName: ol_mem_info_t, PropSizeRet: *mut usize
    ) {
        Ptr.is_null() => InvalidNullPointer,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => memory::info_size;

    /// Makes `Size` bytes of the program's memory known to a device, and page-locks them if `Flags` say so. Writes
    /// where the device finds them; null if they are not locked. Within a range that is registered it counts one more
    /// user. They stay the caller's, and must not be freed before olMemUnregister. May block.
    olMemRegister, olMemRegisterWithCodeLoc(
        Device: ol_device_handle_t, Ptr: *mut c_void, Size: usize, Flags: ol_memory_register_flags_t,
        PinnedPtr: *mut *mut c_void
    ) {
        Size == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        Ptr.is_null() => InvalidNullPointer,
        PinnedPtr.is_null() => InvalidNullPointer,
    } => registration::register;

    /// Undoes an olMemRegister, of any address in its range. That of the last user unlocks it. May block.
    olMemUnregister, olMemUnregisterWithCodeLoc(
        Device: ol_device_handle_t, Ptr: *mut c_void, Flags: ol_memory_register_flags_t
    ) {
        Device.is_null() => InvalidNullHandle,
        Ptr.is_null() => InvalidNullPointer,
    } => registration::unregister;

    /// Queues hints where `Count` ranges of memory will be used. What cannot move, stays. Both arrays are read at the
    /// call.
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

    /// Copies `Size` bytes, which may be none. Memory of the program is given with a device of the platform whose
    /// backend is OL_PLATFORM_BACKEND_HOST. `Queue` may be null. Else the copy is queued, and both ranges must live
    /// until it is done; what takes two plugins (a copy between their devices, or by a queue of the one for a device
    /// of the other) is done before the call returns.
    olMemcpy, olMemcpyWithCodeLoc(
        Queue: ol_queue_handle_t, DstPtr: *mut c_void, DstDevice: ol_device_handle_t, SrcPtr: *const c_void,
        SrcDevice: ol_device_handle_t, Size: usize
    ) {
        DstDevice.is_null() => InvalidNullHandle,
        SrcDevice.is_null() => InvalidNullHandle,
        DstPtr.is_null() => InvalidNullPointer,
        SrcPtr.is_null() => InvalidNullPointer,
    } => memory::copy;

    /// Fills `FillSize` bytes with a pattern, which is read at the call. `Queue` may be null.
    olMemFill, olMemFillWithCodeLoc(
        Queue: ol_queue_handle_t, Ptr: *mut c_void, PatternSize: usize, PatternPtr: *const c_void, FillSize: usize
    ) {
        PatternSize == 0 || FillSize % PatternSize != 0 => InvalidSize,
        Ptr.is_null() => InvalidNullPointer,
        PatternPtr.is_null() => InvalidNullPointer,
    } => memory::fill;

    /// Makes a queue, whose work runs in order, and asynchronously. It may be used from several threads at once. It
    /// is the caller's until olDestroyQueue or the last olShutDown. May block.
    olCreateQueue, olCreateQueueWithCodeLoc(Device: ol_device_handle_t, Queue: *mut ol_queue_handle_t) {
        Device.is_null() => InvalidNullHandle,
        Queue.is_null() => InvalidNullPointer,
    } => queue::create;

    /// Gives a queue up. What was queued still runs, and its events stay valid. Does not block.
    olDestroyQueue, olDestroyQueueWithCodeLoc(Queue: ol_queue_handle_t) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::destroy;

    /// Blocks until all that was queued is done. The error is the first that no call has returned yet.
    olSyncQueue, olSyncQueueWithCodeLoc(Queue: ol_queue_handle_t) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::synchronize;

    /// Writes whether all that was queued is done. `IsQueueWorkCompleted` may be null. Does not block.
    olQueryQueue, olQueryQueueWithCodeLoc(Queue: ol_queue_handle_t, IsQueueWorkCompleted: *mut bool) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::query;

    /// Makes what is queued from now on wait for `NumEvents` events, which may be of other queues and devices, and
    /// may be destroyed afterwards. The array is read at the call. What is queued also runs if an event is behind work
    /// that failed; the failure becomes one of this queue. Does not block.
    olWaitEvents, olWaitEventsWithCodeLoc(
        Queue: ol_queue_handle_t, Events: *mut ol_event_handle_t, NumEvents: usize
    ) {
        Queue.is_null() => InvalidNullHandle,
        Events.is_null() => InvalidNullPointer,
    } => queue::wait_events;

    /// Writes a property of a queue to the `PropSize` bytes at `PropValue`, which may be more than it takes. Does not
    /// block.
    olGetQueueInfo, olGetQueueInfoWithCodeLoc(
        Queue: ol_queue_handle_t, PropName: ol_queue_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Queue.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => queue::info [PropName PropSize PropValue];

    /// Writes how many bytes a property of a queue takes. Does not block.
    olGetQueueInfoSize, olGetQueueInfoSizeWithCodeLoc(
        Queue: ol_queue_handle_t, PropName: ol_queue_info_t, PropSizeRet: *mut usize
    ) {
        Queue.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => queue::info_size;

    /// Queues a function of the program. It runs on some thread, which may be one that waits for the queue; after
    /// what was queued before, and what is queued later waits for it. It must neither wait for its own queue nor call
    /// olInit or olShutDown. `UserData` is passed on as it is. Does not block.
    olLaunchHostFunction, olLaunchHostFunctionWithCodeLoc(
        Queue: ol_queue_handle_t, Callback: ol_host_function_cb_t, UserData: *mut c_void
    ) {
        Queue.is_null() => InvalidNullHandle,
        Callback.is_none() => InvalidNullPointer,
    } => queue::host_function;

    /// Makes an event that is complete when all that was queued before is done. It is the caller's until
    /// olDestroyEvent or the last olShutDown, also when its queue is destroyed. Does not block.
    olCreateEvent, olCreateEventWithCodeLoc(
        Queue: ol_queue_handle_t, Flags: ol_event_flags_t, Event: *mut ol_event_handle_t
    ) {
        Queue.is_null() => InvalidNullHandle,
        Event.is_null() => InvalidNullPointer,
    } => event::create;

    /// Gives an event up. Whatever waits for it still does. Does not block.
    olDestroyEvent, olDestroyEventWithCodeLoc(Event: ol_event_handle_t) {
        Event.is_null() => InvalidNullHandle,
    } => event::destroy;

    /// Blocks until an event is complete. The error is the first of the work in front of the event that no olSyncQueue
    /// had returned when the event was reached; each call returns it, and the next olSyncQueue of the event's queue does
    /// as well. OL_ERRC_UNSUPPORTED in a host function that the event is behind, which would wait for itself.
    olSyncEvent, olSyncEventWithCodeLoc(Event: ol_event_handle_t) {
        Event.is_null() => InvalidNullHandle,
    } => event::synchronize;

    /// Writes a property of an event to the `PropSize` bytes at `PropValue`, which may be more than it takes. Does
    /// not block.
    olGetEventInfo, olGetEventInfoWithCodeLoc(
        Event: ol_event_handle_t, PropName: ol_event_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Event.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => event::info [PropName PropSize PropValue];

    /// Writes how many bytes a property of an event takes. Does not block.
    olGetEventInfoSize, olGetEventInfoSizeWithCodeLoc(
        Event: ol_event_handle_t, PropName: ol_event_info_t, PropSizeRet: *mut usize
    ) {
        Event.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => event::info_size;

    /// Writes the milliseconds between two complete events of one device, both made with
    /// OL_EVENT_FLAGS_ENABLE_PROFILING. Does not block.
    olGetEventElapsedTime, olGetEventElapsedTimeWithCodeLoc(
        StartEvent: ol_event_handle_t, EndEvent: ol_event_handle_t, ElapsedTime: *mut f32
    ) {
        StartEvent.is_null() => InvalidNullHandle,
        EndEvent.is_null() => InvalidNullHandle,
        ElapsedTime.is_null() => InvalidNullPointer,
    } => event::elapsed;

    /// Loads the image of `ProgDataSize` bytes at `ProgData`, which are copied, and runs its constructors. The
    /// program is the caller's until olDestroyProgram or the last olShutDown. Blocks.
    olCreateProgram, olCreateProgramWithCodeLoc(
        Device: ol_device_handle_t, ProgData: *const c_void, ProgDataSize: usize, Program: *mut ol_program_handle_t
    ) {
        Device.is_null() => InvalidNullHandle,
        ProgData.is_null() => InvalidNullPointer,
        Program.is_null() => InvalidNullPointer,
    } => program::create;

    /// Waits for the queues that use a program, runs its destructors and unloads it. The handles of its symbols are
    /// invalid from now on. If the wait fails, because work of such a queue has failed or the call is made in a host
    /// function (OL_ERRC_UNSUPPORTED), the program stays loaded and all its handles valid: call again, where a
    /// failure is not returned twice. After a later error, such as that of a destructor, the program is unloaded all the
    /// same. Blocks.
    olDestroyProgram, olDestroyProgramWithCodeLoc(Program: ol_program_handle_t) {
        Program.is_null() => InvalidNullHandle,
    } => program::destroy;

    /// Writes whether a device takes an image, from what its bytes say; rubbish is no error. Does not block.
    olIsValidBinary, olIsValidBinaryWithCodeLoc(
        Device: ol_device_handle_t, ProgData: *const c_void, ProgDataSize: usize, Valid: *mut bool
    ) {
        Device.is_null() => InvalidNullHandle,
        ProgData.is_null() => InvalidNullPointer,
        Valid.is_null() => InvalidNullPointer,
    } => program::is_valid;

    /// Finds a kernel or a global variable by its name. The handle is the program's; the same name and kind have the
    /// same one. May block.
    olGetSymbol, olGetSymbolWithCodeLoc(
        Program: ol_program_handle_t, Name: *const c_char, Kind: ol_symbol_kind_t, Symbol: *mut ol_symbol_handle_t
    ) {
        Program.is_null() => InvalidNullHandle,
        Name.is_null() => InvalidNullPointer,
        Symbol.is_null() => InvalidNullPointer,
    } => symbol::get;

    /// Writes a property of a symbol to the `PropSize` bytes at `PropValue`, which may be more than it takes. Does
    /// not block.
    olGetSymbolInfo, olGetSymbolInfoWithCodeLoc(
        Symbol: ol_symbol_handle_t, PropName: ol_symbol_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Symbol.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => symbol::info [PropName PropSize PropValue];

    /// Writes how many bytes a property of a symbol takes. Does not block.
    olGetSymbolInfoSize, olGetSymbolInfoSizeWithCodeLoc(
        Symbol: ol_symbol_handle_t, PropName: ol_symbol_info_t, PropSizeRet: *mut usize
    ) {
        Symbol.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => symbol::info_size;

    /// Runs a kernel. `ArgPtrs` points to `NumArgs` addresses of arguments, `ArgSizes` to their sizes in bytes;
    /// everything is read at the call. `Properties` may be null, else it points to an array that ends with
    /// OL_KERNEL_LAUNCH_PROP_END. `Queue` may be null, else it is one of `Device`, and the call does not block.
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

    /// Writes the number of work-items in a group with which a kernel keeps most of a device busy, if each group has
    /// `SharedMemory` bytes of dynamic shared memory. Does not block.
    olCalculateOptimalOccupancy, olCalculateOptimalOccupancyWithCodeLoc(
        Device: ol_device_handle_t, Kernel: ol_symbol_handle_t, SharedMemory: usize, GroupSize: *mut usize
    ) {
        Device.is_null() => InvalidNullHandle,
        Kernel.is_null() => InvalidNullHandle,
        GroupSize.is_null() => InvalidNullPointer,
    } => launch::optimal_group_size;

    /// Writes the most work-groups with which a kernel can run cooperatively; of `LaunchSizeArgs` the size of groups
    /// and their dynamic shared memory matter. Does not block.
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

// Of LLVM before 23.
functions! {
    /// Of LLVM 20: writes how many platforms there are. Does not block.
    olGetPlatformCount, olGetPlatformCountWithCodeLoc(NumPlatforms: *mut u32) {
        NumPlatforms.is_null() => InvalidNullPointer,
    } => older::platform_count;

    /// Of LLVM 20: writes the first `NumEntries` platforms, at most as many as there are. Does not block.
    olGetPlatform, olGetPlatformWithCodeLoc(NumEntries: u32, Platforms: *mut ol_platform_handle_t) {
        NumEntries == 0 => InvalidSize,
        Platforms.is_null() => InvalidNullPointer,
    } => older::platforms;

    /// Of LLVM 20: writes how many devices a platform has. Does not block.
    olGetDeviceCount, olGetDeviceCountWithCodeLoc(Platform: ol_platform_handle_t, NumDevices: *mut u32) {
        Platform.is_null() => InvalidNullHandle,
        NumDevices.is_null() => InvalidNullPointer,
    } => older::device_count;

    /// Of LLVM 20: writes the first `NumEntries` devices of a platform, at most as many as it has. Does not block.
    olGetDevice, olGetDeviceWithCodeLoc(
        Platform: ol_platform_handle_t, NumEntries: u32, Devices: *mut ol_device_handle_t
    ) {
        NumEntries == 0 => InvalidSize,
        Platform.is_null() => InvalidNullHandle,
        Devices.is_null() => InvalidNullPointer,
    } => older::devices;

    /// Of LLVM 21: olSyncQueue.
    olWaitQueue, olWaitQueueWithCodeLoc(Queue: ol_queue_handle_t) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::synchronize;

    /// Of LLVM 21: olSyncEvent.
    olWaitEvent, olWaitEventWithCodeLoc(Event: ol_event_handle_t) {
        Event.is_null() => InvalidNullHandle,
    } => event::synchronize;
}
