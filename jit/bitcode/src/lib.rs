//! LLVM bitcode for Longshore's linker: a module is compiled function by function, when its functions are called, for the process that
//! executes them. It is what `lli -jit-kind=orc-lazy` does, with ORC's `CompileOnDemandLayer` and `IRPartitionLayer`.
//!
//! - [`Bitcode`] is a module. It says what it defines without compiling anything, and has a piece of itself compiled when that is asked
//!   for. It is a [`Source`](longshore_jitlink::lazy::Source), so that its functions have entries and are compiled by their first
//!   calls; and a [`Generator`](longshore_jitlink::session::Generator), for who wants a function compiled when it is looked up.
//! - [`Compiler`] is clang and `llvm-extract`, run as processes: what happens to them is an error here, and no more.
//!
//! ```no_run
//! use std::sync::Arc;
//! use longshore_bitcode::{Bitcode, Compiler};
//! use longshore_jitlink::Session;
//! use longshore_jitlink::lazy::LazyReexports;
//! use longshore_jitlink::session::ProcessSymbols;
//!
//! // SAFETY: square.bc, and what it uses of this process, is as sound to have as a library that is opened.
//! let session = unsafe { Session::new() }?;
//! let compiler = Compiler::find("/usr/local/bin:/usr/bin".as_ref())?;
//! let module = Bitcode::for_session(&session, &compiler, "square.bc", &std::fs::read("square.bc").unwrap())?;
//!
//! let library = session.create_library("program");
//! let lazy = LazyReexports::for_session(&session)?;
//! let _files = lazy.lazily(&library, "program").source(Arc::new(module)).add()?;
//! library.add_generator(ProcessSymbols);
//! let square = library.lookup("square")?;
//! // SAFETY: square.bc defines `int square(int)`.
//! let square: extern "C" fn(i32) -> i32 = unsafe { std::mem::transmute(square as usize) };
//! // Here it is compiled.
//! assert_eq!(square(3), 9);
//! # Ok::<(), longshore_jitlink::Error>(())
//! ```
//!
//! Functions are compiled at once that are called at once, each one once. [`Bitcode`] says what is different from a module that is
//! compiled whole.
//!
//! Start reading at `bitcode.rs`; `module` reads what there is, `partition.rs` takes it apart, `compiler` compiles a piece, and
//! `symbols.rs` gives it the names by which the others find it.

mod bitcode;
mod compiler;
mod module;
mod partition;
mod symbols;
#[cfg(all(test, target_os = "linux"))]
mod tests;

pub use bitcode::{Bitcode, architecture};
pub use compiler::{Compiler, Limits};
