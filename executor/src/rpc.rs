//! Calls between two processes, over any stream of bytes, and through shared memory where both
//! sides have some.
//!
//! A [`Connection`] is one end. Either side calls the other. Many calls can be under way, their
//! replies come in any order, and a handler may call back. A [`Service`] executes a side's incoming
//! calls.
//!
//! With shared memory a call is put into a ring there, and its reply into the slot on which the
//! caller sleeps or spins. The stream carries large messages and reveals the end of the other side.
//! Without shared memory all messages use the stream.
//!
//! Both sides must have the same [`VERSION`], and each message is bounded. This side replies to any
//! message of the other side or ends the connection. It never blocks without end, reads beyond a
//! message, or allocates more than a message may have. All calls under way at the end of a
//! connection return at once, with the reason.

mod adaptive_spin;
mod connection;
mod error;
mod fork;
mod futex;
mod link;
mod pool;
mod ring;
mod slots;
mod transport;
mod wire;
mod worker;

pub use connection::{Connection, Options, Peer, SentCall, Service};
pub use error::{CallError, EndReason, ProcessExit};
pub(crate) use fork::CreatorProcess;
pub use transport::Transport;
pub use wire::{MAX_CONTENT, VERSION};
