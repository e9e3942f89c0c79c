//! What a backend makes of its driver: of one that fails, lacks functions, has other users in the process. On the
//! double alone, which can be told to; each case in a process of its own, with such a driver.

use super::{Double, Doubled, Round};
use libtest_mimic::{Failed, Trial};
use longshore::{Environment, ErrorCode};
use std::process::Command;

/// What is tried.
#[derive(Clone, Copy)]
pub struct Case {
    /// A sentence.
    pub name: &'static str,
    /// Settings of the double.
    pub driver: &'static str,
    /// Holds the sentence.
    pub check: fn(&Double),
}

/// Cases of copies, of a round. `pinning` is the driver's function that gives page-locked memory, if the backend uses one there.
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
                check: |double| copies::what_is_locked_in_part_is_copied_whole(double, &$round),
            },
        ]
    }};
}

/// Cases of queues that the host has work in, of a round. `current` is the driver's function that says which device is current.
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
                name: "queues that wait when the device is lost are told so, and call their functions",
                driver: "devices=1",
                check: |double| {
                    parked::queues_that_wait_are_told_that_the_device_is_lost(double, &$round)
                },
            },
        ]
    }};
}

/// Which case a process is for.
const CASE: &str = "LONGSHORE_TEST_CASE";
/// The case of a process whose driver was made by another test's process.
const WITHOUT_A_FUNCTION: &str = "without a function";
/// Which function a process's driver lacks.
const MISSING: &str = "LONGSHORE_TEST_MISSING";

/// Runs the case that this process was started for, and returns whether it was started for one. To be called before there is
/// another thread. Blocks.
///
/// # Panics
/// If what the case says is not so.
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

/// Lists the cases; none where the double or the plugin is not built, which is printed.
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
    // The double has devices of its own.
    let mut child = Command::new(std::env::current_exe()?);
    let output = child.env(CASE, case).env_remove("LONGSHORE_DEVICES").output()?;
    let [said, wrong] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    print!("{said}");
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {wrong}", output.status).into()),
    }
}

/// Nothing was done wrong with a double, and nothing is left of a round.
///
/// # Panics
/// If that is not so.
pub fn assert_clean(double: &Double) {
    assert_eq!(double.violations(), [""; 0]);
    assert_eq!(double.live(), [""; 0]);
}

/// All works.
///
/// # Panics
/// If that is not so.
pub fn everything_works(double: &Double, round: &Round) {
    round.run().unwrap();
    assert_clean(double);
}

/// Managed memory is unsupported, and that is said.
///
/// # Panics
/// If that is not so.
pub fn managed_memory_is_unsupported(double: &Double, round: &Round) {
    let error = round.run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
    assert!(error.message().contains("managed"), "{error}");
    assert_clean(double);
}

/// Each function of the driver may be missing: in a process of its own, as the driver is looked at once.
///
/// # Panics
/// If a process ends otherwise than well.
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

/// What a process does whose driver lacks a function: there is no such driver, or what needs it is
/// unsupported.
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
