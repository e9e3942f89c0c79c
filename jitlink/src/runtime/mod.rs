//! What linked code needs while it runs, in the process in which it runs: unwind tables, exit handlers, thread-local
//! storage.
//!
//! Linked code reaches this through addresses: a function that stands in for one of libc's, a handle in a slot of its
//! global offset table, an action of its allocation. Everything works in an executable and in a shared library that is
//! opened and closed while the process runs. A thread that holds something of this module (a thread-local block, a
//! destructor to run) keeps the library mapped until it ends.
//!
//! Linked code passes in nothing but such an address, from any thread. So some state cannot belong to a session:
//!
//! - the exit scopes that are alive, by address: only so can a `__dso_handle` be told from one of another library
//!   ([`exit`]);
//! - the thread-local modules that are alive, and for each thread a table of its blocks ([`tls`]);
//! - a counter that numbers threads;
//! - a lock for pages of the process's images that are writable for a moment: those with the reserves of [`static_tls`], which
//!   the executable declares, and with the slots that are rebound to copies of data;
//! - which data of the process's libraries copies have taken the place of;
//! - on x86-64, how much vector state the processor has ([`tls_descriptor`]).

mod bottom;
pub mod exit;
mod frame_records;
mod images;
pub(crate) mod indirect;
pub(crate) mod process_data;
pub mod process_tls;
pub(crate) mod rebind;
pub mod reentry;
pub mod static_tls;
mod thread;
pub mod tls;
pub mod tls_descriptor;
pub mod unwind;

pub use bottom::call_at_bottom;
pub use exit::ExitScope;
pub(crate) use exit::Handler;
pub use process_tls::ProcessTls;
pub use static_tls::{StaticTls, StaticTlsBlock};
pub use thread::thread_pointer;
pub use tls::TlsModule;
