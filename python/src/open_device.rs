//! Open devices, as other objects share them, and the list of them.

use crate::errors::{self, Raise};
use crate::process::{self, Held};
use crate::queue_core::QueueCore;
use crate::wait;
use longshore::Host;
use parking_lot::Mutex;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The devices that are open, by their index among the host's devices.
static DEVICES: Mutex<Option<HashMap<usize, Arc<OpenDevice>>>> = Mutex::new(None);

/// An open device, shared by all objects on it.
pub(crate) struct OpenDevice {
    device: Held<longshore::Device>,
    default_queue: Mutex<Option<Arc<QueueCore>>>,
    queues: Mutex<Vec<Weak<QueueCore>>>,
    /// Number of views of the device's memory that other libraries have; `None` for a closed
    /// device.
    exports: Mutex<Option<usize>>,
    /// Whether the program may access the device's memory.
    pub(crate) is_host_accessible: bool,
}

/// A view of a device's memory outside the library. The device cannot be closed meanwhile.
pub(crate) struct Export(Arc<OpenDevice>);

impl OpenDevice {
    pub(crate) fn new(device: longshore::Device) -> longshore::Result<OpenDevice> {
        Ok(OpenDevice {
            is_host_accessible: device.supports_host_access().unwrap_or(false),
            device: Held::new(device),
            default_queue: Mutex::default(),
            queues: Mutex::default(),
            exports: Mutex::new(Some(0)),
        })
    }

    pub(crate) fn device(&self) -> &longshore::Device {
        &self.device
    }

    pub(crate) fn name(&self) -> String {
        self.device.name()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.exports.lock().is_none()
    }

    /// Returns the queue of calls without one.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub(crate) fn default_queue(&self, py: Python<'_>) -> PyResult<Arc<QueueCore>> {
        process::check(py)?;
        let queue = {
            let mut queue = self.default_queue.lock();
            match &*queue {
                Some(queue) => return Ok(Arc::clone(queue)),
                None => self.new_queue().map(|made| Arc::clone(queue.insert(made))),
            }
        };
        queue.raise(py)
    }

    pub(crate) fn new_queue(&self) -> longshore::Result<Arc<QueueCore>> {
        let core = QueueCore::new(self.device.queue()?);
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&core));
        Ok(core)
    }

    /// Notes a view of the device's memory; `None` for a closed device.
    pub(crate) fn export(self: &Arc<Self>) -> Option<Export> {
        *self.exports.lock().as_mut()? += 1;
        Some(Export(Arc::clone(self)))
    }

    /// Waits for the queues and closes the device.
    ///
    /// # Errors
    /// `BufferError` while other libraries have views of the device's memory. Errors of queued work
    /// and of unloading. After an exception of a signal handler the device stays open.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        process::check(py)?;
        if self.is_closed() {
            return Ok(());
        }
        self.refuse_exported()?;
        let waited = self.wait_for_queues(py);
        if waited.as_ref().is_err_and(|error| !is_of_work(py, error)) {
            return waited;
        }
        {
            let mut exports = self.exports.lock();
            if exports.is_some_and(|views| views > 0) {
                drop(exports);
                return self.refuse_exported();
            }
            *exports = None;
        }
        let closed = py.detach(|| self.device.clone().close());
        waited.and(closed.raise(py).map(drop))
    }

    /// Waits for the queues at the interpreter's exit, and closes the device unless its memory is
    /// viewed.
    ///
    /// # Errors
    /// As for [`OpenDevice::close`].
    pub(crate) fn end(&self, py: Python<'_>) -> PyResult<()> {
        let is_viewed = self.exports.lock().is_some_and(|views| views > 0);
        if is_viewed { self.wait_for_queues(py) } else { self.close(py) }
    }

    /// Waits for all queues, and returns the first error. An exception of a signal handler ends the
    /// wait.
    fn wait_for_queues(&self, py: Python<'_>) -> PyResult<()> {
        let queues: Vec<_> = self.queues.lock().iter().filter_map(Weak::upgrade).collect();
        let mut first = Ok(());
        for queue in queues {
            let waited = wait::for_queue(py, &queue);
            if waited.as_ref().is_err_and(|error| !is_of_work(py, error)) {
                return waited;
            }
            first = first.and(waited);
        }
        first
    }

    fn refuse_exported(&self) -> PyResult<()> {
        let Some(views) = self.exports.lock().filter(|views| *views > 0) else { return Ok(()) };
        let message = format!(
            "closing {} while {views} arrays of other libraries view its memory; delete them first",
            self.name()
        );
        Err(PyBufferError::new_err(message))
    }
}

/// Returns whether an exception is an error of queued work, and not one of a signal handler.
pub(crate) fn is_of_work(py: Python<'_>, error: &PyErr) -> bool {
    errors::class(py).is_ok_and(|class| error.is_instance(py, class))
}

impl Drop for Export {
    fn drop(&mut self) {
        if let Some(views) = self.0.exports.lock().as_mut() {
            *views -= 1;
        }
    }
}

/// Returns the open device at an index of the host's devices. Opens it, without the interpreter's
/// lock, if it is not open.
///
/// # Errors
/// Errors of the driver, and [`process::check`].
pub(crate) fn open(py: Python<'_>, host: &Host, index: usize) -> PyResult<Arc<OpenDevice>> {
    process::check(py)?;
    py.detach(|| {
        let mut devices = DEVICES.lock();
        let devices = devices.get_or_insert_default();
        if let Some(open) = devices.get(&index).filter(|open| !open.is_closed()) {
            return Ok(Arc::clone(open));
        }
        let open = Arc::new(OpenDevice::new(host.devices()[index].open()?)?);
        devices.insert(index, Arc::clone(&open));
        Ok(open)
    })
    .raise(py)
}

/// Closes all open devices, at the interpreter's exit. Waits for queued work, unless the user
/// interrupts the wait. A device whose memory other libraries still view stays open.
#[pyfunction]
pub(crate) fn _close_all(py: Python<'_>) -> PyResult<()> {
    if process::is_forked() {
        return Ok(());
    }
    let devices = DEVICES.lock().take().unwrap_or_default();
    let ended = devices.values().try_for_each(|device| device.end(py));
    process::end();
    ended
}
