//! Executors on other machines, over TCP: both sides prove that they have the same key, and everything is encrypted.
//!
//! It is the Noise protocol `NNpsk0`, with Curve25519, ChaCha20-Poly1305 and BLAKE2s: keys of the connection are new each time, so
//! that what was recorded cannot be read by who gets the shared key later. Who has the key can have this side do anything that the
//! process may do.

mod greeting;
mod key;
mod progress;
mod sealed;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

pub use key::{Key, KeyError};
pub(crate) use sealed::Epitaph;

use crate::rpc::{Connection, Options, Service, Transport};
use sealed::Failure;

/// Why there is no connection to the other side.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No connection of TCP.
    #[error("{address}: {source}")]
    Network {
        /// Where.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The other side did not say enough in time.
    #[error(
        "{address}: no answer within {limit:?}: nothing there greets as an executor does, or it is too busy to"
    )]
    Silent {
        /// Where.
        address: String,
        /// The time that was allowed.
        limit: Duration,
    },
    /// The other side closed the connection before either had proved anything.
    #[error(
        "{address}: the other side closed the connection: its key is another one, it has a controller already, or more peers come \
         than it greets"
    )]
    Closed {
        /// Where.
        address: String,
    },
    /// The other side does not have the key, or is something else.
    #[error("{address}: the other side does not prove that it has the same key: {problem}")]
    Refused {
        /// Where.
        address: String,
        /// What went wrong.
        problem: String,
    },
    /// There is no connection above that.
    #[error("{address}: {why}")]
    Greeting {
        /// Where.
        address: String,
        /// Why.
        why: crate::rpc::Ended,
    },
}

/// Waits for controllers at an address. Nothing listens unless this is asked for.
pub struct Listener {
    socket: TcpListener,
    key: Key,
    limit: Duration,
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// [`RemoteError::Network`].
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

    /// Where it listens.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Gives peers this time for the whole greeting: 10 s, unless said otherwise.
    #[must_use]
    pub fn with_greeting_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Waits for a controller that has the key. Blocks. Others are sent away, which the log tells of.
    ///
    /// Up to 32 peers are greeted at a time, and 8 of one address (of one /64 of IPv6), each by a thread of its own. For one more the one
    /// is given up that has been greeted the longest. No thread is left when this returns.
    ///
    /// # Errors
    /// Those of the listening socket.
    pub fn accept(&self) -> io::Result<Transport> {
        self.accept_with_epitaph().map(|(transport, _)| transport)
    }

    /// The same, with the means to tell the controller how the process ended that had the connection.
    ///
    /// # Errors
    /// As for [`Listener::accept`].
    pub(crate) fn accept_with_epitaph(&self) -> io::Result<(Transport, Epitaph)> {
        let accepted = greeting::accept(&self.socket, &self.key, self.limit)?;
        Ok((accepted.transport, accepted.epitaph))
    }
}

/// Connects to an executor that listens. Blocks, for some seconds at most.
///
/// # Errors
/// Why there is no connection.
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

/// How long becoming acquainted may take.
const GREETING: Duration = Duration::from_secs(10);

/// How long a machine may take to answer.
const CONNECTING: Duration = Duration::from_secs(10);
