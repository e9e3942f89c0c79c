//! Memory of other objects, by the buffer protocol.
//!
//! The stable ABI has the protocol's functions since Python 3.11. Python 3.9 and 3.10 export the
//! same functions and take the same slots of types; no release of these two will change any more.
//! So this file declares structure and functions itself.

use crate::element::Element;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

pub(crate) const WRITABLE: c_int = 1;
pub(crate) const FORMAT: c_int = 4;
pub(crate) const DIMENSIONS: c_int = 8;
pub(crate) const STRIDES: c_int = 0x10 | DIMENSIONS;

/// `Py_buffer`.
#[repr(C)]
pub(crate) struct RawBuffer {
    pub(crate) memory: *mut c_void,
    pub(crate) object: *mut ffi::PyObject,
    pub(crate) bytes: isize,
    pub(crate) element: isize,
    pub(crate) is_read_only: c_int,
    pub(crate) dimensions: c_int,
    pub(crate) format: *mut c_char,
    pub(crate) shape: *mut isize,
    pub(crate) strides: *mut isize,
    pub(crate) suboffsets: *mut isize,
    pub(crate) internal: *mut c_void,
}

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut RawBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawBuffer);
}

/// A view of an object's memory, released on drop.
pub(crate) struct HostBuffer {
    // Boxed: the interpreter may keep the structure's address.
    raw: Box<RawBuffer>,
}

impl HostBuffer {
    /// Returns a view of an object's memory.
    ///
    /// # Errors
    /// `TypeError` for an object without the protocol, `BufferError` for one that refuses.
    pub(crate) fn for_object(object: &Bound<'_, PyAny>, is_written: bool) -> PyResult<HostBuffer> {
        let mut raw = Box::new(MaybeUninit::<RawBuffer>::uninit());
        let flags = STRIDES | FORMAT | if is_written { WRITABLE } else { 0 };
        // SAFETY: the interpreter's lock is held, and the structure is writable.
        if unsafe { PyObject_GetBuffer(object.as_ptr(), raw.as_mut_ptr(), flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: the interpreter has filled the structure.
        Ok(HostBuffer { raw: unsafe { Box::<MaybeUninit<RawBuffer>>::assume_init(raw) } })
    }

    /// Returns the address of the first element.
    pub(crate) fn address(&self) -> *mut u8 {
        self.raw.memory.cast()
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.raw.bytes as usize
    }

    /// Returns the type of the elements; `None` for a type that arrays lack.
    pub(crate) fn element(&self) -> Option<&'static Element> {
        let format = match self.raw.format.is_null() {
            true => c"B",
            // SAFETY: a string of the view's object.
            false => unsafe { CStr::from_ptr(self.raw.format) },
        };
        Element::from_format(format.to_bytes(), self.raw.element as usize)
    }

    /// Returns the number of elements in each dimension.
    pub(crate) fn shape(&self) -> &[isize] {
        // SAFETY: the view was requested with its shape.
        unsafe { list(self.raw.shape, self.raw.dimensions) }
    }

    /// Returns whether the elements lie without gaps, the last dimension first.
    pub(crate) fn is_contiguous(&self) -> bool {
        if self.raw.bytes == 0 {
            return true;
        }
        // SAFETY: the view was requested with its strides.
        let strides = unsafe { list(self.raw.strides, self.raw.dimensions) };
        let mut bytes = self.raw.element;
        strides.iter().zip(self.shape()).rev().all(|(stride, count)| {
            let fits = *count == 1 || *stride == bytes;
            bytes *= count;
            fits
        })
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: the structure is that of one successful request.
            unsafe { PyBuffer_Release(&mut *self.raw) }
        });
    }
}

/// # Safety
/// The pointer is null, or there are `count` values.
unsafe fn list<'a>(values: *const isize, count: c_int) -> &'a [isize] {
    match values.is_null() {
        true => &[],
        // SAFETY: promised by the caller.
        false => unsafe { std::slice::from_raw_parts(values, count as usize) },
    }
}
