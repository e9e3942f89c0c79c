//! Plugins that run in a process of their own.
//!
//! [`Isolation::open`] starts an executor, which opens the plugin's library, and gives a platform that behaves as the plugin's
//! does: [`proxy`](IsolatedPlatform) implements the plugin interface by calls to the executor, `serve` answers them there, and
//! `protocol` is what they say. What crosses, and what does not, is written down in `docs/isolation.md`.
//!
//! If the process ends, whatever the cause, every call that is under way and every later one on its devices answers with an
//! error that says so. Opening a device again starts another process.

mod interface;
mod protocol;
mod proxy;
pub(crate) mod serve;

pub use proxy::{Isolated, IsolatedPlatform, IsolatedProcess, Isolation, Opened, Record, Refusal};
