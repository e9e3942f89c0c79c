//! Conversion of a driver's results to errors.

use crate::call::Failure;
use crate::driver::Driver;
use longshore_plugin_api::{Error, ErrorCode};

/// Returns the error for a failed call; `doing` is the purpose of the call.
#[cold]
pub fn driver_error<D: Driver>(driver: &D, doing: &str, failure: Failure) -> Error {
    let function = failure.function;
    let Some(result) = failure.result else {
        let (name, version) = (D::NAME, driver.version_text());
        let message = format!(
            "{doing}: this driver, of {name} {version}, lacks {function}; a newer one is needed"
        );
        return Error::new(ErrorCode::Unsupported, message);
    };
    let name = driver.name(result).unwrap_or_else(|| format!("{} {result:?}", D::NAME));
    let what = driver.text(result).unwrap_or_else(|| "the driver failed".to_owned());
    Error::new(D::error_code(result), format!("{doing}: {what} ({function})"))
        .with_vendor(name, i64::from(result.0))
}
