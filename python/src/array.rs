//! Arrays: typed views of memory.

use crate::buffer;
use crate::element::Element;
use crate::errors::{Raise, raised};
use crate::host_values::{HostValues, encode};
use crate::layout::Layout;
use crate::open_device::Export;
use crate::process;
use crate::queue::Queue;
use crate::queue_core::QueueCore;
use crate::storage::Storage;
use crate::wait;
use longshore::{Error, ErrorCode};
use parking_lot::Mutex;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

/// The type of arrays, which adds the buffer protocol to [`ArrayBase`].
static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The type `longshore.Array`.
pub(crate) struct Array;

impl Array {
    /// Documentation of the type.
    pub(crate) const DOC: &CStr = c"Numbers in the memory of a device.\n\n\
        Devices create arrays: device.array(), empty(), zeros(), full(). A slice is a view of the \
        same memory. numpy() copies an array to the program after all work that uses it. On the \
        CPU, numpy.asarray() and memoryview() view the memory itself.";

    /// Returns the type; the first call creates it.
    ///
    /// # Errors
    /// Errors of the interpreter.
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        ARRAY
            .get_or_try_init(py, || buffer::array_type(py).map(Bound::unbind))
            .map(|known| known.bind(py))
    }
}

/// The base of `longshore.Array`, with all its methods but the buffer protocol.
#[pyclass(frozen, subclass, name = "_ArrayBase", module = "longshore._native")]
pub(crate) struct ArrayBase {
    pub(crate) storage: Arc<Storage>,
    pub(crate) layout: Layout,
    pub(crate) element: &'static Element,
    /// Address of the first element.
    pub(crate) pointer: u64,
    pub(crate) is_contiguous: bool,
}

/// A new array on its way through the constructor of `longshore.Array`.
#[pyclass(frozen, module = "longshore._native")]
pub(crate) struct _NewArray(Mutex<Option<ArrayBase>>);

impl _NewArray {
    /// Takes the array; `None` if it was taken before.
    pub(crate) fn take(&self) -> Option<ArrayBase> {
        self.0.lock().take()
    }
}

/// A view of an array's memory for another library.
pub(crate) struct View {
    pub(crate) storage: Arc<Storage>,
    pub(crate) export: Export,
    pub(crate) address: u64,
}

/// Returns an array as an object of `longshore.Array`.
///
/// # Errors
/// Errors of the interpreter.
pub(crate) fn object(py: Python<'_>, array: ArrayBase) -> PyResult<Bound<'_, PyAny>> {
    let new = Bound::new(py, _NewArray(Mutex::new(Some(array))))?;
    Array::get(py)?.call1((new,))
}

/// Returns the type of elements that an object names: "float32", `numpy.float32`, `float`. Without
/// an object, `float32`.
///
/// # Errors
/// `TypeError` for another object.
pub(crate) fn dtype_of(
    py: Python<'_>,
    object: Option<&Bound<'_, PyAny>>,
) -> PyResult<&'static Element> {
    let Some(object) = object else { return Element::named("float32") };
    if let Ok(name) = object.extract::<String>()
        && let Ok(element) = Element::named(&name)
    {
        return Ok(element);
    }
    let name = py.import("longshore._convert")?.getattr("dtype_name")?.call1((object,))?;
    Element::named(&name.extract::<String>()?)
}

impl ArrayBase {
    pub(crate) fn new(
        storage: Arc<Storage>,
        layout: Layout,
        element: &'static Element,
    ) -> ArrayBase {
        let pointer = storage.pointer(layout.offset).address();
        let is_contiguous = layout.is_contiguous();
        ArrayBase { storage, layout, element, pointer, is_contiguous }
    }

    /// Returns a view for another library, after all work that uses the memory. The view keeps
    /// memory and device.
    ///
    /// # Errors
    /// `BufferError` for memory of a variable; errors of the work.
    pub(crate) fn view(&self, py: Python<'_>) -> PyResult<View> {
        if !self.storage.is_exportable() {
            let message = "memory of a program's variable cannot be viewed; numpy() copies it";
            return Err(PyBufferError::new_err(message));
        }
        self.storage.users.wait(py)?;
        Ok(View {
            export: self.exported(py)?,
            storage: Arc::clone(&self.storage),
            address: self.pointer,
        })
    }

    fn exported(&self, py: Python<'_>) -> PyResult<Export> {
        self.storage.device.export().ok_or_else(|| {
            let device = self.storage.device.name();
            let message = format!("the memory of {device} is gone: the device was closed");
            raised(py, &Error::new(ErrorCode::Uninitialized, message), None)
        })
    }

