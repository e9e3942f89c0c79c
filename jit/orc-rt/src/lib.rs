//! The runtime of linked code in its process: unwind tables, exit handlers, thread-local storage,
//! the process's own symbols. This crate does the work of ORC's runtime and its target-process
//! services.
//!
//! The controller of the process is the process that links, which is the same or another one: a
//! process that only executes code has this crate, and not the linker. The controller obtains
//! addresses by name ([`bootstrap_symbols`]) and calls [wrapper functions](wrapper), most of them
//! [services](service). Code of the process calls the controller by [`callback`].
//!
//! Linked code reaches this crate through addresses: a replacement of a libc function, a handle in
//! a slot of its global offset table, an action of its allocation. Everything works in an
//! executable, and in a shared library that is opened and closed while the process runs. A thread
//! that holds a resource of this crate (a thread-local block, a destructor to run) keeps the
//! library mapped until the thread ends.
//!
//! Linked code passes only such an address, from any thread. So some state cannot belong to a
//! session:
//!
//! - the live exit scopes, by address: they distinguish a `__dso_handle` of theirs from another
//!   library's ([`exit`]);
//! - the live thread-local modules, and for each thread a table of its blocks ([`tls`]);
//! - the function that calls constructors and similar code, where the process guards them
//!   ([`set_caller`]);
//! - a counter that numbers threads;
//! - a lock for pages of the process's images that are writable for a moment: pages with reserves
//!   of [`static_tls`] and with slots rebound to copies of data;
//! - the record of data of the process's libraries that was replaced by copies;
//! - the threads known to exist before code with static thread-local storage is linked, and the
//!   reserve that the executable has provided;
//! - objects that services have made for a controller, possibly in another process, by the numbers
//!   that it knows ([`service`]);
//! - the handlers of calls to the controller ([`callback`]);
//! - the handlers that resolve calls through trampolines ([`reentry`]);
//! - on x86-64, the size of the processor's vector state ([`tls_descriptor`]).

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
