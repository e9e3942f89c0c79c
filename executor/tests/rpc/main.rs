//! Connections between two ends in one process.

mod calls;
mod endings;
#[path = "../exercise/mod.rs"]
mod exercise;
mod hostile;
mod support;
