//! The buffer protocol of arrays. [`host_buffer`](crate::host_buffer) has the structure.

use crate::array::{Array, ArrayBase, View};
use crate::host_buffer::{DIMENSIONS, FORMAT, RawBuffer, STRIDES, WRITABLE};
use crate::open_device::Export;
use crate::storage::Storage;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

const C_CONTIGUOUS: c_int = 0x20;
const F_CONTIGUOUS: c_int = 0x40;
const ANY_CONTIGUOUS: c_int = 0x80;

/// The slots of the protocol in a type's specification.
const GET_SLOT: c_int = 1;
const RELEASE_SLOT: c_int = 2;

/// The part of a view that outlives the call which made it.
struct Shared {
    shape: Vec<isize>,
    strides: Vec<isize>,
    _storage: Arc<Storage>,
    _export: Export,
}

/// Creates the type of arrays: a subtype of [`ArrayBase`] with the buffer protocol.
///
/// # Errors
/// Errors of the interpreter.
pub(crate) fn array_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let slot = |slot, function| ffi::PyType_Slot { slot, pfunc: function };
    let mut slots = [
        slot(GET_SLOT, get as *mut c_void),
        slot(RELEASE_SLOT, release as *mut c_void),
        slot(ffi::Py_tp_doc, Array::DOC.as_ptr().cast_mut().cast()),
        slot(0, std::ptr::null_mut()),
    ];
    let mut specification = ffi::PyType_Spec {
        name: c"longshore.Array".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
        slots: slots.as_mut_ptr(),
    };
    let bases = PyTuple::new(py, [py.get_type::<ArrayBase>()])?;
    // SAFETY: the interpreter copies the specification; names and functions live for ever.
    let made = unsafe {
        let made = ffi::PyType_FromSpecWithBases(&mut specification, bases.as_ptr());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    Ok(made.cast_into::<PyType>()?)
}

/// Fills a view of an array's memory after the work that uses the memory: `bf_getbuffer`.
unsafe extern "C" fn get(object: *mut ffi::PyObject, view: *mut RawBuffer, flags: c_int) -> c_int {
    // SAFETY: the interpreter calls slots with its lock held, with an object of the type.
    let filled = Python::attach(|py| unsafe {
        let array = Bound::from_borrowed_ptr(py, object);
        match array.cast::<ArrayBase>() {
            Ok(array) => fill(array, view, flags),
            Err(error) => Err(error.into()),
        }
        .map_err(|error| error.restore(py))
    });
    match filled {
        Ok(()) => 0,
        Err(()) => {
            if !view.is_null() {
                // SAFETY: the caller's structure.
                unsafe { (*view).object = std::ptr::null_mut() };
            }
            -1
        }
    }
}

/// # Safety
/// `view` is null or writable.
unsafe fn fill(array: &Bound<'_, ArrayBase>, view: *mut RawBuffer, flags: c_int) -> PyResult<()> {
    let (py, base) = (array.py(), array.get());
    let refuse = |why: &str| Err(PyBufferError::new_err(why.to_owned()));
    if view.is_null() {
        return refuse("a view of an array needs a structure to fill");
    }
    if !base.storage.is_host_accessible() {
        let name = base.storage.device.name();
        return refuse(&format!("memory of {name} cannot be viewed; numpy() copies it"));
    }
    let Some(format) = base.element.format else {
        return refuse(&format!("the buffer protocol has no format for {}", base.element.name));
    };
    if flags & WRITABLE != 0 && base.storage.is_read_only() {
        return refuse("the array is read-only");
    }
    let asks = |bits| flags & bits == bits;
    let is_flat = base.layout.shape.len() <= 1;
    if !base.is_contiguous && (!asks(STRIDES) || flags & (C_CONTIGUOUS | ANY_CONTIGUOUS) != 0)
        || flags & F_CONTIGUOUS != 0 && !(is_flat && base.is_contiguous)
    {
        return refuse("the array has gaps or another order of elements; copy() closes gaps");
    }
    let View { storage, export, address } = base.view(py)?;
    let numbers = |list: &[i64]| list.iter().map(|number| *number as isize).collect();
    let mut shared = Box::new(Shared {
        shape: numbers(&base.layout.shape),
        strides: numbers(&base.layout.strides),
        _storage: storage,
        _export: export,
    });
    let given = |bits, list: &mut Vec<isize>| match asks(bits) {
        true => list.as_mut_ptr(),
        false => std::ptr::null_mut(),
    };
    let raw = RawBuffer {
        memory: address as *mut c_void,
        object: array.clone().into_ptr(),
        bytes: base.layout.bytes() as isize,
        element: base.element.bytes as isize,
        is_read_only: c_int::from(base.storage.is_read_only()),
        dimensions: base.layout.shape.len() as c_int,
        format: match asks(FORMAT) {
            true => format.as_ptr().cast_mut(),
            false => std::ptr::null_mut(),
        },
        shape: given(DIMENSIONS, &mut shared.shape),
        strides: given(STRIDES, &mut shared.strides),
        suboffsets: std::ptr::null_mut(),
        internal: Box::into_raw(shared).cast(),
    };
    // SAFETY: promised by the caller.
    unsafe { view.write(raw) };
    Ok(())
}

/// Ends a view: `bf_releasebuffer`.
unsafe extern "C" fn release(_object: *mut ffi::PyObject, view: *mut RawBuffer) {
    // SAFETY: the view is one that `fill` has filled, and it is released once.
    drop(unsafe { Box::from_raw((*view).internal.cast::<Shared>()) });
}
