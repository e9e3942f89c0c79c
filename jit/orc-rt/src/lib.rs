//! What linked code needs in the process in which it runs: unwind tables, exit handlers, thread-local storage, the process's own
//! symbols. It does what ORC's runtime and its target-process services do.
//!
//! The process is controlled by the one that links, which is the same or another: a process that only executes has this crate, and not
//! the linker. The controller learns addresses by name ([`bootstrap_symbols`]) and has things done by calling
//! [wrapper functions](wrapper), most of them [services](service). Code of the process calls the controller by [`callback`].
//!
//! Linked code reaches this through addresses: a function that stands in for one of libc's, a handle in a slot of its
//! global offset table, an action of its allocation. Everything works in an executable and in a shared library that is
//! opened and closed while the process runs. A thread that holds something of this crate (a thread-local block, a
//! destructor to run) keeps the library mapped until it ends.
//!
//! Linked code passes in nothing but such an address, from any thread. So some state cannot belong to a session:
//!
//! - the exit scopes that are alive, by address: only so can a `__dso_handle` be told from one of another library
//!   ([`exit`]);
//! - the thread-local modules that are alive, and for each thread a table of its blocks ([`tls`]);
//! - how constructors and their like are called, where the process guards them ([`set_caller`]);
//! - a counter that numbers threads;
//! - a lock for pages of the process's images that are writable for a moment: those with the reserves of [`static_tls`], which
//!   the executable declares, and with the slots that are rebound to copies of data;
//! - which data of the process's libraries copies have taken the place of;
//! - the threads of which it is known that they exist before code is linked that has static thread-local storage, and the reserve
//!   that the executable has given;
//! - what services have made for a controller that may be in another process, by the numbers that it knows ([`service`]);
//! - who answers calls to the controller ([`callback`]);
//! - who is asked where calls through trampolines go on ([`reentry`]);
//! - on x86-64, how much vector state the processor has ([`tls_descriptor`]).

pub mod actions;
mod bootstrap;
mod bottom;
pub mod callback;
mod code_library;
mod error;
pub mod exit;
mod frame_records;
mod images;
pub mod indirect;
mod late_static_tls;
pub mod memory_file;
pub mod names;
mod open_name;
pub mod pages;
pub mod process_data;
pub mod process_tls;
pub mod rebind;
pub mod reentry;
#[cfg(test)]
mod registers;
pub mod service;
pub mod static_tls;
mod thread;
pub mod tls;
pub mod tls_descriptor;
pub mod unwind;
#[cfg(target_arch = "x86_64")]
mod vector_state;
pub mod wrapper;

pub use bootstrap::{bootstrap_symbols, set_static_tls, triple};
pub use bottom::{Caller, call_at_bottom, call_unguarded, set_caller};
pub use error::{Error, Result};
pub use exit::ExitScope;
pub use open_name::OpenName;
pub use process_tls::ProcessTls;
pub use static_tls::{StaticTls, StaticTlsBlock};
pub use thread::thread_pointer;
pub use tls::TlsModule;
