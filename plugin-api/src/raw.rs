//! Conversions between the values of the binary interface and Rust's, for both sides.

use crate::abi;
use crate::error::{Error, ErrorCode, Result};
use std::ffi::c_void;

/// A `Text` that borrows `value`; valid as long as it.
pub(crate) fn text(value: &str) -> abi::Text {
    abi::Text { data: value.as_ptr(), bytes: value.len() }
}

/// A `Bytes` that borrows `value`; valid as long as it.
pub(crate) fn bytes(value: &[u8]) -> abi::Bytes {
    abi::Bytes { data: value.as_ptr(), bytes: value.len() }
}

/// Copies a `Text`; what is not UTF-8 in it becomes replacement characters.
///
/// # Safety
/// `value` is readable as its comment says.
pub(crate) unsafe fn read_text(value: abi::Text) -> String {
    // SAFETY: promised by the caller.
    let bytes = unsafe { read_bytes(abi::Bytes { data: value.data, bytes: value.bytes }) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes that a `Bytes` borrows.
///
/// # Safety
/// `value` is readable for `'a`.
pub(crate) unsafe fn read_bytes<'a>(value: abi::Bytes) -> &'a [u8] {
    if value.data.is_null() || value.bytes == 0 {
        return &[];
    }
    // SAFETY: promised by the caller; not null.
    unsafe { std::slice::from_raw_parts(value.data, value.bytes) }
}

/// Runs `ask` with a sink and returns what was written to it.
pub(crate) fn collect(ask: impl FnOnce(abi::Sink)) -> Vec<u8> {
    unsafe extern "C" fn write(context: *mut c_void, data: *const u8, bytes: usize) {
        // SAFETY: `context` is the vector below, which outlives `ask`; the writer promises `data`.
        unsafe {
            let into = &mut *context.cast::<Vec<u8>>();
            into.extend_from_slice(read_bytes(abi::Bytes { data, bytes }));
        }
    }
    let mut written = Vec::new();
    ask(abi::Sink { context: (&raw mut written).cast(), write });
    written
}

/// Writes to a sink.
///
/// # Safety
/// `sink` is the one of the call under way.
pub(crate) unsafe fn write_sink(sink: abi::Sink, value: &[u8]) {
    // SAFETY: promised by the caller.
    unsafe { (sink.write)(sink.context, value.as_ptr(), value.len()) }
}

/// An error on its way across: the object and, behind it, the strings that it borrows.
#[repr(C)]
struct OwnedError {
    object: abi::ErrorObject,
    error: Error,
}

/// Sends a result across: null for success.
#[inline]
pub(crate) fn to_raw(result: Result<()>) -> *mut abi::ErrorObject {
    match result {
        Ok(()) => std::ptr::null_mut(),
        Err(error) => error_to_raw(error),
    }
}

#[cold]
fn error_to_raw(error: Error) -> *mut abi::ErrorObject {
    // The strings lie on the heap behind `error`, so moving `error` leaves them in place.
    let (vendor_name, vendor_number) =
        error.vendor().map_or((text(""), 0), |vendor| (text(&vendor.name), vendor.number));
    let object = abi::ErrorObject {
        code: error.code() as u32,
        reserved: 0,
        vendor_number,
        vendor_name,
        message: text(error.message()),
        release: Some(release),
    };
    Box::into_raw(Box::new(OwnedError { object, error })).cast()
}

unsafe extern "C" fn release(error: *mut abi::ErrorObject) {
    // SAFETY: `error_to_raw` made it from a box, and the receiver releases it once.
    drop(unsafe { Box::from_raw(error.cast::<OwnedError>()) });
}

/// Takes a result that came across: copies the error and releases the object.
///
/// # Safety
/// `error` is null or what a call of the interface just returned.
#[inline]
pub(crate) unsafe fn from_raw(error: *mut abi::ErrorObject) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: promised by the caller.
    Err(unsafe { take_error(error) })
}

#[cold]
unsafe fn take_error(error: *mut abi::ErrorObject) -> Error {
    // SAFETY: not null, and an error object lives until it is released, which is done last.
    unsafe {
        let object = &*error;
        let code = ErrorCode::from_raw(object.code);
        let mut taken = Error::new(code, read_text(object.message));
        let vendor_name = read_text(object.vendor_name);
        if !vendor_name.is_empty() {
            taken = taken.with_vendor(vendor_name, object.vendor_number);
        }
        if let Some(release) = object.release {
            release(error);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_crosses_with_all_its_parts() {
        let sent = Error::new(ErrorCode::InvalidSize, "size 0").with_vendor("CUDA_ERROR_X", 201);
        // SAFETY: made by `to_raw`.
        let taken = unsafe { from_raw(to_raw(Err(sent.clone()))) };
        assert_eq!(taken, Err(sent));
    }

    #[test]
    fn a_static_error_without_release_is_taken() {
        let mut object = abi::ErrorObject {
            code: 999,
            reserved: 0,
            vendor_number: 0,
            vendor_name: abi::Text { data: std::ptr::null(), bytes: 0 },
            message: text("odd"),
            release: None,
        };
        // SAFETY: the object lives during the call.
        let error = unsafe { from_raw(&raw mut object) }.unwrap_err();
        assert_eq!((error.code(), error.message()), (ErrorCode::Unknown, "odd"));
    }
}
