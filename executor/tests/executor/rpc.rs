//! Connections between two ends in one process.

mod calls;
mod endings;
mod hostile;
mod support;
