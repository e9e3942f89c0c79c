//! Results of HIP's functions. HIP itself provides their names.

use longshore_plugin_api::ErrorCode;
use longshore_plugin_streams::Code;

macro_rules! results {
    ($($name:ident = $value:literal $theirs:ident,)*) => {
        $(const $name: Code = Code($value);)*

        /// Each value and its name in HIP's header.
        #[cfg(test)]
        pub(super) const ALL: &[(u32, &str)] = &[
            $(($value, stringify!($theirs)),)*
            (Code::INVALID_VALUE.0, "hipErrorInvalidValue"),
            (Code::OUT_OF_MEMORY.0, "hipErrorOutOfMemory"),
            (Code::DEINITIALIZED.0, "hipErrorDeinitialized"),
            (Code::NO_DEVICE.0, "hipErrorNoDevice"),
            (Code::NOT_FOUND.0, "hipErrorNotFound"),
            (Code::NOT_READY.0, "hipErrorNotReady"),
            (Code::PEER_ACCESS_ALREADY_ENABLED.0, "hipErrorPeerAccessAlreadyEnabled"),
            (Code::HOST_MEMORY_ALREADY_REGISTERED.0, "hipErrorHostMemoryAlreadyRegistered"),
            (Code::COOPERATIVE_LAUNCH_TOO_LARGE.0, "hipErrorCooperativeLaunchTooLarge"),
            (Code::NOT_SUPPORTED.0, "hipErrorNotSupported"),
        ];
    };
}

results! {
    INVALID_CONFIGURATION = 9 hipErrorInvalidConfiguration,
    INVALID_DEVICE = 101 hipErrorInvalidDevice,
    INVALID_IMAGE = 200 hipErrorInvalidImage,
    NO_BINARY_FOR_GPU = 209 hipErrorNoBinaryForGpu,
    ECC_NOT_CORRECTABLE = 214 hipErrorECCNotCorrectable,
    UNSUPPORTED_LIMIT = 215 hipErrorUnsupportedLimit,
    PEER_ACCESS_UNSUPPORTED = 217 hipErrorPeerAccessUnsupported,
    INVALID_KERNEL_FILE = 218 hipErrorInvalidKernelFile,
    INVALID_SOURCE = 300 hipErrorInvalidSource,
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302 hipErrorSharedObjectSymbolNotFound,
    SHARED_OBJECT_INIT_FAILED = 303 hipErrorSharedObjectInitFailed,
    ILLEGAL_ADDRESS = 700 hipErrorIllegalAddress,
    LAUNCH_OUT_OF_RESOURCES = 701 hipErrorLaunchOutOfResources,
    LAUNCH_TIME_OUT = 702 hipErrorLaunchTimeOut,
    CONTEXT_IS_DESTROYED = 709 hipErrorContextIsDestroyed,
    ASSERT = 710 hipErrorAssert,
    LAUNCH_FAILURE = 719 hipErrorLaunchFailure,
    RUNTIME_MEMORY = 1052 hipErrorRuntimeMemory,
}

/// Returns whether HIP reports by this result that there is no device. Versions before 6 have
/// `INVALID_DEVICE` for that.
pub(crate) fn is_no_device(result: Code) -> bool {
    matches!(result, Code::NO_DEVICE | INVALID_DEVICE)
}

/// Returns whether the device is unusable after this result.
pub(crate) fn is_sticky(result: Code) -> bool {
    matches!(
        result,
        ECC_NOT_CORRECTABLE
            | ILLEGAL_ADDRESS
            | LAUNCH_TIME_OUT
            | CONTEXT_IS_DESTROYED
            | ASSERT
            | LAUNCH_FAILURE
    )
}

/// Returns the interface's error code for a result.
pub(crate) fn error_code(result: Code) -> ErrorCode {
    match result {
        Code::OUT_OF_MEMORY | LAUNCH_OUT_OF_RESOURCES | RUNTIME_MEMORY => ErrorCode::OutOfResources,
        INVALID_IMAGE
        | NO_BINARY_FOR_GPU
        | INVALID_KERNEL_FILE
        | INVALID_SOURCE
        | SHARED_OBJECT_INIT_FAILED => ErrorCode::InvalidBinary,
        SHARED_OBJECT_SYMBOL_NOT_FOUND => ErrorCode::LinkFailure,
        Code::NOT_FOUND => ErrorCode::NotFound,
        Code::DEINITIALIZED => ErrorCode::Uninitialized,
        Code::COOPERATIVE_LAUNCH_TOO_LARGE | INVALID_CONFIGURATION => ErrorCode::InvalidArgument,
        Code::NOT_SUPPORTED | PEER_ACCESS_UNSUPPORTED | UNSUPPORTED_LIMIT => ErrorCode::Unsupported,
        _ => ErrorCode::BackendFailure,
    }
}
