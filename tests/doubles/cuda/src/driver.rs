//! The state of the driver, which is the process's, and how calls are entered.

use crate::code::{Answer, Code};
use crate::machine::Machine;
use crate::object::Object;
use longshore_double_gpu::{Calls, Handles, Report, Settings, set_call};
use parking_lot::Mutex;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, OnceLock};

/// The environment variable with the settings.
pub(crate) const VARIABLE: &str = "LONGSHORE_CUDA_DOUBLE";

/// All that the driver knows.
pub(crate) struct Driver {
    pub(crate) settings: Settings,
    pub(crate) calls: Calls,
    pub(crate) report: Report,
    /// What was alive when its context ended.
    pub(crate) lost: Mutex<Vec<String>>,
    pub(crate) handles: Handles<Object>,
    machine: OnceLock<Machine>,
}

static DRIVER: LazyLock<Driver> = LazyLock::new(|| {
    let settings = Settings::of_environment(VARIABLE);
    let calls = Calls::new(&settings);
    Driver {
        settings,
        calls,
        report: Report::default(),
        lost: Mutex::default(),
        handles: Handles::default(),
        machine: OnceLock::new(),
    }
});

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// What a function needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing; host functions may call it too.
    Nothing,
    /// That `cuInit` was called.
    Driver,
}

/// The driver, initialised or not.
pub(crate) fn driver() -> &'static Driver {
    &DRIVER
}

/// The devices and their memory.
///
/// # Errors
/// `NOT_INITIALIZED`.
pub(crate) fn machine() -> Answer<&'static Machine> {
    DRIVER.machine.get().ok_or(Code::NOT_INITIALIZED)
}

/// Makes the devices, once.
///
/// # Errors
/// `OPERATING_SYSTEM` if their memory or addresses are not to be had.
pub(crate) fn initialize() -> Answer {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    if DRIVER.machine.get().is_none() {
        let machine = Machine::new(&DRIVER.settings).map_err(|error| {
            eprintln!("longshore double of CUDA: {error}");
            Code::OPERATING_SYSTEM
        })?;
        let _ = DRIVER.machine.set(machine);
    }
    Ok(())
}

/// Enters a function: counts the call, fails it if it was told to, checks what any function needs, and does it.
pub(crate) fn enter(name: &'static str, needs: Needs, body: impl FnOnce() -> Answer) -> u32 {
    set_call(name);
    if let Some(code) = DRIVER.calls.enter(name) {
        return code;
    }
    if needs != Needs::Nothing {
        if IN_HOST_FUNCTION.get() {
            return broken(Code::NOT_PERMITTED, "a host function calls the driver").0;
        }
        if DRIVER.machine.get().is_none() {
            return broken(Code::NOT_INITIALIZED, "cuInit was not called").0;
        }
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => Code::UNKNOWN.0,
    }
}

/// Notes that the contract was broken, and gives back the code that says so to the program.
pub(crate) fn broken(code: Code, what: impl AsRef<str>) -> Code {
    DRIVER.report.note(what.as_ref());
    code
}

/// Runs a function of the program on this thread, from where the driver must not be called.
pub(crate) fn in_host_function(function: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    function();
    IN_HOST_FUNCTION.set(false);
}
