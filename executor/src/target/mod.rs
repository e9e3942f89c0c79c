//! The side that executes.

mod arguments;
mod first_thread;
mod guardian;
mod hygiene;
mod last_threads;
mod sandbox;
mod service;

use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::exit;
use std::sync::Arc;

use longshore_runtime::static_tls::attach_thread;

use crate::plugin::serve::Server;
use crate::protocol::NO_SANDBOX;
use crate::remote::{Key, Listener};
use crate::rpc::{Connection, Ended, Options, Transport};

use arguments::{Arguments, Controller, Parsed, Sandbox};
use first_thread::FirstThread;
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
    let options = Options {
        name: last_threads::OURS,
        on_thread: attach_thread,
        spin: arguments.spin,
        ..Options::default()
    };
    let transport = match &arguments.controller {
        Controller::Parent(socket) => {
            enter_sandbox(arguments.sandbox);
            match parent(*socket) {
                Ok(transport) => transport,
                Err(ended) => return ended,
            }
        }
        Controller::Network(address, key) => match listen(address, key) {
            Ok(transport) => {
                enter_sandbox(arguments.sandbox);
                transport
            }
            Err(problem) => fail(1, &problem),
        },
    };
    attach_thread();
    let (first_thread, work) = FirstThread::new();
    let first_thread = Arc::new(first_thread);
    let plugins = Server::default();
    let target = Target { plugins, first_thread: Arc::clone(&first_thread) };
    match Connection::open(transport, options, Arc::new(target)) {
        Ok(_connection) => first_thread.work(&work),
        Err(ended) => ended,
    }
}

fn enter_sandbox(wanted: Sandbox) {
    if let Err(problem) = sandbox::enter(wanted) {
        fail(NO_SANDBOX, &problem);
    }
}

fn parent(socket: i32) -> Result<Transport, Ended> {
    // Others may have inherited the controller's end of the socket.
    let controller = hygiene::controller(socket)?;
    // SAFETY: the controller, which has started this process, says that the descriptor is its socket; nothing else uses it.
    let transport = Transport::executor(unsafe { UnixStream::from_raw_fd(socket) });
    Ok(match controller {
        Some(controller) => transport.watch(Arc::new(controller), || Ended::Cut),
        None => transport,
    })
}

/// Waits for a controller, and returns in the process that is to serve it.
fn listen(address: &str, key: &Path) -> Result<Transport, String> {
    let key = Key::read(key).map_err(|error| format!("--key: {error}"))?;
    let listener = Listener::bind(address, key).map_err(|error| format!("--listen: {error}"))?;
    let failed = |error: std::io::Error| format!("--listen {address}: {error}");
    println!("listening at {}", listener.address().map_err(failed)?);
    let (transport, epitaph) = listener.accept_with_epitaph().map_err(failed)?;
    drop(listener);
    // SAFETY: greeting has left no thread, and this is the process's first.
    unsafe { guardian::split(&epitaph) }.map_err(failed)?;
    Ok(transport)
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
