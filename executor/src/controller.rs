//! The side that controls: starts an executor's process, and is told how it ends.

mod child;
#[cfg(feature = "jitlink")]
mod data;
#[cfg(feature = "jitlink")]
mod process;
mod spawn;

pub use child::Child;
#[cfg(feature = "jitlink")]
pub use process::{ExecutorProcess, ProcessError};
pub use spawn::{Executor, Spawn, SpawnError};
