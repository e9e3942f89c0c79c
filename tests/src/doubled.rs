//! Backends whose drivers have doubles: tests use the GPUs of this machine, or a double of the
//! driver on a machine without such GPUs.
//!
//! A double (`tests/doubles/`) replaces the driver in this process if the first call is
//! [`Doubled::take_driver`]. A result on the double says nothing about a GPU. The names of its
//! devices say that they are doubles.

pub mod cases;
pub mod copies;
mod failures;
pub mod faults;
pub mod host_functions;
pub mod parked;
mod round;
mod tools;

pub use failures::{Functions, GiveBack, each_call_fails_once, each_call_lacks_memory};
pub use longshore_double_gpu::Double;
pub use round::{Round, image};
pub use tools::{bitcode, profile_shown, twin, twins};
pub(crate) use tools::{
    compiler, compiler_knowing, read, run, set_twin, share_twin, twin_by, with_source,
};

use longshore::{Device, Environment, Host, Result};
use longshore_conformance::{DeviceName, Setup};
use std::path::PathBuf;

/// A backend whose driver has a double.
#[derive(Clone, Copy)]
pub struct Doubled {
    /// Name of the backend.
    pub backend: &'static str,
    /// Files in the target folder.
    plugin: &'static str,
    double: &'static str,
    /// Variable of the user's library in the driver's place.
    driver: &'static str,
    /// Variable of the double's settings.
    settings: &'static str,
}

/// CUDA, with the double of its driver.
pub const CUDA: Doubled = Doubled {
    backend: "cuda",
    plugin: "liblongshore_plugin_cuda.so",
    double: "liblongshore_double_cuda.so",
    driver: "LONGSHORE_CUDA_DRIVER",
    settings: "LONGSHORE_CUDA_DOUBLE",
};

/// AMD's GPUs, with the double of HIP.
pub const AMDGPU: Doubled = Doubled {
    backend: "amdgpu",
    plugin: "liblongshore_plugin_amdgpu.so",
    double: "liblongshore_double_hip.so",
    driver: "LONGSHORE_AMDGPU_DRIVER",
    settings: "LONGSHORE_HIP_DOUBLE",
};

/// All backends with doubles.
pub const ALL: [Doubled; 2] = [CUDA, AMDGPU];

impl Doubled {
    /// Returns the backend with this name.
    pub fn for_backend(backend: &str) -> Option<Doubled> {
        ALL.into_iter().find(|known| known.backend == backend)
    }

    /// Chooses the process's driver: the user's choice; the machine's driver, if it has a device;
    /// or the double, with two devices. Must be the first call in `main`.
    ///
    /// # Safety
    /// No other thread runs yet.
    pub unsafe fn take_driver(&self) {
        if std::env::var_os(self.driver).is_none() && !self.has_gpu() {
            // SAFETY: promised by the caller.
            unsafe { self.take_double("devices=2") };
        }
    }

    /// Puts the double into the driver's place, if it is built, with these settings and the folder
    /// of twins. Must be the first call in `main`.
    ///
    /// # Safety
    /// No other thread runs yet.
    pub unsafe fn take_double(&self, settings: &str) {
        let Some(double) = self.double() else { return };
        // SAFETY: promised by the caller.
        unsafe {
            std::env::set_var(self.driver, double);
            std::env::set_var(self.settings, Doubled::with_twins(settings));
        }
    }

    /// Returns the variable with the double's settings.
    pub fn settings_variable(&self) -> &'static str {
        self.settings
    }

    /// Returns settings for a double that finds twins.
    pub fn with_twins(settings: &str) -> String {
        format!("twins={};{settings}", twins().display())
    }

    /// Returns the plugin, in the folder above this test's; `None` if it is not built.
    pub fn plugin(&self) -> Option<PathBuf> {
        built(self.plugin)
    }

    /// Returns the double of the driver; `None` if it is not built.
    pub fn double(&self) -> Option<PathBuf> {
        built(self.double)
    }

    /// Returns the double in this process.
    ///
    /// # Panics
    /// If it is not built.
    pub fn open_double(&self) -> Double {
        let path = self.double().expect("the double is built");
        Double::open(&path).expect("the double can be opened")
    }

    /// Returns whether results say nothing about a GPU, as the driver is a double.
    pub fn is_double(&self) -> bool {
        std::env::var_os(self.driver)
            .is_some_and(|driver| driver.to_string_lossy().ends_with(self.double))
    }

    /// Returns whether the machine's own driver shows a device to this process.
    fn has_gpu(&self) -> bool {
        let Some(plugin) = self.plugin() else { return false };
        let devices = Setup::new().with_plugin(plugin).with_backends(self.backend).devices();
        devices.is_ok_and(|devices| !devices.is_empty())
    }

    /// Returns the devices of the process's driver. Prints a line if there are no devices, or if
    /// the plugin is not built.
    ///
    /// # Errors
    /// The errors of [`Host::new`].
    ///
    /// # Panics
    /// If a double has no devices.
    pub fn devices(&self) -> Result<Vec<DeviceName>> {
        let Doubled { backend, plugin: file, double, .. } = self;
        let Some(plugin) = self.plugin() else {
            eprintln!("nothing is tried on {backend}: {file} is not built");
            return Ok(Vec::new());
        };
        if std::env::var_os(self.driver).is_none() && !self.has_gpu() {
            eprintln!("nothing is tried on {backend}: there is no GPU, and {double} is not built");
            return Ok(Vec::new());
        }
        let devices = Setup::new().with_plugin(plugin).with_backends(*backend).devices()?;
        let is_narrowed = Environment::from_process().devices().is_some();
        let is_there = !devices.is_empty() || is_narrowed || !self.is_double();
        assert!(is_there, "{double} shows no device");
        Ok(devices)
    }

    /// Opens one of [`Doubled::devices`]. Blocks.
    ///
    /// # Errors
    /// The errors of [`Host::new`] and [`Host::device`].
    ///
    /// # Panics
    /// If the plugin is gone.
    pub fn open(&self, name: &DeviceName) -> Result<Device> {
        self.host()?.device(&format!("{}:{}", name.backend, name.index))
    }

    /// Returns a host with the plugin alone. Blocks.
    ///
    /// # Errors
    /// The errors of [`Host::new`].
    ///
    /// # Panics
    /// If the plugin is not built.
    pub fn host(&self) -> Result<Host> {
        self.host_with(Environment::from_process())
    }

    /// Returns a host with the plugin alone, and these variables. Blocks.
    ///
    /// # Errors
    /// The errors of [`Host::new`].
    ///
    /// # Panics
    /// If the plugin is not built.
    pub fn host_with(&self, environment: Environment) -> Result<Host> {
        let plugin = self.plugin().expect("the plugin is built");
        Host::builder()
            .with_environment(environment)
            .with_only_given_plugins()
            .with_plugin(plugin)
            .build()
    }
}

fn built(file: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().expect("an executable has a path");
    let path = program.ancestors().nth(2)?.join(file);
    path.is_file().then_some(path)
}
