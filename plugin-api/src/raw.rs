//! Conversions between the values of the binary interface and Rust's, for both sides.

use crate::abi;
use crate::bounds;
use crate::error::{Error, ErrorCode, Result};
use crate::info::{DeviceInfo, PlatformInfo};
use crate::request::{Loading, MemoryKind, PrefetchTarget};
use std::ffi::c_void;
use std::fmt::Display;

/// Returns a `Text` that borrows `value` and is valid as long as `value`.
pub(crate) fn text(value: &str) -> abi::Text {
    abi::Text { data: value.as_ptr(), bytes: value.len() }
}

/// Returns a `Bytes` that borrows `value` and is valid as long as `value`.
pub(crate) fn bytes(value: &[u8]) -> abi::Bytes {
    abi::Bytes { data: value.as_ptr(), bytes: value.len() }
}

/// Copies a `Text` of the host; bytes that are not UTF-8 become replacement characters.
///
/// # Safety
/// `value` is readable as its comment says.
pub(crate) unsafe fn read_text(value: abi::Text) -> String {
    // SAFETY: promised by the caller.
    let bytes = unsafe { read_bytes(abi::Bytes { data: value.data, bytes: value.bytes }) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Borrows the name of a symbol.
///
/// # Errors
/// `NotFound` for a name that is not UTF-8.
///
/// # Safety
/// `name` is readable for `'a`.
pub(crate) unsafe fn read_name<'a>(name: abi::Text) -> Result<&'a str> {
    // SAFETY: promised by the caller.
    let name = unsafe { read_bytes(abi::Bytes { data: name.data, bytes: name.bytes }) };
    std::str::from_utf8(name)
        .map_err(|_| Error::new(ErrorCode::NotFound, "the symbol's name is not UTF-8"))
}

/// An enumeration that crosses the boundary as its number.
pub(crate) trait Enumeration: Sized {
    /// Returns the enumerator with this number.
    ///
    /// # Errors
    /// `InvalidEnumeration` for any other number.
    fn from_raw(value: u32) -> Result<Self>;
}

macro_rules! enumerations {
    ($($name:ident $what:literal),*) => { $(
        impl Enumeration for $name {
            fn from_raw(value: u32) -> Result<Self> {
                $name::from_raw(value).ok_or_else(|| {
                    let message = format!("{value} is not a {}", $what);
                    Error::new(ErrorCode::InvalidEnumeration, message)
                })
            }
        }
    )* };
}

enumerations!(
    Loading "loading mode",
    MemoryKind "memory kind",
    PrefetchTarget "prefetch target"
);

impl Enumeration for DeviceInfo {
    fn from_raw(value: u32) -> Result<Self> {
        DeviceInfo::from_raw(value)
    }
}

impl Enumeration for PlatformInfo {
    fn from_raw(value: u32) -> Result<Self> {
        PlatformInfo::from_raw(value)
    }
}

/// Returns the bytes that a `Bytes` of the host borrows.
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

/// The bytes written to a sink, up to its capacity.
pub(crate) struct Collected {
    written: Vec<u8>,
    most: usize,
    /// Total size of all pieces in bytes.
    total: u64,
    /// Size in bytes of a piece with a null pointer.
    null_bytes: Option<usize>,
}

impl Collected {
    /// Returns the bytes of a plugin's answer.
    ///
    /// # Errors
    /// A breach for more bytes than the sink takes, and for a piece at null.
    pub(crate) fn into_plugin_bytes(self, plugin: &str, place: impl Display) -> Result<Vec<u8>> {
        bounds::written(plugin, place, self.total, self.null_bytes, self.most)?;
        Ok(self.written)
    }

    /// Returns the bytes of a plugin's answer as text. Bytes that are not UTF-8 become replacement
    /// characters.
    ///
    /// # Errors
    /// As for [`Collected::into_plugin_bytes`].
    pub(crate) fn into_plugin_text(self, plugin: &str, place: impl Display) -> Result<String> {
        let bytes = self.into_plugin_bytes(plugin, place)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the bytes of the host's answer.
    pub(crate) fn into_host_bytes(self) -> Vec<u8> {
        self.written
    }

    /// Appends a piece, or records its fault. Allocates no memory for more than `most` bytes.
    ///
    /// # Safety
    /// `data` is null, or readable for `bytes` bytes unless this piece and the earlier ones exceed
    /// `most` bytes.
    unsafe fn add(&mut self, data: *const u8, bytes: usize) {
        self.total = self.total.saturating_add(bytes as u64);
        if bytes == 0 {
            return;
        }
        if data.is_null() {
            self.null_bytes.get_or_insert(bytes);
        } else if self.total <= self.most as u64 {
            // SAFETY: promised by the caller; not null, and within the largest size of a slice.
            let piece = unsafe { std::slice::from_raw_parts(data, bytes) };
            self.written.extend_from_slice(piece);
        }
    }
}

/// Runs `ask` with a sink that takes `most` bytes, and returns the bytes written to it.
pub(crate) fn collect(most: usize, ask: impl FnOnce(abi::Sink)) -> Collected {
    unsafe extern "C" fn write(context: *mut c_void, data: *const u8, bytes: usize) {
        // SAFETY: `context` is the value below, which outlives `ask`; the writer promises `data`.
        unsafe { (*context.cast::<Collected>()).add(data, bytes) }
    }
    let mut collected = Collected { written: Vec::new(), most, total: 0, null_bytes: None };
    ask(abi::Sink { context: (&raw mut collected).cast(), write });
    collected
}

/// Writes to a sink.
///
/// # Safety
/// `sink` belongs to the call under way.
pub(crate) unsafe fn write_sink(sink: abi::Sink, value: &[u8]) {
    // SAFETY: promised by the caller.
    unsafe { (sink.write)(sink.context, value.as_ptr(), value.len()) }
}

/// An error on its way across the boundary: the object, followed by the strings that it borrows.
#[repr(C)]
struct OwnedError {
    object: abi::ErrorObject,
    error: Error,
}

/// Converts a result for the other side: null for success.
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

/// Converts a result from the other side: copies the error and releases the object.
///
/// # Safety
/// `error` is null or the result of a call of the interface that just returned.
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
    if !error.is_aligned() {
        let message =
            format!("a plugin returned the error {error:p}, which is not an aligned pointer");
        return Error::new(ErrorCode::BackendFailure, message).into_breach();
    }
    // SAFETY: not null, and an error object lives until its release, which comes last.
    unsafe {
        let object = &*error;
        if object.release.is_some_and(is_ours) {
            // This copy of the crate made it: `error_to_raw` leaked a box.
            return Box::from_raw(error.cast::<OwnedError>()).error;
        }
        let code = ErrorCode::from_raw(object.code);
        let mut taken = Error::new(code, text_of_error(object.message, "message"));
        let vendor_name = text_of_error(object.vendor_name, "vendor name");
        if !vendor_name.is_empty() {
            taken = taken.with_vendor(vendor_name, object.vendor_number);
        }
        if let Some(release) = object.release {
            release(error);
        }
        taken
    }
}

fn is_ours(found: unsafe extern "C" fn(*mut abi::ErrorObject)) -> bool {
    std::ptr::fn_addr_eq(found, release as unsafe extern "C" fn(*mut abi::ErrorObject))
}

/// Copies a text of an error, or describes its fault instead: the error's code is still useful.
///
/// # Safety
/// As for [`bounds::copy_text`].
unsafe fn text_of_error(text: abi::Text, what: &str) -> String {
    let (bytes, most) = (text.bytes, bounds::MESSAGE_BYTES);
    // SAFETY: promised by the caller.
    let copied = unsafe { bounds::copy_text("", "", text, most) };
    copied.unwrap_or_else(|_| match text.data.is_null() {
        true => format!("the plugin returned an error whose {what} is null with {bytes} bytes"),
        false => format!(
            "the plugin returned an error whose {what} has {bytes} bytes, expected at most {most}"
        ),
    })
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

    #[test]
    fn texts_of_an_error_beyond_their_bound_are_not_read() {
        let text = |data, bytes| abi::Text { data, bytes };
        let taken = |message, vendor_name| {
            let (code, release) = (ErrorCode::InvalidSize as u32, None);
            let mut object = abi::ErrorObject {
                code,
                reserved: 0,
                vendor_number: 7,
                vendor_name,
                message,
                release,
            };
            // SAFETY: the object lives during the call.
            unsafe { from_raw(&raw mut object) }.unwrap_err()
        };
        let endless = text(std::ptr::dangling(), usize::MAX);
        let error = taken(endless, endless);
        assert_eq!(error.code(), ErrorCode::InvalidSize);
        let said = format!("message has {} bytes, expected at most 65536", usize::MAX);
        assert!(error.message().contains(&said), "{error}");
        let vendor = error.vendor().unwrap();
        assert!(vendor.name.contains("vendor name has") && vendor.number == 7, "{error}");
        let error = taken(text(std::ptr::null(), 3), text(std::ptr::null(), 0));
        assert!(error.message().contains("null with 3 bytes"), "{error}");
        assert_eq!(error.vendor(), None);
        // SAFETY: a misaligned pointer is not read.
        let error = unsafe { from_raw(std::ptr::without_provenance_mut(1)) }.unwrap_err();
        assert!(error.is_breach() && error.message().contains("0x1"), "{error}");
    }

    #[test]
    fn a_breach_stays_one_within_the_program() {
        let sent = bounds::devices("toy", u32::MAX);
        // SAFETY: made by `to_raw`.
        assert_eq!(unsafe { from_raw(to_raw(sent.clone())) }, sent);
    }

    #[test]
    fn a_sink_takes_no_more_than_its_bound() {
        let write = |pieces: &[(*const u8, usize)]| {
            let collected = collect(4, |sink| {
                // SAFETY: the sink of this call; pieces beyond 4 bytes in all are not read.
                pieces
                    .iter()
                    .for_each(|(data, bytes)| unsafe { (sink.write)(sink.context, *data, *bytes) });
            });
            assert!(collected.written.capacity() <= 8);
            collected.into_plugin_bytes("toy", "x")
        };
        let (abc, nowhere) = (b"abc".as_ptr(), std::ptr::dangling());
        assert_eq!(write(&[(abc, 1), (abc, 3), (std::ptr::null(), 0)]), Ok(b"aabc".to_vec()));
        for (pieces, said) in [
            (&[(abc, 3), (abc, 2)][..], "5 bytes, expected at most 4"),
            (&[(nowhere, usize::MAX)], "18446744073709551615 bytes, expected at most 4"),
            (&[(nowhere, usize::MAX), (abc, 1), (abc, 3)], "18446744073709551615 bytes"),
            (&[(abc, 1), (std::ptr::null(), 2)], "null with 2 bytes"),
        ] {
            let error = write(pieces).unwrap_err();
            assert!(error.is_breach() && error.message().contains(said), "{error}");
        }
    }
}
