//! The CUDA driver: a table of its functions, each of which an older driver may lack.
//!
//! The table is our own because no binding fits a plugin that must not panic and must survive newer
//! drivers: a result is a number ([`CuResult`]), whatever it is, and a function that is missing is an
//! error of the call that wants it.

mod functions;
mod library;
mod result;
#[cfg(test)]
mod tests;
pub(crate) mod types;

pub(crate) use library::NAME;
pub(crate) use result::CuResult;

use functions::Functions;
use libloading::Library;
use library::Symbols;
use std::ffi::CStr;

/// The loaded driver. It stays loaded: what it has started does not end.
pub(crate) struct Driver {
    functions: Functions,
    /// Version of CUDA that it has, as the driver tells it: 12080 is 12.8.
    pub(crate) version: i32,
}

/// How a call of the driver went.
pub(crate) type Call = Result<(), Failure>;

/// A call of the driver that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    /// The function.
    pub(crate) function: &'static str,
    /// What it answered; none if the driver lacks it.
    pub(crate) result: Option<CuResult>,
}

impl Failure {
    #[cold]
    fn missing(function: &'static str) -> Failure {
        Failure { function, result: None }
    }

    #[cold]
    fn new(function: &'static str, result: CuResult) -> Failure {
        Failure { function, result: Some(result) }
    }

    /// Whether the driver answered this.
    pub(crate) fn is(&self, result: CuResult) -> bool {
        self.result == Some(result)
    }
}

impl Driver {
    /// Opens the driver's library, or another in its place. Blocks.
    ///
    /// # Errors
    /// Why there is no driver, for people.
    pub(crate) fn open(path: Option<&str>) -> Result<Driver, String> {
        let library = library::open(path)?;
        let functions = Functions::find(&Symbols::of(&library));
        let version = library::version(&library);
        std::mem::forget::<Library>(library);
        Ok(Driver { functions, version })
    }

    /// The driver's own words for a result.
    pub(crate) fn text(&self, result: CuResult) -> Option<String> {
        let mut text = std::ptr::null();
        // SAFETY: the output is ours.
        unsafe { self.cuGetErrorString(result, &mut text) }.ok()?;
        // SAFETY: on success a constant string that ends with NUL.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// "12.8".
    pub(crate) fn version_text(&self) -> String {
        format!("{}.{}", self.version / 1000, self.version % 1000 / 10)
    }
}
