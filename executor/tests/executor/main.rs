//! Executors and what is said to them.

mod data;
mod exercise;
mod lazy;
mod process;
mod remote;
mod rpc;
