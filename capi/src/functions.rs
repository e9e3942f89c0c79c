//! The functions of the interface: what each takes, what it refuses in which order, and where its work is done.
//!
//! All may be called from any thread. Those that take a handle refuse one that is none, or of what was destroyed.

use crate::declare::functions;
use crate::enumerations::*;
use crate::structures::*;
use crate::{
    context, device, event, launch, memory, older, platform, program, queue, symbol,
};
use longshore::ErrorCode;
use std::ffi::{c_char, c_void};

functions! {
    /// Starts the library: finds plugins and devices. Counted: what olInit starts, as many calls of olShutDown end.
    /// `InitArgs` may be null; it counts for the first call alone. Blocks while drivers start.
    olInit, olInitWithCodeLoc(InitArgs: *const ol_init_args_t)
        => context::initialize;

    /// Undoes olInit. The last one unloads what is loaded, and closes all devices. Blocks until they are done.
    olShutDown, olShutDownWithCodeLoc()
        => context::shut_down;

    /// Answers a query about a platform. Texts end with a NUL. Does not block.
    olGetPlatformInfo, olGetPlatformInfoWithCodeLoc(
        Platform: ol_platform_handle_t, PropName: ol_platform_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Platform.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => platform::info [PropName PropSize PropValue];

    /// Answers how many bytes olGetPlatformInfo writes. Does not block.
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

    /// Calls a function for each device, until it answers false. It may call all functions of the library.
    olIterateDevices, olIterateDevicesWithCodeLoc(Callback: ol_device_iterate_cb_t, UserData: *mut c_void) {
        Callback.is_none() => InvalidNullPointer,
    } => device::iterate;

    /// Answers a query about a device. Texts end with a NUL. Does not block.
    olGetDeviceInfo, olGetDeviceInfoWithCodeLoc(
        Device: ol_device_handle_t, PropName: ol_device_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => device::info [PropName PropSize PropValue];

    /// Answers how many bytes olGetDeviceInfo writes. Does not block.
    olGetDeviceInfoSize, olGetDeviceInfoSizeWithCodeLoc(
        Device: ol_device_handle_t, PropName: ol_device_info_t, PropSizeRet: *mut usize
    ) {
        Device.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => device::info_size;

    /// Allocates memory for a device. May block.
    olMemAlloc, olMemAllocWithCodeLoc(
        Device: ol_device_handle_t, Type: ol_alloc_type_t, Size: usize, AllocationOut: *mut *mut c_void
    ) {
        Size == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        AllocationOut.is_null() => InvalidNullPointer,
    } => memory::allocate;

    /// The same at a multiple of `Alignment`, a power of two.
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

    /// Frees what was allocated, by its first address. Nothing may use it any more. May block.
    olMemFree, olMemFreeWithCodeLoc(Address: *mut c_void) {
        Address.is_null() => InvalidNullPointer,
    } => memory::free;

    /// Answers a query about the allocation that an address lies in. Does not block.
    olGetMemInfo, olGetMemInfoWithCodeLoc(
        Ptr: *const c_void, PropName: ol_mem_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Ptr.is_null() => InvalidNullPointer,
        PropValue.is_null() => InvalidNullPointer,
    } => memory::info [PropName PropSize PropValue];

    /// Answers how many bytes olGetMemInfo writes. Does not block.
    olGetMemInfoSize, olGetMemInfoSizeWithCodeLoc(
        Ptr: *const c_void, PropName: ol_mem_info_t, PropSizeRet: *mut usize
    ) {
        Ptr.is_null() => InvalidNullPointer,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => memory::info_size;

    /// Makes memory of the host known to a device, and page-locks it if the flags say so. The answer is the device's
    /// address; null if it is not locked. Within a range that is registered it counts one more user. May block.
    olMemRegister, olMemRegisterWithCodeLoc(
        Device: ol_device_handle_t, Ptr: *mut c_void, Size: usize, Flags: ol_memory_register_flags_t,
        PinnedPtr: *mut *mut c_void
    ) {
        Size == 0 => InvalidSize,
        Device.is_null() => InvalidNullHandle,
        Ptr.is_null() => InvalidNullPointer,
        PinnedPtr.is_null() => InvalidNullPointer,
    } => memory::register;

    /// Undoes olMemRegister. The last user's unlocks it. May block.
    olMemUnregister, olMemUnregisterWithCodeLoc(
        Device: ol_device_handle_t, Ptr: *mut c_void, Flags: ol_memory_register_flags_t
    ) {
        Device.is_null() => InvalidNullHandle,
        Ptr.is_null() => InvalidNullPointer,
    } => memory::unregister;

    /// Queues hints where ranges of memory will be used. What cannot move, stays.
    olMemPrefetch, olMemPrefetchWithCodeLoc(
        Queue: ol_queue_handle_t, Count: usize, Mems: *mut *const c_void, Sizes: *const usize,
        Flags: ol_mem_migration_flags_t
    ) {
        Count > 0 && Mems.is_null() => InvalidNullPointer,
        Count > 0 && Sizes.is_null() => InvalidNullPointer,
        (Flags & !memory::MIGRATION_FLAGS) != 0 => InvalidEnumeration,
        Queue.is_null() => InvalidNullHandle,
    } => memory::prefetch;

    /// Copies. Memory of a device of the host's platform is any memory of the program. Without a queue it blocks until
    /// that is done, with one it is queued; between two platforms it blocks in both cases.
    olMemcpy, olMemcpyWithCodeLoc(
        Queue: ol_queue_handle_t, DstPtr: *mut c_void, DstDevice: ol_device_handle_t, SrcPtr: *const c_void,
        SrcDevice: ol_device_handle_t, Size: usize
    ) {
        DstDevice.is_null() => InvalidNullHandle,
        SrcDevice.is_null() => InvalidNullHandle,
        DstPtr.is_null() => InvalidNullPointer,
        SrcPtr.is_null() => InvalidNullPointer,
    } => memory::copy;

    /// Fills memory with a pattern, which is read at the call. Without a queue it blocks until that is done.
    olMemFill, olMemFillWithCodeLoc(
        Queue: ol_queue_handle_t, Ptr: *mut c_void, PatternSize: usize, PatternPtr: *const c_void, FillSize: usize
    ) {
        FillSize.checked_rem(PatternSize) != Some(0) => InvalidSize,
        Ptr.is_null() => InvalidNullPointer,
        PatternPtr.is_null() => InvalidNullPointer,
    } => memory::fill;

    /// Makes a queue, whose work runs in order and asynchronously.
    olCreateQueue, olCreateQueueWithCodeLoc(Device: ol_device_handle_t, Queue: *mut ol_queue_handle_t) {
        Device.is_null() => InvalidNullHandle,
        Queue.is_null() => InvalidNullPointer,
    } => queue::create;

    /// Gives a queue up. What was queued still runs. Does not block.
    olDestroyQueue, olDestroyQueueWithCodeLoc(Queue: ol_queue_handle_t) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::destroy;

    /// Blocks until all that was queued is done. The error is the first that nobody was told of.
    olSyncQueue, olSyncQueueWithCodeLoc(Queue: ol_queue_handle_t) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::synchronize;

    /// Answers whether all that was queued is done. Does not block. `IsQueueWorkCompleted` may be null.
    olQueryQueue, olQueryQueueWithCodeLoc(Queue: ol_queue_handle_t, IsQueueWorkCompleted: *mut bool) {
        Queue.is_null() => InvalidNullHandle,
    } => queue::query;

    /// Makes what is queued from now on wait for events. Does not block.
    olWaitEvents, olWaitEventsWithCodeLoc(
        Queue: ol_queue_handle_t, Events: *mut ol_event_handle_t, NumEvents: usize
    ) {
        Queue.is_null() => InvalidNullHandle,
        Events.is_null() => InvalidNullPointer,
    } => queue::wait_events;

    /// Answers a query about a queue. Does not block.
    olGetQueueInfo, olGetQueueInfoWithCodeLoc(
        Queue: ol_queue_handle_t, PropName: ol_queue_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Queue.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => queue::info [PropName PropSize PropValue];

    /// Answers how many bytes olGetQueueInfo writes. Does not block.
    olGetQueueInfoSize, olGetQueueInfoSizeWithCodeLoc(
        Queue: ol_queue_handle_t, PropName: ol_queue_info_t, PropSizeRet: *mut usize
    ) {
        Queue.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => queue::info_size;

    /// Queues a function of the program, which runs on some thread, and for whose return later work waits. Does not
    /// block. It must not wait for its own queue.
    olLaunchHostFunction, olLaunchHostFunctionWithCodeLoc(
        Queue: ol_queue_handle_t, Callback: ol_host_function_cb_t, UserData: *mut c_void
    ) {
        Queue.is_null() => InvalidNullHandle,
        Callback.is_none() => InvalidNullPointer,
    } => queue::host_function;

    /// Makes an event behind all that is queued. Does not block.
    olCreateEvent, olCreateEventWithCodeLoc(
        Queue: ol_queue_handle_t, Flags: ol_event_flags_t, Event: *mut ol_event_handle_t
    ) {
        Queue.is_null() => InvalidNullHandle,
        Event.is_null() => InvalidNullPointer,
    } => event::create;

    /// Gives an event up. Does not block.
    olDestroyEvent, olDestroyEventWithCodeLoc(Event: ol_event_handle_t) {
        Event.is_null() => InvalidNullHandle,
    } => event::destroy;

    /// Blocks until an event is reached.
    olSyncEvent, olSyncEventWithCodeLoc(Event: ol_event_handle_t) {
        Event.is_null() => InvalidNullHandle,
    } => event::synchronize;

    /// Answers a query about an event. Does not block.
    olGetEventInfo, olGetEventInfoWithCodeLoc(
        Event: ol_event_handle_t, PropName: ol_event_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Event.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => event::info [PropName PropSize PropValue];

    /// Answers how many bytes olGetEventInfo writes. Does not block.
    olGetEventInfoSize, olGetEventInfoSizeWithCodeLoc(
        Event: ol_event_handle_t, PropName: ol_event_info_t, PropSizeRet: *mut usize
    ) {
        Event.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => event::info_size;

    /// Answers the milliseconds between two events that were made with OL_EVENT_FLAGS_ENABLE_PROFILING. Does not block.
    olGetEventElapsedTime, olGetEventElapsedTimeWithCodeLoc(
        StartEvent: ol_event_handle_t, EndEvent: ol_event_handle_t, ElapsedTime: *mut f32
    ) {
        StartEvent.is_null() => InvalidNullHandle,
        EndEvent.is_null() => InvalidNullHandle,
        ElapsedTime.is_null() => InvalidNullPointer,
    } => event::elapsed;

    /// Loads an image, which is copied, and runs its constructors. Blocks.
    olCreateProgram, olCreateProgramWithCodeLoc(
        Device: ol_device_handle_t, ProgData: *const c_void, ProgDataSize: usize, Program: *mut ol_program_handle_t
    ) {
        Device.is_null() => InvalidNullHandle,
        ProgData.is_null() => InvalidNullPointer,
        Program.is_null() => InvalidNullPointer,
    } => program::create;

    /// Runs a program's destructors and unloads it. Its symbols are gone. Blocks.
    olDestroyProgram, olDestroyProgramWithCodeLoc(Program: ol_program_handle_t) {
        Program.is_null() => InvalidNullHandle,
    } => program::destroy;

    /// Answers whether a device takes an image. Does not block.
    olIsValidBinary, olIsValidBinaryWithCodeLoc(
        Device: ol_device_handle_t, ProgData: *const c_void, ProgDataSize: usize, Valid: *mut bool
    ) {
        Device.is_null() => InvalidNullHandle,
        ProgData.is_null() => InvalidNullPointer,
        Valid.is_null() => InvalidNullPointer,
    } => program::is_valid;

    /// Finds a kernel or a global variable. The same name and kind have the same handle. May block.
    olGetSymbol, olGetSymbolWithCodeLoc(
        Program: ol_program_handle_t, Name: *const c_char, Kind: ol_symbol_kind_t, Symbol: *mut ol_symbol_handle_t
    ) {
        Program.is_null() => InvalidNullHandle,
        Name.is_null() => InvalidNullPointer,
        Symbol.is_null() => InvalidNullPointer,
    } => symbol::get;

    /// Answers a query about a symbol. Does not block.
    olGetSymbolInfo, olGetSymbolInfoWithCodeLoc(
        Symbol: ol_symbol_handle_t, PropName: ol_symbol_info_t, PropSize: usize, PropValue: *mut c_void
    ) {
        PropSize == 0 => InvalidSize,
        Symbol.is_null() => InvalidNullHandle,
        PropValue.is_null() => InvalidNullPointer,
    } => symbol::info [PropName PropSize PropValue];

    /// Answers how many bytes olGetSymbolInfo writes. Does not block.
    olGetSymbolInfoSize, olGetSymbolInfoSizeWithCodeLoc(
        Symbol: ol_symbol_handle_t, PropName: ol_symbol_info_t, PropSizeRet: *mut usize
    ) {
        Symbol.is_null() => InvalidNullHandle,
        PropSizeRet.is_null() => InvalidNullPointer,
    } => symbol::info_size;

    /// Runs a kernel. The values of its arguments are read at the call. `Properties` may be null, else it ends with
    /// OL_KERNEL_LAUNCH_PROP_TYPE_NONE. Without a queue it blocks until the kernel is done.
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

    /// Answers the group size with which a kernel keeps most of a device busy. Does not block.
    olCalculateOptimalOccupancy, olCalculateOptimalOccupancyWithCodeLoc(
        Device: ol_device_handle_t, Kernel: ol_symbol_handle_t, SharedMemory: usize, GroupSize: *mut usize
    ) {
        Device.is_null() => InvalidNullHandle,
        Kernel.is_null() => InvalidNullHandle,
        GroupSize.is_null() => InvalidNullPointer,
    } => launch::optimal_group_size;

    /// Answers the most groups with which a kernel can run cooperatively. Does not block.
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
