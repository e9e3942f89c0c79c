//! # The Python package of Longshore
//!
//! The module `longshore._native`, from which the package `longshore` takes its types. The wheel
//! serves CPython from 3.9: the crate uses the stable ABI alone.
//!
//! [`launch`] has the way of a call, [`process`] the host, forks and the interpreter's exit,
//! [`storage`] the memory and its users.

mod arguments;
mod array;
mod array_methods;
mod buffer;
mod device;
mod dlpack;
mod element;
mod errors;
mod foreign;
mod host_buffer;
mod host_values;
mod launch;
mod layout;
mod log;
mod numbers;
mod open_device;
mod process;
mod program;
mod queue;
mod queue_core;
mod storage;
mod wait;

use pyo3::prelude::*;

/// Fills the module with the types and functions of the package `longshore`.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<device::Device>()?;
    module.add_class::<program::Program>()?;
    module.add_class::<launch::Kernel>()?;
    module.add_class::<launch::Launcher>()?;
    module.add_class::<queue::Queue>()?;
    module.add_class::<queue::Event>()?;
    module.add("Array", array::Array::get(module.py())?)?;
    module.add_function(wrap_pyfunction!(device::devices, module)?)?;
    module.add_function(wrap_pyfunction!(device::device, module)?)?;
    module.add_function(wrap_pyfunction!(device::plugins, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::from_dlpack, module)?)?;
    module.add_function(wrap_pyfunction!(open_device::_close_all, module)?)
}
