//! Queues and events.

use crate::device::Device;
use crate::errors::Raise;
use crate::open_device::OpenDevice;
use crate::process::{self, Held};
use crate::queue_core::QueueCore;
use crate::wait;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// Converts a time limit in seconds; `None` is no limit.
///
/// # Errors
/// `ValueError` for a negative number.
fn limit(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds.is_nan() || seconds < 0.0 {
        let message = format!("timeout of {seconds} seconds; expected a number from 0, or None");
        return Err(PyValueError::new_err(message));
    }
    Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
}

/// An in-order queue of work for one device.
///
/// Launches return at once; `synchronize` waits for them, and raises their errors. A `with` block
/// waits at its end and closes the queue.
#[pyclass(frozen, module = "longshore")]
pub(crate) struct Queue {
    pub(crate) core: Arc<QueueCore>,
    pub(crate) device: Arc<OpenDevice>,
    /// Whether it is the queue of calls that name none, which lives as long as the device is open.
    is_default: bool,
}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.is_default {
            self.core.leave();
        }
    }
}

#[pymethods]
impl Device {
    /// Returns the queue of launches and copies that name no queue.
    #[getter]
    fn default_queue(&self, py: Python<'_>) -> PyResult<Queue> {
        let device = Arc::clone(self.open(py)?);
        Ok(Queue { core: device.default_queue(py)?, device, is_default: true })
    }

    /// Creates a queue.
    fn queue(&self, py: Python<'_>) -> PyResult<Queue> {
        let device = Arc::clone(self.open(py)?);
        let core = device.new_queue().raise(py)?;
        Ok(Queue { core, device, is_default: false })
    }
}

#[pymethods]
impl Queue {
    /// Returns the queue's device.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Device> {
        Device::for_open(py, &self.device)
    }

    /// Returns whether all queued work is done.
    #[getter]
    fn is_idle(&self, py: Python<'_>) -> PyResult<bool> {
        self.core.check(py)?;
        self.core.queue().is_idle().raise(py)
    }

    /// Returns the driver's handle of the stream, a `CUstream` or `hipStream_t`.
    #[getter]
    fn stream(&self, py: Python<'_>) -> PyResult<u64> {
        self.core.check(py)?;
        self.core.queue().driver_stream().raise(py)
    }

    /// Waits until all queued work is done, and raises its first error. Returns False if `timeout`
    /// seconds have passed first; the work goes on.
    ///
    /// Other Python threads run meanwhile. Ctrl-C raises KeyboardInterrupt; the work goes on.
    #[pyo3(signature = (timeout = None))]
    fn synchronize(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.core.check(py)?;
        match limit(timeout)? {
            None => wait::for_queue(py, &self.core).map(|()| true),
            limit => wait::in_slices(py, limit, |slice| self.core.queue().synchronize_for(slice)),
        }
    }

    /// Records an event behind all queued work. Events with `timed=True` measure times.
    #[pyo3(signature = (*, timed = false))]
    fn record(&self, py: Python<'_>, timed: bool) -> PyResult<Event> {
        self.core.check(py)?;
        let queue = self.core.queue();
        let event = if timed { queue.record_timed() } else { queue.record() }.raise(py)?;
        Ok(Event { event: Held::new(event) })
    }

    /// Makes later work of this queue wait for an event of any device. Does not wait itself.
    fn wait_for(&self, py: Python<'_>, event: &Event) -> PyResult<()> {
        self.core.check(py)?;
        py.detach(|| self.core.queue().wait_for(&event.event)).raise(py)
    }

    /// Waits for all queued work, and closes the queue. Later calls raise an error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.core.is_closed() {
            return Ok(());
        }
        let waited = wait::for_queue(py, &self.core);
        self.core.close();
        waited
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let closed = if self.core.is_closed() { ", closed" } else { "" };
        format!("<longshore.Queue of {}{closed}>", self.device.name())
    }
}

/// A point in a queue's order.
#[pyclass(frozen, module = "longshore")]
pub(crate) struct Event {
    event: Held<longshore::Event>,
}

#[pymethods]
impl Event {
    /// Returns whether the event was reached, also if work in front of it failed.
    #[getter]
    fn is_complete(&self, py: Python<'_>) -> PyResult<bool> {
        process::check(py)?;
        self.event.is_complete().raise(py)
    }

    /// Waits until the event is reached, and raises the first error of the work in front of it.
    /// Returns False if `timeout` seconds have passed first.
    #[pyo3(signature = (timeout = None))]
    fn synchronize(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = limit(timeout)?;
        wait::in_slices(py, limit, |slice| self.event.synchronize_for(slice))
    }

    /// Returns the seconds from this event to `end`. Both were recorded with `timed=True`.
    fn elapsed(&self, py: Python<'_>, end: &Event) -> PyResult<f64> {
        process::check(py)?;
        Ok(self.event.elapsed_ns(&end.event).raise(py)? as f64 / 1e9)
    }

    fn __repr__(&self) -> String {
        format!("<longshore.Event of {}>", self.event.device().name())
    }
}
