//! A peer that breaks the protocol, for the tests and for fuzzing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use longshore_executor::rpc::{Connection, EndReason, Options, Peer, Service, Transport, VERSION};

/// A service that answers all calls.
struct Willing;

impl Service for Willing {
    fn call(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        if method.is_multiple_of(2) { Ok(argument.to_vec()) } else { Err("odd".to_owned()) }
    }

    fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
}

/// Returns the greeting of a peer, with or without memory.
pub(crate) fn greeting(shares_memory: bool) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(b"LNGSHREX");
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12] = u8::from(shares_memory);
    bytes[16..24].copy_from_slice(&(Transport::LINK_BYTES as u64).to_le_bytes());
    bytes
}

/// Runs a peer that greets, sends these bytes, and goes. Returns the end of the connection for each
/// side.
pub(crate) fn says(bytes: &[u8]) -> [EndReason; 2] {
    [true, false].map(|controls| {
        let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
        let (transport, limit) = (transport(ours, controls), Some(Duration::from_secs(5)));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut theirs = theirs;
                let _ = theirs.write_all(&greeting(false));
                let _ = theirs.write_all(bytes);
                let _ = theirs.shutdown(std::net::Shutdown::Write);
                let _ = theirs.set_read_timeout(limit);
                while matches!(theirs.read(&mut [0; 4096]), Ok(1..)) {}
            });
            match Connection::open(transport, Options::default(), Arc::new(Willing)) {
                Ok(connection) => connection.wait_for_end(),
                Err(ended) => ended,
            }
        })
    })
}

/// Runs a peer that writes into shared memory: each time 4 bytes give the offset, and the next byte
/// the number of bytes. Returns the end of the connection when the peer goes.
pub(crate) fn writes(bytes: &[u8]) -> EndReason {
    let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
    let memory = memory();
    let file = memory.try_clone().expect("there are descriptors");
    let theirs = Transport::controller(theirs, Some(file));
    std::thread::scope(|scope| {
        let executor = scope.spawn(|| {
            let transport = Transport::executor(ours);
            match Connection::open(transport, Options::default(), Arc::new(Willing)) {
                Ok(connection) => connection.wait_for_end(),
                Err(ended) => ended,
            }
        });
        let options = Options::default();
        let controller = Connection::open(theirs, options, Arc::new(Willing))
            .expect("both keep the protocol as yet");
        let mut rest = bytes;
        while let Some((head, tail)) = rest.split_first_chunk::<5>() {
            let place = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let (data, tail) = tail.split_at(usize::from(head[4]).min(tail.len()));
            let place = u64::from(place) % (Transport::LINK_BYTES as u64 - 256);
            let _ = rustix::io::pwrite(&memory, data, place);
            rest = tail;
            // A post makes the other side read the ring.
            let _ = controller.post(1, data);
        }
        controller.end(EndReason::Here);
        executor.join().expect("it does not panic")
    })
}

fn transport(socket: UnixStream, controls: bool) -> Transport {
    if controls { Transport::controller(socket, None) } else { Transport::executor(socket) }
}

fn memory() -> std::os::fd::OwnedFd {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("test", flags).expect("there are descriptors");
    rustix::fs::ftruncate(&file, Transport::LINK_BYTES as u64).expect("it is a file");
    file
}
