//! CUDA in tests: the GPUs of this machine, and a double of the driver where there are none.
//!
//! The double (`tests/doubles/cuda`) takes the driver's place in this process when
//! [`take_driver`] was called before anything else. What runs on it says nothing about a GPU, and the
//! names of its devices say that it is a double.

mod tools;

pub use longshore_double_gpu::Double;
pub use tools::{assembled, compiled, compiled_without_twin, fatbin, nvidia_tool, twin};

use crate::conformance::{DeviceName, Setup};
use longshore::{Device, Environment, Host, Result};
use std::path::PathBuf;

const PLUGIN: &str = "liblongshore_plugin_cuda.so";
const DOUBLE: &str = "liblongshore_double_cuda.so";
/// The user's library in the driver's place.
const DRIVER: &str = "LONGSHORE_CUDA_DRIVER";
/// What the double is told when it starts.
const SETTINGS: &str = "LONGSHORE_CUDA_DOUBLE";

/// Decides what the process's driver is: that which the user names; the machine's, if it has a device; or
/// the double, with two devices. To be called first in `main`.
///
/// # Safety
/// No other thread runs yet.
pub unsafe fn take_driver() {
    if std::env::var_os(DRIVER).is_none() && !has_gpu() {
        // SAFETY: promised by the caller.
        unsafe { take_double("devices=2") };
    }
}

/// Puts the double into the driver's place, if it was built, with these settings beside the folder of
/// twins. To be called first in `main`.
///
/// # Safety
/// No other thread runs yet.
pub unsafe fn take_double(settings: &str) {
    let Some(double) = double() else { return };
    let settings = format!("twins={};{settings}", twins().display());
    // SAFETY: promised by the caller.
    unsafe {
        std::env::set_var(DRIVER, double);
        std::env::set_var(SETTINGS, settings);
    }
}

/// The folder in which the double looks for twins: those of the suite's own images, and what tests add.
pub fn twins() -> PathBuf {
    PathBuf::from(concat!(env!("OUT_DIR"), "/twins"))
}

/// The plugin, in the folder above that of this test; `None` if it was not built.
pub fn plugin() -> Option<PathBuf> {
    built(PLUGIN)
}

/// The double of the driver; `None` if it was not built.
pub fn double() -> Option<PathBuf> {
    built(DOUBLE)
}

/// Whether what is tried says nothing about a GPU.
pub fn is_double() -> bool {
    std::env::var_os(DRIVER).is_some_and(|driver| driver.to_string_lossy().ends_with(DOUBLE))
}

fn built(file: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().expect("an executable has a path");
    let path = program.ancestors().nth(2)?.join(file);
    path.is_file().then_some(path)
}

/// Whether the machine's own driver shows a device to this process.
fn has_gpu() -> bool {
    let Some(plugin) = plugin() else { return false };
    let devices = Setup::new().plugin(plugin).backends("cuda").devices();
    devices.is_ok_and(|devices| !devices.is_empty())
}

/// The devices of the process's driver. If there are none, or no plugin, that is printed.
///
/// # Errors
/// Those of [`Host::new`].
pub fn devices() -> Result<Vec<DeviceName>> {
    let Some(plugin) = plugin() else {
        eprintln!("nothing is tried on CUDA: {PLUGIN} is not built");
        return Ok(Vec::new());
    };
    if std::env::var_os(DRIVER).is_none() && !has_gpu() {
        eprintln!("nothing is tried on CUDA: there is no GPU, and {DOUBLE} is not built");
        return Ok(Vec::new());
    }
    Setup::new().plugin(plugin).backends("cuda").devices()
}

/// Opens one of [`devices`]. Blocks.
///
/// # Errors
/// Those of [`Host::new`] and [`Host::device`].
///
/// # Panics
/// If the plugin is gone.
pub fn open(name: &DeviceName) -> Result<Device> {
    host()?.device(&format!("{}:{}", name.backend, name.index))
}

/// A host with the CUDA plugin alone. Blocks.
///
/// # Errors
/// Those of [`Host::new`].
///
/// # Panics
/// If the plugin is not built.
pub fn host() -> Result<Host> {
    let plugin = plugin().expect("the CUDA plugin is built");
    let host = Host::builder().environment(Environment::of_process());
    host.only_given_plugins().plugin(plugin).build()
}
