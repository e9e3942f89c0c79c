//! The work of the GPU process.
//!
//! The process first arranges its addresses as the driver expects ([`space`]). Then it replies on
//! the control connection, which is its standard input, and on one more connection for each stream
//! of work.

mod counters;
mod modules;
mod services;
mod space;

use longshore_double_gpu::protocol::{self, Fault, Reply, Request};
use longshore_double_gpu::window;
use longshore_plugin_api::{Connected, Device, Platform, Plugin};
use longshore_plugin_host::{HostBackend, HostDevice, HostQueue};
use modules::Modules;
use std::io::{self, Error};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;

/// Replies to requests until the control connection is closed. `Gpu::start` passes the arguments.
///
/// # Errors
/// Files or addresses of the driver that cannot be used.
pub(crate) fn run(arguments: &[String]) -> io::Result<()> {
    let [driver, name, code_end, windows @ ..] = arguments else {
        return Err(Error::other("no arguments"));
    };
    space::take_all_above(code_end.parse().map_err(Error::other)?)?;
    for window in windows {
        space::map_window(driver, window)?;
    }
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    let processor = Arc::new(Processor::new()?);
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // This message announces that the process accepts connections from now on.
    protocol::send(&control, &[])?;
    let shared = Arc::clone(&processor);
    std::thread::spawn(move || accept(&listener, &shared));
    processor.serve(&control);
    Ok(())
}

fn accept(listener: &UnixListener, processor: &Arc<Processor>) {
    for line in listener.incoming().flatten() {
        let processor = Arc::clone(processor);
        std::thread::spawn(move || processor.serve(&line));
    }
}

/// The state that all connections share.
struct Processor {
    device: HostDevice,
    modules: Modules,
}

impl Processor {
    fn new() -> io::Result<Processor> {
        let connected = HostBackend::connect(services::none()).map_err(Error::other)?;
        let Connected::Platform(platform) = connected else {
            return Err(Error::other("the CPU's backend has no device"));
        };
        let device = platform.open(0).map_err(Error::other)?;
        Ok(Processor { device, modules: Modules::default() })
    }

    /// Replies to the requests of a connection in their order, until the connection ends.
    fn serve(&self, connection: &UnixStream) {
        let Ok(queue) = self.device.create_queue() else { return };
        while let Ok(message) = protocol::receive(connection) {
            let reply = match Request::decode(&message) {
                Some(request) => self.reply(&queue, request),
                None => Err(Fault::refused("not a request")),
            };
            if protocol::send(connection, &protocol::encode_reply(&reply)).is_err() {
                return;
            }
        }
    }

    fn reply(&self, queue: &HostQueue, request: Request) -> Reply {
        match request {
            Request::Protect { address, bytes, accessible } => {
                done(window::protect(address, bytes, accessible))
            }
            Request::Load { module, object } => self.modules.load(&self.device, module, object),
            Request::Unload { module } => self.modules.unload(module),
            Request::Find { module, name } => self.modules.find(module, &name),
            Request::Counters { module, function } => self.modules.counters(module, function),
            Request::Read { address, bytes } => Ok(space::read(address, bytes)),
            Request::Write { address, contents } => done(space::write(address, &contents)),
            Request::Launch(launch) => self.modules.launch(queue, &launch),
            Request::Life { module, ends } => self.modules.life(module, ends),
            Request::Call { module, functions } => self.modules.call(queue, module, &functions),
        }
    }
}

fn done(result: io::Result<()>) -> Reply {
    match result {
        Ok(()) => Ok(Vec::new()),
        Err(error) => Err(Fault::refused(error.to_string())),
    }
}
