//! The interface of a double for tests.

use libloading::Library;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::time::Duration;

/// A double that is loaded into this process. A `Double` calls the functions that the library
/// exports beside the driver's own. All `Double`s of one file share their state.
pub struct Double {
    library: Library,
}

type Fail = unsafe extern "C" fn(name: *const c_char, nth: u64, code: u32);
type Delay = unsafe extern "C" fn(name: *const c_char, microseconds: u64);
type Do = unsafe extern "C" fn();
type Text = unsafe extern "C" fn() -> *mut c_char;
type Free = unsafe extern "C" fn(text: *mut c_char);

impl Double {
    /// Opens a double's file.
    ///
    /// # Errors
    /// The loader's errors.
    pub fn open(path: &Path) -> Result<Double, libloading::Error> {
        // SAFETY: a double's initialisers read the environment and change its own table of names.
        let library = unsafe { Library::new(path)? };
        Ok(Double { library })
    }

    /// Returns the library, for functions without a method here.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Makes the `nth` call of a function from now on fail with `code`; 1 is the next call.
    pub fn fail(&self, function: &str, nth: u64, code: u32) {
        let name = text(function);
        // SAFETY: the function has this type, and copies the name.
        unsafe { self.function::<Fail>(c"longshore_double_fail")(name.as_ptr(), nth, code) }
    }

    /// Makes each call of a function take `delay` longer. The name `kernel` stands for the
    /// execution of kernels.
    pub fn set_delay(&self, function: &str, delay: Duration) {
        let (name, microseconds) = (text(function), delay.as_micros() as u64);
        // SAFETY: the function has this type, and copies the name.
        unsafe { self.function::<Delay>(c"longshore_double_delay")(name.as_ptr(), microseconds) }
    }

    /// Removes all rules for failures and delays.
    pub fn clear(&self) {
        // SAFETY: the function has this type.
        unsafe { self.function::<Do>(c"longshore_double_clear")() }
    }

    /// Returns the called functions with their numbers of calls.
    pub fn calls(&self) -> Vec<(String, u64)> {
        let read = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        self.lines(c"longshore_double_calls").iter().filter_map(|line| read(line)).collect()
    }

    /// Returns the number of calls of a function.
    pub fn calls_of(&self, function: &str) -> u64 {
        let calls = self.calls();
        calls.iter().find(|(name, _)| name == function).map_or(0, |(_, count)| *count)
    }

    /// Returns the live objects, one line each: "stream 0xdea00000300".
    pub fn live(&self) -> Vec<String> {
        self.lines(c"longshore_double_live")
    }

    /// Returns the violations since the last reset, one line each.
    pub fn violations(&self) -> Vec<String> {
        self.lines(c"longshore_double_violations")
    }

    /// Returns the objects that were alive when their context ended, since the last reset.
    pub fn lost(&self) -> Vec<String> {
        self.lines(c"longshore_double_lost")
    }

    /// Forgets the violations and the lost objects.
    pub fn reset(&self) {
        // SAFETY: the function has this type.
        unsafe { self.function::<Do>(c"longshore_double_reset")() }
    }

    fn lines(&self, name: &CStr) -> Vec<String> {
        // SAFETY: the function has this type; the text ends, and is freed once.
        unsafe {
            let start = self.function::<Text>(name)();
            let text = CStr::from_ptr(start).to_string_lossy().into_owned();
            self.function::<Free>(c"longshore_double_free")(start);
            text.lines().map(str::to_owned).collect()
        }
    }

    /// # Safety
    /// The function has this type.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: the caller knows the type.
        let found = unsafe { self.library.get::<F>(name.to_bytes_with_nul()) };
        *found.unwrap_or_else(|error| panic!("not a double: {error}"))
    }
}

fn text(name: &str) -> CString {
    CString::new(name).expect("names of functions have no NUL")
}
