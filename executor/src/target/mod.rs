//! The side that executes.

mod arguments;
mod hygiene;
mod service;

use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::sync::Arc;

use crate::rpc::{Connection, Ended, Options, Transport};

use arguments::{Arguments, Parsed};
use service::Target;

/// What `longshore-executor` does: serves a controller until that goes. Does not return.
pub fn main() -> ! {
    let arguments = match Arguments::parse(std::env::args_os()) {
        Ok(Parsed::Run(arguments)) => arguments,
        Ok(Parsed::Say(text)) => {
            print!("{text}");
            exit(0);
        }
        Err(problem) => fail(2, &problem),
    };
    if let Err(problem) = hygiene::prepare(&arguments) {
        fail(1, &problem);
    }
    match run(&arguments) {
        // In order: what the code has registered for the end of the process is run.
        Ended::There => exit(0),
        Ended::Cut | Ended::Here => leave(0),
        ended => fail(1, &ended.to_string()),
    }
}

fn run(arguments: &Arguments) -> Ended {
    // SAFETY: the controller, which has started this process, says that the descriptor is its socket; nothing else uses it.
    let socket = unsafe { UnixStream::from_raw_fd(arguments.descriptor) };
    let options = Options { name: "longshore-rpc", spin: arguments.spin, ..Options::default() };
    let mut transport = Transport::executor(socket);
    if let Some(controller) = hygiene::controller() {
        // Others may have inherited the controller's end of the socket.
        transport = transport.watch(Arc::new(controller), || Ended::Cut);
    }
    match Connection::open(transport, options, Arc::<Target>::default()) {
        Ok(connection) => connection.wait_for_end(),
        Err(ended) => ended,
    }
}

/// Ends the process at once, whatever its other threads do.
fn leave(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

fn fail(code: i32, problem: &str) -> ! {
    eprintln!("longshore-executor: {problem}");
    leave(code)
}
