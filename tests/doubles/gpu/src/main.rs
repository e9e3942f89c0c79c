//! The process in place of a GPU: it has the device's memory, and runs kernels by their twins. A
//! double starts the process, which ends when the double closes the control connection.

mod process;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match process::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("longshore-double-gpu: {error} (only doubles of drivers start this program)");
            ExitCode::FAILURE
        }
    }
}
