//! The function tables. No entry is ever null. Every function may be called from any thread,
//! at the same time as any other, except a `destroy`, `close` or `unload`, which is the last call
//! on its handle. Calls that say nothing of blocking do not block.

use super::values::{
    Bytes, Copy, DeviceHandle, ErrorObject, EventHandle, Fill, GlobalInfo, HostFunction,
    KernelHandle, KernelInfo, Launch, ModuleHandle, PlatformHandle, PoolTracker, ProfileVisitor,
    QueueHandle, Sink, SymbolVisitor, Text,
};
use abi_stable::StableAbi;

/// "longshore.platform", version 1.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct PlatformTable {
    /// Writes the answer to a `platform_info` query: text without NUL.
    pub info: unsafe extern "C" fn(
        platform: *mut PlatformHandle,
        query: u32,
        value: Sink,
    ) -> *mut ErrorObject,
    /// How many devices there are. Fixed while the platform is connected.
    pub device_count: unsafe extern "C" fn(platform: *mut PlatformHandle) -> u32,
    /// Writes the answer to a `device_info` query about device `index`, in the query's own type.
    /// Works without opening the device. A query that the device cannot answer is
    /// `UNIMPLEMENTED`, an unknown one `INVALID_ENUMERATION`.
    pub device_info: unsafe extern "C" fn(
        platform: *mut PlatformHandle,
        index: u32,
        query: u32,
        value: Sink,
    ) -> *mut ErrorObject,
    /// Opens device `index`. May block while the driver makes its context.
    pub open: unsafe extern "C" fn(
        platform: *mut PlatformHandle,
        index: u32,
        device: *mut *mut DeviceHandle,
    ) -> *mut ErrorObject,
    /// Ends the platform. The host has closed all its devices before. May block.
    pub destroy: unsafe extern "C" fn(platform: *mut PlatformHandle),
}

/// "longshore.device", version 1.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct DeviceTable {
    /// Sets `accepted` to 1 if `load` would try the image, to 2 if `load` moreover refuses it unless
    /// verification shows that loading, constructing and unloading it is sound whatever its bytes are,
    /// else to 0 and writes why to `reason`. Never an error on account of a bad image.
    pub accepts: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        image: Bytes,
        accepted: *mut u32,
        reason: Sink,
    ) -> *mut ErrorObject,
    /// Allocates `bytes` (at least 1) bytes of a `memory_kind`, at a multiple of `alignment`
    /// (a power of two). May block. No address is handed out twice among the live allocations
    /// of a process.
    pub allocate: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        kind: u32,
        bytes: u64,
        alignment: u64,
        address: *mut u64,
    ) -> *mut ErrorObject,
    /// Frees what `allocate` of this device and kind returned. May block.
    pub free: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        kind: u32,
        address: u64,
    ) -> *mut ErrorObject,
    /// Loads an image. Its bytes stay in place and unchanged until `unload` returned. Runs no
    /// constructor. May block.
    pub load: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        image: Bytes,
        module: *mut *mut ModuleHandle,
    ) -> *mut ErrorObject,
    /// Makes a queue.
    pub create_queue: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        queue: *mut *mut QueueHandle,
    ) -> *mut ErrorObject,
    /// Makes an event, recorded nowhere. `timing` is 1 if its time will be asked for.
    pub create_event: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        timing: u32,
        event: *mut *mut EventHandle,
    ) -> *mut ErrorObject,
    /// Closes the device. The host has unloaded, destroyed and freed all that is on it. The
    /// handle is gone even when an error is returned. May block.
    pub close: unsafe extern "C" fn(device: *mut DeviceHandle) -> *mut ErrorObject,
}

/// "longshore.module", version 1.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct ModuleTable {
    /// Finds a kernel; `NOT_FOUND` if there is none, `SYMBOL_KIND` if the name is a global.
    pub kernel: unsafe extern "C" fn(
        module: *mut ModuleHandle,
        name: Text,
        kernel: *mut KernelInfo,
    ) -> *mut ErrorObject,
    /// Finds a global; `NOT_FOUND` if there is none, `SYMBOL_KIND` if the name is a kernel.
    pub global: unsafe extern "C" fn(
        module: *mut ModuleHandle,
        name: Text,
        global: *mut GlobalInfo,
    ) -> *mut ErrorObject,
    /// Names every kernel and global, in any order.
    pub symbols:
        unsafe extern "C" fn(module: *mut ModuleHandle, visitor: SymbolVisitor) -> *mut ErrorObject,
    /// Runs the global constructors, in priority order. Called once, before anything else of the
    /// module is used. Blocks until they are done.
    pub run_constructors: unsafe extern "C" fn(module: *mut ModuleHandle) -> *mut ErrorObject,
    /// Runs the global destructors, in reverse order. Called at most once, when no queue uses the
    /// module any more. A destructor that fails does not stop the others. Blocks until done.
    pub run_destructors: unsafe extern "C" fn(module: *mut ModuleHandle) -> *mut ErrorObject,
    /// Unloads the module. The handle is gone even when an error is returned. May block.
    pub unload: unsafe extern "C" fn(module: *mut ModuleHandle) -> *mut ErrorObject,
}

