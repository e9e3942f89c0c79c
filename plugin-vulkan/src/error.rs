//! Errors from Vulkan's results, the allocator's errors and faults of modules.

use ash::vk;
use gpu_allocator::AllocationError;
use longshore_format_spirv::{Fault, FaultKind};
use longshore_plugin_api::{Error, ErrorCode};

/// Returns the error for a result of the driver; `doing` describes the operation.
#[cold]
pub(crate) fn driver(doing: &str, result: vk::Result) -> Error {
    let code = match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_TOO_MANY_OBJECTS
        | vk::Result::ERROR_OUT_OF_POOL_MEMORY => ErrorCode::OutOfResources,
        vk::Result::ERROR_FEATURE_NOT_PRESENT
        | vk::Result::ERROR_EXTENSION_NOT_PRESENT
        | vk::Result::ERROR_INCOMPATIBLE_DRIVER => ErrorCode::Unsupported,
        _ => ErrorCode::BackendFailure,
    };
    let what = match result {
        vk::Result::ERROR_DEVICE_LOST => "the device is lost",
        _ if code == ErrorCode::OutOfResources => "not enough memory or other resources",
        _ => "the driver failed",
    };
    Error::new(code, format!("{doing}: {what}"))
        .with_vendor(format!("VK_{result:?}"), i64::from(result.as_raw()))
}

/// Returns the error for an error of the allocator.
#[cold]
pub(crate) fn allocator(doing: &str, error: &AllocationError) -> Error {
    let code = match error {
        // Mapping fails without free addresses.
        AllocationError::OutOfMemory | AllocationError::FailedToMap(_) => ErrorCode::OutOfResources,
        // The allocator keeps other results of `vkAllocateMemory` as text.
        AllocationError::Internal(text)
            if text.contains("OUT_OF_HOST_MEMORY") || text.contains("TOO_MANY_OBJECTS") =>
        {
            ErrorCode::OutOfResources
        }
        AllocationError::NoCompatibleMemoryTypeFound => ErrorCode::Unsupported,
        _ => ErrorCode::BackendFailure,
    };
    Error::new(code, format!("{doing}: {error}"))
}

/// Returns the error for a fault of a module.
#[cold]
pub(crate) fn fault(fault: Fault) -> Error {
    let code = match fault.kind {
        FaultKind::Malformed => ErrorCode::InvalidBinary,
        FaultKind::Source => ErrorCode::CompileFailure,
        FaultKind::Undefined => ErrorCode::LinkFailure,
        FaultKind::Unsupported => ErrorCode::Unsupported,
    };
    Error::new(code, fault.message)
}
