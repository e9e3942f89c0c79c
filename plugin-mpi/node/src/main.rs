//! `longshore-node`: serves the devices of this machine to a program on another one. An MPI
//! launcher starts it beside the program:
//!
//! ```text
//! mpirun -n 1 program : -n 8 longshore-node
//! ```
//!
//! The process that the launcher starts only watches. Its child does the work. So the launcher does
//! not see the child's end, whatever the cause, and does not end the other processes.

mod collective;
mod logger;
mod selection;
mod serve;
mod watcher;

use std::process::ExitCode;

const HELP: &str = "\
Serves the devices of this machine to a Longshore program on another one

An MPI launcher starts it beside the program:

    mpirun -n 1 program : -n 8 longshore-node

`longshore mpirun` does so with suitable options. The node serves the devices that its own plugins
find. LONGSHORE_NODE_BACKEND and LONGSHORE_NODE_DEVICES select among them, in place of
LONGSHORE_BACKEND and LONGSHORE_DEVICES without their entries for 'mpi'.

Usage: longshore-node [OPTIONS]

Options:
      --spawned     The program has started this node by MPI_Comm_spawn
      --no-watcher  Work in the process that the launcher has started
  -h, --help        Print this help
  -V, --version     Print the version
";

fn main() -> ExitCode {
    let mut options = serve::Options { is_spawned: false };
    let mut is_watched = true;
    let mut arguments = lexopt::Parser::from_env();
    loop {
        match arguments.next() {
            Ok(None) => break,
            Ok(Some(lexopt::Arg::Long("spawned"))) => options.is_spawned = true,
            Ok(Some(lexopt::Arg::Long("no-watcher"))) => is_watched = false,
            Ok(Some(lexopt::Arg::Short('h') | lexopt::Arg::Long("help"))) => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            Ok(Some(lexopt::Arg::Short('V') | lexopt::Arg::Long("version"))) => {
                println!("longshore-node {}", env!("CARGO_PKG_VERSION"));
                return ExitCode::SUCCESS;
            }
            Ok(Some(other)) => return wrong(&other.unexpected().to_string()),
            Err(error) => return wrong(&error.to_string()),
        }
    }
    if is_watched && let Some(code) = watcher::watch() {
        return code;
    }
    match serve::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("longshore-node: {why}");
            ExitCode::FAILURE
        }
    }
}

fn wrong(problem: &str) -> ExitCode {
    eprintln!("longshore-node: {problem}\nTry 'longshore-node --help'.");
    ExitCode::from(2)
}
