//! DLPack, in both directions: capsules with a tensor's address, shape and owner.

use crate::array::{self, ArrayBase, View};
use crate::device::Device;
use crate::element::Element;
use crate::foreign::{
    COPIED, Foreign, MAJOR, PLAIN, PlainTensor, READ_ONLY, Tensor, VERSIONED, VersionedTensor,
};
use crate::layout::{Dimensions, Layout};
use crate::open_device::{self, Export, OpenDevice};
use crate::process;
use crate::storage::Storage;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyInt};
use std::ffi::c_void;
use std::sync::Arc;

/// Device types of DLPack.
const CPU: i32 = 1;
const CUDA: i32 = 2;
const ROCM: i32 = 10;
/// The owner of an exported tensor.
struct Context {
    shape: Dimensions,
    strides: Dimensions,
    _storage: Arc<Storage>,
    _export: Export,
}

/// Returns DLPack's type and index of a device; `None` for a device that DLPack cannot name.
pub(crate) fn place(device: &OpenDevice) -> Option<(i32, i32)> {
    let index = device.device().index() as i32;
    match device.device().backend() {
        _ if device.is_host_accessible => Some((CPU, 0)),
        "cuda" => Some((CUDA, index)),
        "amdgpu" => Some((ROCM, index)),
        _ => None,
    }
}

/// Returns DLPack's type and index of an array's device.
///
/// # Errors
/// `BufferError` for a device that DLPack cannot name.
pub(crate) fn place_of(array: &ArrayBase) -> PyResult<(i32, i32)> {
    let device = &array.storage.device;
    place(device)
        .ok_or_else(|| PyBufferError::new_err(format!("DLPack has no name for {}", device.name())))
}

/// Returns a capsule with an array's memory, after the work that uses the memory.
///
/// # Errors
/// `BufferError` for memory that cannot be exported.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    array: &ArrayBase,
    is_versioned: bool,
    is_copy: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (device_type, device_index) = place_of(array)?;
    let is_read_only = array.storage.is_read_only();
    if is_read_only && !is_versioned {
        let message = "the array is read-only, which needs max_version=(1, 0)";
        return Err(PyBufferError::new_err(message));
    }
    let View { storage, export, address } = array.view(py)?;
    let element = array.element.bytes as i64;
    let mut context = Box::new(Context {
        shape: array.layout.shape.clone(),
        strides: array.layout.strides.iter().map(|stride| stride / element).collect(),
        _storage: storage,
        _export: export,
    });
    let tensor = Tensor {
        data: address as *mut c_void,
        device_type,
        device_index,
        dimensions: context.shape.len() as i32,
        code: array.element.dlpack as u8,
        bits: 8 * array.element.bytes as u8,
        lanes: 1,
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(context).cast();
    let (managed, name): (*mut c_void, _) = if is_versioned {
        let flags = if is_read_only { READ_ONLY } else { 0 } | if is_copy { COPIED } else { 0 };
        let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
        let managed = VersionedTensor { major: MAJOR, minor: 0, context, deleter, flags, tensor };
        (Box::into_raw(Box::new(managed)).cast(), VERSIONED)
    } else {
        let deleter = Some(delete_plain as unsafe extern "C" fn(_));
        (Box::into_raw(Box::new(PlainTensor { tensor, context, deleter })).cast(), PLAIN)
    };
    // SAFETY: the pointer is not null; the destructor accepts both structures.
    unsafe {
        let capsule = ffi::PyCapsule_New(managed, name.as_ptr(), Some(destroy));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

unsafe extern "C" fn delete_plain(managed: *mut PlainTensor) {
    // SAFETY: made by `capsule`, and deleted once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut VersionedTensor) {
    // SAFETY: made by `capsule`, and deleted once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

/// Deletes the tensor of a capsule that no library has taken: the capsule's destructor.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this with a capsule of `capsule`, once; a library that has
    // taken the tensor has renamed the capsule.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) != 0 {
            delete_plain(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// Returns an array on the memory of another library's tensor, without a copy.
///
/// The tensor lives until the array and all queued work on it are gone. `device` is the device for
/// the tensor's memory, by default the first one that has it.
#[pyfunction]
#[pyo3(signature = (tensor, device = None))]
pub(crate) fn from_dlpack<'py>(
    py: Python<'py>,
    tensor: &Bound<'py, PyAny>,
    device: Option<&Device>,
) -> PyResult<Bound<'py, PyAny>> {
    process::check(py)?;
    let place: (i32, i32) = match tensor.call_method0("__dlpack_device__") {
        Ok(place) => {
            // Some libraries return an enumeration, which converts to a number.
            let number = |index: usize| -> PyResult<i32> {
                py.get_type::<PyInt>().call1((place.get_item(index)?,))?.extract()
            };
            (number(0)?, number(1)?)
        }
        Err(_) => {
            let given = crate::layout::named(tensor);
            let message = format!(
                "an object of type {given}; expected one with __dlpack__, such as a NumPy array"
            );
            return Err(PyTypeError::new_err(message));
        }
    };
    let open = find_device(py, device, place)?;
    let options = [("max_version", (MAJOR, 0u32))].into_py_dict(py)?;
    if place.0 != CPU {
        options.set_item("stream", open.default_queue(py)?.queue().driver_stream().unwrap_or(1))?;
    }
    let foreign = Foreign::take(&export_of(tensor, &options)?)?;
    let given = foreign.tensor();
    let (element, layout) = layout_of(&given)?;
    let address = (given.data as u64).wrapping_add(given.byte_offset);
    let storage = Storage::foreign(foreign, address, open);
    array::object(py, ArrayBase::new(storage, layout, element))
}

/// Calls `__dlpack__`, again without the version for a library that does not know it.
fn export_of<'py>(
    tensor: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    match tensor.call_method("__dlpack__", (), Some(options)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            options.del_item("max_version")?;
            tensor.call_method("__dlpack__", (), Some(options))
        }
        exported => exported,
    }
}

