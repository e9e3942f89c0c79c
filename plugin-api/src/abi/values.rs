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
    /// A kernel of a module. Valid until the module's `unload`; it has no end of its own.
    KernelHandle,
    /// An in-order queue. Owned by the plugin, lent to the host until `destroy`.
    QueueHandle,
    /// An event. Owned by the plugin, lent to the host until `destroy`.
    EventHandle,
}

/// A borrowed UTF-8 string without a terminating NUL. Valid during the call that passes it, unless
/// the comment of the field says otherwise. `data` may be null when `bytes` is 0.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Text {
    /// Pointer to the first byte.
    pub data: *const u8,
    /// Length in bytes.
    pub bytes: usize,
}

/// A borrowed sequence of bytes, with the lifetime rules of [`Text`].
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Bytes {
    /// Pointer to the first byte.
    pub data: *const u8,
    /// Length in bytes.
    pub bytes: usize,
}

/// A destination for an answer of unknown length. `write` copies its bytes; several calls append to
/// each other. The callee may call `write` only during the call that received the sink.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Sink {
    /// Pointer that the callee passes to `write`.
    pub context: *mut c_void,
    /// Function that appends `bytes` bytes at `data`.
    pub write: unsafe extern "C" fn(context: *mut c_void, data: *const u8, bytes: usize),
}

/// An error. A function returns a pointer to one, or null for success. The receiver calls `release`
/// once, unless it is null, and does not touch the object afterwards. The plugin may return a
/// static object with a null `release`.
#[repr(C)]
#[derive(StableAbi)]
pub struct ErrorObject {
    /// `error_code` of the error; a value unknown to the reader counts as `UNKNOWN`.
    pub code: u32,
    /// Reserved, 0.
    pub reserved: u32,
    /// Vendor's own error number, 0 if none.
    pub vendor_number: i64,
    /// Vendor's own name for the error, empty if none.
    pub vendor_name: Text,
    /// Description for people: names the object, the wrong value and the expected one.
    pub message: Text,
    /// Function that frees the object and its strings, on any thread; null for a static object.
    pub release: Option<unsafe extern "C" fn(error: *mut ErrorObject)>,
}

/// A receiver for the symbols of a module: one call for each. Valid only during the call that
/// passes it.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct SymbolVisitor {
    /// Pointer that the plugin passes to `visit`.
    pub context: *mut c_void,
    /// Function that receives a symbol; `kind` is a `symbol_kind`.
    pub visit: unsafe extern "C" fn(context: *mut c_void, name: Text, kind: u32),
}

/// A receiver for the profile sections of a module: one call for each. Valid only during the call
/// that passes it.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct ProfileVisitor {
    /// Pointer that the plugin passes to `visit`.
    pub context: *mut c_void,
    /// Function that receives a section. `kind` is a `profile_section_kind`, `address` the
    /// section's address on the device. `contents` is a copy on the host, valid during the call.
    pub visit: unsafe extern "C" fn(context: *mut c_void, kind: u32, address: u64, contents: Bytes),
}

/// Attributes of a kernel, from its module.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct KernelInfo {
    /// Handle of the kernel; valid until the module is unloaded.
    pub handle: *mut KernelHandle,
    /// Address of the kernel's code, 0 if unknown.
    pub address: u64,
    /// Size of the kernel's code in bytes, 0 if unknown.
    pub code_bytes: u64,
    /// Sizes of the arguments in bytes, null if the image does not describe them. Valid until
    /// the module is unloaded.
    pub argument_sizes: *const u32,
    /// Types of the arguments, null if unknown. Valid until the module is unloaded. Bits 0 to 7 of
    /// each are the kind: 0 unknown, 1 signed integer, 2 unsigned integer, 3 floating point, 4
    /// pointer, 5 structure. For a pointer to numbers, bits 8 to 15 are the kind of the elements
    /// and bits 16 to 31 their size in bytes; else both are 0.
    pub argument_types: *const u32,
    /// Parameters as the source declares them, "(uint64_t n, float *x)"; empty if unknown. Valid
    /// until the module is unloaded.
    pub declaration: Text,
    /// Number of arguments; meaningless while `argument_sizes` is null.
    pub argument_count: u32,
    /// Maximum number of work-items in a group of this kernel, 0 if only the device limits it.
    pub max_group_items: u32,
    /// Shared (work-group local) memory that the kernel's code declares, in bytes.
    pub static_shared_bytes: u64,
    /// Private (per work-item) memory in bytes, 0 if unknown.
    pub private_bytes: u64,
    /// Registers per work-item, 0 if unknown.
    pub registers: u32,
    /// Group size that the image requires in each dimension; 0 where any size is allowed.
    pub required_group: [u32; 3],
}

/// Address and size of a global variable, from its module.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct GlobalInfo {
    /// Device address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Counters of a module's memory-pool tracker (`__omp_rtl_device_memory_pool_tracker`).
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolTracker {
    /// Number of allocations.
    pub allocations: u64,
    /// Sum of the sizes of all allocations, in bytes.
    pub total_bytes: u64,
    /// Smallest allocation in bytes; the largest 64-bit value without allocations.
    pub min_bytes: u64,
    /// Largest allocation in bytes.
    pub max_bytes: u64,
}

/// Flag of a launch with a cooperative grid.
pub const LAUNCH_COOPERATIVE: u32 = 1;
/// Flag of a launch that returns when the kernel and all earlier work of the queue are done.
pub const LAUNCH_WAIT: u32 = 2;
/// Flag of a launch whose kernel takes its arguments as C parameters of 64 bits, one for each
/// value: `void kernel(uint64_t, ...)`. A value of less than 8 bytes is filled up with zeros.
pub const LAUNCH_WORDS: u32 = 4;

