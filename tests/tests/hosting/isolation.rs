//! Plugins in processes of their own: after the end of such a process, the program gets an error
//! that reports it, and continues.

mod faults;
#[path = "../../../executor/tests/executor/process/permitted.rs"]
mod permitted;
mod program;
mod sandbox;
mod support;
mod validator;
