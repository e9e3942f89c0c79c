//! The in-memory linker: it makes callable code of relocatable ELF objects and static archives,
//! without a file, a compiler or a system linker. It keeps the ideas and names of LLVM's JITLink
//! and ORC.
//!
//! - [`Session`] owns [`Library`]s (ORC's `JITDylib`): named tables of symbols. Objects, archives
//!   and generators are added to them, and addresses are looked up in them. A look-up links the
//!   objects that it needs, and only these.
//! - [`LinkGraph`](graph::LinkGraph) is one object during its link: sections, blocks, symbols and
//!   edges. It is an index over the object's bytes, so its size and the time to build it grow with
//!   the number of sections and nothing else.
//! - [`MemoryManager`](memory::MemoryManager) turns a graph's segments into memory of the
//!   executing process.
//! - [`lazy`] makes functions that can be called before they are linked.
//! - A [`TargetProcess`](process::TargetProcess) is the executing process: this one, or another.
//! - `longshore-orc-rt` is the runtime library of linked code, in the executing process: frames for
//!   unwinding, thread-local storage, exit handlers.
//!
//! ```no_run
//! use longshore_jitlink::session::{ProcessSymbols, Session};
//!
//! // SAFETY: square.o, and its uses of this process, are as sound as a library that is opened.
//! let session = unsafe { Session::new() }?;
//! let library = session.create_library("program");
//! library.add("square.o", std::fs::read("square.o").unwrap().into())?;
//! library.add_generator(ProcessSymbols);
//! let square = library.lookup("square")?;
//! // SAFETY: square.o defines `int square(int)`.
//! let square: extern "C" fn(i32) -> i32 = unsafe { std::mem::transmute(square as usize) };
//! assert_eq!(square(3), 9);
//! # Ok::<(), longshore_jitlink::Error>(())
//! ```
//!
//! C++ exceptions, thread-local variables, constructors, destructors, COMDAT groups and indirect
//! functions work. Debuggers and profilers see the code if [`debug`] enables them.
//! `examples/run.rs` runs a program from its objects.
//!
//! Start reading at [`session`], which drives the steps in their order: read, prune, resolve, lay
//! out, allocate, fix up, finalize.

pub mod arch;
pub mod debug;
mod elf;
pub mod error;
pub mod graph;
pub mod lazy;
mod lookup;
pub mod memory;
pub mod process;
pub mod session;
mod wait;

pub use arch::Architecture;
pub use error::{Error, Place, RelocationError, Result, Undefined};
pub use session::{Library, Object, Session};
pub use wait::wait;
