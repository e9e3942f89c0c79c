//! # The functions of an MPI library, found at run time
//!
//! One binary serves every common MPI library, without its headers and without a C compiler. The
//! library is loaded with `dlopen`, or it is the one that the process has already.
//!
//! - [`Mpi`]: a loaded library. [`Mpi::already_loaded`], [`Mpi::open`] and [`Mpi::open_default`]
//!   find one (`library.rs`); `table.rs` has its functions.
//! - [`Implementation`]: the binary interface of the library, with its [`Constants`](abi).
//! - [`Comm`], [`Request`], [`Group`], [`Datatype`], [`Op`]: handles.
//! - `calls/`: the calls, as methods of [`Mpi`].
//!
//! **Rules of MPI.** They apply unchanged. Most calls need an initialized MPI that is not yet
//! finalized. Below [`ThreadLevel::Multiple`] the caller serializes all calls, and below
//! [`ThreadLevel::Serialized`] only the main thread calls. A handle is a plain value, and copies of
//! it are not tracked: after its release by any copy, no copy may be used. Errors end the process
//! unless [`Mpi::return_errors`] was called for the communicator; errors without a communicator
//! belong to [`Mpi::world`] in MPI 3 and to [`Mpi::self_comm`] since MPI 4.

mod calls;
mod error;
mod handle;
mod library;
mod table;

pub mod abi;

pub use abi::Implementation;
pub use calls::{Element, Operation, Source, Status, Tag, ThreadLevel};
pub use error::{LoadError, MpiError};
pub use handle::{Comm, Datatype, Group, Op, Request};
pub use library::Mpi;
