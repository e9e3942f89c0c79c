//! Pointers that a program passes.
//!
//! The caller of a driver's function vouches for the pointers in the function's documentation: that
//! is the driver's contract, which no double can check. So a value of each type here can only come
//! from such a call, and is safe to use from then on.

use super::{Code, DriverResult, broken};
use std::ffi::{CStr, c_char, c_void};

/// A pointer through which a function writes a value.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Out<T> {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// Writes the value.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn put(self, value: T) -> DriverResult {
        if self.0.is_null() {
            return Err(broken(Code::INVALID_VALUE, "a result is to be written to a null pointer"));
        }
        // SAFETY: the program passed the pointer for this value to be written.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the value, unless the pointer is null, by which the program declines it.
    pub fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the program passed the pointer for this value to be written.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Returns whether the pointer is null, so that the program declines the value.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl Out<u8> {
    /// Writes a text and its final NUL, shortened to `room` bytes.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null or `room` is 0.
    pub fn put_text(self, room: usize, text: &str) -> DriverResult {
        if self.0.is_null() || room == 0 {
            return Err(broken(
                Code::INVALID_VALUE,
                "a text is to be written to a null pointer or to 0 bytes",
            ));
        }
        let bytes = &text.as_bytes()[..text.len().min(room - 1)];
        // SAFETY: the program vouches for `room` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len());
            self.0.add(bytes.len()).write(0);
        }
        Ok(())
    }
}

/// A pointer to a value whose type follows from another argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Untyped(*mut c_void);

impl Untyped {
    /// Writes a value of the type that follows from the other argument.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn put<T>(self, value: T) -> DriverResult {
        Out(self.0.cast::<T>()).put(value)
    }

    /// Reads a value of the type that follows from the other argument.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn get<T: Copy>(self) -> DriverResult<T> {
        In(self.0.cast_const().cast::<T>()).get()
    }
}

/// A pointer to an array or to one value that a function reads.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> In<T> {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// Creates a null pointer.
    pub fn none() -> In<T> {
        In(std::ptr::null())
    }

    /// Returns whether the pointer is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the address.
    pub fn address(self) -> usize {
        self.0.expose_provenance()
    }
}

impl<T: Copy> In<T> {
    /// Reads one value.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn get(self) -> DriverResult<T> {
        Ok(self.list(1)?[0])
    }

    /// Reads `count` values.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null and `count` is not 0.
    pub fn list(self, count: usize) -> DriverResult<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(broken(Code::INVALID_VALUE, "an array is to be read from a null pointer"));
        }
        // SAFETY: the program vouches for `count` values.
        Ok((0..count).map(|index| unsafe { self.0.add(index).read_unaligned() }).collect())
    }
}

/// A text that ends with a NUL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// Reads the text.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn get(self) -> DriverResult<String> {
        if self.0.is_null() {
            return Err(broken(Code::INVALID_VALUE, "a text is to be read from a null pointer"));
        }
        // SAFETY: the program passed the pointer for a text that ends with a NUL.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }

    /// Reads the text; empty for a null pointer.
    pub fn get_or_empty(self) -> String {
        if self.0.is_null() { String::new() } else { self.get().unwrap_or_default() }
    }
}
