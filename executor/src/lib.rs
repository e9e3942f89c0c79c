//! Processes that execute code and plugins for a program, and the side that controls them.

pub mod arena;
pub mod controller;
pub mod plugin;
mod protocol;
pub mod remote;
pub mod rpc;
pub mod target;