/// Returns the open device that has memory at a place of DLPack.
///
/// # Errors
/// `BufferError` if no device, or not the given one, has it.
fn find_device(
    py: Python<'_>,
    given: Option<&Device>,
    place: (i32, i32),
) -> PyResult<Arc<OpenDevice>> {
    let backend = match place.0 {
        CPU | 3 => None,
        CUDA | 13 => Some("cuda"),
        ROCM => Some("amdgpu"),
        _ => return refuse(place),
    };
    let fits = |open: &Arc<OpenDevice>| match backend {
        None => open.is_host_accessible,
        Some(name) => open.device().backend() == name && open.device().index() as i32 == place.1,
    };
    if let Some(device) = given {
        let open = device.open(py)?;
        return if fits(open) { Ok(Arc::clone(open)) } else { refuse(place) };
    }
    let host = process::host(py)?;
    for (index, entry) in host.devices().iter().enumerate() {
        let facts = entry.facts();
        let may = match backend {
            None => entry.supports_host_access().unwrap_or(false),
            Some(name) => facts.backend == name && facts.index as i32 == place.1,
        };
        if may {
            let open = open_device::open(py, &host, index)?;
            if fits(&open) {
                return Ok(open);
            }
        }
    }
    refuse(place)
}

fn refuse<T>(place: (i32, i32)) -> PyResult<T> {
    let message = format!(
        "no selected device has the memory of DLPack's device {place:?}; `longshore devices` lists \
         the devices, and device.array() copies from any of them"
    );
    Err(PyBufferError::new_err(message))
}

/// Returns type and layout of a tensor.
///
/// # Errors
/// `BufferError` for a type that arrays lack.
fn layout_of(tensor: &Tensor) -> PyResult<(&'static Element, Layout)> {
    let bytes = usize::from(tensor.bits / 8);
    let known = Element::from_code(tensor.code, bytes);
    let Some(element) = known.filter(|_| tensor.lanes == 1 && tensor.bits.is_multiple_of(8)) else {
        let message = format!(
            "a tensor of DLPack's type {} with {} bits and {} lanes; expected numbers of 8 to 64 \
             bits",
            tensor.code, tensor.bits, tensor.lanes
        );
        return Err(PyBufferError::new_err(message));
    };
    let dimensions = usize::try_from(tensor.dimensions).map_err(|_| {
        PyBufferError::new_err(format!("a tensor with {} dimensions", tensor.dimensions))
    })?;
    let list = |values: *mut i64| -> Dimensions {
        // SAFETY: a list of the tensor has a value for each dimension.
        unsafe { std::slice::from_raw_parts(values, dimensions) }.into()
    };
    if dimensions == 0 {
        return Ok((element, Layout::contiguous(Dimensions::new(), bytes)?));
    }
    let mut layout = Layout::contiguous(list(tensor.shape), bytes)?;
    if !tensor.strides.is_null() {
        let strides = list(tensor.strides);
        let in_bytes = strides.iter().map(|stride| stride.checked_mul(bytes as i64));
        layout.strides = in_bytes.collect::<Option<_>>().ok_or_else(|| {
            let strides = strides.as_slice();
            PyBufferError::new_err(format!("a tensor with strides {strides:?}, beyond 2^63 bytes"))
        })?;
    }
    Ok((element, layout))
}
