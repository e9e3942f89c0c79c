//! Backends whose drivers have doubles, in tests: the GPUs of this machine, and a double of the driver where there
//! are none.
//!
//! A double (`tests/doubles/`) takes the driver's place in this process when [`Doubled::take_driver`] was
//! called before anything else. What runs on it says nothing about a GPU, and the names of its devices say
//! that it is a double.

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
pub(crate) use tools::{compiler, compiler_knowing, read, run, share_twin, twin_by, with_source};
pub use tools::{profile_shown, twin, twins};

use longshore::{Device, Environment, Host, Result};
use longshore_conformance::{DeviceName, Setup};
use std::path::PathBuf;

/// A backend whose driver has a double.
#[derive(Clone, Copy)]
pub struct Doubled {
    /// Its name.
    pub backend: &'static str,
    /// Files in the target folder.
    plugin: &'static str,
    double: &'static str,
    /// The user's library in the driver's place.
    driver: &'static str,
    /// What the double is told when it starts.
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

/// All of them.
pub const ALL: [Doubled; 2] = [CUDA, AMDGPU];

impl Doubled {
    /// The one of this name.
    pub fn of(backend: &str) -> Option<Doubled> {
        ALL.into_iter().find(|known| known.backend == backend)
    }

    /// Decides what the process's driver is: that which the user names; the machine's, if it has a device; or
    /// the double, with two devices. To be called first in `main`.
    ///
    /// # Safety
    /// No other thread runs yet.
    pub unsafe fn take_driver(&self) {
        if std::env::var_os(self.driver).is_none() && !self.has_gpu() {
            // SAFETY: promised by the caller.
            unsafe { self.take_double("devices=2") };
        }
    }

    /// Puts the double into the driver's place, if it was built, with these settings beside the folder of
    /// twins. To be called first in `main`.
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

    /// The variable by which the double is told its settings.
    pub fn settings_variable(&self) -> &'static str {
        self.settings
    }

    /// Settings of a double that finds twins.
    pub fn with_twins(settings: &str) -> String {
        format!("twins={};{settings}", twins().display())
    }

    /// The plugin, in the folder above that of this test; `None` if it was not built.
    pub fn plugin(&self) -> Option<PathBuf> {
        built(self.plugin)
    }

    /// The double of the driver; `None` if it was not built.
    pub fn double(&self) -> Option<PathBuf> {
        built(self.double)
    }

    /// The double that is in this process.
    ///
    /// # Panics
    /// If it was not built.
    pub fn open_double(&self) -> Double {
        let path = self.double().expect("the double is built");
        Double::open(&path).expect("the double can be opened")
    }

    /// Whether what is tried says nothing about a GPU.
    pub fn is_double(&self) -> bool {
        std::env::var_os(self.driver)
            .is_some_and(|driver| driver.to_string_lossy().ends_with(self.double))
    }

    /// Whether the machine's own driver shows a device to this process.
    fn has_gpu(&self) -> bool {
        let Some(plugin) = self.plugin() else { return false };
        let devices = Setup::new().with_plugin(plugin).with_backends(self.backend).devices();
        devices.is_ok_and(|devices| !devices.is_empty())
    }

    /// The devices of the process's driver. If there are none, or no plugin, that is printed.
    ///
    /// # Errors
    /// Those of [`Host::new`].
    ///
    /// # Panics
    /// If a double shows none.
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
        let is_narrowed = Environment::of_process().devices().is_some();
        let is_there = !devices.is_empty() || is_narrowed || !self.is_double();
        assert!(is_there, "{double} shows no device");
        Ok(devices)
    }

    /// Opens one of [`Doubled::devices`]. Blocks.
    ///
    /// # Errors
    /// Those of [`Host::new`] and [`Host::device`].
    ///
    /// # Panics
    /// If the plugin is gone.
    pub fn open(&self, name: &DeviceName) -> Result<Device> {
        self.host()?.device(&format!("{}:{}", name.backend, name.index))
    }

    /// A host with the plugin alone. Blocks.
    ///
    /// # Errors
    /// Those of [`Host::new`].
    ///
    /// # Panics
    /// If the plugin is not built.
    pub fn host(&self) -> Result<Host> {
        self.host_with(Environment::of_process())
    }

    /// A host with the plugin alone, and these variables. Blocks.
    ///
    /// # Errors
    /// Those of [`Host::new`].
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
