//! Pointers that a program passes.
//!
//! Who calls a function of a driver vouches for the pointers that the function's documentation names: that is the
//! contract of the driver, which no double can check. So each type here can only come from such a call, and is safe from
//! there on.

use super::{Answer, Code, broken};
use std::ffi::{CStr, c_char, c_void};

/// Where a function writes a value.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Out<T> {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// Writes it.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn put(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(broken(Code::INVALID_VALUE, "a result is to be written to a null pointer"));
        }
        // SAFETY: the program passed the pointer for this value to be written.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes it if the program wants it, as null says that it does not.
    pub fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the program passed the pointer for this value to be written.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Whether nobody wants the value.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl Out<u8> {
    /// Writes a text and its end, shortened if there is not as much room.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null or there is no room at all.
    pub fn put_text(self, room: usize, text: &str) -> Answer {
        if self.0.is_null() || room == 0 {
            return Err(broken(Code::INVALID_VALUE, "a text is to be written to no room"));
        }
        let bytes = &text.as_bytes()[..text.len().min(room - 1)];
        // SAFETY: the program says that there are so many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len());
            self.0.add(bytes.len()).write(0);
        }
        Ok(())
    }
}

/// A value, or a place for one, whose type another argument tells.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Untyped(*mut c_void);

impl Untyped {
    /// Writes a value of the type that the other argument tells.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn put<T>(self, value: T) -> Answer {
        Out(self.0.cast::<T>()).put(value)
    }

    /// Reads a value of the type that the other argument tells.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn get<T: Copy>(self) -> Answer<T> {
        In(self.0.cast_const().cast::<T>()).get()
    }
}

/// An array that a function reads, or one value.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> In<T> {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// Nothing to read.
    pub fn none() -> In<T> {
        In(std::ptr::null())
    }

    /// Whether there is nothing to read.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Where it is.
    pub fn address(self) -> usize {
        self.0.expose_provenance()
    }
}

impl<T: Copy> In<T> {
    /// One value.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn get(self) -> Answer<T> {
        Ok(self.list(1)?[0])
    }

    /// So many values.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null and there are some.
    pub fn list(self, count: usize) -> Answer<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(broken(Code::INVALID_VALUE, "values are to be read from a null pointer"));
        }
        // SAFETY: the program says that there are so many.
        Ok((0..count).map(|index| unsafe { self.0.add(index).read_unaligned() }).collect())
    }
}

/// A text that ends with NUL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// What it says.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if the pointer is null.
    pub fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(broken(Code::INVALID_VALUE, "a text is to be read from a null pointer"));
        }
        // SAFETY: the program passed the pointer for a text that ends.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }

    /// What it says, nothing if it is null.
    pub fn get_or_empty(self) -> String {
        if self.0.is_null() { String::new() } else { self.get().unwrap_or_default() }
    }
}
