//! Plain values: strings, errors, requests, answers and the opaque handles.

use abi_stable::StableAbi;
use std::ffi::c_void;

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[repr(C)]
        #[derive(StableAbi)]
        pub struct $name { _opaque: [u8; 0] }
    )* };
}

opaque! {
    /// A connected platform. Owned by the plugin, lent to the host until `destroy`.
    PlatformHandle,
    /// An open device. Owned by the plugin, lent to the host until `close`.
    DeviceHandle,
    /// A loaded image. Owned by the plugin, lent to the host until `unload`.
    ModuleHandle,
    /// A kernel of a module. Valid until the module's `unload`; never destroyed by itself.
    KernelHandle,
    /// An in-order queue. Owned by the plugin, lent to the host until `destroy`.
    QueueHandle,
    /// An event. Owned by the plugin, lent to the host until `destroy`.
    EventHandle,
}

/// A borrowed UTF-8 string, not terminated by NUL. It lives as long as the call that passes it,
/// unless the field's comment says more. `data` may be null when `bytes` is 0.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Text {
    /// First byte.
    pub data: *const u8,
    /// Length in bytes.
    pub bytes: usize,
}

/// A borrowed sequence of bytes, with the lifetime rules of [`Text`].
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Bytes {
    /// First byte.
    pub data: *const u8,
    /// Length in bytes.
    pub bytes: usize,
}

/// Where a callee writes an answer of unknown length. `write` copies and may be called several
/// times, the pieces are joined. It must be called only during the call that received the sink.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Sink {
    /// Passed back to `write`.
    pub context: *mut c_void,
    /// Appends `bytes` bytes at `data`.
    pub write: unsafe extern "C" fn(context: *mut c_void, data: *const u8, bytes: usize),
}

/// An error. Calls return a pointer to one, or null for success. Who receives it calls `release`
/// once, if it is not null, and touches the object no more. A static object with a null `release`
/// is fine.
#[repr(C)]
#[derive(StableAbi)]
pub struct ErrorObject {
    /// The `error_code`; a value that the reader does not know counts as `UNKNOWN`.
    pub code: u32,
    /// Reserved, 0.
    pub reserved: u32,
    /// The vendor's own error number, 0 if there is none.
    pub vendor_number: i64,
    /// The vendor's own name for the error, empty if there is none.
    pub vendor_name: Text,
    /// What happened: names the object, the value that was wrong and what was expected.
    pub message: Text,
    /// Frees the object and its strings, or null.
    pub release: Option<unsafe extern "C" fn(error: *mut ErrorObject)>,
}

/// Receives the symbols of a module, one call each.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct SymbolVisitor {
    /// Passed back to `visit`.
    pub context: *mut c_void,
    /// `kind` is a `symbol_kind`.
    pub visit: unsafe extern "C" fn(context: *mut c_void, name: Text, kind: u32),
}

/// Receives the profile sections of a module, one call each.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct ProfileVisitor {
    /// Passed back to `visit`.
    pub context: *mut c_void,
    /// `kind` is a `profile_section_kind`; `address` is where the section lies on the device;
    /// `contents` is a copy on the host, valid during the call.
    pub visit: unsafe extern "C" fn(context: *mut c_void, kind: u32, address: u64, contents: Bytes),
}

/// What a kernel is, answered by the module that has it.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct KernelInfo {
    /// Valid until the module is unloaded.
    pub handle: *mut KernelHandle,
    /// Address of the kernel's code, 0 if the device does not tell.
    pub address: u64,
    /// Size of the kernel's code in bytes, 0 if unknown.
    pub code_bytes: u64,
    /// Sizes of the arguments in bytes, null if the image does not describe them. Valid until
    /// the module is unloaded.
    pub argument_sizes: *const u32,
    /// Types of the arguments, null if the image does not tell. Valid until the module is unloaded. Of each, bits 0 to 7
    /// are the kind: 0 unknown, 1 signed integer, 2 unsigned integer, 3 floating point, 4 pointer, 5 structure. Of a
    /// pointer to numbers, bits 8 to 15 are the kind of the elements and bits 16 to 31 their size in bytes, else both are 0.
    pub argument_types: *const u32,
    /// The parameters as the source declares them, "(uint64_t n, float *x)"; empty if unknown. Valid until the module is
    /// unloaded.
    pub declaration: Text,
    /// Number of arguments; meaningless while `argument_sizes` is null.
    pub argument_count: u32,
    /// Most work-items in a group of this kernel, 0 if only the device limits it.
    pub max_group_items: u32,
    /// Shared (work-group local) memory that the kernel itself declares, in bytes.
    pub static_shared_bytes: u64,
    /// Private (per work-item) memory in bytes, 0 if unknown.
    pub private_bytes: u64,
    /// Registers per work-item, 0 if unknown.
    pub registers: u32,
    /// Group size that the image requires in each dimension; 0 where it leaves it open.
    pub required_group: [u32; 3],
}

