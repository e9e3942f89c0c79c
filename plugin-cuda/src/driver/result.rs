//! Results of the driver's functions.

use longshore_plugin_api::ErrorCode;
use longshore_plugin_streams::Code;

macro_rules! results {
    ($($name:ident = $value:literal,)*) => {
        $(
            #[allow(dead_code, reason = "names also appear in messages")]
            pub(crate) const $name: Code = Code($value);
        )*

        /// All results with a name.
        const KNOWN: &[(Code, &str)] =
            &[$((Code($value), concat!("CUDA_ERROR_", stringify!($name))),)*];

        #[cfg(test)]
        pastey::paste! {
            /// Each result with its values here and in the driver's header.
            pub(super) const ALL: &[(Code, u32)] = &[
                $((Code($value), cudarc::driver::sys::CUresult::[<CUDA_ERROR_ $name>] as u32),)*
            ];
        }
    };
}

/// Returns the driver's name for a result; `None` if this file does not list it.
pub(crate) fn name(result: Code) -> Option<&'static str> {
    if result == Code::SUCCESS {
        return Some("CUDA_SUCCESS");
    }
    KNOWN.iter().find(|(known, _)| *known == result).map(|(_, name)| *name)
}

/// Returns whether the context is unusable after this result.
pub(crate) fn is_sticky(result: Code) -> bool {
    matches!(
        result,
        ECC_UNCORRECTABLE
            | NVLINK_UNCORRECTABLE
            | CONTAINED
            | ILLEGAL_ADDRESS
            | LAUNCH_TIMEOUT
            | CONTEXT_IS_DESTROYED
            | ASSERT
            | HARDWARE_STACK_ERROR
            | ILLEGAL_INSTRUCTION
            | MISALIGNED_ADDRESS
            | INVALID_ADDRESS_SPACE
            | INVALID_PC
            | LAUNCH_FAILED
            | TENSOR_MEMORY_LEAK
            | EXTERNAL_DEVICE
    )
}

/// Returns the interface's error code for a result.
pub(crate) fn error_code(result: Code) -> ErrorCode {
    match result {
        OUT_OF_MEMORY | LAUNCH_OUT_OF_RESOURCES | TOO_MANY_PEERS => ErrorCode::OutOfResources,
        INVALID_IMAGE | NO_BINARY_FOR_GPU | INVALID_SOURCE => ErrorCode::InvalidBinary,
        INVALID_PTX | UNSUPPORTED_PTX_VERSION => ErrorCode::CompileFailure,
        NOT_FOUND => ErrorCode::NotFound,
        DEINITIALIZED => ErrorCode::Uninitialized,
        COOPERATIVE_LAUNCH_TOO_LARGE | INVALID_CLUSTER_SIZE => ErrorCode::InvalidArgument,
        NOT_SUPPORTED
        | PEER_ACCESS_UNSUPPORTED
        | UNSUPPORTED_LIMIT
        | JIT_COMPILER_NOT_FOUND
        | JIT_COMPILATION_DISABLED => ErrorCode::Unsupported,
        _ => ErrorCode::BackendFailure,
    }
}

results! {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    DEINITIALIZED = 4,
    PROFILER_DISABLED = 5,
    STUB_LIBRARY = 34,
    DEVICE_UNAVAILABLE = 46,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    DEVICE_NOT_LICENSED = 102,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    MAP_FAILED = 205,
    UNMAP_FAILED = 206,
    ARRAY_IS_MAPPED = 207,
    ALREADY_MAPPED = 208,
    NO_BINARY_FOR_GPU = 209,
    ALREADY_ACQUIRED = 210,
    NOT_MAPPED = 211,
    NOT_MAPPED_AS_ARRAY = 212,
    NOT_MAPPED_AS_POINTER = 213,
    ECC_UNCORRECTABLE = 214,
    UNSUPPORTED_LIMIT = 215,
    CONTEXT_ALREADY_IN_USE = 216,
    PEER_ACCESS_UNSUPPORTED = 217,
    INVALID_PTX = 218,
    INVALID_GRAPHICS_CONTEXT = 219,
    NVLINK_UNCORRECTABLE = 220,
    JIT_COMPILER_NOT_FOUND = 221,
    UNSUPPORTED_PTX_VERSION = 222,
    JIT_COMPILATION_DISABLED = 223,
    UNSUPPORTED_EXEC_AFFINITY = 224,
    UNSUPPORTED_DEVSIDE_SYNC = 225,
    CONTAINED = 226,
    INVALID_SOURCE = 300,
    FILE_NOT_FOUND = 301,
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
    SHARED_OBJECT_INIT_FAILED = 303,
    OPERATING_SYSTEM = 304,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    LOSSY_QUERY = 402,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_TIMEOUT = 702,
    LAUNCH_INCOMPATIBLE_TEXTURING = 703,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    PRIMARY_CONTEXT_ACTIVE = 708,
    CONTEXT_IS_DESTROYED = 709,
    ASSERT = 710,
    TOO_MANY_PEERS = 711,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    HARDWARE_STACK_ERROR = 714,
    ILLEGAL_INSTRUCTION = 715,
    MISALIGNED_ADDRESS = 716,
    INVALID_ADDRESS_SPACE = 717,
    INVALID_PC = 718,
    LAUNCH_FAILED = 719,
    COOPERATIVE_LAUNCH_TOO_LARGE = 720,
    TENSOR_MEMORY_LEAK = 721,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    SYSTEM_NOT_READY = 802,
    SYSTEM_DRIVER_MISMATCH = 803,
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
    MPS_CONNECTION_FAILED = 805,
    MPS_RPC_FAILURE = 806,
    MPS_SERVER_NOT_READY = 807,
    MPS_MAX_CLIENTS_REACHED = 808,
    MPS_MAX_CONNECTIONS_REACHED = 809,
    MPS_CLIENT_TERMINATED = 810,
    CDP_NOT_SUPPORTED = 811,
    CDP_VERSION_MISMATCH = 812,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED = 901,
    TIMEOUT = 909,
    EXTERNAL_DEVICE = 911,
    INVALID_CLUSTER_SIZE = 912,
    UNKNOWN = 999,
}
