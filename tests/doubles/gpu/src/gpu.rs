//! A GPU process, seen from the driver.

use crate::protocol::{self, Fault, FaultKind, Reply, Request, Symbol};
use crate::window::{self, MOST_SLOTS, Window};
use parking_lot::Mutex;
use rustix::net::SendFlags;
use std::io::{self, Error};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// A GPU process. Dropping it kills the process, idle or not.
pub(crate) struct Gpu {
    child: Mutex<Child>,
    control: Mutex<UnixStream>,
    name: String,
    slot: usize,
}

/// A connection for work in order.
pub(crate) struct Connection(UnixStream);

/// Used slots, one bit for each.
static SLOTS: Mutex<u64> = Mutex::new(0);

impl Gpu {
    /// Starts the program `longshore-double-gpu`, and waits until it is ready.
    ///
    /// # Errors
    /// A process that does not start, or a lack of free slots.
    pub(crate) fn start<'a>(
        program: &Path,
        windows: impl IntoIterator<Item = &'a Window>,
    ) -> io::Result<Gpu> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let (driver, number) = (std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let name = format!("longshore-double-gpu-{driver}-{number}");
        let (ours, theirs) = UnixStream::pair()?;
        let slot = take_slot()?;
        let mut command = Command::new(program);
        command.arg(driver.to_string()).arg(&name).arg(window::code_end(slot).to_string());
        for window in windows {
            command.arg(format!("{}:{}", window.base(), window.file()));
        }
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let started = command.spawn().map_err(|error| {
            free_slot(slot);
            Error::new(error.kind(), format!("starting {}: {error}", program.display()))
        });
        let (child, control) = (Mutex::new(started?), Mutex::new(ours));
        // The command holds a copy of the other end, which must close when the process ends: the
        // driver sees the end of the process by that.
        drop(command);
        let gpu = Gpu { child, control, name, slot };
        protocol::receive(&*gpu.control.lock())?;
        Ok(gpu)
    }

    /// Opens a connection for work in order.
    ///
    /// # Errors
    /// A process that is gone.
    pub(crate) fn connect(&self) -> io::Result<Connection> {
        let name = SocketAddr::from_abstract_name(&self.name)?;
        Ok(Connection(UnixStream::connect_addr(&name)?))
    }

    /// Sends a request outside all ordered work. Blocks until the reply.
    ///
    /// # Errors
    /// The request's failure; `Other` if the process is gone.
    pub(crate) fn ask(&self, request: &Request) -> Reply {
        ask(&self.control.lock(), request)
    }

    /// Looks up a name in a module. Blocks until the reply.
    ///
    /// # Errors
    /// A process that is gone.
    pub(crate) fn find(&self, module: u64, name: &str) -> Result<Option<Symbol>, Fault> {
        let answer = self.ask(&Request::Find { module, name: name.to_owned() })?;
        Ok(Symbol::decode(&answer))
    }

    /// Returns a function's profile counters in a module. `function` is the hash of the function's
    /// name in the profile's record. Blocks until the reply.
    ///
    /// # Errors
    /// A process that is gone.
    pub(crate) fn counters(&self, module: u64, function: u64) -> Result<Option<Symbol>, Fault> {
        let answer = self.ask(&Request::Counters { module, function })?;
        Ok(Symbol::decode(&answer))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        // The process may have ended already.
        let _ = child.kill();
        let _ = child.wait();
        free_slot(self.slot);
    }
}

impl Connection {
    /// Sends a request. Blocks until the reply.
    ///
    /// # Errors
    /// The request's failure; `Other` if the process is gone.
    pub(crate) fn ask(&self, request: &Request) -> Reply {
        ask(&self.0, request)
    }
}

fn ask(connection: &UnixStream, request: &Request) -> Reply {
    let gone = |error: Error| Fault {
        kind: FaultKind::Other,
        message: format!("the GPU process is gone: {error}"),
    };
    protocol::send(NoSigpipeWriter(connection), &request.encode()).map_err(gone)?;
    let answer = protocol::receive(connection).map_err(gone)?;
    protocol::decode_reply(&answer).unwrap_or_else(|| Err(gone(Error::other("no answer"))))
}

/// A writer that raises no SIGPIPE, which would kill a program that does not ignore the signal.
struct NoSigpipeWriter<'a>(&'a UnixStream);

impl io::Write for NoSigpipeWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn take_slot() -> io::Result<usize> {
    let mut slots = SLOTS.lock();
    let slot = slots.trailing_ones() as usize;
    if slot >= MOST_SLOTS {
        return Err(Error::other(format!("{MOST_SLOTS} GPU processes run already")));
    }
    *slots |= 1 << slot;
    Ok(slot)
}

fn free_slot(slot: usize) {
    *SLOTS.lock() &= !(1 << slot);
}
