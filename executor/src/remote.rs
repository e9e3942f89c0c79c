//! Executors on other machines, over TCP: both sides prove that they have the same key, and all
//! data is encrypted.
//!
//! The protocol is Noise `NNpsk0` with Curve25519, ChaCha20-Poly1305 and BLAKE2s. The keys of a
//! connection are new each time, so a recorded connection stays secret even if the shared key leaks
//! later. A peer with the key can have this side do anything that the process may do.

mod greeting;
mod key;
mod progress;
mod sealed;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

pub use key::{Key, KeyError};
pub(crate) use sealed::LastMessageSender;

use crate::rpc::{Connection, Options, Service, Transport};
use sealed::Failure;

/// The reason for a failed connection to the other side.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Failure of the TCP connection.
    #[error("{address}: {source}")]
    Network {
        /// The address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// Timeout of the greeting.
    #[error(
        "{address}: no answer within {limit:?}: no executor listens there, or it is too busy to greet"
    )]
    Silent {
        /// The address.
        address: String,
        /// The time allowed.
        limit: Duration,
    },
    /// End of the connection before either side had proved that it has the key.
    #[error(
        "{address}: the other side closed the connection: its key differs, it already has a controller, or more peers connect \
         than it can greet"
    )]
    Closed {
        /// The address.
        address: String,
    },
    /// Failure of the other side to prove that it has the key, or another failure of the greeting.
    #[error("{address}: the other side does not prove that it has the same key: {problem}")]
    Refused {
        /// The address.
        address: String,
        /// The cause.
        problem: String,
    },
    /// Failure of the connection's own greeting over the encrypted stream.
    #[error("{address}: {why}")]
    Greeting {
        /// The address.
        address: String,
        /// The cause.
        why: crate::rpc::EndReason,
    },
}

/// A listener for controllers at an address. Nothing listens unless a caller creates one.
pub struct Listener {
    socket: TcpListener,
    key: Key,
    limit: Duration,
}

impl Listener {
    /// Creates a listener at an address.
    ///
    /// # Errors
    /// [`RemoteError::Network`] if the address cannot be bound.
    pub fn bind(address: impl ToSocketAddrs + ToString, key: Key) -> Result<Self, RemoteError> {
        let text = address.to_string();
        let bound = TcpListener::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match bound {
            Ok(socket) => Ok(Self { socket, key, limit: GREETING }),
            Err(source) => Err(RemoteError::Network { address: text, source }),
        }
    }

    /// Returns the address on which it listens.
    ///
    /// # Errors
    /// Every error of the socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sets the time allowed to a peer for the whole greeting; the default is 10 s.
    #[must_use]
    pub fn with_greeting_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Waits for a controller that has the key. Blocks. Other peers are rejected and logged.
    ///
    /// Up to 32 peers are greeted at a time, and 8 of one address (of one /64 of IPv6), each by its
    /// own thread. When a limit is reached, the longest-running greeting is given up for the new
    /// peer. No thread is left when this returns.
    ///
    /// # Errors
    /// Every error of the listening socket.
    pub fn accept(&self) -> io::Result<Transport> {
        self.accept_with_last_message().map(|(transport, _)| transport)
    }

    /// Accepts a controller as [`Listener::accept`] does. Also returns the means to report the end
    /// of the process that has the connection.
    ///
    /// # Errors
    /// As for [`Listener::accept`].
    pub(crate) fn accept_with_last_message(&self) -> io::Result<(Transport, LastMessageSender)> {
        let accepted = greeting::accept(&self.socket, &self.key, self.limit)?;
        Ok((accepted.transport, accepted.last_message))
    }
}

/// Connects to an executor that listens. Blocks for up to 10 s for each address of the name, for up
/// to 10 s for the proof of the key, and then as [`Connection::open`] does.
///
/// # Errors
/// The reason for the failed connection.
pub fn connect(
    address: &str,
    key: &Key,
    options: Options,
    service: Arc<dyn Service>,
) -> Result<Connection, RemoteError> {
    let address = address.to_owned();
    let network = |source| RemoteError::Network { address: address.clone(), source };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut socket = None;
    for candidate in address.to_socket_addrs().map_err(network)? {
        match TcpStream::connect_timeout(&candidate, CONNECTING) {
            Ok(connected) => {
                socket = Some(connected);
                break;
            }
            Err(error) => last = error,
        }
    }
    let Some(socket) = socket else { return Err(network(last)) };
    let transport = sealed::ask(socket, key, GREETING).map_err(|failure| {
        let address = address.clone();
        match failure {
            Failure::Silent(limit) => RemoteError::Silent { address, limit },
            Failure::Closed => RemoteError::Closed { address },
            Failure::Refused(problem) => RemoteError::Refused { address, problem },
        }
    })?;
    Connection::open(transport, options, service)
        .map_err(|why| RemoteError::Greeting { address, why })
}

/// Default time limit of the greeting.
const GREETING: Duration = Duration::from_secs(10);

/// Time limit of the TCP connection to one address.
const CONNECTING: Duration = Duration::from_secs(10);
