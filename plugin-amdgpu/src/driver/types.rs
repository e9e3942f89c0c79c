//! HIP's types, as its header declares them, and constants that are the same in its versions 5 to
//! 7.

pub(crate) use longshore_plugin_streams::{DevicePtr, Event, Function, Module, Pool, Stream};

use std::ffi::{c_int, c_uint, c_void};

/// `hipUUID`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Uuid {
    /// The 16 bytes; on AMD's devices they are hexadecimal digits.
    pub(crate) bytes: [u8; 16],
}

/// `hipDeviceProp_t`, large enough for any version. Only the texts in it are read.
#[repr(C, align(16))]
pub(crate) struct Properties {
    /// The structure's bytes.
    pub(crate) bytes: [u8; 8192],
}

/// `hipMemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    /// The value [`Location::DEVICE`].
    pub(crate) kind: c_uint,
    /// The device's number.
    pub(crate) id: c_int,
}

impl Location {
    /// `hipMemLocationTypeDevice`.
    pub(crate) const DEVICE: c_uint = 1;
}

/// `hipMemPoolProps`.
#[repr(C)]
pub(crate) struct PoolProperties {
    /// `hipMemAllocationTypePinned`, 1.
    pub(crate) allocation: c_uint,
    /// `hipMemHandleTypeNone`, 0.
    pub(crate) handles: c_uint,
    /// Location of the memory.
    pub(crate) location: Location,
    /// Security attributes; for Windows alone.
    pub(crate) security: *mut c_void,
    /// Zeros. Since HIP 6 the first 8 bytes are a maximum, for which 0 means no limit.
    pub(crate) reserved: [u8; 64],
}

/// `hipMemAccessDesc`.
#[repr(C)]
pub(crate) struct Access {
    /// The device that may use the memory.
    pub(crate) location: Location,
    /// `hipMemAccessFlagsProtReadWrite`, 3.
    pub(crate) flags: c_uint,
}

/// `hipMemcpy3DParms`.
#[repr(C)]
pub(crate) struct Copy3d {
    /// Memory to copy from.
    pub(crate) from: Copy3dEnd,
    /// Memory to copy to.
    pub(crate) to: Copy3dEnd,
    /// Bytes of a row, rows of a slice, and slices: `hipExtent`.
    pub(crate) extent: [usize; 3],
    /// `hipMemcpyKind`.
    pub(crate) kind: c_uint,
}

/// The part of `hipMemcpy3DParms` for one end of the copy.
#[repr(C)]
pub(crate) struct Copy3dEnd {
    /// `hipArray_t`, null for other memory.
    pub(crate) array: *mut c_void,
    /// `hipPos`.
    pub(crate) position: [usize; 3],
    /// The address in `hipPitchedPtr`.
    pub(crate) address: u64,
    /// Bytes between two rows.
    pub(crate) pitch: usize,
    /// Bytes of a row.
    pub(crate) row_bytes: usize,
    /// Rows between two slices.
    pub(crate) height: usize,
}

