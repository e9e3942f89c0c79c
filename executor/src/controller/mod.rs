//! The side that controls: starts an executor's process, and is told how it ends.

mod child;
mod spawn;

pub use child::Child;
pub use spawn::{Executor, Spawn, SpawnError};
