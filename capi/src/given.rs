//! What callers give as an address and a number, looked at before it is used.

use longshore::{Error, ErrorCode, Result};

/// Returns the elements of an array.
///
/// # Errors
/// `InvalidNullPointer`, and `InvalidSize` if there is no room for so many behind the address.
///
/// # Safety
/// If the address is not null, so many elements that may lie behind it are there.
#[inline]
pub(crate) unsafe fn list<'a, T>(address: *const T, count: usize) -> Result<&'a [T]> {
    check_pointer(address)?;
    check_range(address, count.saturating_mul(size_of::<T>()))?;
    // SAFETY: promised by the caller.
    Ok(unsafe { std::slice::from_raw_parts(address, count) })
}

/// # Errors
/// `InvalidSize` if no object can have so many bytes, or they would go beyond the last address.
#[inline]
pub(crate) fn check_range<T>(address: *const T, bytes: usize) -> Result<()> {
    let fits = bytes <= isize::MAX as usize && (address as usize).checked_add(bytes).is_some();
    if fits { Ok(()) } else { Err(beyond_memory(address as usize, bytes)) }
}

/// # Errors
/// `InvalidNullPointer`.
#[inline]
pub(crate) fn check_pointer<T>(address: *const T) -> Result<()> {
    if address.is_null() { Err(null_pointer()) } else { Ok(()) }
}

/// Refuses flags beyond those that are known.
///
/// # Errors
/// `InvalidEnumeration`.
pub(crate) fn check_flags(flags: u32, known: u32) -> Result<()> {
    match flags & !known {
        0 => Ok(()),
        unknown => {
            let message = format!("flags {unknown:#x} mean nothing here");
            Err(Error::new(ErrorCode::InvalidEnumeration, message))
        }
    }
}

#[cold]
fn beyond_memory(address: usize, bytes: usize) -> Error {
    let message = format!("{bytes} bytes at {address:#x} go beyond what addresses there are");
    Error::new(ErrorCode::InvalidSize, message)
}

#[cold]
fn null_pointer() -> Error {
    Error::new(ErrorCode::InvalidNullPointer, "a pointer is null that must not be")
}
