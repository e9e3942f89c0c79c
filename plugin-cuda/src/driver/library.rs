//! Lookup of the driver's library and of functions in it.

use libloading::Library;
use longshore_plugin_streams::Code;
use std::error::Error;
use std::ffi::{CString, c_char, c_int, c_void};

/// `cuGetProcAddress_v2`.
type GetProcAddress = unsafe extern "C" fn(
    name: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> Code;
/// `CU_GET_PROC_ADDRESS_LEGACY_STREAM`: functions do not default to a per-thread stream.
const LEGACY_STREAM: u64 = 1;

/// The sources of the driver's functions.
pub(super) struct Symbols<'a> {
    library: &'a Library,
    get: Option<GetProcAddress>,
    /// CUDA version of the driver.
    version: c_int,
}

/// The name of the driver's library.
pub(crate) const NAME: &str = "libcuda.so.1";

/// Opens the driver's library, or the one at `path` instead.
///
/// # Errors
/// The reason why the library cannot be opened, as text for the user.
pub(super) fn open(path: Option<&str>) -> Result<Library, String> {
    let path = path.unwrap_or(NAME);
    // SAFETY: a program that uses this backend requests the driver's library, so its initializers
    // may run.
    unsafe { Library::new(path) }.map_err(|error| match error.source() {
        // The dynamic loader's message.
        Some(why) => format!("{path} cannot be opened: {why}"),
        None => format!("{path} cannot be opened: {error}"),
    })
}

impl<'a> Symbols<'a> {
    pub(super) fn new(library: &'a Library) -> Symbols<'a> {
        // SAFETY: the driver's function of this name has this type.
        let get = unsafe { library.get::<GetProcAddress>("cuGetProcAddress_v2") };
        Symbols { library, get: get.ok().map(|found| *found), version: version(library) }
    }

    /// Returns a function by its name and the CUDA version that introduced it, or else by the name
    /// of the library's export.
    ///
    /// # Safety
    /// `F` is the function pointer type of the driver's function.
    pub(super) unsafe fn find<F: Copy>(
        &self,
        name: &str,
        version: c_int,
        exported: &str,
    ) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        if let Some(found) = self.ask(name, version) {
            // SAFETY: `found` is a function pointer of the type that the caller vouches for.
            return Some(unsafe { std::mem::transmute_copy(&found) });
        }
        // SAFETY: as above.
        unsafe { self.library.get::<F>(exported) }.ok().map(|found| *found)
    }

    fn ask(&self, name: &str, version: c_int) -> Option<*mut c_void> {
        // A driver may answer a request for a newer version with an older function of the same
        // name.
        let get = self.get.filter(|_| version <= self.version)?;
        let name = CString::new(name).ok()?;
        let (mut found, mut status) = (std::ptr::null_mut(), 0);
        // SAFETY: the name ends with NUL, the outputs are local variables.
        let result = unsafe { get(name.as_ptr(), &mut found, version, LEGACY_STREAM, &mut status) };
        (result == Code::SUCCESS && !found.is_null()).then_some(found)
    }
}

/// Returns the CUDA version of the driver; 0 if the driver does not report it.
pub(super) fn version(library: &Library) -> c_int {
    let mut version = 0;
    // SAFETY: the driver's function of this name has this type and needs no initialization; the
    // output is a local variable.
    let asked = unsafe {
        let ask = library.get::<unsafe extern "C" fn(*mut c_int) -> Code>("cuDriverGetVersion");
        ask.map(|ask| ask(&mut version))
    };
    match asked {
        Ok(Code::SUCCESS) => version,
        _ => 0,
    }
}
