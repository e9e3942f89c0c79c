//! The numbers of the interface, and their meanings.

use super::declare::enumerations;

enumerations! {
    /// The kind of an error.
    ol_errc_t {
        /// No error.
        OL_ERRC_SUCCESS = 0,
        /// An error without a code of its own.
        OL_ERRC_UNKNOWN = 1,
        /// A file, pipe or process of the host could not be used.
        OL_ERRC_HOST_IO = 2,
        /// The image is malformed, or of a format or architecture that the device lacks.
        OL_ERRC_INVALID_BINARY = 3,
        /// A pointer was null where null is not allowed.
        OL_ERRC_INVALID_NULL_POINTER = 4,
        /// An argument does not fit the call.
        OL_ERRC_INVALID_ARGUMENT = 5,
        /// A name or an allocation does not exist.
        OL_ERRC_NOT_FOUND = 6,
        /// Memory or another resource ran out.
        OL_ERRC_OUT_OF_RESOURCES = 7,
        /// A size is 0, too small, too large, or not a multiple of the required size.
        OL_ERRC_INVALID_SIZE = 8,
        /// A number is not a value of its enumeration.
        OL_ERRC_INVALID_ENUMERATION = 9,
        /// A tool of the host is not installed.
        OL_ERRC_HOST_TOOL_NOT_FOUND = 10,
        /// A value is out of range or cannot be parsed.
        OL_ERRC_INVALID_VALUE = 11,
        /// A valid query that the device does not answer.
        OL_ERRC_UNIMPLEMENTED = 12,
        /// A valid request beyond this device or its backend, or a call in a host function, where
        /// it would deadlock.
        OL_ERRC_UNSUPPORTED = 13,
        /// The device assembler failed.
        OL_ERRC_ASSEMBLE_FAILURE = 14,
        /// The device compiler failed.
        OL_ERRC_COMPILE_FAILURE = 15,
        /// The image could not be linked.
        OL_ERRC_LINK_FAILURE = 16,
        /// The plugin, the driver or the device failed.
        OL_ERRC_BACKEND_FAILURE = 17,
        /// olInit was not called, or the object of the handle was closed.
        OL_ERRC_UNINITIALIZED = 18,
        /// A handle was null where null is not allowed.
        OL_ERRC_INVALID_NULL_HANDLE = 19,
        /// The number is not a handle of a platform.
        OL_ERRC_INVALID_PLATFORM = 20,
        /// The number is not a handle of a device, or the device is the wrong one.
        OL_ERRC_INVALID_DEVICE = 21,
        /// The number is not a handle of a queue, or the queue is the wrong one.
        OL_ERRC_INVALID_QUEUE = 22,
        /// The number is not a handle of an event, or the event is the wrong one.
        OL_ERRC_INVALID_EVENT = 23,
        /// The symbol is of the other kind.
        OL_ERRC_SYMBOL_KIND = 24,
    }
    /// The backend of a platform.
    ol_platform_backend_t {
        /// Another backend, which the platform's name shows.
        OL_PLATFORM_BACKEND_UNKNOWN = 0,
        /// CUDA.
        OL_PLATFORM_BACKEND_CUDA = 1,
        /// AMD's GPUs.
        OL_PLATFORM_BACKEND_AMDGPU = 2,
        /// Level Zero.
        OL_PLATFORM_BACKEND_LEVEL_ZERO = 3,
        /// The CPU that runs the program.
        OL_PLATFORM_BACKEND_HOST = 4,
    }
    /// A query of olGetPlatformInfo.
    ol_platform_info_t {
        /// char[]: name of the platform.
        OL_PLATFORM_INFO_NAME = 0,
        /// char[]: vendor of the platform.
        OL_PLATFORM_INFO_VENDOR_NAME = 1,
        /// char[]: version of the platform.
        OL_PLATFORM_INFO_VERSION = 2,
        /// ol_platform_backend_t: backend of the platform.
        OL_PLATFORM_INFO_BACKEND = 3,
    }
    /// The kind of a device.
    ol_device_type_t {
        /// The preferred device.
        OL_DEVICE_TYPE_DEFAULT = 0,
        /// All devices.
        OL_DEVICE_TYPE_ALL = 1,
        /// A device other than the program's own CPU.
        OL_DEVICE_TYPE_GPU = 2,
        /// A CPU.
        OL_DEVICE_TYPE_CPU = 3,
        /// The CPU that runs the program.
        OL_DEVICE_TYPE_HOST = 4,
    }
    /// A query of olGetDeviceInfo.
    ol_device_info_t {
        /// ol_device_type_t: kind of the device.
        OL_DEVICE_INFO_TYPE = 0,
        /// ol_platform_handle_t: platform of the device.
        OL_DEVICE_INFO_PLATFORM = 1,
        /// char[]: name of the device.
        OL_DEVICE_INFO_NAME = 2,
        /// char[]: name under which the device is sold.
        OL_DEVICE_INFO_PRODUCT_NAME = 3,
        /// char[]: unique name, from the backend and a UUID or an index.
        OL_DEVICE_INFO_UID = 4,
        /// char[]: vendor of the device.
        OL_DEVICE_INFO_VENDOR = 5,
        /// char[]: version of the driver.
        OL_DEVICE_INFO_DRIVER_VERSION = 6,
        /// uint32_t: maximum number of work-items in a group.
        OL_DEVICE_INFO_MAX_WORK_GROUP_SIZE = 7,
        /// ol_dimensions_t: maximum number of work-items of a group in each dimension.
        OL_DEVICE_INFO_MAX_WORK_GROUP_SIZE_PER_DIMENSION = 8,
        /// uint32_t: maximum number of work-items in a launch.
        OL_DEVICE_INFO_MAX_WORK_SIZE = 9,
        /// ol_dimensions_t: maximum number of work-items of a launch in each dimension.
        OL_DEVICE_INFO_MAX_WORK_SIZE_PER_DIMENSION = 10,
        /// uint32_t: number of the vendor, assigned by PCI-SIG.
        OL_DEVICE_INFO_VENDOR_ID = 11,
        /// uint32_t: number of compute units that work in parallel.
        OL_DEVICE_INFO_NUM_COMPUTE_UNITS = 12,
        /// uint32_t: highest clock in MHz.
        OL_DEVICE_INFO_MAX_CLOCK_FREQUENCY = 13,
        /// uint32_t: memory clock in MHz.
        OL_DEVICE_INFO_MEMORY_CLOCK_RATE = 14,
        /// uint32_t: bits of a device address.
        OL_DEVICE_INFO_ADDRESS_BITS = 15,
        /// uint64_t: size of the largest possible allocation in bytes.
        OL_DEVICE_INFO_MAX_MEM_ALLOC_SIZE = 16,
        /// uint64_t: size of the device memory in bytes.
        OL_DEVICE_INFO_GLOBAL_MEM_SIZE = 17,
        /// uint64_t: maximum size of the shared memory of a group in bytes.
        OL_DEVICE_INFO_WORK_GROUP_LOCAL_MEM_SIZE = 18,
        /// ol_device_fp_capability_flags_t: abilities in single precision.
        OL_DEVICE_INFO_SINGLE_FP_CONFIG = 19,
        /// ol_device_fp_capability_flags_t: abilities in double precision.
        OL_DEVICE_INFO_DOUBLE_FP_CONFIG = 20,
        /// ol_device_fp_capability_flags_t: abilities in half precision.
        OL_DEVICE_INFO_HALF_FP_CONFIG = 21,
        /// uint32_t: native vector width for 8-bit integers, in elements.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_CHAR = 22,
        /// uint32_t: native vector width for 16-bit integers, in elements.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_SHORT = 23,
        /// uint32_t: native vector width for 32-bit integers, in elements.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_INT = 24,
        /// uint32_t: native vector width for 64-bit integers, in elements.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_LONG = 25,
        /// uint32_t: native vector width for single precision, in elements.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_FLOAT = 26,
        /// uint32_t: native vector width for double precision, in elements.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_DOUBLE = 27,
        /// uint32_t: native vector width for half precision, in elements.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_HALF = 28,
        /// bool: whether the device has single precision.
        OL_DEVICE_INFO_SINGLE_FP_SUPPORT = 29,
        /// bool: whether the device has double precision.
        OL_DEVICE_INFO_DOUBLE_FP_SUPPORT = 30,
        /// bool: whether the device has half precision.
        OL_DEVICE_INFO_HALF_FP_SUPPORT = 31,
        /// bool: whether the device has cooperative launches.
        OL_DEVICE_INFO_COOPERATIVE_LAUNCH_SUPPORT = 32,
    }
    /// A flag of the queries for precisions.
    ol_device_fp_capability_flag_t {
        /// Correct rounding of division and square root.
        OL_DEVICE_FP_CAPABILITY_FLAG_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1,
        /// Rounding to nearest.
        OL_DEVICE_FP_CAPABILITY_FLAG_ROUND_TO_NEAREST = 2,
        /// Rounding to zero.
        OL_DEVICE_FP_CAPABILITY_FLAG_ROUND_TO_ZERO = 4,
        /// Rounding to infinity.
        OL_DEVICE_FP_CAPABILITY_FLAG_ROUND_TO_INF = 8,
        /// Infinities and NaN.
        OL_DEVICE_FP_CAPABILITY_FLAG_INF_NAN = 16,
        /// Denormals.
        OL_DEVICE_FP_CAPABILITY_FLAG_DENORM = 32,
        /// Fused multiply-add.
        OL_DEVICE_FP_CAPABILITY_FLAG_FMA = 64,
        /// Computation in software.
        OL_DEVICE_FP_CAPABILITY_FLAG_SOFT_FLOAT = 128,
    }
    /// The place of an allocation.
    ol_alloc_type_t {
        /// Page-locked host memory, which the device reaches too.
        OL_ALLOC_TYPE_HOST = 0,
        /// Device memory, which the host need not reach.
        OL_ALLOC_TYPE_DEVICE = 1,
        /// Memory that moves to its place of use. Host and device reach it, the host when the
        /// queues that use the memory are done.
        OL_ALLOC_TYPE_MANAGED = 2,
    }
    /// A query of olGetMemInfo.
    ol_mem_info_t {
        /// ol_device_handle_t: device of the allocation.
        OL_MEM_INFO_DEVICE = 0,
        /// void *: first address.
        OL_MEM_INFO_BASE = 1,
        /// size_t: size in bytes.
        OL_MEM_INFO_SIZE = 2,
        /// ol_alloc_type_t: place of the allocation.
        OL_MEM_INFO_TYPE = 3,
    }
    /// A flag of olMemRegister and olMemUnregister.
    ol_memory_register_flag_t {
        /// Page-lock of the memory by olMemRegister.
        OL_MEMORY_REGISTER_FLAG_LOCK_MEMORY = 1,
        /// Undoing of the page-lock by olMemUnregister.
        OL_MEMORY_REGISTER_FLAG_UNLOCK_MEMORY = 2,
    }
    /// A flag of olMemPrefetch.
    ol_mem_migration_flag_t {
        /// Move to the device.
        OL_MEM_MIGRATION_FLAG_HOST_TO_DEVICE = 1,
        /// Move to the host.
        OL_MEM_MIGRATION_FLAG_DEVICE_TO_HOST = 2,
    }
    /// A query of olGetQueueInfo.
    ol_queue_info_t {
        /// ol_device_handle_t: device of the queue.
        OL_QUEUE_INFO_DEVICE = 0,
        /// bool: whether all queued work is done.
        OL_QUEUE_INFO_EMPTY = 1,
    }
    /// The flags of olCreateEvent.
    ol_event_flags_t {
        /// No flags.
        OL_EVENT_FLAGS_NONE = 0,
        /// Record of the time, for olGetEventElapsedTime.
        OL_EVENT_FLAGS_ENABLE_PROFILING = 1,
    }
    /// A query of olGetEventInfo.
    ol_event_info_t {
        /// ol_queue_handle_t: queue of the event, which may be destroyed.
        OL_EVENT_INFO_QUEUE = 0,
        /// bool: whether the event is complete.
        OL_EVENT_INFO_IS_COMPLETE = 1,
    }
    /// The kind of a symbol.
    ol_symbol_kind_t {
        /// A kernel.
        OL_SYMBOL_KIND_KERNEL = 0,
        /// A global variable.
        OL_SYMBOL_KIND_GLOBAL_VARIABLE = 1,
    }
    /// A query of olGetSymbolInfo.
    ol_symbol_info_t {
        /// ol_symbol_kind_t: kind of the symbol.
        OL_SYMBOL_INFO_KIND = 0,
        /// void *: address of a variable.
        OL_SYMBOL_INFO_GLOBAL_VARIABLE_ADDRESS = 1,
        /// size_t: size of a variable in bytes.
        OL_SYMBOL_INFO_GLOBAL_VARIABLE_SIZE = 2,
    }
    /// The kind of a property of a launch.
    ol_kernel_launch_prop_type_t {
        /// End of the array.
        OL_KERNEL_LAUNCH_PROP_TYPE_NONE = 0,
        /// bool *: whether all groups run at the same time.
        OL_KERNEL_LAUNCH_PROP_TYPE_IS_COOPERATIVE = 1,
    }
}
