//! The numbers of the interface, and what they mean.

use super::declare::enumerations;

enumerations! {
    /// What went wrong.
    ol_errc_t {
        /// Nothing.
        OL_ERRC_SUCCESS = 0,
        /// None of the others.
        OL_ERRC_UNKNOWN = 1,
        /// A file, pipe or process of the host could not be used.
        OL_ERRC_HOST_IO = 2,
        /// The image is malformed, or of a format or architecture that the device lacks.
        OL_ERRC_INVALID_BINARY = 3,
        /// A pointer was null that must not be.
        OL_ERRC_INVALID_NULL_POINTER = 4,
        /// An argument does not fit the call.
        OL_ERRC_INVALID_ARGUMENT = 5,
        /// There is no such name or allocation.
        OL_ERRC_NOT_FOUND = 6,
        /// Memory or another resource ran out.
        OL_ERRC_OUT_OF_RESOURCES = 7,
        /// A size is 0, too small, too large, or not a multiple of what it must be.
        OL_ERRC_INVALID_SIZE = 8,
        /// A number is not one of the enumeration's.
        OL_ERRC_INVALID_ENUMERATION = 9,
        /// A tool of the host is not installed.
        OL_ERRC_HOST_TOOL_NOT_FOUND = 10,
        /// A value is out of range or cannot be parsed.
        OL_ERRC_INVALID_VALUE = 11,
        /// Valid, but a query that the device does not answer.
        OL_ERRC_UNIMPLEMENTED = 12,
        /// Valid, but this device or its backend cannot do it.
        OL_ERRC_UNSUPPORTED = 13,
        /// The device assembler failed.
        OL_ERRC_ASSEMBLE_FAILURE = 14,
        /// The device compiler failed.
        OL_ERRC_COMPILE_FAILURE = 15,
        /// The image could not be linked.
        OL_ERRC_LINK_FAILURE = 16,
        /// The plugin, the driver or the device failed.
        OL_ERRC_BACKEND_FAILURE = 17,
        /// olInit was not called, or what the handle stands for was closed.
        OL_ERRC_UNINITIALIZED = 18,
        /// A handle was null that must not be.
        OL_ERRC_INVALID_NULL_HANDLE = 19,
        /// No handle of a platform.
        OL_ERRC_INVALID_PLATFORM = 20,
        /// No handle of a device, or not of the right one.
        OL_ERRC_INVALID_DEVICE = 21,
        /// No handle of a queue, or not of the right one.
        OL_ERRC_INVALID_QUEUE = 22,
        /// No handle of an event, or not of the right one.
        OL_ERRC_INVALID_EVENT = 23,
        /// The symbol is of the other kind.
        OL_ERRC_SYMBOL_KIND = 24,
    }
    /// What provides a platform.
    ol_platform_backend_t {
        /// None of the others; the platform's name tells.
        OL_PLATFORM_BACKEND_UNKNOWN = 0,
        /// CUDA.
        OL_PLATFORM_BACKEND_CUDA = 1,
        /// AMD's GPUs.
        OL_PLATFORM_BACKEND_AMDGPU = 2,
        /// Level Zero.
        OL_PLATFORM_BACKEND_LEVEL_ZERO = 3,
        /// The CPU that the program runs on.
        OL_PLATFORM_BACKEND_HOST = 4,
    }
    /// What olGetPlatformInfo answers.
    ol_platform_info_t {
        /// char[]: the platform's name.
        OL_PLATFORM_INFO_NAME = 0,
        /// char[]: who makes it.
        OL_PLATFORM_INFO_VENDOR_NAME = 1,
        /// char[]: its version.
        OL_PLATFORM_INFO_VERSION = 2,
        /// ol_platform_backend_t: what provides it.
        OL_PLATFORM_INFO_BACKEND = 3,
    }
    /// What a device is.
    ol_device_type_t {
        /// The one that is preferred.
        OL_DEVICE_TYPE_DEFAULT = 0,
        /// Any.
        OL_DEVICE_TYPE_ALL = 1,
        /// One that is not the program's own CPU.
        OL_DEVICE_TYPE_GPU = 2,
        /// A CPU.
        OL_DEVICE_TYPE_CPU = 3,
        /// The CPU that the program runs on.
        OL_DEVICE_TYPE_HOST = 4,
    }
    /// What olGetDeviceInfo answers.
    ol_device_info_t {
        /// ol_device_type_t: what it is.
        OL_DEVICE_INFO_TYPE = 0,
        /// ol_platform_handle_t: its platform.
        OL_DEVICE_INFO_PLATFORM = 1,
        /// char[]: its name.
        OL_DEVICE_INFO_NAME = 2,
        /// char[]: the name under which it is sold.
        OL_DEVICE_INFO_PRODUCT_NAME = 3,
        /// char[]: unique, the backend and a UUID or an index.
        OL_DEVICE_INFO_UID = 4,
        /// char[]: who makes it.
        OL_DEVICE_INFO_VENDOR = 5,
        /// char[]: the version of its driver.
        OL_DEVICE_INFO_DRIVER_VERSION = 6,
        /// uint32_t: most work-items in a group.
        OL_DEVICE_INFO_MAX_WORK_GROUP_SIZE = 7,
        /// ol_dimensions_t: most work-items of a group in each dimension.
        OL_DEVICE_INFO_MAX_WORK_GROUP_SIZE_PER_DIMENSION = 8,
        /// uint32_t: most work-items in a launch.
        OL_DEVICE_INFO_MAX_WORK_SIZE = 9,
        /// ol_dimensions_t: most work-items of a launch in each dimension.
        OL_DEVICE_INFO_MAX_WORK_SIZE_PER_DIMENSION = 10,
        /// uint32_t: the vendor's number, assigned by PCI-SIG.
        OL_DEVICE_INFO_VENDOR_ID = 11,
        /// uint32_t: compute units that work in parallel.
        OL_DEVICE_INFO_NUM_COMPUTE_UNITS = 12,
        /// uint32_t: highest clock in MHz.
        OL_DEVICE_INFO_MAX_CLOCK_FREQUENCY = 13,
        /// uint32_t: memory clock in MHz.
        OL_DEVICE_INFO_MEMORY_CLOCK_RATE = 14,
        /// uint32_t: bits of a device address.
        OL_DEVICE_INFO_ADDRESS_BITS = 15,
        /// uint64_t: largest allocation in bytes.
        OL_DEVICE_INFO_MAX_MEM_ALLOC_SIZE = 16,
        /// uint64_t: device memory in bytes.
        OL_DEVICE_INFO_GLOBAL_MEM_SIZE = 17,
        /// uint64_t: most shared memory of a group in bytes.
        OL_DEVICE_INFO_WORK_GROUP_LOCAL_MEM_SIZE = 18,
        /// ol_device_fp_capability_flags_t: single precision.
        OL_DEVICE_INFO_SINGLE_FP_CONFIG = 19,
        /// ol_device_fp_capability_flags_t: double precision.
        OL_DEVICE_INFO_DOUBLE_FP_CONFIG = 20,
        /// ol_device_fp_capability_flags_t: half precision.
        OL_DEVICE_INFO_HALF_FP_CONFIG = 21,
        /// uint32_t: native vector width for 8-bit integers.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_CHAR = 22,
        /// uint32_t: native vector width for 16-bit integers.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_SHORT = 23,
        /// uint32_t: native vector width for 32-bit integers.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_INT = 24,
        /// uint32_t: native vector width for 64-bit integers.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_LONG = 25,
        /// uint32_t: native vector width for single precision.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_FLOAT = 26,
        /// uint32_t: native vector width for double precision.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_DOUBLE = 27,
        /// uint32_t: native vector width for half precision.
        OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_HALF = 28,
        /// bool: whether it has single precision.
        OL_DEVICE_INFO_SINGLE_FP_SUPPORT = 29,
        /// bool: whether it has double precision.
        OL_DEVICE_INFO_DOUBLE_FP_SUPPORT = 30,
        /// bool: whether it has half precision.
        OL_DEVICE_INFO_HALF_FP_SUPPORT = 31,
        /// bool: whether it has cooperative launches.
        OL_DEVICE_INFO_COOPERATIVE_LAUNCH_SUPPORT = 32,
    }
    /// Flags of the queries for precisions.
    ol_device_fp_capability_flag_t {
        /// Division and square root are correctly rounded.
        OL_DEVICE_FP_CAPABILITY_FLAG_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1,
        /// Rounds to nearest.
        OL_DEVICE_FP_CAPABILITY_FLAG_ROUND_TO_NEAREST = 2,
        /// Rounds to zero.
        OL_DEVICE_FP_CAPABILITY_FLAG_ROUND_TO_ZERO = 4,
        /// Rounds to infinity.
        OL_DEVICE_FP_CAPABILITY_FLAG_ROUND_TO_INF = 8,
        /// Has infinities and NaN.
        OL_DEVICE_FP_CAPABILITY_FLAG_INF_NAN = 16,
        /// Has denormals.
        OL_DEVICE_FP_CAPABILITY_FLAG_DENORM = 32,
        /// Has fused multiply-add.
        OL_DEVICE_FP_CAPABILITY_FLAG_FMA = 64,
        /// Computed in software.
        OL_DEVICE_FP_CAPABILITY_FLAG_SOFT_FLOAT = 128,
    }
    /// Where memory lies.
    ol_alloc_type_t {
        /// On the host, page-locked; the device reaches it too.
        OL_ALLOC_TYPE_HOST = 0,
        /// On the device; the host need not reach it.
        OL_ALLOC_TYPE_DEVICE = 1,
        /// Wherever it is used; host and device reach it, the host when the queues that use it are done.
        OL_ALLOC_TYPE_MANAGED = 2,
    }
    /// What olGetMemInfo answers.
    ol_mem_info_t {
        /// ol_device_handle_t: the device that it was allocated for.
        OL_MEM_INFO_DEVICE = 0,
        /// void *: the first address.
        OL_MEM_INFO_BASE = 1,
        /// size_t: the size in bytes.
        OL_MEM_INFO_SIZE = 2,
        /// ol_alloc_type_t: where it lies.
        OL_MEM_INFO_TYPE = 3,
    }
    /// Flags of olMemRegister and olMemUnregister.
    ol_memory_register_flag_t {
        /// olMemRegister page-locks the memory.
        OL_MEMORY_REGISTER_FLAG_LOCK_MEMORY = 1,
        /// olMemUnregister undoes that.
        OL_MEMORY_REGISTER_FLAG_UNLOCK_MEMORY = 2,
    }
    /// Flags of olMemPrefetch.
    ol_mem_migration_flag_t {
        /// To the device.
        OL_MEM_MIGRATION_FLAG_HOST_TO_DEVICE = 1,
        /// To the host.
        OL_MEM_MIGRATION_FLAG_DEVICE_TO_HOST = 2,
    }
    /// What olGetQueueInfo answers.
    ol_queue_info_t {
        /// ol_device_handle_t: its device.
        OL_QUEUE_INFO_DEVICE = 0,
        /// bool: whether all that was queued is done.
        OL_QUEUE_INFO_EMPTY = 1,
    }
    /// Flags of olCreateEvent.
    ol_event_flags_t {
        /// None.
        OL_EVENT_FLAGS_NONE = 0,
        /// For olGetEventElapsedTime.
        OL_EVENT_FLAGS_ENABLE_PROFILING = 1,
    }
    /// What olGetEventInfo answers.
    ol_event_info_t {
        /// ol_queue_handle_t: the queue on which it was made, which may be destroyed by now.
        OL_EVENT_INFO_QUEUE = 0,
        /// bool: whether it was reached.
        OL_EVENT_INFO_IS_COMPLETE = 1,
    }
    /// What a symbol is.
    ol_symbol_kind_t {
        /// A kernel.
        OL_SYMBOL_KIND_KERNEL = 0,
        /// A global variable.
        OL_SYMBOL_KIND_GLOBAL_VARIABLE = 1,
    }
    /// What olGetSymbolInfo answers.
    ol_symbol_info_t {
        /// ol_symbol_kind_t: what it is.
        OL_SYMBOL_INFO_KIND = 0,
        /// void *: a variable's address.
        OL_SYMBOL_INFO_GLOBAL_VARIABLE_ADDRESS = 1,
        /// size_t: a variable's size in bytes.
        OL_SYMBOL_INFO_GLOBAL_VARIABLE_SIZE = 2,
    }
    /// More about a launch.
    ol_kernel_launch_prop_type_t {
        /// The end of the list.
        OL_KERNEL_LAUNCH_PROP_TYPE_NONE = 0,
        /// bool *: whether all groups run at once.
        OL_KERNEL_LAUNCH_PROP_TYPE_IS_COOPERATIVE = 1,
    }
}
