//! Behaviour of a backend with an unusual driver: one that fails, lacks functions, or has other
//! users in the process. Only a double can be such a driver. Each case runs in a process of its
//! own.

use super::{Double, Doubled, Round};
use libtest_mimic::{Failed, Trial};
use longshore::{Environment, ErrorCode};
use std::process::Command;

/// A case: a sentence and its check.
#[derive(Clone, Copy)]
pub struct Case {
    /// The sentence.
    pub name: &'static str,
    /// Settings of the double.
    pub driver: &'static str,
    /// The check of the sentence.
    pub check: fn(&Double),
}

/// Returns the cases of copies in a round. `pinning` is the driver's function that allocates
/// page-locked memory, if the backend copies through such memory.
#[macro_export]
macro_rules! cases_of_copies {
    ($round:ident, $pinning:expr) => {{
        use $crate::doubled::{cases::Case, copies};
        &[
            Case {
                name: "small copies from pageable memory are taken along when they are queued",
                driver: copies::SLOW,
                check: |double| copies::small_copies_are_taken_along(double, &$round, $pinning),
            },
            Case {
                name: "memory that is page-locked in part is copied, and read when what writes it is done",
                driver: copies::SLOW,
                check: |double| copies::memory_that_is_locked_in_part_is_copied_whole(double, &$round),
            },
        ]
    }};
}

/// Returns the cases of a round with drivers and devices that lack a feature.
#[macro_export]
macro_rules! cases_of_features {
    ($round:ident) => {{
        use $crate::doubled::cases::{self, Case};
        &[
            Case {
                name: "without pools, memory comes from the device itself",
                driver: "pools=0",
                check: |double| cases::everything_works(double, &$round),
            },
            Case {
                name: "without managed memory, that is unsupported and the rest works",
                driver: "managed=0",
                check: |double| cases::managed_memory_is_unsupported(double, &$round),
            },
            Case {
                name: "kernels reach the memory of the process if the driver says so",
                driver: "devices=1;pageable=1",
                check: |_| cases::unified_memory_is(true, &$round),
            },
            Case {
                name: "kernels do not reach the memory of the process if the driver does not say so",
                driver: "devices=1",
                check: |_| cases::unified_memory_is(false, &$round),
            },
            Case {
                name: "a function that is missing is unsupported, and nothing else",
                driver: "devices=1",
                check: |double| cases::each_function_may_be_missing(double, &$round),
            },
        ]
    }};
}

/// Returns the cases of a round with queues that hold work in the host. `current` is the driver's
/// function that returns the current device.
#[macro_export]
macro_rules! cases_of_queues {
    ($round:ident, $current:expr) => {{
        use $crate::doubled::{cases::Case, host_functions, parked};
        &[
            Case {
                name: "a function of the program finds the device of its queue current",
                driver: "devices=2",
                check: |double| {
                    host_functions::a_function_finds_its_device_current(double, &$round, $current)
                },
            },
            Case {
                name: "queues that were given up while they waited are done when their device is closed",
                driver: "devices=1",
                check: |double| {
                    parked::dropped_queues_are_done_before_their_device_is_closed(double, &$round)
                },
            },
            Case {
                name: "queues that wait when the device is lost report the loss, and call their functions",
                driver: "devices=1",
                check: |double| {
                    parked::waiting_queues_report_a_lost_device(double, &$round)
                },
            },
        ]
    }};
}

/// Variable with the case that a process has to run.
const CASE: &str = "LONGSHORE_TEST_CASE";
/// Case for a child process with an incomplete driver.
const WITHOUT_A_FUNCTION: &str = "without a function";
/// Variable with the function that a child's driver lacks.
const MISSING: &str = "LONGSHORE_TEST_MISSING";

/// Runs the case that this process was started for, and returns whether there was one. Must be
/// called while the process has one thread. Blocks.
///
/// # Panics
/// If the check fails.
pub fn is_done(round: &Round, cases: &[Case]) -> bool {
    let Some(wanted) = std::env::var_os(CASE) else { return false };
    if wanted == WITHOUT_A_FUNCTION {
        without_a_function(round);
        return true;
    }
    let case = cases.iter().find(|case| case.name == wanted).expect("a case of the list");
    // SAFETY: the caller has no other thread yet.
    unsafe { round.of.take_double(case.driver) };
    (case.check)(&round.of.open_double());
    true
}

/// Returns the cases as trials. Prints a line, and returns no trials, if the double or the plugin
/// is not built.
pub fn trials(round: &Round, cases: &[Case]) -> Vec<Trial> {
    let of = round.of;
    if of.double().is_none() || of.plugin().is_none() {
        eprintln!("nothing is tried: the double or the plugin of {} is not built", of.backend);
        return Vec::new();
    }
    let trial = |case: &Case| {
        let name = case.name;
        Trial::test(name, move || in_a_process(name))
    };
    cases.iter().map(trial).collect()
}

fn in_a_process(case: &str) -> Result<(), Failed> {
    // The user's selection does not apply to the double's devices.
    let mut child = Command::new(std::env::current_exe()?);
    let output = child.env(CASE, case).env_remove("LONGSHORE_DEVICES").output()?;
    let [said, wrong] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    print!("{said}");
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {wrong}", output.status).into()),
    }
}

/// Asserts that a double has no violations and no live objects.
///
/// # Panics
/// If the assertion fails.
pub fn assert_clean(double: &Double) {
    assert_eq!(double.violations(), [""; 0]);
    assert_eq!(double.live(), [""; 0]);
}

/// Asserts that a round works.
///
/// # Panics
/// If the assertion fails.
pub fn everything_works(double: &Double, round: &Round) {
    round.run().unwrap();
    assert_clean(double);
}

/// Asserts that a round fails because managed memory is unsupported, and that the error says so.
///
/// # Panics
/// If the assertion fails.
pub fn managed_memory_is_unsupported(double: &Double, round: &Round) {
    let error = round.run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
    assert!(error.message().contains("managed"), "{error}");
    assert_clean(double);
}

/// Asserts that the devices answer the question for unified memory so, and that the host never
/// reaches their memory.
///
/// # Panics
/// If the assertion fails.
pub fn unified_memory_is(expected: bool, round: &Round) {
    for device in round.host().unwrap().devices() {
        assert_eq!(device.supports_unified_memory(), Ok(expected), "{}", device.name());
        assert_eq!(device.supports_host_access(), Ok(false), "{}", device.name());
    }
}

/// Runs one round for each function of the driver, with a driver that lacks the function. Each
/// round has a process of its own, as the driver's functions are looked up once.
///
/// # Panics
/// If a process fails.
pub fn each_function_may_be_missing(double: &Double, round: &Round) {
    round.run().unwrap();
    for (function, _) in double.calls() {
        let settings = Doubled::with_twins(&format!("missing={function}"));
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.env(round.of.settings_variable(), settings).env(MISSING, &function);
        let output = child.env(CASE, WITHOUT_A_FUNCTION).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{function}: {}: {said}", output.status);
    }
}

/// Runs a round in a child process whose driver lacks a function: connecting fails, or the
/// operations that need the function are unsupported.
fn without_a_function(round: &Round) {
    let function = std::env::var(MISSING).unwrap();
    let host = round.of.host_with(Environment::from_process()).unwrap();
    if host.devices().is_empty() {
        println!("without {function}: {:?}", host.candidates()[0].outcome);
        assert!(round.connecting.contains(&&*function), "without {function} there is no device");
        return;
    }
    drop(host);
    match round.run() {
        Ok(()) => println!("without {function}: all works"),
        Err(error) => {
            println!("without {function}: {error}");
            assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
        }
    }
}
