//! The jobs of the benchmark.

use crate::{scale, stencil};
use anyhow::{Result, ensure};
use longshore_benches::machine;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A launcher of MPI processes.
pub(crate) struct Launcher {
    program: &'static str,
    arguments: &'static [&'static str],
    /// The compiler of programs for its library.
    compiler: &'static str,
}

const LAUNCHERS: [Launcher; 2] = [
    Launcher {
        program: "mpirun.openmpi",
        arguments: &["--oversubscribe", "--bind-to", "none"],
        compiler: "mpicc.openmpi",
    },
    Launcher { program: "mpirun.mpich", arguments: &["-bind-to", "none"], compiler: "mpicc.mpich" },
];

/// The variable with a part of the names of measurements.
const ONLY: &str = "LONGSHORE_BENCH_ONLY";
/// Numbers of nodes whose device computes nothing.
const SCALES: [usize; 8] = [4, 16, 64, 128, 256, 384, 512, 1024];
/// The name of the measurements with these.
const SCALE: &str = "scale";

/// Runs the jobs with each installed launcher. `only` is a part of the names of measurements, or
/// [`SCALE`] with or without a number of nodes.
pub(crate) fn start_all(only: &str) -> Result<()> {
    for launcher in &LAUNCHERS {
        if Command::new(launcher.program).arg("--version").output().is_err() {
            println!("{} is not installed; nothing was measured with it", launcher.program);
            continue;
        }
        println!("\n{}, {}", launcher.program, machine::load());
        if let Some(number) = only.strip_prefix(SCALE) {
            let all = match number.parse() {
                Ok(number) => vec![number],
                Err(_) => SCALES.to_vec(),
            };
            // A launcher that fails for this number fails for greater numbers too.
            let failed = all.into_iter().find_map(|nodes| launcher.start_many(nodes).err());
            if let Some(error) = failed {
                println!("{error:#}");
            }
            continue;
        }
        if "launches copies".contains(only) {
            println!("processes: the program, 1 node with its watcher, 1 helper");
            launcher.start("--pair", 1, 1, only)?;
        }
        if "between nodes".contains(only) {
            println!("processes: the program, 4 nodes with their watchers, 2 helpers");
            launcher.start("--nodes", 4, 2, only)?;
        }
        if "broadcast".contains(only) {
            println!("processes: the program, 4 nodes with their watchers, 4 helpers");
            launcher.start("--broadcast", 4, 4, only)?;
        }
        if "images".contains(only) {
            println!("processes: the program, 4 nodes with their watchers");
            launcher.start("--images", 4, 0, only)?;
        }
        if "stencil".contains(only) {
            stencil::measure(launcher, launcher.compiler)?;
        }
    }
    Ok(())
}

impl Launcher {
    /// Returns the launcher's command without processes.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        // The launcher of Open MPI refuses to run as root otherwise.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.args(self.arguments);
        command
    }

    fn start(&self, job: &str, nodes: usize, helpers: usize, only: &str) -> Result<()> {
        let this = std::env::current_exe()?;
        let (nodes, helpers) = (nodes.to_string(), helpers.to_string());
        let mut command = self.command();
        command.args(["-n", "1"]).arg(&this).args([job, &helpers]);
        command.env(ONLY, only);
        command.args([":", "-n", &nodes]).arg(release()?.join("longshore-node"));
        if helpers != "0" {
            command.args([":", "-n", &helpers]).arg(&this).args(["--helper", &helpers]);
        }
        command.env("LONGSHORE_MPI_PROGRAMS", "1").env("LONGSHORE_NODE_BACKEND", "host");
        run(command)
    }

    /// Starts many nodes with the device of the example.
    fn start_many(&self, nodes: usize) -> Result<()> {
        let (this, release) = (std::env::current_exe()?, release()?);
        let mut command = self.command();
        command.args(["-n", "1"]).arg(this).arg("--scale");
        command.args([":", "-n", &nodes.to_string()]).arg(release.join("longshore-node"));
        command.arg("--no-watcher").env("LONGSHORE_NODE_BACKEND", "example");
        let plugin = release.join("examples/liblongshore_plugin_example.so");
        command.env("LONGSHORE_PLUGIN_PATH", plugin).env("LONGSHORE_MPI_PROGRAMS", "1");
        command
            .env("LONGSHORE_MPI_CONNECT_TIME_LIMIT", "600")
            .env("LONGSHORE_MPI_TIME_LIMIT", "600");
        command.env(scale::STARTED, scale::clock()?.to_string());
        run(command)
    }
}

fn run(mut command: Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Returns whether a job is to take some measurements.
pub(crate) fn includes(name: &str) -> bool {
    name.contains(&std::env::var(ONLY).unwrap_or_default())
}

/// Returns the folder of cargo's release builds.
pub(crate) fn release() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let folder = this.ancestors().nth(2).map(Path::to_owned);
    folder.ok_or_else(|| anyhow::anyhow!("'{}' is not in a target folder", this.display()))
}