    /// Copies the elements to host memory, without gaps, after all work that uses them.
    ///
    /// # Errors
    /// Errors of the work and of the copy.
    ///
    /// # Safety
    /// The memory is writable for the array's size, and is not accessed otherwise.
    pub(crate) unsafe fn read_to(&self, py: Python<'_>, to: *mut u8) -> PyResult<()> {
        self.storage.users.wait(py)?;
        let (to, storage) = (to as usize, &self.storage);
        if storage.is_host_accessible() {
            let _export = self.exported(py)?;
            return py.detach(|| {
                self.layout.parts(|from, at, bytes| {
                    let from = storage.pointer(from).address() as *const u8;
                    // SAFETY: the device stays open, and the layout lies in its memory; the
                    // caller promises the other side.
                    unsafe { from.copy_to((to + at as usize) as *mut u8, bytes as usize) };
                    Ok(())
                })
            });
        }
        let queue = storage.device.default_queue(py)?;
        let copied = py.detach(|| {
            let copied = self.layout.parts(|from, at, bytes| {
                let to = (to + at as usize) as *mut c_void;
                // SAFETY: the caller promises the memory, and this call waits for the copy.
                unsafe { queue.queue().copy_to_host(to, storage.pointer(from), bytes as u64) }
            });
            copied.and(queue.queue().synchronize())
        });
        copied.raise(py)
    }

    /// Copies host memory without gaps to the elements, after all work that uses them.
    ///
    /// # Errors
    /// `ValueError` for a read-only array; errors of the work and of the copy.
    ///
    /// # Safety
    /// The memory is readable for the array's size, and does not change meanwhile.
    pub(crate) unsafe fn write_from(&self, py: Python<'_>, from: *const u8) -> PyResult<()> {
        if self.storage.is_read_only() {
            return Err(PyValueError::new_err("the array is read-only"));
        }
        self.storage.users.wait(py)?;
        let (from, storage) = (from as usize, &self.storage);
        if storage.is_host_accessible() {
            let _export = self.exported(py)?;
            return py.detach(|| {
                self.layout.parts(|to, at, bytes| {
                    let to = storage.pointer(to).address() as *mut u8;
                    // SAFETY: as in `read_to`.
                    unsafe { to.copy_from((from + at as usize) as *const u8, bytes as usize) };
                    Ok(())
                })
            });
        }
        let queue = storage.device.default_queue(py)?;
        let copied = py.detach(|| {
            let copied = self.layout.parts(|to, at, bytes| {
                let from = (from + at as usize) as *const c_void;
                // SAFETY: the caller promises the memory, and this call waits for the copy.
                unsafe { queue.queue().copy_from_host(storage.pointer(to), from, bytes as u64) }
            });
            copied.and(queue.queue().synchronize())
        });
        copied.raise(py)
    }

    /// Copies values of the program to the elements.
    ///
    /// # Errors
    /// `ValueError` for another number of values; errors of the copy.
    pub(crate) fn write(&self, py: Python<'_>, values: &HostValues) -> PyResult<()> {
        let given = values.shape()?;
        let count: i64 = given.iter().product();
        let is_scalar = given.is_empty();
        if count != self.layout.count() && !is_scalar || values.element != self.element {
            let message = format!(
                "{} values of {} for an array of {} values of {}",
                count,
                values.element.name,
                self.layout.count(),
                self.element.name
            );
            return Err(PyValueError::new_err(message));
        }
        if is_scalar {
            // SAFETY: the view has one element.
            let value =
                unsafe { std::slice::from_raw_parts(values.buffer.address(), self.element.bytes) };
            let all = value.repeat(self.layout.count() as usize);
            // SAFETY: a copy of the element for each of the array's.
            return unsafe { self.write_from(py, all.as_ptr()) };
        }
        // SAFETY: the view has as many elements, without gaps.
        unsafe { self.write_from(py, values.buffer.address()) }
    }

    /// Fills the elements with a number, in a queue's order, or after all work that uses them.
    ///
    /// # Errors
    /// `TypeError` and `OverflowError` for a value that is no element; errors of the fill.
    pub(crate) fn fill(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        queue: Option<&Queue>,
    ) -> PyResult<()> {
        let pattern = encode(self.element, value)?;
        self.fill_bytes(py, &pattern, queue)
    }

