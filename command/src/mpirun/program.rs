//! `longshore __program`: the process of a program in a job with nodes.
//!
//! Nodes wait until the program uses them. A program that ends before would leave them waiting, and
//! with them the launcher. This process then takes the program's place: it joins the nodes and ends
//! them.

use crate::common::CommonOptions;
use crate::failure::{Exit, Failure};
use clap::Args;
use libc::c_int;
use longshore::{Environment, Host};
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicI32, Ordering};

/// The variable with the name of a file that the MPI backend creates when it initializes MPI.
const JOINED_FILE: &str = "LONGSHORE_MPI_JOINED_FILE";
/// Signals of users and launchers.
const PASSED_ON: [c_int; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

static CHILD: AtomicI32 = AtomicI32::new(0);

/// Run a program of a job with nodes, and end the nodes if the program does not use them
#[derive(Args)]
pub(crate) struct Program {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Program {
    pub(crate) fn execute(&self, common: &CommonOptions) -> Result<ExitCode, Failure> {
        let failed = |what: &str, error: std::io::Error| {
            Failure::new(Exit::Runtime, format!("{what}: {error}"))
        };
        let folder =
            tempfile::tempdir().map_err(|error| failed("creating a temporary folder", error))?;
        let joined = folder.path().join("joined");
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env(JOINED_FILE, &joined);
        // SAFETY: the function calls only `prctl`, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let name = self.words[0].to_string_lossy();
        let status = command.spawn().and_then(|mut child| {
            CHILD.store(child.id() as c_int, Ordering::Relaxed);
            pass_signals_on();
            child.wait()
        });
        let has_joined = joined.exists();
        drop(folder);
        let code = match &status {
            Ok(status) => match status.signal() {
                Some(signal) => end_by(signal),
                None => status.code().unwrap_or(1),
            },
            Err(_) => 1,
        };
        if !has_joined {
            end_nodes(common, &name);
        }
        status.map_err(|error| failed(&format!("'{name}' cannot be started"), error))?;
        Ok(ExitCode::from(code as u8))
    }
}

/// Joins the nodes and ends them.
fn end_nodes(common: &CommonOptions, program: &str) {
    log::warn!("'{program}' has ended without using its nodes, which end now");
    let mut environment = Environment::from_process().with("LONGSHORE_BACKEND", "mpi");
    for name in ["LONGSHORE_DEVICES", "LONGSHORE_ISOLATE", "LONGSHORE_PROBE"] {
        environment.set(name, "");
    }
    let host = Host::builder().with_environment(environment);
    let host = common.plugin.iter().fold(host, |host, plugin| host.with_plugin(plugin)).build();
    if let Err(error) = host {
        log::error!("ending the nodes: {error}");
    }
}

fn pass_signals_on() {
    extern "C" fn pass_on(signal: c_int) {
        // SAFETY: `CHILD` keeps the child's ID until this process ends.
        unsafe { libc::kill(CHILD.load(Ordering::Relaxed), signal) };
    }
    let pass_on: extern "C" fn(c_int) = pass_on;
    for signal in PASSED_ON {
        // SAFETY: the handler calls only `kill`, which is async-signal-safe.
        unsafe { libc::signal(signal, pass_on as usize) };
    }
}

/// Ends this process by a signal, so that the launcher ends the job.
fn end_by(signal: c_int) -> c_int {
    // SAFETY: the calls only end the process, without a core dump.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    128 + signal
}
