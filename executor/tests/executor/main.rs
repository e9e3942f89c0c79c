//! Executors and their connections.

mod compiler;
mod data;
mod exercise;
mod lazy;
mod process;
mod remote;
mod rpc;
