//! The controller's side: starts an executor's process and reports its end.

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
