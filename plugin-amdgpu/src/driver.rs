//! HIP: a table of its functions, each of which a version may lack.
//!
//! The table is our own because no binding fits a plugin that must not panic and must work with several
//! versions of HIP: a result is a number (`Code`), whatever it is, and a function that is missing is an
//! error of the call that wants it.

mod functions;
mod library;
pub(crate) mod result;
mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod types;

use functions::Functions;
use libloading::Library;
use longshore_plugin_streams::Code;
use std::ffi::{CStr, c_char};

/// `hipGetErrorName` and `hipGetErrorString`.
type TextOf = unsafe extern "C" fn(Code) -> *const c_char;

/// `hipGetLastError`.
type LastError = unsafe extern "C" fn() -> Code;

/// The loaded library. It stays loaded: what it has started does not end.
pub struct Driver {
    functions: Functions,
    name_of: Option<TextOf>,
    text_of: Option<TextOf>,
    last_error: Option<LastError>,
}

impl Driver {
    /// Opens HIP's library, or another in its place. Blocks.
    ///
    /// # Errors
    /// Why there is no HIP, for people.
    pub(crate) fn open(path: Option<&str>) -> Result<Driver, String> {
        let library = library::open(path)?;
        // SAFETY: HIP's functions of these names have this type.
        let text = |name: &str| unsafe { library.get::<TextOf>(name) }.ok().map(|found| *found);
        let driver = Driver {
            functions: Functions::find(&library),
            name_of: text("hipGetErrorName"),
            text_of: text("hipGetErrorString"),
            // SAFETY: HIP's function of this name has this type.
            last_error: unsafe { library.get::<LastError>("hipGetLastError") }
                .ok()
                .map(|found| *found),
        };
        std::mem::forget::<Library>(library);
        Ok(driver)
    }

    /// The version of HIP: 60342134 is 6.3.42134. 0 if it does not say.
    pub(crate) fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: the output is ours.
        let asked = unsafe { self.hipRuntimeGetVersion(&mut version) };
        asked.map_or(0, |()| u32::try_from(version).unwrap_or(0))
    }

    /// Whether it is HIP 6 or later, which renumbered kinds of memory and laid properties out anew.
    fn is_renumbered(&self) -> bool {
        self.functions.hipGetDevicePropertiesR0600.is_some()
    }

    /// A call has failed. HIP keeps that for the thread, where the program would find it and take it for an
    /// error of its own.
    #[cold]
    fn was_refused(&self) {
        if let Some(last_error) = self.last_error {
            // SAFETY: the function takes nothing.
            unsafe { last_error() };
        }
    }

    /// What HIP says of a result with one of its functions.
    fn say(function: Option<TextOf>, result: Code) -> Option<String> {
        // SAFETY: the function takes any number.
        let text = unsafe { function?(result) };
        // SAFETY: a constant string that ends with NUL.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}
