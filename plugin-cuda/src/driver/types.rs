//! The driver's types, as its header declares them.

pub(crate) use longshore_plugin_streams::{DevicePtr, Event, Function, Module, Pool, Stream};

use longshore_plugin_streams::Handle;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The kinds of objects that a [`Handle`] can stand for.
pub(crate) mod object {
    /// `CUcontext`.
    pub(crate) enum Context {}
    /// `CUlinkState`.
    pub(crate) enum Link {}
}

/// `CUcontext`.
pub(crate) type Context = Handle<object::Context>;
/// `CUlinkState`.
pub(crate) type Link = Handle<object::Link>;
/// `CUdevice`: an ordinal returned by the driver.
pub(crate) type Device = c_int;

/// `CUuuid`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Uuid {
    /// The 16 bytes, in the order of their printed form.
    pub(crate) bytes: [u8; 16],
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    /// Either [`Location::DEVICE`] or [`Location::HOST`].
    pub(crate) kind: c_uint,
    /// The device's ordinal.
    pub(crate) id: c_int,
}

impl Location {
    /// `CU_MEM_LOCATION_TYPE_DEVICE`.
    pub(crate) const DEVICE: c_uint = 1;
    /// `CU_MEM_LOCATION_TYPE_HOST`.
    pub(crate) const HOST: c_uint = 2;
}

/// `CUmemPoolProps`.
#[repr(C)]
pub(crate) struct PoolProperties {
    /// `CU_MEM_ALLOCATION_TYPE_PINNED`, 1.
    pub(crate) allocation: c_uint,
    /// `CU_MEM_HANDLE_TYPE_NONE`, 0.
    pub(crate) handles: c_uint,
    /// Location of the memory.
    pub(crate) location: Location,
    /// Security attributes; for Windows alone.
    pub(crate) security: *mut c_void,
    /// Most bytes of the pool; 0 for all memory of the device. Reserved, and 0, before CUDA 12.2.
    pub(crate) max_bytes: usize,
    /// Zeros.
    pub(crate) reserved: [u8; 56],
}