/// Defines a module of constants for an enumeration of HIP's header.
macro_rules! constants {
    ($($(#[$doc:meta])* $module:ident { $($name:ident = $value:literal $theirs:ident,)* })*) => {
        $(
            $(#[$doc])*
            pub(crate) mod $module {
                $(pub(crate) const $name: std::ffi::c_uint = $value;)*
            }
        )*

        /// Each value and its name in HIP's header.
        #[cfg(test)]
        pub(super) const ALL: &[(u32, &str)] = &[$($(($value, stringify!($theirs)),)*)*];
    };
}

constants! {
    /// `hipDeviceAttribute_t`.
    attribute {
        ECC_ENABLED = 0 hipDeviceAttributeEccEnabled,
        CLOCK_RATE = 5 hipDeviceAttributeClockRate,
        COMPUTE_MODE = 6 hipDeviceAttributeComputeMode,
        CONCURRENT_KERNELS = 8 hipDeviceAttributeConcurrentKernels,
        CONCURRENT_MANAGED_ACCESS = 9 hipDeviceAttributeConcurrentManagedAccess,
        COOPERATIVE_LAUNCH = 10 hipDeviceAttributeCooperativeLaunch,
        INTEGRATED = 16 hipDeviceAttributeIntegrated,
        L2_CACHE_SIZE = 19 hipDeviceAttributeL2CacheSize,
        MANAGED_MEMORY = 24 hipDeviceAttributeManagedMemory,
        MAX_BLOCK_DIM_X = 26 hipDeviceAttributeMaxBlockDimX,
        MAX_BLOCK_DIM_Y = 27 hipDeviceAttributeMaxBlockDimY,
        MAX_BLOCK_DIM_Z = 28 hipDeviceAttributeMaxBlockDimZ,
        MAX_GRID_DIM_X = 29 hipDeviceAttributeMaxGridDimX,
        MAX_GRID_DIM_Y = 30 hipDeviceAttributeMaxGridDimY,
        MAX_GRID_DIM_Z = 31 hipDeviceAttributeMaxGridDimZ,
        MAX_THREADS_PER_BLOCK = 56 hipDeviceAttributeMaxThreadsPerBlock,
        MAX_THREADS_PER_MULTIPROCESSOR = 57 hipDeviceAttributeMaxThreadsPerMultiProcessor,
        MEMORY_BUS_WIDTH = 59 hipDeviceAttributeMemoryBusWidth,
        MEMORY_CLOCK_RATE = 60 hipDeviceAttributeMemoryClockRate,
        MULTIPROCESSOR_COUNT = 63 hipDeviceAttributeMultiprocessorCount,
        PAGEABLE_MEMORY_ACCESS = 65 hipDeviceAttributePageableMemoryAccess,
        MAX_REGISTERS_PER_BLOCK = 71 hipDeviceAttributeMaxRegistersPerBlock,
        MAX_SHARED_MEMORY_PER_BLOCK = 74 hipDeviceAttributeMaxSharedMemoryPerBlock,
        TOTAL_CONSTANT_MEMORY = 83 hipDeviceAttributeTotalConstantMemory,
        WARP_SIZE = 87 hipDeviceAttributeWarpSize,
        MEMORY_POOLS_SUPPORTED = 88 hipDeviceAttributeMemoryPoolsSupported,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 10002 hipDeviceAttributeMaxSharedMemoryPerMultiprocessor,
    }
    /// `hipPointer_attribute`.
    pointer_attribute {
        MEMORY_TYPE = 2 HIP_POINTER_ATTRIBUTE_MEMORY_TYPE,
        IS_MANAGED = 8 HIP_POINTER_ATTRIBUTE_IS_MANAGED,
        RANGE_START_ADDR = 11 HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        RANGE_SIZE = 12 HIP_POINTER_ATTRIBUTE_RANGE_SIZE,
    }
    /// `hipMemPoolAttr`.
    pool_attribute {
        RELEASE_THRESHOLD = 4 hipMemPoolAttrReleaseThreshold,
    }
    /// `hipMemcpyKind`.
    copy_kind {
        HOST_TO_DEVICE = 1 hipMemcpyHostToDevice,
        DEVICE_TO_HOST = 2 hipMemcpyDeviceToHost,
        DEVICE_TO_DEVICE = 3 hipMemcpyDeviceToDevice,
        DEFAULT = 4 hipMemcpyDefault,
    }
    /// `hipStream...`.
    stream_flag {
        NON_BLOCKING = 1 hipStreamNonBlocking,
    }
    /// `hipEvent...`.
    event_flag {
        DEFAULT = 0 hipEventDefault,
        BLOCKING_SYNC = 1 hipEventBlockingSync,
        DISABLE_TIMING = 2 hipEventDisableTiming,
    }
    /// `hipHostMalloc...` and `hipHostRegister...`, which have the same values.
    host_memory {
        PORTABLE = 1 hipHostMallocPortable,
        MAPPED = 2 hipHostMallocMapped,
    }
    /// `hipMemAttach...`.
    attach {
        GLOBAL = 1 hipMemAttachGlobal,
    }
    /// `hipLimit_t`.
    limit {
        MALLOC_HEAP_SIZE = 2 hipLimitMallocHeapSize,
    }
}

/// `hipLimitStackSize`, which came with HIP 5.3.
pub(crate) const LIMIT_STACK_SIZE: c_uint = 0;
