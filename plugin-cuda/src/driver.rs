//! The CUDA driver: a table of its functions, each of which an older driver may lack.
//!
//! The table is our own because no binding fits a plugin that must not panic and must survive newer
//! drivers: a result is a number (`Code`), whatever it is, and a function that is missing is an error
//! of the call that wants it.

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

/// The loaded driver. It stays loaded: what it has started does not end.
pub struct Driver {
    functions: Functions,
    /// Version of CUDA that it has, as the driver tells it: 12080 is 12.8.
    pub(crate) version: i32,
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

    /// A call has failed, which leaves nothing behind.
    #[inline]
    fn was_refused(&self) {}
}
