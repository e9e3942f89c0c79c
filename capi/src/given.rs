//! Checks of addresses and counts from callers.

use longshore::{Error, ErrorCode, Result};

/// Returns the elements of an array from a caller.
///
/// # Errors
/// `InvalidNullPointer` for a null address, and `InvalidSize` if `count` elements do not fit behind
/// the address.
///
/// # Safety
/// If the address is not null and `count` elements fit behind it, they are readable.
#[inline]
pub(crate) unsafe fn list<'a, T>(address: *const T, count: usize) -> Result<&'a [T]> {
    check_pointer(address)?;
    check_range(address, count.saturating_mul(size_of::<T>()))?;
    // SAFETY: promised by the caller.
    Ok(unsafe { std::slice::from_raw_parts(address, count) })
}

/// # Errors
/// `InvalidSize` if no object can have `bytes` bytes, or if they would exceed the last address.
#[inline]
pub(crate) fn check_range<T>(address: *const T, bytes: usize) -> Result<()> {
    let fits = bytes <= isize::MAX as usize && (address as usize).checked_add(bytes).is_some();
    if fits { Ok(()) } else { Err(beyond_memory(address as usize, bytes)) }
}

/// # Errors
/// `InvalidNullPointer` for a null address.
#[inline]
pub(crate) fn check_pointer<T>(address: *const T) -> Result<()> {
    if address.is_null() { Err(null_pointer()) } else { Ok(()) }
}

/// Refuses flags outside `known`.
///
/// # Errors
/// `InvalidEnumeration` for an unknown flag.
pub(crate) fn check_flags(flags: u32, known: u32) -> Result<()> {
    match flags & !known {
        0 => Ok(()),
        unknown => {
            let message = format!("unknown flags {unknown:#x}, expected only {known:#x}");
            Err(Error::new(ErrorCode::InvalidEnumeration, message))
        }
    }
}

#[cold]
fn beyond_memory(address: usize, bytes: usize) -> Error {
    let message = format!("{bytes} bytes at {address:#x} exceed the address space");
    Error::new(ErrorCode::InvalidSize, message)
}

#[cold]
fn null_pointer() -> Error {
    Error::new(ErrorCode::InvalidNullPointer, "a required pointer is null")
}
