//! The CUDA driver: a table of its functions. An older driver may lack any of them.
//!
//! The table is part of this crate because no binding fits a plugin that must not panic and must
//! accept newer drivers. A result is a number (`Code`) of any value, and a missing function is an
//! error of the call that needs it.

mod functions;
mod library;
pub(crate) mod result;
mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod types;

pub(crate) use library::NAME;

use functions::Functions;
use libloading::Library;
use library::Symbols;

/// The loaded driver. Its library stays loaded, as the driver's threads do not end.
pub struct Driver {
    functions: Functions,
    /// CUDA version as `cuDriverGetVersion` encodes it: `12080` is 12.8.
    pub(crate) version: i32,
}

impl Driver {
    /// Opens the driver's library, or the one at `path` instead. Blocks.
    ///
    /// # Errors
    /// The reason why there is no driver, as text for the user.
    pub(crate) fn open(path: Option<&str>) -> Result<Driver, String> {
        let library = library::open(path)?;
        let functions = Functions::find(&Symbols::new(&library));
        let version = library::version(&library);
        std::mem::forget::<Library>(library);
        Ok(Driver { functions, version })
    }

    /// Does nothing: a failed call of CUDA leaves no state to clear.
    #[inline]
    fn was_refused(&self) {}
}
