//! Programs that know nothing of nodes, on devices of nodes: with the C API, and with OpenMP.

use crate::{TrialResult, not_tried, run, trial};
use compile::Linked;
use libtest_mimic::{Completion, Failed, Trial};
use longshore::{Environment, Host};
use longshore_conformance::Fixtures;
use longshore_tests::mpi::{Implementation, Job};
use longshore_tests::world::host_plugin;
use std::path::{Path, PathBuf};
use xtask::openmp_libraries;

mod openmp;

#[path = "../offload/programs/compile.rs"]
#[allow(dead_code, reason = "shared with the tests of the C API")]
mod compile;

/// Programs in C and C++ with the C API. Most programs use managed memory,
/// which no node shares.
const PROGRAMS: [&str; 2] = ["events.c", "symbols.cpp"];

/// Programs with OpenMP.
const OPENMP: [&str; 4] = ["teams.c", "devices.c", "asynchronous.c", "mapped_data.c"];

pub(crate) fn trials(implementation: Implementation) -> Vec<Trial> {
    let c_api = PROGRAMS.map(|file| {
        let name = format!("the C API's program {file} runs on nodes");
        trial(implementation, &name, move |implementation| c_program(implementation, file))
    });
    let openmp = OPENMP.map(|file| {
        let name = format!("the OpenMP program {file} runs on nodes");
        trial(implementation, &name, move |implementation| openmp_program(implementation, file))
    });
    c_api.into_iter().chain(openmp).collect()
}

fn c_program(implementation: Implementation, file: &str) -> TrialResult {
    let folder = tempfile::tempdir()?;
    let mut job = Job::new(implementation, compile::program(file, Linked::Shared)?);
    for name in ["basic", "life"] {
        job = job.arg(image(folder.path(), name)?);
    }
    // The programs compare the first device with that of their own CPU.
    run(&job.nodes(2).env("LONGSHORE_BACKEND", "mpi,host"))
}

/// Writes an image for CPUs.
pub(crate) fn image(folder: &Path, name: &str) -> Result<PathBuf, Failed> {
    let host = Host::builder().with_environment(Environment::empty()).with_only_given_plugins();
    let host = host.with_plugin(host_plugin()).build()?;
    let bytes = Fixtures::built_in().image(&host.default_device()?, name)?;
    let file = folder.join(name);
    std::fs::write(&file, bytes.ok_or("there is no image for the CPU")?)?;
    Ok(file)
}

/// Returns the library of the C API.
pub(crate) fn offload_library() -> Result<PathBuf, Failed> {
    compile::library(Linked::Shared)
}

/// Compiles and runs a program, all of whose regions must run on a device.
fn openmp_program(implementation: Implementation, file: &'static str) -> TrialResult {
    let compiler = openmp::Compiler { version: 19, options: &["-O1", "-g"] };
    if let Some(why) = compiler.missing() {
        return not_tried(why);
    }
    let compiled = compiler.compile(&openmp::Program::new(file))?;
    let folders = std::env::join_paths([openmp_libraries::runtime(), openmp::ours()?])?;
    let job = Job::new(implementation, compiled.program).env("LD_LIBRARY_PATH", folders);
    let outcome = job.env("OMP_TARGET_OFFLOAD", "MANDATORY").nodes(4).run();
    outcome.check()?;
    let count = outcome.printed.lines().find_map(|line| line.strip_prefix("device regions: "));
    let is_on_device =
        count.and_then(|count| count.split_once(" of ")).is_some_and(|(a, b)| a == b);
    match is_on_device && !outcome.printed.contains("WRONG") {
        true => Ok(Completion::Completed),
        false => Err(outcome.text().into()),
    }
}
