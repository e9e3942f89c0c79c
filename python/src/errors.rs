//! Errors of the library as exceptions.

use longshore::{Error, Result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// A result of the library that becomes an exception.
pub(crate) trait Raise<T> {
    /// Returns the value, or the error as `longshore.Error`.
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for Result<T> {
    #[inline]
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error, None))
    }
}

/// Returns the class `longshore.Error`.
///
/// # Errors
/// Errors of the import.
pub(crate) fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "longshore._errors", "Error")
}

/// Returns an error as `longshore.Error`. Without a hint, the exception has the one for its code.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: &Error, hint: Option<&str>) -> PyErr {
    let vendor = error.vendor().map(|vendor| (vendor.name.clone(), vendor.number));
    let values = (error.code() as u32, error.message().to_owned(), vendor, hint);
    let made = class(py).and_then(|class| class.call1(values));
    made.map_or_else(|failed| failed, PyErr::from_value)
}
