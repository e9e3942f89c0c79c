//! LLVM bitcode for Longshore's linker. A module is compiled function by function, at the first
//! calls of the functions, for the process that executes them. This corresponds to `lli
//! -jit-kind=orc-lazy`, with ORC's `CompileOnDemandLayer` and `IRPartitionLayer`.
//!
//! - [`Bitcode`] is a module. It reports its definitions without any compilation, and compiles a
//!   piece of itself on demand. As a [`Source`](longshore_jitlink::lazy::Source), its functions
//!   have entries and are compiled at their first calls. As a
//!   [`Generator`](longshore_jitlink::session::Generator), it compiles a function when a look-up
//!   finds it.
//! - [`Compiler`] is `libLLVM`. Where the caller gives it a process of its own, its failures are
//!   only errors here.
//!
//! ```no_run
//! use std::sync::Arc;
//! use longshore_bitcode::{Bitcode, Compiler};
//! use longshore_compiler::{Compiler as InProcess, LibraryChoice};
//! use longshore_jitlink::Session;
//! use longshore_jitlink::lazy::LazyReexports;
//! use longshore_jitlink::session::ProcessSymbols;
//!
//! // SAFETY: square.bc and its references to this process are as sound as an opened library.
//! let session = unsafe { Session::new() }?;
//! // SAFETY: the system's libLLVM is LLVM's, and clang made square.bc.
//! let llvm = Arc::new(unsafe { InProcess::in_process([]) });
//! let compiler = Compiler::new(llvm, LibraryChoice::Newest)?;
//! let bytes = std::fs::read("square.bc").unwrap();
//! let module = Bitcode::for_session(&session, &compiler, "square.bc", &bytes)?;
//!
//! let library = session.create_library("program");
//! let lazy = LazyReexports::for_session(&session)?;
//! let _files = lazy.lazily(&library, "program").source(Arc::new(module)).add()?;
//! library.add_generator(ProcessSymbols);
//! let square = library.lookup("square")?;
//! // SAFETY: square.bc defines `int square(int)`.
//! let square: extern "C" fn(i32) -> i32 = unsafe { std::mem::transmute(square as usize) };
//! // The function is compiled here.
//! assert_eq!(square(3), 9);
//! # Ok::<(), longshore_jitlink::Error>(())
//! ```
//!
//! Functions that are called at the same time are compiled at the same time, each of them once.
//! The documentation of [`Bitcode`] lists the differences from a module compiled as a whole.
//!
//! Start reading at `bitcode.rs`; `module` reads the module's tables, `partition.rs` divides the
//! module, `compiler` compiles a piece, and `symbols.rs` gives the piece the names by which the
//! others find it.

mod bitcode;
mod compiler;
mod module;
mod partition;
mod slots;
mod symbols;
#[cfg(all(test, target_os = "linux"))]
mod tests;

pub use bitcode::{Bitcode, architecture};
pub use compiler::Compiler;
