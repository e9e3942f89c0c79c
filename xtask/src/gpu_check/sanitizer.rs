//! The conformance suite under NVIDIA's checker of memory accesses.

use super::section::Step;
use super::{not_run, outcome, step};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "compute-sanitizer";
/// Tools of the checker, and names of their steps.
const TOOLS: [(&str, &str); 2] = [
    ("memcheck", "Conformance under compute-sanitizer, memcheck"),
    ("initcheck", "Conformance under compute-sanitizer, initcheck"),
];
/// Options of the checker. It must not report errors of the API, as the suite contains images that
/// the driver refuses. It must follow all processes, as the command replaces itself by another
/// program.
const OPTIONS: [&str; 3] =
    ["--error-exitcode=1", "--report-api-errors=no", "--target-processes=all"];

/// Returns a step for each tool, with a command that runs the suite.
pub(super) fn steps(suite: impl Fn() -> Command) -> Vec<Step> {
    let program = program();
    let one = |(tool, name)| match &program {
        Some(program) => step(name, watched(program, tool, &suite()), outcome::sanitizer_outcome),
        None => not_run(name, format!("{PROGRAM} is not installed")),
    };
    TOOLS.map(one).into()
}

/// Returns the checker on `PATH`, or in the folder of CUDA's toolkit.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let toolkit = std::env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let folders = std::env::split_paths(&path).chain(toolkit).chain(["/usr/local/cuda/bin".into()]);
    folders.map(|folder| folder.join(PROGRAM)).find(|file| file.is_file())
}

fn watched(program: &Path, tool: &str, suite: &Command) -> Command {
    let mut command = Command::new(program);
    command.args(["--tool", tool]).args(OPTIONS);
    command.arg(suite.get_program()).args(suite.get_args());
    command.envs(suite.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}