/// A kernel launch. The callee copies the parts that it needs: nothing in the launch is valid after
/// the call returns.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Launch {
    /// Kernel of a module of the queue's device.
    pub kernel: *mut KernelHandle,
    /// Work-groups in each dimension, each at least 1.
    pub groups: [u32; 3],
    /// Work-items per group in each dimension, each at least 1.
    pub items: [u32; 3],
    /// Work-groups of a cluster in each dimension, all 0 for a launch without clusters. The groups
    /// of a cluster run at the same time and reach each other's shared memory. A device without
    /// clusters returns `UNSUPPORTED`.
    pub cluster: [u32; 3],
    /// Reserved, 0.
    pub reserved: u32,
    /// Dynamic shared memory per group, in bytes.
    pub dynamic_shared_bytes: u64,
    /// `LAUNCH_*` bits; an unknown bit is `UNSUPPORTED`.
    pub flags: u32,
    /// Number of arguments.
    pub argument_count: u32,
    /// Array of `argument_count` pointers to the arguments' values.
    pub arguments: *const *const c_void,
    /// Array of `argument_count` sizes in bytes.
    pub argument_sizes: *const usize,
}

/// Flag of a copy that returns when the copy and all earlier work of the queue are done.
pub const COPY_WAIT: u32 = 1;

/// A copy between two places, each in host memory or on a device of the queue's platform.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Copy {
    /// Host pointer or device address to copy to.
    pub destination: u64,
    /// Device that `destination` belongs to, null for host memory.
    pub destination_device: *mut DeviceHandle,
    /// Host pointer or device address to copy from.
    pub source: u64,
    /// Device that `source` belongs to, null for host memory.
    pub source_device: *mut DeviceHandle,
    /// Number of bytes; a copy of 0 bytes is legal and still takes its place in the queue.
    pub bytes: u64,
    /// `COPY_*` bits; an unknown bit is `UNSUPPORTED`.
    pub flags: u32,
}

/// One end of a rectangular copy.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct RectEnd {
    /// Host pointer or device address of the first row.
    pub address: u64,
    /// Device that the memory belongs to, null for host memory.
    pub device: *mut DeviceHandle,
    /// Distance between the starts of two rows in bytes, at least the bytes of a row.
    pub row_pitch: u64,
    /// Distance between the starts of two slices in bytes: a multiple of `row_pitch`, at least
    /// `rows` times `row_pitch`.
    pub slice_pitch: u64,
}

/// A copy of slices of rows of bytes between two places, each in host memory or on a device of the
/// queue's platform. The rows of both ends do not overlap.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Rect {
    /// Memory to copy to.
    pub destination: RectEnd,
    /// Memory to copy from.
    pub source: RectEnd,
    /// Number of bytes in a row, at least 1.
    pub row_bytes: u64,
    /// Number of rows in a slice, at least 1.
    pub rows: u64,
    /// Number of slices, at least 1.
    pub slices: u64,
    /// No flag is known, so every bit is `UNSUPPORTED`.
    pub flags: u32,
}

/// The root of a collective operation that is memory of the host.
pub const COLLECTIVE_ROOT_HOST: u32 = 0xffff_fffe;
/// The root of a collective operation without a root.
pub const COLLECTIVE_ROOT_NONE: u32 = 0xffff_ffff;

/// A device that takes part in a collective operation.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct CollectiveMember {
    /// Open device of the platform.
    pub device: *mut DeviceHandle,
    /// Device address of the memory that the operation reads; 0 if it reads none.
    pub source: u64,
    /// Device address of the memory that the operation writes; 0 if it writes none.
    pub destination: u64,
}

/// An operation over the memory of several devices.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Collective {
    /// Kind: 0 broadcast, 1 gather, 2 gather at all members, 3 reduce, 4 reduce at all members.
    pub kind: u32,
    /// Index of the member that is the root, or a `COLLECTIVE_ROOT_*`.
    pub root: u32,
    /// Elements of a reduction, from 0: I8, U8, I16, U16, I32, U32, I64, U64, F32, F64; else 0.
    pub element: u32,
    /// Operation of a reduction, from 0: sum, product, min, max, and, or, xor; else 0.
    pub operation: u32,
    /// Number of bytes of each member.
    pub bytes: u64,
    /// Host pointer of a root that is memory of the host; else 0.
    pub host: u64,
    /// Array of `member_count` members.
    pub members: *const CollectiveMember,
    /// Number of members, at least 1.
    pub member_count: u64,
    /// No flag is known, so every bit is `UNSUPPORTED`.
    pub flags: u32,
}

/// Flag of a fill that returns when the fill and all earlier work of the queue are done.
pub const FILL_WAIT: u32 = 1;

/// A fill of memory of the queue's device with a repeated pattern.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Fill {
    /// Device address.
    pub destination: u64,
    /// Number of bytes, a multiple of the pattern's size.
    pub bytes: u64,
    /// Pattern of at least 1 byte; copied before the call returns.
    pub pattern: Bytes,
    /// `FILL_*` bits; an unknown bit is `UNSUPPORTED`.
    pub flags: u32,
}

/// A function of the host program, which runs in a queue's order on a thread of the plugin or on a
/// thread that waits for the queue.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct HostFunction {
    /// Pointer that the plugin passes to `call`.
    pub context: *mut c_void,
    /// Function to call: exactly once if the call that passed it succeeds, never if it fails.
    pub call: unsafe extern "C" fn(context: *mut c_void),
}
