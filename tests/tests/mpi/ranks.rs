//! Programs of several ranks, programs that use MPI themselves, and nodes that a program starts.

use crate::{TrialResult, not_tried, part, run, trial};
use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::mpi::{Implementation, Job};
use longshore_tests::world::{command, mpi_plugin, node, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The thread levels that a program requests.
const LEVELS: [&str; 4] = ["single", "funneled", "serialized", "multiple"];

pub(crate) fn trials(implementation: Implementation) -> Vec<Trial> {
    let mut trials = vec![
        trial(implementation, "each rank of a program has its own nodes", |implementation| {
            let job = part(implementation, "events").ranks(2).nodes(4);
            run(&job.env("LONGSHORE_MPI_PROGRAMS", "2"))
        }),
        trial(implementation, "a program starts its nodes itself", spawn),
        trial(implementation, "without a launcher MPI is not loaded", no_launcher),
    ];
    trials.extend(LEVELS.map(|level| {
        let name = format!("a program of level {level} gets its own messages alone");
        trial(implementation, &name, move |implementation| own_messages(implementation, level))
    }));
    trials
}

fn spawn(implementation: Implementation) -> TrialResult {
    if implementation == Implementation::Mpich {
        return not_tried("Debian's MPICH starts no processes: its device is ch4:ucx");
    }
    let job = part(implementation, "functions").env("LONGSHORE_MPI_SPAWN", "2");
    run(&job.env("LONGSHORE_MPI_NODE", node()))
}

fn no_launcher(_: Implementation) -> TrialResult {
    let mut plugins = Command::new(command());
    plugins.arg("plugins").env("LONGSHORE_PLUGIN_PATH", mpi_plugin()).env("LD_DEBUG", "files");
    let output = plugins.env("LONGSHORE_BACKEND", "mpi").output()?;
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let reason = "no MPI launcher has started this process";
    match texts[0].contains(reason) && !texts[1].contains("libmpi") {
        true => Ok(Completion::Completed),
        false => Err(format!("{}\n{}", texts[0], texts[1]).into()),
    }
}

fn own_messages(implementation: Implementation, level: &str) -> TrialResult {
    let folder = tempfile::tempdir()?;
    let program = compile(implementation, folder.path())?;
    let image = crate::programs::image(folder.path(), "basic")?;
    let job = Job::new(implementation, program).arg(level).arg(image).ranks(2).nodes(4);
    run(&job.env("LONGSHORE_MPI_PROGRAMS", "2").env("LONGSHORE_BACKEND", "mpi,host"))
}

/// Compiles the program with the implementation's compiler.
fn compile(implementation: Implementation, folder: &Path) -> Result<PathBuf, Failed> {
    let (program, library) = (folder.join("ranks"), crate::programs::offload_library()?);
    let library_folder = library.parent().ok_or("the library has no folder")?;
    let mut compiler = Command::new(implementation.compiler());
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-o"]).arg(&program);
    compiler.arg(root().join("tests/fixtures/mpi/ranks.c"));
    compiler.arg("-I").arg(root().join("capi/include"));
    compiler.arg("-I").arg(root().join("tests/fixtures/offload")).arg(&library);
    let output = compiler.arg(format!("-Wl,-rpath,{}", library_folder.display())).output()?;
    match output.status.success() {
        true => Ok(program),
        false => Err(format!("{compiler:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
