//! HIP: a table of its functions. A version of HIP may lack any of them.
//!
//! The table is part of this crate because no binding fits a plugin that must not panic and must
//! accept several versions of HIP. A result is a number (`Code`) of any value, and a missing
//! function is an error of the call that needs it.

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

/// The loaded library. It stays loaded, as its threads do not end.
pub struct Driver {
    functions: Functions,
    name_of: Option<TextOf>,
    text_of: Option<TextOf>,
    last_error: Option<LastError>,
}

impl Driver {
    /// Opens HIP's library, or the one at `path` instead. Blocks.
    ///
    /// # Errors
    /// The reason why there is no HIP, as text for the user.
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

    /// Returns the version of HIP as `hipRuntimeGetVersion` encodes it: `60342134` is 6.3.42134.
    /// Returns 0 if HIP does not report its version.
    pub(crate) fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: the output is a local variable.
        let asked = unsafe { self.hipRuntimeGetVersion(&mut version) };
        asked.map_or(0, |()| u32::try_from(version).unwrap_or(0))
    }

    /// Returns whether this is HIP 6 or later, which renumbered kinds of memory and changed the
    /// layout of properties.
    fn is_renumbered(&self) -> bool {
        self.functions.hipGetDevicePropertiesR0600.is_some()
    }

    /// Clears the thread's last error after a failed call: the program would find it and mistake it
    /// for an error of its own.
    #[cold]
    fn was_refused(&self) {
        if let Some(last_error) = self.last_error {
            // SAFETY: the function has no arguments and no precondition.
            unsafe { last_error() };
        }
    }

    /// Returns HIP's text for a result from one of its functions.
    fn say(function: Option<TextOf>, result: Code) -> Option<String> {
        // SAFETY: the function accepts any number.
        let text = unsafe { function?(result) };
        // SAFETY: `text` is a constant, NUL-terminated string.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}
