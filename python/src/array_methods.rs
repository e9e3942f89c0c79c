//! The methods of arrays in Python, and the methods that create arrays.

use crate::array::{_NewArray, ArrayBase, dtype_of, object};
use crate::device::Device;
use crate::dlpack;
use crate::element::Element;
use crate::host_buffer::HostBuffer;
use crate::host_values::HostValues;
use crate::layout::{self, Layout};
use crate::process;
use crate::queue::Queue;
use crate::storage::Storage;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyComplex, PyDict, PyFloat, PyInt, PyTuple};
use std::sync::Arc;

#[pymethods]
impl Device {
    /// Creates an array whose elements have any values.
    #[pyo3(signature = (shape, dtype = None))]
    fn empty<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let element = dtype_of(py, dtype)?;
        self.new_array(py, shape, element).and_then(|array| object(py, array))
    }

    /// Creates an array of zeros.
    #[pyo3(signature = (shape, dtype = None))]
    fn zeros<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let element = dtype_of(py, dtype)?;
        let array = self.new_array(py, shape, element)?;
        array.fill_bytes(py, &[0], None)?;
        object(py, array)
    }

    /// Creates an array of equal numbers.
    #[pyo3(signature = (shape, value, dtype = None))]
    fn full<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let element = dtype_of(py, dtype)?;
        let array = self.new_array(py, shape, element)?;
        array.fill(py, value, None)?;
        object(py, array)
    }

    /// Creates an array with a copy of a NumPy array, of another object with the buffer protocol,
    /// or of a list, which NumPy reads.
    #[pyo3(signature = (values, dtype = None))]
    fn array<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dtype = dtype.map(|dtype| dtype_of(py, Some(dtype))).transpose()?;
        let values = HostValues::read(py, values, dtype)?;
        let layout = Layout::contiguous(values.shape()?, values.element.bytes)?;
        let array = ArrayBase::new(self.allocate(py, &layout)?, layout, values.element);
        array.write(py, &values)?;
        object(py, array)
    }
}

impl Device {
    fn new_array(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        element: &'static Element,
    ) -> PyResult<ArrayBase> {
        let layout = Layout::contiguous(layout::shape(shape)?, element.bytes)?;
        Ok(ArrayBase::new(self.allocate(py, &layout)?, layout, element))
    }

    fn allocate(&self, py: Python<'_>, layout: &Layout) -> PyResult<Arc<Storage>> {
        Storage::allocate(py, self.open(py)?, layout.bytes())
    }
}

#[pymethods]
impl Queue {
    /// Queues a copy between arrays of the same size in bytes, also of two devices.
    fn copy(&self, py: Python<'_>, to: &ArrayBase, source: &ArrayBase) -> PyResult<()> {
        self.core.check(py)?;
        to.queue_copy(py, source, &self.core)
    }
}

#[pymethods]
impl ArrayBase {
    #[new]
    fn from_new(new: &_NewArray) -> PyResult<ArrayBase> {
        let message = "devices create arrays: device.array(), empty(), zeros() and full()";
        new.take().ok_or_else(|| PyTypeError::new_err(message))
    }