/// "longshore.queue", version 1. What is queued runs in order. An error that shows only when the
/// work runs is returned by the next `synchronize`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct QueueTable {
    /// Queues a kernel. Blocks only with `LAUNCH_WAIT`.
    pub launch:
        unsafe extern "C" fn(queue: *mut QueueHandle, launch: *const Launch) -> *mut ErrorObject,
    /// Queues a copy. Host memory stays the caller's and in place until the copy is done. Blocks
    /// only with `COPY_WAIT`.
    pub copy: unsafe extern "C" fn(queue: *mut QueueHandle, copy: *const Copy) -> *mut ErrorObject,
    /// Queues a fill. Blocks only with `FILL_WAIT`.
    pub fill: unsafe extern "C" fn(queue: *mut QueueHandle, fill: *const Fill) -> *mut ErrorObject,
    /// Queues a function of the program. What is queued after it waits for its return.
    pub host_function:
        unsafe extern "C" fn(queue: *mut QueueHandle, function: HostFunction) -> *mut ErrorObject,
    /// Makes what is queued from now on wait for the event's last record, on whichever queue of
    /// the platform that was. An event that was never recorded counts as complete.
    pub wait_event:
        unsafe extern "C" fn(queue: *mut QueueHandle, event: *mut EventHandle) -> *mut ErrorObject,
    /// Records the event at the queue's tail. Recording again forgets the earlier record.
    pub record_event:
        unsafe extern "C" fn(queue: *mut QueueHandle, event: *mut EventHandle) -> *mut ErrorObject,
    /// Sets `idle` to 1 if all that was queued is done, else to 0.
    pub is_idle: unsafe extern "C" fn(queue: *mut QueueHandle, idle: *mut u32) -> *mut ErrorObject,
    /// Blocks until all that was queued before the call is done, and returns the first error
    /// among it that nobody was told of.
    pub synchronize: unsafe extern "C" fn(queue: *mut QueueHandle) -> *mut ErrorObject,
    /// Gives the queue up without waiting: what was queued still runs.
    pub destroy: unsafe extern "C" fn(queue: *mut QueueHandle) -> *mut ErrorObject,
}

/// "longshore.event", version 1. An event may outlive the queue that it was recorded on.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct EventTable {
    /// Sets `complete` to 1 if the last record was reached or there was none, else to 0.
    pub is_complete:
        unsafe extern "C" fn(event: *mut EventHandle, complete: *mut u32) -> *mut ErrorObject,
    /// Blocks until the event is complete.
    pub synchronize: unsafe extern "C" fn(event: *mut EventHandle) -> *mut ErrorObject,
    /// Nanoseconds from `start` to `end`, both made with timing (else `INVALID_ARGUMENT`) on the
    /// same device (else `INVALID_DEVICE`), recorded and complete (else `INVALID_EVENT`).
    /// Negative if `end` was reached first.
    pub elapsed: unsafe extern "C" fn(
        start: *mut EventHandle,
        end: *mut EventHandle,
        nanoseconds: *mut i64,
    ) -> *mut ErrorObject,
    /// Gives the event up without waiting. Queues that wait for it still see its record.
    pub destroy: unsafe extern "C" fn(event: *mut EventHandle) -> *mut ErrorObject,
}

/// "longshore.pinning", version 1: page-locking of memory that the program allocated itself.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct PinningTable {
    /// Pins a range of host memory and answers the address under which the device reaches it.
    /// May block.
    pub pin: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        address: u64,
        bytes: u64,
        device_address: *mut u64,
    ) -> *mut ErrorObject,
    /// Undoes `pin` of the same address. May block.
    pub unpin: unsafe extern "C" fn(device: *mut DeviceHandle, address: u64) -> *mut ErrorObject,
}

/// "longshore.peer", version 1: devices of one platform that reach each other's memory.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct PeerTable {
    /// Sets `access` to 1 if kernels of `device` can reach memory of `peer`, else to 0.
    pub can_access: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        peer: *mut DeviceHandle,
        access: *mut u32,
    ) -> *mut ErrorObject,
    /// Lets kernels of `device` reach memory of `peer`. Doing it again is no error. May block.
    pub enable: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        peer: *mut DeviceHandle,
    ) -> *mut ErrorObject,
}

/// "longshore.prefetch", version 1: moving managed memory ahead of its use.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct PrefetchTable {
    /// Queues a hint that a range will be used at a `prefetch_target`. Memory that cannot move is
    /// no error.
    pub prefetch: unsafe extern "C" fn(
        queue: *mut QueueHandle,
        address: u64,
        bytes: u64,
        target: u32,
    ) -> *mut ErrorObject,
}

