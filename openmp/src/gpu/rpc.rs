//! Calls of device code to the host, by the protocol of LLVM's libc for GPUs.
//!
//! Device code and host share a buffer of ports. A port has a mailbox for each side, a header and a
//! packet for each lane of a warp. A side that sees its mailboxes in a certain state owns the
//! packets: the client (device) if they are equal, the server (host) if they differ.
//!
//! - `layout.rs` has the buffer and the structures that LLVM's code shares.
//! - `port.rs` sends and receives packets; `opcodes.rs` names calls.
//! - `serve.rs` answers calls, with `print.rs` for formats and `streams.rs` for files.
//! - `server.rs` has the thread that serves an image, `users.rs` its clients.
//!
//! Contents of the buffer are never trusted: lengths are bounded, and handles are looked up. The
//! exception is a call of a host function, whose address comes from the program's own code.

mod layout;
mod memory;
mod opcodes;
mod port;
mod print;
mod serve;
mod server;
mod streams;
mod users;

pub(crate) use serve::register;
pub(crate) use server::Server;
pub(crate) use users::{Serving, Users};

#[cfg(test)]
mod tests;
