//! The state of the driver, which is the process's, and how calls are entered.

use super::{Answer, Code, Known, Machine, Vendor};
use crate::{Calls, Report, Settings, set_call, window};
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// All that the driver knows.
pub struct Driver {
    /// What a test has set.
    pub settings: Settings,
    pub(crate) vendor: &'static dyn Vendor,
    pub(crate) calls: Calls,
    pub(crate) report: Report,
    /// What was alive when its context ended.
    pub(crate) lost: Mutex<Vec<String>>,
    machine: OnceLock<Machine>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Whether the process's end has come to the driver, if it is to notice.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// What a function needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing; host functions may call it too.
    Nothing,
    /// That the driver is initialised.
    Driver,
}

/// What functions of drivers return.
pub trait Returned {
    /// What their work results in.
    type Done;

    /// The value for what was done.
    fn of(done: Self::Done) -> Self;

    /// The value for what was not done.
    fn of_code(code: Code) -> Self;

    /// Keeps it for the thread, if it is an error.
    fn note(&self) {}
}

impl Returned for u32 {
    type Done = Answer;

    fn of(done: Answer) -> u32 {
        done.map_or_else(|code| code.0, |()| 0)
    }

    fn of_code(code: Code) -> u32 {
        code.0
    }

    fn note(&self) {
        if *self != 0 {
            LAST_ERROR.set(*self);
        }
    }
}

impl Returned for *const c_char {
    type Done = &'static CStr;

    fn of(done: &'static CStr) -> *const c_char {
        done.as_ptr()
    }

    fn of_code(_code: Code) -> *const c_char {
        std::ptr::null()
    }
}

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
        Driver {
            settings,
            vendor,
            calls,
            report: Report::default(),
            lost: Mutex::default(),
            machine: OnceLock::new(),
        }
    });
    if driver.settings.get("ends").is_some() {
        // SAFETY: a function of this library, which stays loaded.
        assert_eq!(unsafe { libc::atexit(end) }, 0, "there is room for one more function");
    }
}

/// The driver, initialised or not.
///
/// # Panics
/// In a program that is no double.
pub fn driver() -> &'static Driver {
    DRIVER.get().expect("the state is made when the double is loaded")
}

/// The devices and their memory.
///
/// # Errors
/// `NOT_INITIALIZED`.
pub fn machine() -> Answer<&'static Machine> {
    driver().machine.get().ok_or(Code::NOT_INITIALIZED)
}

/// Makes the devices, once.
///
/// # Errors
/// `OPERATING_SYSTEM` if their memory or addresses are not to be had.
pub fn initialize() -> Answer {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let driver = driver();
    if driver.machine.get().is_none() {
        let machine = Machine::new(driver).map_err(|error| {
            tell(&error);
            Code::OPERATING_SYSTEM
        })?;
        let _ = driver.machine.set(machine);
    }
    Ok(())
}

/// Enters a function: counts the call, fails it if it was told to, checks what any function needs, and does it.
pub fn enter<R: Returned>(name: &'static str, needs: Needs, body: impl FnOnce() -> R::Done) -> R {
    if HAS_ENDED.load(Ordering::Acquire) {
        return R::of_code(Code::DEINITIALIZED);
    }
    set_call(name);
    let checked =
        || match driver().calls.enter(name).map_or_else(|| check(needs), |code| Err(Code(code))) {
            Ok(()) => R::of(body()),
            Err(code) => R::of_code(code),
        };
    let result =
        catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(|_| R::of_code(Code::UNKNOWN));
    if needs != Needs::Nothing {
        result.note();
    }
    result
}

/// The last error of the calling thread that it was not told of.
///
/// # Errors
/// That error.
pub fn take_last_error() -> Answer {
    match LAST_ERROR.take() {
        0 => Ok(()),
        code => Err(Code(code)),
    }
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

/// Runs a function of the program on this thread, from where the driver must not be called.
pub(crate) fn in_host_function(function: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    function();
    IN_HOST_FUNCTION.set(false);
}

fn check(needs: Needs) -> Answer {
    if needs == Needs::Nothing {
        return Ok(());
    }
    if IN_HOST_FUNCTION.get() {
        return Err(broken(Code::NOT_PERMITTED, "a host function calls the driver"));
    }
    match driver().machine.get() {
        Some(_) => Ok(()),
        None => driver().vendor.uninitialized(),
    }
}
