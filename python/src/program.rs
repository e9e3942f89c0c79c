//! Programs: images loaded on a device.

use crate::array::{self, ArrayBase};
use crate::device::Device;
use crate::element::Element;
use crate::errors::Raise;
use crate::host_buffer::HostBuffer;
use crate::launch::Kernel;
use crate::layout::{self, Layout};
use crate::open_device::{OpenDevice, is_of_work};
use crate::process::{self, Held};
use crate::storage::Storage;
use crate::wait::Users;
use longshore::{Image, SymbolKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;

/// A loaded image, shared by its kernels.
pub(crate) struct LoadedProgram {
    program: Held<longshore::Program>,
    pub(crate) device: Arc<OpenDevice>,
    /// The queues that launch the program's kernels.
    pub(crate) users: Users,
}

impl Drop for LoadedProgram {
    fn drop(&mut self) {
        // The drop of the program waits for its work; other threads of Python run meanwhile.
        if process::may_drop() && self.users.are_busy() {
            // The failure stays pending for the queue's next synchronization.
            Python::attach(|py| py.detach(|| drop(self.program.synchronize())));
        }
    }
}

/// An image loaded on a device. `program["name"]` is a kernel.
///
/// The image is unloaded by `unload`, at the end of a `with` block, or when the program and its
/// kernels are gone.
#[pyclass(frozen, module = "longshore")]
pub(crate) struct Program {
    core: Arc<LoadedProgram>,
}

impl Program {
    /// Loads an image, without the interpreter's lock.
    ///
    /// # Errors
    /// Errors of the image and of the driver.
    pub(crate) fn load(py: Python<'_>, device: Arc<OpenDevice>, image: Image) -> PyResult<Program> {
        // SAFETY: the caller vouches for the image, as the documentation of `Device.load` says.
        let program = py.detach(|| unsafe { device.device().load(image) }).raise(py)?;
        let core = LoadedProgram { program: Held::new(program), device, users: Users::default() };
        Ok(Program { core: Arc::new(core) })
    }
}

#[pymethods]
impl Device {
    /// Loads an image: a path, the image's bytes, or `source`, which `longshore cc` compiles for
    /// this device. `language` is "c", "c++", "cuda" or "hip"; `flags` are for clang.
    ///
    /// Loading an image runs code of it, and its kernels run unchecked inside this process on the
    /// CPU: load only images and sources that you trust.
    #[pyo3(signature = (image = None, *, source = None, language = "c", flags = None))]
    fn load(
        &self,
        py: Python<'_>,
        image: Option<&Bound<'_, PyAny>>,
        source: Option<&str>,
        language: &str,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Program> {
        let open = Arc::clone(self.open(py)?);
        let image = match (image, source) {
            (Some(image), None) => read(py, image)?,
            (None, Some(source)) => {
                let target = target(&open).raise(py)?;
                let compile = py.import("longshore._compile")?.getattr("_compile_for")?;
                let image = compile.call1((source, target, language, flags))?;
                Image::from(image.cast::<PyBytes>()?.as_bytes())
            }
            _ => {
                let message = "load() takes an image or source=..., and not both";
                return Err(PyTypeError::new_err(message));
            }
        };
        Program::load(py, open, image)
    }
}

#[pymethods]
impl Program {
    /// Returns the program's device.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Device> {
        Device::for_open(py, &self.core.device)
    }

    /// Returns the names of the kernels, sorted.
    #[getter]
    fn kernels(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.symbols(py, SymbolKind::Kernel)
    }

    /// Returns the names of the global variables, sorted.
    #[getter]
    fn variables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.symbols(py, SymbolKind::Global)
    }

    /// Returns the kernel with this symbol, or with this name in a source in C++, CUDA or HIP.
    fn kernel(&self, py: Python<'_>, name: &str) -> PyResult<Kernel> {
        process::check(py)?;
        let kernel = py.detach(|| self.core.program.kernel(name)).raise(py)?;
        Ok(Kernel::new(&self.core, kernel))
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Kernel> {
        self.kernel(py, name)
    }

    /// Returns a global variable as an array: of one dimension, or of the given shape.
    #[pyo3(signature = (name, dtype = None, shape = None))]
    fn variable<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        dtype: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        process::check(py)?;
        let element = array::dtype_of(py, dtype)?;
        let variable = py.detach(|| self.core.program.global(name)).raise(py)?;
        let layout = variable_layout(name, variable.bytes(), element, shape)?;
        let storage = Storage::global(variable, Arc::clone(&self.core.device));
        array::object(py, ArrayBase::new(storage, layout, element))
    }

    /// Waits for the queues that use the program, and unloads it. Later calls raise an error.
    fn unload(&self, py: Python<'_>) -> PyResult<()> {
        let waited = self.core.users.wait(py);
        if waited.as_ref().is_err_and(|error| !is_of_work(py, error)) {
            return waited;
        }
        let unloaded = py.detach(|| longshore::Program::clone(&self.core.program).unload());
        waited.and(unloaded.raise(py).map(drop))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        match self.core.program.symbols() {
            // The block has unloaded the program, or closed its device.
            Err(error) if error.code() == longshore::ErrorCode::Uninitialized => Ok(()),
            _ => self.unload(py),
        }
    }

    fn __repr__(&self) -> String {
        let kernels = self.core.program.symbols().map(|symbols| {
            let names = symbols.into_iter().filter(|(_, kind)| *kind == SymbolKind::Kernel);
            names.map(|(name, _)| name).collect::<Vec<_>>().join(", ")
        });
        let contents = kernels.unwrap_or_else(|_| "unloaded".to_owned());
        format!("<longshore.Program on {}: {contents}>", self.core.device.name())
    }
}

