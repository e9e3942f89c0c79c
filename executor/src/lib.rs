//! Processes that execute code and plugins for a program, and the controller of such processes.
//! This crate does the work of ORC's `SimpleRemoteEPC` and `llvm-jitlink-executor`, and also runs
//! plugins in processes of their own.
//!
//! - A [`Connection`](rpc::Connection) carries calls in both directions: through shared memory on
//!   one machine, over any stream elsewhere, over TCP with a key ([`remote`]).
//! - An [`Executor`](controller::Executor) is a process that the controller has started;
//!   [`Spawn`](controller::Spawn) starts it. It ends when its `Executor` is dropped, or when the
//!   controlling process ends.
//! - An [`ExecutorProcess`](controller::ExecutorProcess) is an executor as a target of
//!   `longshore-jitlink`.
//! - An [`Isolation`](plugin::Isolation) opens a plugin in an executor, and the plugin's devices
//!   behave as if the plugin were in this process.
//! - A [`CompilerProcess`](compiler::CompilerProcess) compiles LLVM bitcode in an executor.
//!
//! ```no_run
//! use std::sync::Arc;
//! use longshore_executor::controller::{Executor, Spawn};
//! # use longshore_executor::rpc::{Peer, Service};
//! # struct Nothing;
//! # impl Service for Nothing {
//! #     fn call(&self, _: &Arc<Peer>, _: u32, _: &[u8]) -> Result<Vec<u8>, String> {
//! #         Ok(Vec::new())
//! #     }
//! #     fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
//! # }
//!
//! let executable = "/usr/local/libexec/longshore/longshore-executor";
//! let executor: Executor = Spawn::new(executable).start(Arc::new(Nothing))?;
//! // Method 0 returns its argument.
//! assert_eq!(executor.peer().call(0, b"who is there?")?, b"who is there?");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The executor's program is [`target::main`]; it links neither the linker nor the host. Each side
//! checks and bounds its input from the other: a process that goes wrong costs its controller an
//! error, and no more.
//!
//! Start reading at [`rpc`], then [`controller`] and `target`; [`plugin`] and [`compiler`] build on
//! both.

pub mod arena;
pub mod compiler;
pub mod controller;
pub mod plugin;
mod protocol;
mod ranges;
mod readiness;
pub mod remote;
pub mod rpc;
pub mod target;
