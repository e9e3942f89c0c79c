//! Nodes behind a network: in network namespaces of their own, with a link of 1 Gbit/s and a delay
//! of 1 ms in each direction.
//!
//! The trials need root, and are ignored. MPICH's sometimes takes 5 s more and fails: over UCX's
//! TCP, `MPI_Finalize` may wait for ever. By hand:
//!
//! ```text
//! cargo test -p longshore-tests --test mpi -- --ignored namespace
//! ```

use crate::{TrialResult, not_tried, trial};
use libtest_mimic::{Completion, Trial};
use longshore_tests::mpi::Implementation;
use longshore_tests::world::{check_command, mpi_plugin, node, root};
use std::process::Command;

/// Exit code of the script where namespaces are not permitted.
const NOT_PERMITTED: i32 = 77;
/// The behaviours with most of the messages.
const BEHAVIOURS: [&str; 4] = ["copies: ", "events: ", "launches: ", "programs: "];

pub(crate) fn trials(implementation: Implementation) -> Vec<Trial> {
    let name = "the conformance suite passes on nodes in another namespace";
    vec![trial(implementation, name, in_namespaces).with_ignored_flag(true)]
}

fn in_namespaces(implementation: Implementation) -> TrialResult {
    let mut script = Command::new("timeout");
    script.args(["--signal=TERM", "120"]).arg(root().join("tests/fixtures/mpi/namespaces.sh"));
    script.arg(implementation.to_string()).arg(std::env::current_exe()?);
    script.arg(node()).arg(check_command());
    script.args(["--device", "mpi:0"]).args(BEHAVIOURS);
    script.env("LONGSHORE_PLUGIN_PATH", mpi_plugin().parent().ok_or("the plugin has a folder")?);
    script.env("LONGSHORE_BACKEND", "mpi").env("LONGSHORE_NODE_BACKEND", "host");
    script.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = script.output()?;
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    match output.status.code() {
        Some(0) if texts[0].contains(" passed, 0 failed") => Ok(Completion::Completed),
        Some(NOT_PERMITTED) => not_tried("network namespaces are not permitted"),
        _ => Err(format!("{}\n{}\n{}", output.status, texts[0], texts[1]).into()),
    }
}
