//! The compilation of the OpenMP tests.

#[path = "../../openmp/compile.rs"]
#[allow(dead_code, reason = "shared with the tests of OpenMP")]
mod compile;
#[path = "../../openmp/programs.rs"]
#[allow(dead_code, reason = "as above")]
mod programs;
#[path = "../../openmp/run.rs"]
#[allow(dead_code, reason = "as above")]
mod run;

pub(super) use compile::Compiler;
pub(super) use programs::Program;
pub(super) use run::ours;
