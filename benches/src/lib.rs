//! Common parts of Longshore's benchmarks. Each benchmark has a floor in the same run: the same
//! work without Longshore.
//!
//! `cargo xtask bench` builds and runs them.

pub mod environment;
pub mod machine;
pub mod report;
pub mod rounds;
pub mod steps;
