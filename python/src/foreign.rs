//! Structures of DLPack, and tensors of other libraries.

use crate::process;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// The major version of the structures here.
pub(crate) const MAJOR: u32 = 1;
pub(crate) const READ_ONLY: u64 = 1;
pub(crate) const COPIED: u64 = 2;

pub(crate) const PLAIN: &CStr = c"dltensor";
pub(crate) const PLAIN_USED: &CStr = c"used_dltensor";
pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";
pub(crate) const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Tensor {
    pub(crate) data: *mut c_void,
    pub(crate) device_type: i32,
    pub(crate) device_index: i32,
    pub(crate) dimensions: i32,
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
    pub(crate) shape: *mut i64,
    pub(crate) strides: *mut i64,
    pub(crate) byte_offset: u64,
}

#[repr(C)]
pub(crate) struct PlainTensor {
    pub(crate) tensor: Tensor,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut PlainTensor)>,
}

#[repr(C)]
pub(crate) struct VersionedTensor {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut VersionedTensor)>,
    pub(crate) flags: u64,
    pub(crate) tensor: Tensor,
}

/// A tensor of another library. Its drop calls the library's deleter.
pub(crate) enum Foreign {
    Plain(NonNull<PlainTensor>),
    Versioned(NonNull<VersionedTensor>),
}

// SAFETY: DLPack lets any thread call a deleter, and the structures do not change.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Foreign {
    pub(crate) fn tensor(&self) -> Tensor {
        // SAFETY: the structures live until the deleter's call.
        unsafe {
            match self {
                Foreign::Plain(managed) => managed.as_ref().tensor,
                Foreign::Versioned(managed) => managed.as_ref().tensor,
            }
        }
    }

    /// Returns whether the memory must not be written.
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Foreign::Plain(_) => false,
            // SAFETY: the structure lives until the deleter's call.
            Foreign::Versioned(managed) => unsafe { managed.as_ref() }.flags & READ_ONLY != 0,
        }
    }

    /// Takes the tensor out of a capsule.
    ///
    /// # Errors
    /// `TypeError` for another object and for a used capsule, `BufferError` for another major
    /// version.
    pub(crate) fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Foreign> {
        // SAFETY: the functions accept any object; a name is valid for the capsule's life.
        let pointer_of = |name: &CStr, used: &CStr| unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 0 {
                return None;
            }
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
            ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr());
            NonNull::new(pointer)
        };
        if let Some(managed) = pointer_of(VERSIONED, VERSIONED_USED) {
            let managed = managed.cast::<VersionedTensor>();
            let foreign = Foreign::Versioned(managed);
            // SAFETY: every version begins with these fields.
            let major = unsafe { managed.as_ref() }.major;
            if major != MAJOR {
                let message = format!("a tensor of DLPack {major}; expected version {MAJOR}");
                return Err(PyBufferError::new_err(message));
            }
            return Ok(foreign);
        }
        match pointer_of(PLAIN, PLAIN_USED) {
            Some(managed) => Ok(Foreign::Plain(managed.cast())),
            None => Err(PyTypeError::new_err("__dlpack__ returned no unused capsule of DLPack")),
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if !process::may_drop() {
            return;
        }
        // SAFETY: the deleter is called once, with its own structure.
        unsafe {
            match *self {
                Foreign::Plain(managed) => {
                    if let Some(delete) = managed.as_ref().deleter {
                        delete(managed.as_ptr());
                    }
                }
                Foreign::Versioned(managed) => {
                    if let Some(delete) = managed.as_ref().deleter {
                        delete(managed.as_ptr());
                    }
                }
            }
        }
    }
}