    /// Fills the elements with copies of a pattern, as [`ArrayBase::fill`] does.
    ///
    /// # Errors
    /// `ValueError` for a read-only array; errors of the fill.
    pub(crate) fn fill_bytes(
        &self,
        py: Python<'_>,
        pattern: &[u8],
        queue: Option<&Queue>,
    ) -> PyResult<()> {
        let bytes = self.layout.bytes() as u64;
        if bytes == 0 {
            return process::check(py);
        }
        if !self.is_contiguous || self.storage.is_read_only() {
            let all = pattern.repeat(bytes as usize / pattern.len());
            // SAFETY: the list has the array's size.
            return unsafe { self.write_from(py, all.as_ptr()) };
        }
        match queue {
            Some(queue) => self.queue_fill(py, pattern, &queue.core),
            None if self.storage.is_host_accessible() => self.fill_at_once(py, pattern),
            None => {
                self.storage.users.wait(py)?;
                let core = self.storage.device.default_queue(py)?;
                self.queue_fill(py, pattern, &core)?;
                // Work that another queue gets later finds the values.
                wait::for_queue(py, &core)
            }
        }
    }

    /// Queues a fill of an array without gaps.
    fn queue_fill(&self, py: Python<'_>, pattern: &[u8], core: &Arc<QueueCore>) -> PyResult<()> {
        core.check(py)?;
        self.storage.users.note(core);
        let (to, bytes) = (self.storage.pointer(self.layout.offset), self.layout.bytes() as u64);
        // SAFETY: the library keeps the memory until the fill is done.
        py.detach(|| unsafe { core.queue().fill(to, pattern, bytes) }).raise(py)?;
        self.storage.users.note(core);
        Ok(())
    }

    /// Fills an array without gaps whose memory the program may access.
    fn fill_at_once(&self, py: Python<'_>, pattern: &[u8]) -> PyResult<()> {
        /// Size in bytes of one copy, a multiple of all sizes of elements.
        const BLOCK: usize = 4096;
        self.storage.users.wait(py)?;
        let _export = self.exported(py)?;
        let block = pattern.repeat(BLOCK / pattern.len());
        let (at, bytes) = (self.pointer as usize, self.layout.bytes() as usize);
        py.detach(|| {
            for done in (0..bytes).step_by(BLOCK) {
                let part = block.len().min(bytes - done);
                // SAFETY: the device stays open, and the array's memory has this size.
                unsafe { ((at + done) as *mut u8).copy_from(block.as_ptr(), part) };
            }
        });
        Ok(())
    }

    /// Queues a copy from another array.
    ///
    /// # Errors
    /// `ValueError` for arrays with gaps or of other sizes; errors of the copy.
    pub(crate) fn queue_copy(
        &self,
        py: Python<'_>,
        source: &ArrayBase,
        queue: &Arc<QueueCore>,
    ) -> PyResult<()> {
        let bytes = self.layout.bytes();
        if bytes != source.layout.bytes() || !self.is_contiguous || !source.is_contiguous {
            let message = format!(
                "copying {} to {} bytes; expected arrays of equal size without gaps",
                source.layout.bytes(),
                bytes
            );
            return Err(PyValueError::new_err(message));
        }
        if self.storage.is_read_only() {
            return Err(PyValueError::new_err("the array to copy to is read-only"));
        }
        if bytes == 0 {
            return Ok(());
        }
        self.storage.users.note(queue);
        source.storage.users.note(queue);
        let (to, from) = (self.storage.pointer(self.layout.offset), source.pointer);
        let from = longshore::DevicePointer(from);
        // SAFETY: the library keeps the memory until the copy is done.
        py.detach(|| unsafe { queue.queue().copy(to, from, bytes as u64) }).raise(py)?;
        self.storage.users.note(queue);
        source.storage.users.note(queue);
        Ok(())
    }

    pub(crate) fn with_layout<'py>(
        &self,
        py: Python<'py>,
        layout: Layout,
    ) -> PyResult<Bound<'py, PyAny>> {
        object(py, ArrayBase::new(Arc::clone(&self.storage), layout, self.element))
    }

    pub(crate) fn copied<'py>(&self, py: Python<'py>) -> PyResult<ArrayBase> {
        let layout = Layout::contiguous(self.layout.shape.clone(), self.element.bytes)?;
        let storage = Storage::allocate(py, &self.storage.device, layout.bytes())?;
        let copy = ArrayBase::new(storage, layout, self.element);
        let mut bytes = vec![0; copy.layout.bytes() as usize];
        // SAFETY: the list has the array's size.
        unsafe {
            self.read_to(py, bytes.as_mut_ptr())?;
            copy.write_from(py, bytes.as_ptr())?;
        }
        Ok(copy)
    }
}
