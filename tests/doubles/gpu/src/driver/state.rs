//! The state of the driver, which is the process's.

use super::{Code, Known, Vendor};
use crate::{Calls, Report, Settings, window};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Settings of the driver, and what was noted of calls.
pub struct Driver {
    /// What a test has set.
    pub settings: Settings,
    pub(crate) vendor: &'static dyn Vendor,
    pub(crate) calls: Calls,
    pub(crate) report: Report,
    /// What was alive when its context ended.
    pub(crate) lost: Mutex<Vec<String>>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Whether the process's end has come to the driver, if it is to notice.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

impl Driver {
    /// The name of the devices.
    pub fn device_name(&self) -> &'static str {
        self.vendor.device_name()
    }

    /// All functions of the driver.
    pub fn functions(&self) -> &'static [Known] {
        self.vendor.functions()
    }
}

/// Makes the state, when the double is loaded.
///
/// # Panics
/// If it is to notice the process's end, and cannot.
pub(crate) fn start(vendor: &'static dyn Vendor) {
    extern "C" fn end() {
        HAS_ENDED.store(true, Ordering::Release);
    }
    let driver = DRIVER.get_or_init(|| {
        window::take_place(vendor.place());
        let settings = Settings::of_environment(vendor.variable());
        let calls = Calls::new(&settings);
        Driver { settings, vendor, calls, report: Report::default(), lost: Mutex::default() }
    });
    if driver.settings.get("ends").is_some() {
        // SAFETY: a function of this library, which stays loaded.
        assert_eq!(unsafe { libc::atexit(end) }, 0, "there is room for one more function");
    }
}

/// Whether the end of the process has come to the driver.
pub(crate) fn has_ended() -> bool {
    HAS_ENDED.load(Ordering::Acquire)
}

/// The driver, initialised or not.
///
/// # Panics
/// In a program that is no double.
pub fn driver() -> &'static Driver {
    DRIVER.get().expect("the state is made when the double is loaded")
}

/// Notes that the contract was broken, and gives back the code that says so to the program.
pub fn broken(code: Code, what: impl AsRef<str>) -> Code {
    driver().report.note(what.as_ref());
    code
}

/// Tells people.
pub(crate) fn tell(what: &dyn std::fmt::Display) {
    eprintln!("longshore double of {}: {what}", driver().vendor.name());
}
