//! Calls between two processes, over any stream of bytes, and through shared memory where both sides have some.
//!
//! A [`Connection`] is one end. Either side calls the other: many calls can be under way, are answered in any order, and what
//! answers one may call back. A [`Service`] is what a side does when it is called.
//!
//! With shared memory a call is put into a ring there, and answered in the slot on which its caller sleeps or spins: the
//! stream carries what is large, and tells that the other side has gone. Without it everything goes over the stream.
//!
//! Both sides must be of the same [`VERSION`], and each message is bounded. Whatever the other side sends, this side answers, or
//! ends the connection: it never blocks for good, reads beyond a message, or allocates more than a message may have. All calls that
//! are under way when a connection ends return at once, with why it ended.

mod connection;
mod error;
mod fork;
mod futex;
mod link;
mod patience;
mod pool;
mod ring;
mod slots;
mod transport;
mod wire;
mod worker;

pub use connection::{Connection, Options, Peer, Service, Started};
pub use error::{CallError, Death, Ended};
pub(crate) use fork::Birthplace;
pub use transport::Transport;
pub use wire::{MAX_CONTENT, VERSION};
