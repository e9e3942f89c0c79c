//! What the CUDA backend makes of its driver: of one that fails, lacks functions, has other users in the
//! process. On the double alone, which can be told to.

mod contexts;
mod failures;
mod faults;
mod round;
mod settings;

use libtest_mimic::{Arguments, Trial};
use longshore_tests::cuda::{self, Double};
use std::process::{Command, ExitCode};

/// What is tried, in a process of its own with such a driver.
struct Case {
    name: &'static str,
    /// Settings of the double.
    driver: &'static str,
    check: fn(&Double),
}

/// Which case a process is for.
const CASE: &str = "LONGSHORE_TEST_CUDA_CASE";
/// The case of a process whose driver was made by another test's process.
const WITHOUT_A_FUNCTION: &str = "without a function";

fn main() -> ExitCode {
    let lists = [contexts::CASES, failures::CASES, faults::CASES, settings::CASES];
    let cases: Vec<&'static Case> = lists.into_iter().flatten().collect();
    if std::env::var_os(CASE).is_some_and(|case| case == WITHOUT_A_FUNCTION) {
        settings::without_a_function();
        return ExitCode::SUCCESS;
    }
    if let Some(wanted) = std::env::var_os(CASE) {
        let case = cases.iter().find(|case| case.name == wanted).expect("a case of the list");
        // SAFETY: there is no other thread yet.
        unsafe { cuda::take_double(case.driver) };
        (case.check)(&open_double());
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    if cuda::double().is_none() || cuda::plugin().is_none() {
        println!("nothing is tried: the double or the CUDA plugin is not built");
        return ExitCode::SUCCESS;
    }
    let trials = cases.into_iter().map(|case| Trial::test(case.name, || in_a_process(case.name)));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn in_a_process(case: &str) -> Result<(), libtest_mimic::Failed> {
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

fn open_double() -> Double {
    let path = cuda::double().expect("the double is built");
    Double::open(&path).expect("the double can be opened")
}
