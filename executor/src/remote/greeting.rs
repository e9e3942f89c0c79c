//! The greeting of several peers at a time, until one proves that it has the key.

use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::Key;
use super::sealed::{self, AuthenticatedController};

/// Greatest number of peers greeted at a time, and of peers of one address among them. At a limit
/// the longest-running greeting, of the same address at the limit of an address, is given up for
/// the new peer. So silent peers keep no other peer out.
const MOST: usize = 32;
const MOST_OF_ADDRESS: usize = 8;

/// Waits for a peer with the key. Every other peer is given up after `limit` and logged.
///
/// # Errors
/// Every error of the listening socket, which does not block.
pub(super) fn accept(
    socket: &TcpListener,
    key: &Key,
    limit: Duration,
) -> io::Result<AuthenticatedController> {
    let greetings = Greetings::new()?;
    thread::scope(|scope| {
        let accepted = loop {
            if let Err(error) = greetings.wait(socket) {
                break Err(error);
            }
            if let Ok(accepted) = greetings.first.try_recv() {
                break Ok(accepted);
            }
            match socket.accept() {
                Ok((peer, address)) => {
                    let started = greetings.add(&peer, address).and_then(|number| {
                        let (greetings, done) = (&greetings.shared, greetings.done.clone());
                        let greet = move || {
                            greetings.greet(
                                number,
                                address,
                                sealed::reply(peer, key, limit),
                                &done,
                            );
                        };
                        let thread = thread::Builder::new().name("longshore-rpc-greet".to_owned());
                        thread.spawn_scoped(scope, greet).map(drop)
                    });
                    if let Err(error) = started {
                        log::warn!("{address} cannot be greeted: {error}");
                    }
                }
                Err(error) if passes(&error) => {}
                Err(error) => break Err(error),
            }
        };
        greetings.shared.end_all();
        accepted
    })
}

/// Returns whether an error concerns one peer, which is gone already.
fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

struct Greetings {
    shared: Shared,
    done: Sender<AuthenticatedController>,
    first: Receiver<AuthenticatedController>,
}

struct Shared {
    /// Greetings under way, in the order of their start.
    under_way: Mutex<Vec<Greeting>>,
    /// An eventfd, readable when a peer has proved that it has the key.
    is_done: OwnedFd,
}

struct Greeting {
    number: u64,
    network: IpAddr,
    socket: TcpStream,
}

impl Greetings {
    fn new() -> io::Result<Self> {
        let (done, first) = channel();
        let is_done = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Shared { under_way: Mutex::default(), is_done };
        Ok(Self { shared, done, first })
    }

    /// Blocks until a peer connects, or has proved that it has the key.
    fn wait(&self, socket: &TcpListener) -> io::Result<()> {
        let mut files =
            [PollFd::new(socket, PollFlags::IN), PollFd::new(&self.shared.is_done, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a peer, and gives up another one at a limit.
    fn add(&self, peer: &TcpStream, address: SocketAddr) -> io::Result<u64> {
        // On Linux an accepted socket does not inherit the listening socket's flags; on other
        // systems it may.
        peer.set_nonblocking(false)?;
        let (socket, network) = (peer.try_clone()?, network(address.ip()));
        let mut under_way = self.shared.under_way.lock();
        let of_network = under_way.iter().filter(|other| other.network == network).count();
        let victim = match (of_network >= MOST_OF_ADDRESS, under_way.len() >= MOST) {
            (true, _) => under_way.iter().position(|other| other.network == network),
            (false, true) => Some(0),
            (false, false) => None,
        };
        if let Some(victim) = victim {
            end(&under_way.remove(victim));
        }
        let number = under_way.last().map_or(0, |last| last.number + 1);
        under_way.push(Greeting { number, network, socket });
        Ok(number)
    }
}

impl Shared {
    fn greet(
        &self,
        number: u64,
        address: SocketAddr,
        replied: Result<AuthenticatedController, sealed::Failure>,
        done: &Sender<AuthenticatedController>,
    ) {
        self.under_way.lock().retain(|greeting| greeting.number != number);
        match replied {
            Ok(accepted) => {
                // The receiver lives until all threads have ended, so `send` cannot fail.
                let _ = done.send(accepted);
                let _ = rustix::io::write(&self.is_done, &1_u64.to_ne_bytes());
            }
            Err(problem) => log::warn!("{address} was rejected: {problem}"),
        }
    }

    /// Gives up all greetings; their threads end.
    fn end_all(&self) {
        self.under_way.lock().drain(..).for_each(|greeting| end(&greeting));
    }
}

fn end(greeting: &Greeting) {
    // The call fails only for a peer that is gone.
    let _ = greeting.socket.shutdown(Shutdown::Both);
}

/// Returns the part of an address that its owner cannot choose at will.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(bits))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:192.0.2.7"), network("192.0.2.7"));
        assert_ne!(network("192.0.2.7"), network("192.0.2.8"));
    }
}