    /// Returns the number of elements in each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.layout.shape)
    }

    /// Returns the distance in bytes of neighbours in each dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.layout.strides)
    }

    /// Returns the name of the elements' type, which equals NumPy's dtype of that name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.element.name
    }

    /// Returns the number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.layout.shape.len()
    }

    /// Returns the number of elements.
    #[getter]
    fn size(&self) -> i64 {
        self.layout.count()
    }

    /// Returns the size of an element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.element.bytes
    }

    /// Returns the size of all elements in bytes, without gaps.
    #[getter]
    fn nbytes(&self) -> i64 {
        self.layout.bytes()
    }

    /// Returns the array's device.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Device> {
        Device::for_open(py, &self.storage.device)
    }

    /// Returns the address of the first element on the device.
    #[getter]
    fn address(&self) -> u64 {
        self.pointer
    }

    /// Returns whether the elements lie without gaps, the last dimension first.
    #[getter]
    fn is_contiguous(&self) -> bool {
        self.is_contiguous
    }

    /// Returns whether the elements cannot be changed, as for some tensors of other libraries.
    #[getter]
    fn is_read_only(&self) -> bool {
        self.storage.is_read_only()
    }

    /// Returns a NumPy array with a copy of the elements, after all work that uses them.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shape = self.shape(py)?;
        let convert = py.import("longshore._convert")?;
        let made = convert.getattr("empty")?.call1((shape, self.element.name))?;
        let buffer = HostBuffer::for_object(&made, true)?;
        if buffer.bytes() as i64 != self.layout.bytes() || !buffer.is_contiguous() {
            return Err(PyValueError::new_err("NumPy made an array of another size"));
        }
        // SAFETY: the view is writable, has the array's size, and no other code knows it yet.
        unsafe { self.read_to(py, buffer.address())? };
        drop(buffer);
        convert.getattr("finished")?.call1((made, self.element.name))
    }

    /// Returns the bytes of the elements without gaps, after all work that uses them.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let read = |bytes: &mut [u8]| {
            // SAFETY: the list has the array's size.
            unsafe { self.read_to(py, bytes.as_mut_ptr()) }
        };
        PyBytes::new_with(py, self.layout.bytes() as usize, read)
    }

    /// Returns the elements as numbers of Python, in a list for each dimension.
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("longshore._convert")?.getattr("tolist")?.call1((slf,))
    }

    /// Returns the only element as a number of Python.
    fn item<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let count = slf.get().layout.count();
        if count != 1 {
            let message = format!("item() of an array with {count} elements; expected 1");
            return Err(PyValueError::new_err(message));
        }
        let flat = slf.get().copied(slf.py())?;
        let layout = flat.layout.reshaped(smallvec::smallvec![1])?;
        let flat = flat.with_layout(slf.py(), layout)?;
        flat.call_method0("tolist")?.get_item(0)
    }

    /// Copies values to the elements, after all work that uses them: as many values, or one.
    fn copy_from(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        self.write(py, &HostValues::read(py, values, Some(self.element))?)
    }

    /// Returns a copy without gaps on the same device.
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, self.copied(py)?)
    }

    /// Sets all elements to a number: in the order of `queue`, without waiting, or after all work
    /// that uses them.
    #[pyo3(name = "fill", signature = (value, *, queue = None))]
    fn fill_object(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        queue: Option<&Queue>,
    ) -> PyResult<()> {
        self.fill(py, value, queue)
    }

    /// Returns a view of the same elements in another shape; one dimension may be -1.
    #[pyo3(signature = (*shape))]
    fn reshape<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let shape = match shape.len() {
            1 => layout::shape(&shape.get_item(0)?)?,
            _ => layout::shape(shape)?,
        };
        self.with_layout(py, self.layout.reshaped(shape)?)
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.layout.shape.first() {
            Some(count) => Ok(*count as usize),
            None => Err(PyTypeError::new_err("an array without dimensions has no length")),
        }
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        process::check(py)?;
        self.with_layout(py, self.layout.select(key)?)
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let layout = self.layout.select(key)?;
        let part = ArrayBase::new(Arc::clone(&self.storage), layout, self.element);
        let is_number = values.is_instance_of::<PyInt>()
            || values.is_instance_of::<PyFloat>()
            || values.is_instance_of::<PyComplex>();
        if is_number { part.fill(py, values, None) } else { part.copy_from(py, values) }
    }

    fn __repr__(&self) -> String {
        let shape = self.layout.shape.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ");
        let shape = if shape.is_empty() { "one".to_owned() } else { shape };
        format!(
            "<longshore.Array: {shape} {} on {}>",
            self.element.name,
            self.storage.device.name()
        )
    }

    /// Returns a capsule of DLPack with the memory, after all work that uses the memory.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let place = dlpack::place_of(self)?;
        if place.0 == 1 && stream.is_some() {
            return Err(PyValueError::new_err("memory of the CPU has no streams; expected None"));
        }
        if dl_device.is_some_and(|wanted| wanted != place) {
            let message =
                format!("the array is on DLPack's device {place:?}, which was not asked for");
            return Err(PyBufferError::new_err(message));
        }
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        if copy == Some(true) {
            return dlpack::capsule(py, &self.copied(py)?, is_versioned, true);
        }
        dlpack::capsule(py, self, is_versioned, false)
    }

    /// Returns DLPack's type and index of the array's device.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        dlpack::place_of(self)
    }

    /// Returns the memory of an array on a CUDA device, after all work that uses it.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.storage.device.device().backend() != "cuda" || !self.storage.is_exportable() {
            let message = "only arrays on CUDA devices have __cuda_array_interface__";
            return Err(PyAttributeError::new_err(message));
        }
        self.storage.users.wait(py)?;
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", self.element.interface)?;
        interface.set_item("data", (self.pointer, self.storage.is_read_only()))?;
        interface.set_item("version", 3)?;
        let strides = (!self.is_contiguous).then(|| self.strides(py)).transpose()?;
        interface.set_item("strides", strides)?;
        Ok(interface)
    }

    /// Returns a NumPy array: a view where the memory can be viewed, else a copy.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let convert = slf.py().import("longshore._convert")?;
        convert.getattr("as_numpy")?.call1((slf, dtype, copy))
    }
}
