//! The executor's side.

mod apart;
mod arguments;
mod first_thread;
mod guardian;
mod hygiene;
mod last_threads;
mod sandbox;
mod service;
mod waiting;

use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::exit;
use std::sync::Arc;

use longshore_orc_rt::static_tls::attach_thread;
use rustix::process::{PidfdFlags, getpid, pidfd_open};

pub use last_threads::end_with_last_thread;

use crate::compiler::serve::CompilerServer;
use crate::plugin::serve::Server;
use crate::protocol::NO_SANDBOX;
use crate::remote::{Key, Listener};
use crate::rpc::{Connection, EndReason, Options, Transport};

use arguments::{Arguments, Controller, Parsed, Sandbox};
use first_thread::FirstThread;
use sandbox::namespaces::{self, InitProcess, NamespaceEntry};
use service::Target;

/// Runs `longshore-executor`: serves a controller until it goes. Does not return.
pub fn main() -> ! {
    let arguments = match Arguments::parse(std::env::args_os()) {
        Ok(Parsed::Run(arguments)) => arguments,
        Ok(Parsed::Say(text)) => {
            print!("{text}");
            exit(0);
        }
        Err(problem) => fail(2, &problem),
    };
    if let (Some(report), Controller::Parent(socket)) = (arguments.report, &arguments.controller) {
        // SAFETY: the process has just begun, and its starter has passed the two descriptors.
        if let Err(error) = unsafe { apart::leave_starter(report, *socket) } {
            fail(1, &format!("--report: {error}"));
        }
    }
    if let Err(problem) = hygiene::prepare(&arguments) {
        fail(1, &problem);
    }
    match run(&arguments) {
        // An orderly end: runs the exit handlers that the code has registered.
        EndReason::There => exit(0),
        EndReason::Cut | EndReason::Here => leave(0),
        ended => fail(1, &ended.to_string()),
    }
}

fn run(arguments: &Arguments) -> EndReason {
    let options = Options {
        name: last_threads::OURS,
        on_thread: attach_thread,
        spin: arguments.spin,
        ..Options::default()
    };
    let transport = match &arguments.controller {
        Controller::Parent(socket) => match parent(*socket, arguments) {
            Ok(transport) => transport,
            Err(ended) => return ended,
        },
        Controller::Network(address, key) => match listen(address, key, arguments.sandbox) {
            Ok(transport) => transport,
            Err(problem) => fail(1, &problem),
        },
    };
    attach_thread();
    let (first_thread, work) = FirstThread::new();
    let first_thread = Arc::new(first_thread);
    let (plugins, compiler) = (Server::default(), CompilerServer::default());
    let target = Target { plugins, compiler, first_thread: Arc::clone(&first_thread) };
    match Connection::open(transport, options, Arc::new(target)) {
        Ok(_connection) => first_thread.work(&work),
        Err(ended) => ended,
    }
}

fn parent(socket: i32, arguments: &Arguments) -> Result<Transport, EndReason> {
    let wanted = arguments.sandbox;
    // Other processes may have inherited the controller's end of the socket. Inside a namespace the
    // controller has no process number, so it is looked up first.
    let controller = hygiene::controller(socket)?;
    // SAFETY: this is the process's first thread, and there is no other yet.
    let is_apart = match unsafe { enter_namespaces(wanted) } {
        NamespaceEntry::Waiting(first) => await_end(first),
        NamespaceEntry::Inside => true,
        NamespaceEntry::NotPermitted => false,
    };
    enter_sandbox(wanted, is_apart);
    // SAFETY: the controller has started this process and passed the descriptor as its socket;
    // nothing else uses it.
    let mut transport = Transport::executor(unsafe { UnixStream::from_raw_fd(socket) });
    if is_apart || arguments.report.is_some() {
        let own = pidfd_open(getpid(), PidfdFlags::empty());
        let own = own.map_err(|error| {
            EndReason::Stream(format!("the executor's own pidfd cannot be opened: {error}"))
        })?;
        transport = transport.served_by(own);
    }
    Ok(match controller {
        Some(controller) => transport.watch(Arc::new(controller), || EndReason::Cut),
        None => transport,
    })
}

/// Waits for a controller, and returns in the process that serves it.
fn listen(address: &str, key: &Path, wanted: Sandbox) -> Result<Transport, String> {
    let key = Key::read(key).map_err(|error| format!("--key: {error}"))?;
    let listener = Listener::bind(address, key).map_err(|error| format!("--listen: {error}"))?;
    let failed = |error: std::io::Error| format!("--listen {address}: {error}");
    println!("listening at {}", listener.address().map_err(failed)?);
    let (transport, last_message) = listener.accept_with_last_message().map_err(failed)?;
    drop(listener);
    // SAFETY: the greeting has left no thread, and this is the process's first.
    let is_apart = match unsafe { enter_namespaces(wanted) } {
        NamespaceEntry::Waiting(first) => {
            let status = first.end(Some(last_message.controller()));
            guardian::tell(&last_message, status)
        }
        NamespaceEntry::Inside => true,
        NamespaceEntry::NotPermitted => {
            // SAFETY: the process has one thread, as above.
            unsafe { guardian::split(&last_message) }.map_err(failed)?;
            false
        }
    };
    enter_sandbox(wanted, is_apart);
    Ok(transport)
}

/// Forks a process into namespaces of its own, if a sandbox is wanted and the system permits it.
///
/// # Safety
/// The process has one thread.
unsafe fn enter_namespaces(wanted: Sandbox) -> NamespaceEntry {
    if wanted == Sandbox::Off {
        return NamespaceEntry::NotPermitted;
    }
    // SAFETY: guaranteed by the caller.
    match unsafe { namespaces::enter() } {
        Ok(entered) => entered,
        Err(error) => fail(NO_SANDBOX, &format!("--sandbox: namespaces: {error}")),
    }
}

/// Waits, in the started process, for the process that serves, and ends as it does.
fn await_end(first: InitProcess) -> ! {
    // Closing the descriptors lets a reader of the code's output see the end of file when the code
    // closes it.
    if let Err(error) = first.close_others() {
        fail(1, &format!("closing inherited descriptors: {error}"));
    }
    waiting::end_alike(first.end(None))
}

fn enter_sandbox(wanted: Sandbox, is_apart: bool) {
    if let Err(problem) = sandbox::enter(wanted, is_apart) {
        fail(NO_SANDBOX, &problem);
    }
}

/// Ends the process at once, whatever its other threads do.
fn leave(code: i32) -> ! {
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(code) }
}

fn fail(code: i32, problem: &str) -> ! {
    eprintln!("longshore-executor: {problem}");
    leave(code)
}
