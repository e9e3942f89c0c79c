//! Plugins in processes of their own: whatever ends such a process, the program gets an error that says so, and goes on.

mod faults;
#[path = "../../../executor/tests/executor/process/permitted.rs"]
mod permitted;
mod program;
mod sandbox;
mod support;
mod validator;
