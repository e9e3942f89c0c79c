//! The calls, with Rust's types.

mod collectives;
mod communicators;
mod environment;
mod extensions;
mod messages;
mod spawn;

pub use collectives::{Element, Operation};
pub use environment::ThreadLevel;
pub use messages::{Source, Status, Tag};

use crate::abi::MAX_STRING;
use crate::{Mpi, MpiError};
use std::ffi::{c_char, c_int};

/// Calls a function of the table, and returns its error.
macro_rules! call {
    ($mpi:ident.$function:ident($($argument:expr),* $(,)?)) => {
        $mpi.check(stringify!($function), ($mpi.functions.$function)($($argument),*))
    };
}
use call;

impl Mpi {
    /// Returns the error for a code other than `MPI_SUCCESS`, which is 0 everywhere.
    #[inline]
    fn check(&self, function: &'static str, code: c_int) -> Result<(), MpiError> {
        if code == 0 { Ok(()) } else { Err(self.error(function, code)) }
    }

    /// Describes an error code.
    #[cold]
    fn error(&self, function: &'static str, code: c_int) -> MpiError {
        let mut class = code;
        // SAFETY: the output is a local variable.
        unsafe { (self.functions.MPI_Error_class)(code, &mut class) };
        let text = string(|text, length| {
            // SAFETY: `string` passes memory for the longest string.
            unsafe { (self.functions.MPI_Error_string)(code, text, length) }
        });
        let text = text.unwrap_or_else(|_| format!("error {code}"));
        MpiError { function, code, class, text }
    }

    /// Returns `count` as C's `int`.
    #[inline]
    fn count(&self, function: &'static str, count: usize) -> Result<c_int, MpiError> {
        c_int::try_from(count).map_err(|_| self.too_large(function, count))
    }

    #[cold]
    fn too_large(&self, function: &'static str, count: usize) -> MpiError {
        let class = self.constants.numbers.err_count;
        let limit = c_int::MAX;
        let text = format!("{count} elements or bytes; the limit of one call is {limit}");
        MpiError { function, code: class, class, text }
    }

    /// Describes an argument that the library cannot take.
    #[cold]
    fn bad_argument(&self, function: &'static str, text: String) -> MpiError {
        let class = self.constants.numbers.err_arg;
        MpiError { function, code: class, class, text }
    }
}

/// Returns the string that `write` writes, or its error code.
fn string(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> Result<String, c_int> {
    let mut bytes = vec![0_u8; MAX_STRING];
    let mut length = 0;
    match write(bytes.as_mut_ptr().cast(), &mut length) {
        0 => {}
        code => return Err(code),
    }
    let length = usize::try_from(length).unwrap_or(0).min(MAX_STRING);
    let text = bytes[..length].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}
