//! The state of the driver, one for each process.

use super::{Code, DriverFunction, Vendor};
use crate::{Calls, Report, Settings, window};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The settings of the driver, and its records of calls.
pub struct Driver {
    /// Settings from the test.
    pub settings: Settings,
    pub(crate) vendor: &'static dyn Vendor,
    pub(crate) calls: Calls,
    pub(crate) report: Report,
    /// Objects that were alive when their context ended.
    pub(crate) lost: Mutex<Vec<String>>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Whether the driver has noticed the end of the process, if the settings ask for that.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

impl Driver {
    /// Returns the name of the devices.
    pub fn device_name(&self) -> &'static str {
        self.vendor.device_name()
    }

    /// Returns all functions of the driver.
    pub fn functions(&self) -> &'static [DriverFunction] {
        self.vendor.functions()
    }
}

/// Creates the state when the double is loaded.
///
/// # Panics
/// If the handler for the end of the process cannot be registered.
pub(crate) fn start(vendor: &'static dyn Vendor) {
    extern "C" fn end() {
        HAS_ENDED.store(true, Ordering::Release);
    }
    let driver = DRIVER.get_or_init(|| {
        window::take_place(vendor.place());
        let settings = Settings::from_environment(vendor.variable());
        let calls = Calls::new(&settings);
        Driver { settings, vendor, calls, report: Report::default(), lost: Mutex::default() }
    });
    if driver.settings.get("ends").is_some() {
        // SAFETY: a function of this library, which stays loaded.
        assert_eq!(unsafe { libc::atexit(end) }, 0, "there is room for one more function");
    }
}

/// Returns whether the driver has noticed the end of the process.
pub(crate) fn has_ended() -> bool {
    HAS_ENDED.load(Ordering::Acquire)
}

/// Returns the driver, initialised or not.
///
/// # Panics
/// In a program without a double.
pub fn driver() -> &'static Driver {
    DRIVER.get().expect("the state is made when the double is loaded")
}

/// Records a violation of the contract, and returns the program's result code for it.
pub fn broken(code: Code, what: impl AsRef<str>) -> Code {
    driver().report.note(what.as_ref());
    code
}

/// Prints a line on standard error.
pub(crate) fn print_error(what: &dyn std::fmt::Display) {
    eprintln!("longshore double of {}: {what}", driver().vendor.name());
}
