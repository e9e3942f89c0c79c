//! The driver's results as errors.

use crate::driver::{CuResult, Driver, Failure};
use longshore_plugin_api::{Error, ErrorCode};

/// The error that a failed call becomes; `doing` is what was asked for.
#[cold]
pub(crate) fn driver(driver: &Driver, doing: &str, failure: Failure) -> Error {
    let Some(result) = failure.result else {
        let (function, version) = (failure.function, driver.version_text());
        let message = format!(
            "{doing}: this driver, of CUDA {version}, lacks {function}; a newer one is needed"
        );
        return Error::new(ErrorCode::Unsupported, message);
    };
    let name = result.name().map_or_else(|| format!("{result:?}"), str::to_owned);
    let what = driver.text(result).unwrap_or_else(|| "the driver failed".to_owned());
    let function = failure.function;
    Error::new(code(result), format!("{doing}: {what} ({function})"))
        .with_vendor(name, i64::from(result.0))
}

fn code(result: CuResult) -> ErrorCode {
    match result {
        CuResult::OUT_OF_MEMORY | CuResult::LAUNCH_OUT_OF_RESOURCES | CuResult::TOO_MANY_PEERS => {
            ErrorCode::OutOfResources
        }
        CuResult::INVALID_IMAGE | CuResult::NO_BINARY_FOR_GPU | CuResult::INVALID_SOURCE => {
            ErrorCode::InvalidBinary
        }
        CuResult::INVALID_PTX | CuResult::UNSUPPORTED_PTX_VERSION => ErrorCode::CompileFailure,
        CuResult::NOT_FOUND => ErrorCode::NotFound,
        CuResult::COOPERATIVE_LAUNCH_TOO_LARGE | CuResult::INVALID_CLUSTER_SIZE => {
            ErrorCode::InvalidArgument
        }
        CuResult::NOT_SUPPORTED
        | CuResult::PEER_ACCESS_UNSUPPORTED
        | CuResult::UNSUPPORTED_LIMIT
        | CuResult::JIT_COMPILER_NOT_FOUND
        | CuResult::JIT_COMPILATION_DISABLED => ErrorCode::Unsupported,
        _ => ErrorCode::BackendFailure,
    }
}
