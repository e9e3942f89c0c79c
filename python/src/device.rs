//! Devices, open or not, and the list of them.

use crate::errors::Raise;
use crate::open_device::{self, OpenDevice};
use crate::process::{self, Held};
use longshore::{DeviceType, Host};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A device that runs kernels, open or not. The first use opens it, `close` or the end of a `with`
/// block closes it, and so does the end of the program.
#[pyclass(frozen, module = "longshore")]
pub(crate) struct Device {
    host: Held<Arc<Host>>,
    index: usize,
    open: OnceLock<Arc<OpenDevice>>,
}

impl Device {
    fn new(host: &Arc<Host>, index: usize) -> Device {
        Device { host: Held::new(Arc::clone(host)), index, open: OnceLock::new() }
    }

    /// Returns the object for an open device.
    ///
    /// # Errors
    /// [`process::check`].
    pub(crate) fn for_open(py: Python<'_>, open: &Arc<OpenDevice>) -> PyResult<Device> {
        let host = process::host(py)?;
        let (backend, index) = (open.device().backend(), open.device().index());
        let is_it = |entry: &longshore::DeviceEntry| {
            entry.facts().backend == backend && entry.facts().index == index
        };
        let index = host.devices().iter().position(is_it).expect("the host opened the device");
        Ok(Device { open: OnceLock::from(Arc::clone(open)), ..Device::new(&host, index) })
    }

    fn entry(&self) -> &longshore::DeviceEntry {
        &self.host.devices()[self.index]
    }

    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<&Arc<OpenDevice>> {
        process::check(py)?;
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        let open = open_device::open(py, &self.host, self.index)?;
        Ok(self.open.get_or_init(|| open))
    }
}

#[pymethods]
impl Device {
    /// Returns backend, index and name as one text: "cuda:0 (NVIDIA H200)".
    #[getter]
    fn name(&self) -> String {
        self.entry().name()
    }

    /// Returns the name of the backend: "host" for the CPU, "cuda", "amdgpu", "vulkan".
    #[getter]
    fn backend(&self) -> &str {
        &self.entry().facts().backend
    }

    /// Returns the index among the devices of the backend, from 0.
    #[getter]
    fn index(&self) -> u32 {
        self.entry().facts().index
    }

    /// Returns the kind of the device: "gpu", "integrated gpu", "cpu" (behind a GPU's interface) or
    /// "host".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.entry().facts().kind {
            Some(DeviceType::Gpu) => "gpu",
            Some(DeviceType::IntegratedGpu) => "integrated gpu",
            Some(DeviceType::Cpu) => "cpu",
            Some(DeviceType::Host) => "host",
            _ => "unknown",
        }
    }

    /// Returns the architecture that images are compiled for: "x86_64", "sm_90", "gfx942". None if
    /// the device has no answer.
    #[getter]
    fn architecture(&self, py: Python<'_>) -> PyResult<Option<String>> {
        process::check(py)?;
        Ok(self.entry().architecture().ok())
    }

    /// Returns the number of compute units that work in parallel; None if the device has no answer.
    #[getter]
    fn compute_units(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        process::check(py)?;
        Ok(self.entry().compute_units().ok())
    }

    /// Returns the size of the device's memory in bytes; None if the device has no answer.
    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        process::check(py)?;
        Ok(self.entry().global_memory_bytes().ok())
    }

    /// Returns the largest number of work-items of a work-group; None if the device has no answer.
    #[getter]
    fn max_group_items(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        process::check(py)?;
        Ok(self.entry().max_work_group_size().ok())
    }

    /// Returns whether the program may access the memory of arrays on this device, as on the CPU.
    #[getter]
    fn is_host_accessible(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.open(py)?.is_host_accessible)
    }

    /// Waits for all queues and closes the device. Later calls with its objects raise an error;
    /// `longshore.device()` opens it anew.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.open(py)?.close(py)
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        slf.get().open(py)?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Device>().is_ok_and(|other| other.get().index == self.index)
    }

    fn __hash__(&self) -> isize {
        self.index as isize
    }

    fn __repr__(&self) -> String {
        let closed = self.open.get().is_some_and(|open| open.is_closed());
        format!(
            "<longshore.Device {}{}>",
            self.entry().name(),
            if closed { ", closed" } else { "" }
        )
    }
}

/// Returns the selected devices, in order of preference. None is opened.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    let host = process::host(py)?;
    Ok((0..host.devices().len()).map(|index| Device::new(&host, index)).collect())
}

/// Opens the first selected device, or the first that a selection such as "cuda" or "cuda:1" names.
#[pyfunction]
#[pyo3(signature = (selection = None))]
pub(crate) fn device(py: Python<'_>, selection: Option<&str>) -> PyResult<Device> {
    let host = process::host(py)?;
    let opened = py.detach(|| match selection {
        // A backend alone names all of its devices.
        Some(selection) if !selection.contains(':') => host.device(&format!("{selection}:*")),
        Some(selection) => host.device(selection),
        None => host.default_device(),
    });
    let opened = opened.raise(py)?;
    let is_it = |entry: &longshore::DeviceEntry| {
        entry.facts().backend == opened.backend() && entry.facts().index == opened.index()
    };
    let index = host.devices().iter().position(is_it).expect("the host opened the device");
    let device = Device::new(&host, index);
    device.open(py)?;
    Ok(device)
}

/// Returns path, backend and outcome of each file that was considered as a plugin.
#[pyfunction]
pub(crate) fn plugins(py: Python<'_>) -> PyResult<Vec<(PathBuf, String, String)>> {
    let host = process::host(py)?;
    let row = |found: &longshore::Candidate| {
        (found.path.clone(), found.backend.clone(), found.outcome.to_string())
    };
    Ok(host.candidates().iter().map(row).collect())
}