/// "longshore.occupancy", version 1: how a kernel fills a device.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct OccupancyTable {
    /// The group size, in work-items, with which the kernel keeps most of the device busy.
    pub optimal_group_items: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        kernel: *mut KernelHandle,
        dynamic_shared_bytes: u64,
        items: *mut u32,
    ) -> *mut ErrorObject,
    /// The most groups of `items` work-items with which the kernel can run cooperatively.
    pub max_cooperative_groups: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        kernel: *mut KernelHandle,
        items: *const [u32; 3],
        dynamic_shared_bytes: u64,
        groups: *mut u32,
    ) -> *mut ErrorObject,
}

/// "longshore.selection", version 1: which image of a container suits a device.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct SelectionTable {
    /// Sets `rank` to 0 if the device cannot run the image, else to how well it suits: the host
    /// loads the image with the highest rank, among equals the first. `triple` and `arch` are what
    /// the container says of the image, empty where it says nothing. Never an error on account of
    /// a bad image.
    pub rank: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        image: Bytes,
        triple: Text,
        arch: Text,
        rank: *mut u32,
    ) -> *mut ErrorObject,
}

/// "longshore.extent", version 1: how much of an allocation the program sees. The host asks for
/// blocks in size classes, and hands out again what was freed.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct ExtentTable {
    /// Says that the program sees only the first `bytes` of the live allocation at `address`, from
    /// now until this is called again; at first it sees all. What binds or measures a whole
    /// allocation takes this for its size. The rest stays allocated. Does not block.
    pub set_extent: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        address: u64,
        bytes: u64,
    ) -> *mut ErrorObject,
}

/// "longshore.adoption", version 1: memory that the host has, and devices are to reach.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct AdoptionTable {
    /// Makes `bytes` (at least 1) bytes of this process's memory at `address`, a multiple of the page size, an allocation
    /// of a `memory_kind`, as if `allocate` had answered the address: kernels reach it there, and `free` gives it up. The
    /// host keeps it in place until then, and has it back afterwards. `UNSUPPORTED` for a kind that the device lacks or
    /// cannot have at an address that it did not choose. May block.
    pub adopt: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        kind: u32,
        address: u64,
        bytes: u64,
    ) -> *mut ErrorObject,
}

/// "longshore.lazy", version 1: images that are linked as they are used.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct LazyTable {
    /// Loads an image as `load` of "longshore.device" does, and puts off what can be done when its kernels are first launched:
    /// an error of that is one of the launch, with the code that `load` would have had. Kernels and globals have the names
    /// that they would have. May block.
    pub load: unsafe extern "C" fn(
        device: *mut DeviceHandle,
        image: Bytes,
        module: *mut *mut ModuleHandle,
    ) -> *mut ErrorObject,
}

/// "longshore.cluster", version 1: groups in clusters, which run at once and reach each other's shared
/// memory.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct ClusterTable {
    /// Queues a kernel as `launch` of "longshore.queue" does, with clusters of so many groups in x, y
    /// and z, each at least 1. `INVALID_ARGUMENT` for clusters that do not divide the groups or that
    /// the device cannot have, `UNSUPPORTED` if it has none.
    pub launch: unsafe extern "C" fn(
        queue: *mut QueueHandle,
        launch: *const Launch,
        cluster: *const [u32; 3],
    ) -> *mut ErrorObject,
}

/// "longshore.arguments", version 1: types of kernels' arguments.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct ArgumentsTable {
    /// Writes the types of the arguments of a kernel that `kernel` of "longshore.module" found: a word of 4 bytes, little
    /// endian, for each. Bits 0 to 7 are the kind: 0 unknown, 1 signed integer, 2 unsigned integer, 3 floating point, 4
    /// pointer, 5 structure. Of a pointer to numbers, bits 8 to 15 are the kind of the elements and bits 16 to 31 their size
    /// in bytes, else both are 0. Writes nothing to `types` if the image does not tell. To `declaration` it writes the
    /// parameters as the source declares them, "(uint64_t n, float *x)", or nothing.
    pub describe: unsafe extern "C" fn(
        module: *mut ModuleHandle,
        kernel: Text,
        types: Sink,
        declaration: Sink,
    ) -> *mut ErrorObject,
}

/// "longshore.instrumentation", version 1: what compiled-in instrumentation left in a module's
/// memory. Called after the destructors and before `unload`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct InstrumentationTable {
    /// Reads the memory-pool tracker. Sets `present` to 0 if the image has none. Blocks.
    pub pool_tracker: unsafe extern "C" fn(
        module: *mut ModuleHandle,
        tracker: *mut PoolTracker,
        present: *mut u32,
    ) -> *mut ErrorObject,
    /// Reads the profile sections; visits none if the image has none. Blocks.
    pub profile: unsafe extern "C" fn(
        module: *mut ModuleHandle,
        visitor: ProfileVisitor,
    ) -> *mut ErrorObject,
}