/// `CUmemAccessDesc`.
#[repr(C)]
pub(crate) struct Access {
    /// The device that may use the memory.
    pub(crate) location: Location,
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`, 3.
    pub(crate) flags: c_uint,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
pub(crate) struct Copy3d {
    /// Memory to copy from.
    pub(crate) from: Copy3dEnd<*const c_void>,
    /// Memory to copy to.
    pub(crate) to: Copy3dEnd<*mut c_void>,
    /// Bytes of a row.
    pub(crate) row_bytes: usize,
    /// Rows of a slice.
    pub(crate) rows: usize,
    /// Slices.
    pub(crate) slices: usize,
}

/// The part of `CUDA_MEMCPY3D` for one end of the copy.
#[repr(C)]
pub(crate) struct Copy3dEnd<Host> {
    /// Offsets in bytes, rows, slices, and a level of detail; 0 outside of arrays.
    pub(crate) offsets: [usize; 4],
    /// `CUmemorytype`.
    pub(crate) memory: c_uint,
    /// Address of host memory.
    pub(crate) host: Host,
    /// Address of device memory.
    pub(crate) device: DevicePtr,
    /// `CUarray`, and a reserved null pointer.
    pub(crate) array: [*mut c_void; 2],
    /// Bytes between two rows.
    pub(crate) pitch: usize,
    /// Rows between two slices.
    pub(crate) height: usize,
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct LaunchConfig {
    /// Number of groups in x, y, z.
    pub(crate) groups: [c_uint; 3],
    /// Items of a group in x, y, z.
    pub(crate) items: [c_uint; 3],
    /// Dynamic shared memory in bytes.
    pub(crate) shared_bytes: c_uint,
    /// The stream of the launch.
    pub(crate) stream: Stream,
    /// Attributes of the launch.
    pub(crate) attributes: *const LaunchAttribute,
    /// Number of attributes.
    pub(crate) attribute_count: c_uint,
}

/// `CUlaunchAttribute`.
#[repr(C)]
pub(crate) struct LaunchAttribute {
    /// The attribute's number.
    pub(crate) id: c_uint,
    /// Padding.
    pub(crate) padding: [c_char; 4],
    /// The attribute's value: the three sizes for clusters, 1 for cooperative launches.
    pub(crate) value: LaunchValue,
}

/// `CUlaunchAttributeValue`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct LaunchValue(pub(crate) [c_uint; 16]);

impl LaunchAttribute {
    /// Creates an attribute whose value begins with these numbers, at most 16.
    pub(crate) fn new(id: c_uint, numbers: &[c_uint]) -> LaunchAttribute {
        let mut value = [0; 16];
        value.iter_mut().zip(numbers).for_each(|(place, number)| *place = *number);
        LaunchAttribute { id, padding: [0; 4], value: LaunchValue(value) }
    }

    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
    pub(crate) const COOPERATIVE: c_uint = 2;
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
    pub(crate) const CLUSTER: c_uint = 4;
}

/// `CUoccupancyB2DSize`.
pub(crate) type SharedBytesOf = Option<unsafe extern "C" fn(c_int) -> usize>;

/// Defines a module of constants for an enumeration of the driver's header. `$prefix` is the common
/// prefix of the enumeration's names.
macro_rules! constants {
    ($($(#[$doc:meta])* $module:ident: $theirs:ident $prefix:ident { $($name:ident = $value:literal,)* })*) => {
        $(
            $(#[$doc])*
                pub(crate) mod $module {
                $(pub(crate) const $name: std::ffi::c_uint = $value;)*
            }
        )*

        #[cfg(test)]
        pastey::paste! {
            /// Each name with its values here and in the driver's header.
            pub(super) const ALL: &[(&str, u32, u32)] = &[$($((
                stringify!($name),
                $value,
                cudarc::driver::sys::$theirs::[<$prefix $name>] as u32,
            ),)*)*];
        }
    };
}

constants! {
    /// `CU_DEVICE_ATTRIBUTE_...`.
    device_attribute: CUdevice_attribute CU_DEVICE_ATTRIBUTE_ {
        MAX_THREADS_PER_BLOCK = 1,
        MAX_BLOCK_DIM_X = 2,
        MAX_BLOCK_DIM_Y = 3,
        MAX_BLOCK_DIM_Z = 4,
        MAX_GRID_DIM_X = 5,
        MAX_GRID_DIM_Y = 6,
        MAX_GRID_DIM_Z = 7,
        MAX_SHARED_MEMORY_PER_BLOCK = 8,
        TOTAL_CONSTANT_MEMORY = 9,
        WARP_SIZE = 10,
        MAX_REGISTERS_PER_BLOCK = 12,
        CLOCK_RATE = 13,
        MULTIPROCESSOR_COUNT = 16,
        INTEGRATED = 18,
        COMPUTE_MODE = 20,
        CONCURRENT_KERNELS = 31,
        ECC_ENABLED = 32,
        MEMORY_CLOCK_RATE = 36,
        GLOBAL_MEMORY_BUS_WIDTH = 37,
        L2_CACHE_SIZE = 38,
        MAX_THREADS_PER_MULTIPROCESSOR = 39,
        ASYNC_ENGINE_COUNT = 40,
        UNIFIED_ADDRESSING = 41,
        COMPUTE_CAPABILITY_MAJOR = 75,
        COMPUTE_CAPABILITY_MINOR = 76,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
        MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
        MANAGED_MEMORY = 83,
        PAGEABLE_MEMORY_ACCESS = 88,
        CONCURRENT_MANAGED_ACCESS = 89,
        COOPERATIVE_LAUNCH = 95,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
        MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
        MEMORY_POOLS_SUPPORTED = 115,
        CLUSTER_LAUNCH = 120,
    }
    /// `CU_FUNC_ATTRIBUTE_...`.
    function_attribute: CUfunction_attribute CU_FUNC_ATTRIBUTE_ {
        MAX_THREADS_PER_BLOCK = 0,
        SHARED_SIZE_BYTES = 1,
        LOCAL_SIZE_BYTES = 3,
        NUM_REGS = 4,
        MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
        NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
    }
    /// `CU_POINTER_ATTRIBUTE_...`.
    pointer_attribute: CUpointer_attribute CU_POINTER_ATTRIBUTE_ {
        MEMORY_TYPE = 2,
        IS_MANAGED = 8,
        RANGE_START_ADDR = 11,
        RANGE_SIZE = 12,
    }
    /// `CU_MEMORYTYPE_...`.
    memory_type: CUmemorytype CU_MEMORYTYPE_ {
        HOST = 1,
        DEVICE = 2,
    }
    /// `CU_MEMPOOL_ATTR_...`.
    pool_attribute: CUmemPool_attribute CU_MEMPOOL_ATTR_ {
        RELEASE_THRESHOLD = 4,
    }
    /// `CU_JIT_...`.
    jit: CUjit_option CU_JIT_ {
        MAX_REGISTERS = 0,
        INFO_LOG_BUFFER = 3,
        INFO_LOG_BUFFER_SIZE_BYTES = 4,
        ERROR_LOG_BUFFER = 5,
        ERROR_LOG_BUFFER_SIZE_BYTES = 6,
        OPTIMIZATION_LEVEL = 7,
        GENERATE_LINE_INFO = 13,
    }
    /// `CU_JIT_INPUT_...`.
    jit_input: CUjitInputType CU_JIT_INPUT_ {
        CUBIN = 0,
    }
    /// `CU_LIMIT_...`.
    limit: CUlimit CU_LIMIT_ {
        STACK_SIZE = 0,
        PRINTF_FIFO_SIZE = 1,
        MALLOC_HEAP_SIZE = 2,
    }
    /// `CU_STREAM_...`.
    stream_flag: CUstream_flags CU_STREAM_ {
        NON_BLOCKING = 1,
    }
    /// `CU_EVENT_...`.
    event_flag: CUevent_flags CU_EVENT_ {
        DEFAULT = 0,
        BLOCKING_SYNC = 1,
        DISABLE_TIMING = 2,
    }
    /// `CU_MEM_ATTACH_...`.
    attach: CUmemAttach_flags CU_MEM_ATTACH_ {
        GLOBAL = 1,
    }
}

/// `CU_MEMHOSTALLOC_...` and `CU_MEMHOSTREGISTER_...`, which have the same values for the flags
/// that both have.
#[allow(missing_docs, reason = "the names are the driver's")]
pub(crate) mod host_memory {
    pub(crate) const PORTABLE: std::ffi::c_uint = 1;
    pub(crate) const DEVICEMAP: std::ffi::c_uint = 2;
    /// `CU_MEMHOSTREGISTER_READ_ONLY`, for registration alone.
    pub(crate) const READ_ONLY: std::ffi::c_uint = 8;
}
