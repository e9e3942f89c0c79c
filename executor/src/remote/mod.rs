//! Executors on other machines, over TCP: both sides prove that they have the same key, and everything is encrypted.
//!
//! It is the Noise protocol `NNpsk0`, with Curve25519, ChaCha20-Poly1305 and BLAKE2s: keys of the connection are new each time, so
//! that what was recorded cannot be read by who gets the shared key later. Who has the key can have this side do anything that the
//! process may do.

mod key;
mod sealed;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

pub use key::{Key, KeyError};

use crate::rpc::{Connection, Options, Service, Transport};

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
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// [`RemoteError::Network`].
    pub fn bind(address: impl ToSocketAddrs + ToString, key: Key) -> Result<Self, RemoteError> {
        let text = address.to_string();
        match TcpListener::bind(address) {
            Ok(socket) => Ok(Self { socket, key }),
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

    /// Waits for a controller that has the key. Blocks. Others are sent away, which the log tells of.
    ///
    /// # Errors
    /// Those of the listening socket.
    pub fn accept(&self) -> io::Result<Transport> {
        loop {
            let (socket, address) = self.socket.accept()?;
            match sealed::answer(socket, &self.key) {
                Ok(transport) => return Ok(transport),
                Err(problem) => log::warn!("{address} was sent away: {problem}"),
            }
        }
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
    let transport = sealed::ask(socket, key)
        .map_err(|problem| RemoteError::Refused { address: address.clone(), problem })?;
    Connection::open(transport, options, service)
        .map_err(|why| RemoteError::Greeting { address, why })
}

/// How long a machine may take to answer.
const CONNECTING: Duration = Duration::from_secs(10);
