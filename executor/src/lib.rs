//! Processes that execute code and plugins for a program, and the side that controls them. It does what ORC's `SimpleRemoteEPC`
//! and `llvm-jitlink-executor` do, and has plugins run in a process of their own.
//!
//! - A [`Connection`](rpc::Connection) carries calls both ways: through shared memory on one machine, over any stream elsewhere, over
//!   TCP with a key ([`remote`]).
//! - An [`Executor`](controller::Executor) is a process that was started and is controlled; [`Spawn`](controller::Spawn) starts it. It
//!   ends when that is dropped, or when the controlling process ends.
//! - An [`ExecutorProcess`](controller::ExecutorProcess) is one for which `longshore-jitlink` links.
//! - An [`Isolation`](plugin::Isolation) opens a plugin in one, whose devices behave as if the plugin were here.
//!
//! ```no_run
//! use std::sync::Arc;
//! use longshore_executor::controller::{Executor, Spawn};
//! # use longshore_executor::rpc::{Peer, Service};
//! # struct Nothing;
//! # impl Service for Nothing {
//! #     fn call(&self, _: &Arc<Peer>, _: u32, _: &[u8]) -> Result<Vec<u8>, String> { Ok(Vec::new()) }
//! #     fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
//! # }
//!
//! let executor: Executor = Spawn::new("/usr/local/libexec/longshore/longshore-executor").start(Arc::new(Nothing))?;
//! // Method 0 answers with what it is given.
//! assert_eq!(executor.peer().call(0, b"who is there?")?, b"who is there?");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The program of the process is [`target::main`]; it links neither the linker nor the host. What a side reads from the other is
//! checked, and bounded: a process that goes wrong costs its controller an error, and no more.
//!
//! Start reading at [`rpc`], then [`controller`] and `target`; [`plugin`] stands on both.

pub mod arena;
pub mod controller;
pub mod plugin;
mod protocol;
mod ranges;
mod readiness;
pub mod remote;
pub mod rpc;
pub mod target;