/// What a global variable is, answered by the module that has it.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct GlobalInfo {
    /// Device address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// The device's memory-pool tracker (`__omp_rtl_device_memory_pool_tracker`), as read from a
/// module.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolTracker {
    /// Number of allocations.
    pub allocations: u64,
    /// Bytes allocated in all.
    pub total_bytes: u64,
    /// Smallest allocation in bytes; the largest 64-bit value when there was none.
    pub min_bytes: u64,
    /// Largest allocation in bytes.
    pub max_bytes: u64,
}

/// The launch uses a cooperative grid.
pub const LAUNCH_COOPERATIVE: u32 = 1;
/// The launch returns when the kernel is done and all that was queued before it.
pub const LAUNCH_WAIT: u32 = 2;

/// A kernel launch. The callee copies what it needs from it: nothing in it is valid after the
/// call returns.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Launch {
    /// The kernel, of a module of the queue's device.
    pub kernel: *mut KernelHandle,
    /// Work-groups in each dimension, each at least 1.
    pub groups: [u32; 3],
    /// Work-items per group in each dimension, each at least 1.
    pub items: [u32; 3],
    /// Work-groups of a cluster in each dimension, all 0 for a launch without clusters. The groups of a cluster run at once
    /// and reach each other's shared memory. A device without clusters answers `UNSUPPORTED`.
    pub cluster: [u32; 3],
    /// Reserved, 0.
    pub reserved: u32,
    /// Dynamic shared memory per group, in bytes.
    pub dynamic_shared_bytes: u64,
    /// `LAUNCH_*` bits; an unknown bit is `UNSUPPORTED`.
    pub flags: u32,
    /// Number of arguments.
    pub argument_count: u32,
    /// `argument_count` pointers to the arguments' values.
    pub arguments: *const *const c_void,
    /// `argument_count` sizes in bytes.
    pub argument_sizes: *const usize,
}

/// The copy returns when it is done and all that was queued before it.
pub const COPY_WAIT: u32 = 1;

/// A copy between two places, each in host memory or on a device of the queue's platform.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Copy {
    /// Where to: a host pointer or a device address.
    pub destination: u64,
    /// The device that `destination` belongs to, null for host memory.
    pub destination_device: *mut DeviceHandle,
    /// Where from: a host pointer or a device address.
    pub source: u64,
    /// The device that `source` belongs to, null for host memory.
    pub source_device: *mut DeviceHandle,
    /// How many bytes; 0 is legal and still takes its place in the queue.
    pub bytes: u64,
    /// `COPY_*` bits; an unknown bit is `UNSUPPORTED`.
    pub flags: u32,
}

/// The fill returns when it is done and all that was queued before it.
pub const FILL_WAIT: u32 = 1;

/// A fill of memory of the queue's device with a repeated pattern.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Fill {
    /// Device address.
    pub destination: u64,
    /// How many bytes, a multiple of the pattern's size.
    pub bytes: u64,
    /// The pattern, at least one byte; copied before the call returns.
    pub pattern: Bytes,
    /// `FILL_*` bits; an unknown bit is `UNSUPPORTED`.
    pub flags: u32,
}

/// A function of the host program to be run in a queue's order, on a thread of the plugin's or on
/// one that waits for the queue.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct HostFunction {
    /// Passed back to `call`.
    pub context: *mut c_void,
    /// Run exactly once if the call that passed it succeeds, never if it fails.
    pub call: unsafe extern "C" fn(context: *mut c_void),
}
