//! The process that stands in for a GPU: it has the device's memory, and runs kernels by their twins. Started by a
//! double of a driver, and gone when that closes the control connection.

mod process;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match process::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("longshore-double-gpu: {error} (it is started by doubles of drivers)");
            ExitCode::FAILURE
        }
    }
}