impl Program {
    fn symbols(&self, py: Python<'_>, wanted: SymbolKind) -> PyResult<Vec<String>> {
        process::check(py)?;
        let symbols = self.core.program.symbols().raise(py)?;
        let named = symbols.into_iter().filter(|(_, kind)| *kind == wanted);
        Ok(named.map(|(name, _)| name).collect())
    }
}

/// Returns the layout of a variable of this size.
///
/// # Errors
/// `ValueError` if elements or shape do not fit the size.
fn variable_layout(
    name: &str,
    bytes: u64,
    element: &'static Element,
    shape: Option<&Bound<'_, PyAny>>,
) -> PyResult<Layout> {
    let shape = match shape {
        Some(shape) => layout::shape(shape)?,
        None => [bytes as i64 / element.bytes as i64].as_slice().into(),
    };
    let layout = Layout::contiguous(shape, element.bytes)?;
    if layout.bytes() as u64 != bytes {
        let message = format!(
            "variable '{name}' has {bytes} bytes; shape {:?} of {} has {}",
            layout.shape.as_slice(),
            element.name,
            layout.bytes()
        );
        return Err(PyValueError::new_err(message));
    }
    Ok(layout)
}

/// Returns the target of `longshore cc` for a device.
///
/// # Errors
/// `Uninitialized` if the device was closed.
fn target(device: &OpenDevice) -> longshore::Result<String> {
    let device = device.device();
    let architecture = device.architecture()?;
    Ok(match device.code_target() {
        Err(error) if error.code() == longshore::ErrorCode::Unsupported => "spirv".to_owned(),
        Err(error) => return Err(error),
        Ok(target) => match target.triple.split('-').next() {
            Some(machine @ ("nvptx64" | "amdgcn")) => format!("{machine}:{architecture}"),
            _ => "host".to_owned(),
        },
    })
}

/// Reads an image from a path or from bytes.
///
/// # Errors
/// `HostIo` for a file that cannot be read, `TypeError` for another object.
fn read(py: Python<'_>, image: &Bound<'_, PyAny>) -> PyResult<Image> {
    if let Ok(path) = image.extract::<PathBuf>() {
        return py.detach(|| Image::read(path)).raise(py);
    }
    if let Ok(bytes) = image.cast::<PyBytes>() {
        return Ok(Image::from(bytes.as_bytes()));
    }
    let buffer = HostBuffer::for_object(image, false).ok().filter(HostBuffer::is_contiguous);
    let Some(buffer) = buffer else {
        let given = layout::named(image);
        let message = format!("an image of type {given}; expected a path, or an object with bytes");
        return Err(PyTypeError::new_err(message));
    };
    // SAFETY: the view has these bytes, and this thread holds the interpreter's lock.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.address(), buffer.bytes()) };
    Ok(Image::from(bytes))
}
