//! Plugins that run in processes of their own.
//!
//! [`Isolation::open`] starts an executor, which opens the plugin's library, and returns a platform
//! that behaves as the plugin's does. [`proxy`](IsolatedPlatform) implements the plugin interface
//! by calls to the executor, `serve` executes them there, and `protocol` declares their messages.
//! `docs/isolation.md` describes the data that crosses between the processes and the data that does
//! not.
//!
//! If the process ends, whatever the cause, every call on its devices, under way or later, returns
//! an error that reports the end. Opening a device again starts another process.

mod channel;
mod interface;
mod protocol;
mod proxy;
pub(crate) mod serve;

pub use channel::{
    Address, Bulk, BulkTransfer, Channel, Collective, Handler, MOST_IN_COPY, PIECE, RemoteMember,
};
pub use protocol::Digest;
pub use proxy::{
    Attached, Isolated, IsolatedDevice, IsolatedEvent, IsolatedKernel, IsolatedModule,
    IsolatedPlatform, IsolatedProcess, IsolatedQueue, Isolation, OpenOutcome, Proxies, Record,
    Refusal,
};
pub use serve::{FindSender, Images, Server, SharedPlatform};
