//! Finding the driver's library, and functions in it.

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
/// `CU_GET_PROC_ADDRESS_LEGACY_STREAM`: no function has a stream of the calling thread for its default.
const LEGACY_STREAM: u64 = 1;

/// Where functions are found.
pub(super) struct Symbols<'a> {
    library: &'a Library,
    get: Option<GetProcAddress>,
    /// Version of CUDA that the driver has.
    version: c_int,
}

/// The name of the driver's library.
pub(crate) const NAME: &str = "libcuda.so.1";

/// Opens the driver, or another library in its place.
///
/// # Errors
/// Why it cannot be opened, for people.
pub(super) fn open(path: Option<&str>) -> Result<Library, String> {
    let path = path.unwrap_or(NAME);
    // SAFETY: opening the driver's library is what a program asks for that uses this backend.
    unsafe { Library::new(path) }.map_err(|error| match error.source() {
        // The loader's own words.
        Some(why) => format!("{path} cannot be opened: {why}"),
        None => format!("{path} cannot be opened: {error}"),
    })
}

impl<'a> Symbols<'a> {
    pub(super) fn of(library: &'a Library) -> Symbols<'a> {
        // SAFETY: the driver's function of this name has this type.
        let get = unsafe { library.get::<GetProcAddress>("cuGetProcAddress_v2") };
        Symbols { library, get: get.ok().map(|found| *found), version: version(library) }
    }

    /// A function by its name and the version of CUDA that brought it, else by the name that the
    /// library exports.
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
            // SAFETY: a function pointer of the type that the caller vouches for.
            return Some(unsafe { std::mem::transmute_copy(&found) });
        }
        // SAFETY: as above.
        unsafe { self.library.get::<F>(exported) }.ok().map(|found| *found)
    }

    fn ask(&self, name: &str, version: c_int) -> Option<*mut c_void> {
        // What came later, a driver may answer with something older of that name.
        let get = self.get.filter(|_| version <= self.version)?;
        let name = CString::new(name).ok()?;
        let (mut found, mut status) = (std::ptr::null_mut(), 0);
        // SAFETY: the name ends with NUL, the outputs are ours.
        let result = unsafe { get(name.as_ptr(), &mut found, version, LEGACY_STREAM, &mut status) };
        (result == Code::SUCCESS && !found.is_null()).then_some(found)
    }
}

/// The version of CUDA that the driver has; 0 if it does not say.
pub(super) fn version(library: &Library) -> c_int {
    let mut version = 0;
    // SAFETY: the driver's function of this name has this type, and needs no initialisation; the output
    // is ours.
    let asked = unsafe {
        let ask = library.get::<unsafe extern "C" fn(*mut c_int) -> Code>("cuDriverGetVersion");
        ask.map(|ask| ask(&mut version))
    };
    match asked {
        Ok(Code::SUCCESS) => version,
        _ => 0,
    }
}
