//! Parts that benchmarks of Longshore share. Each benchmark measures against a floor in the same run: the same work done
//! without Longshore.
//!
//! `cargo xtask bench` builds and runs them.

pub mod environment;
pub mod machine;
pub mod report;
pub mod rounds;
pub mod steps;
