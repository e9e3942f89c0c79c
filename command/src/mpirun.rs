//! `longshore mpirun`: runs a program with nodes, whose devices are the program's.
//!
//! An MPI launcher starts the program and the processes of `longshore-node`. This command finds the
//! launcher and the node's executable, composes the launcher's command line ([`line`]), and becomes
//! the launcher. So signals and the exit code are the launcher's.

mod hosts;
mod launcher;
mod line;
mod program;
mod variables;

pub(crate) use program::Program;

use crate::common::CommonOptions;
use crate::failure::{Exit, Failure};
use crate::output;
use clap::Args;
use hosts::Host;
use launcher::{Kind, Launcher};
use line::{CommandLine, Job};
use longshore_cc::path;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use variables::Variables;

const NODE: &str = "longshore-node";
const PLUGIN: &str = "liblongshore_plugin_mpi.so";

const AFTER_HELP: &str = "\
The program runs on this machine, the nodes run on HOSTS, or without hosts where the launcher puts
them. The program sees the nodes' devices as mpi:0, mpi:1 ..., unless LONGSHORE_BACKEND or
LONGSHORE_DEVICES selects others.

Examples:
  longshore mpirun --nodes 2 longshore devices
  longshore mpirun --hosts n01,n02,n03 ./simulation --steps 1000
  longshore mpirun --nodes 8 --launcher mpich --dry-run ./simulation";

/// Run a program with the devices of other machines, through an MPI launcher
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Mpirun {
    /// Number of nodes [default: as many as HOSTS take, else 1]
    #[arg(long, value_name = "N", value_parser = count())]
    nodes: Option<u32>,
    /// Number of processes of the program, which share the nodes equally
    #[arg(long, short = 'n', value_name = "N", default_value = "1", value_parser = count())]
    programs: u32,
    /// Hosts of the nodes, each with its number of nodes if not one: "n01,n02:2"
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', conflicts_with = "hostfile",
          value_parser = Host::parse)]
    hosts: Vec<Host>,
    /// File with the same hosts, one a line: "n02:2" or "n02 slots=2"
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Let each process of the program start its own N nodes, by MPI_Comm_spawn
    #[arg(long)]
    spawn: bool,
    /// The launcher: "openmpi", "mpich" or a path [default: the first one on PATH]
    #[arg(long, value_name = "LAUNCHER")]
    launcher: Option<PathBuf>,
    /// Further options of the launcher, as in a shell; may be repeated
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    launcher_options: Vec<String>,
    /// Permit more processes on a machine than cores; Open MPI refuses them otherwise
    #[arg(long)]
    oversubscribe: bool,
    /// Print the launcher's command line without running it
    #[arg(long)]
    dry_run: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1 << 20)
}

impl Mpirun {
    /// Replaces this process by the launcher.
    pub(crate) fn execute(&self, common: &CommonOptions) -> Result<(), Failure> {
        let mut variables = Variables::from_process();
        self.check_program()?;
        let library = variables.library()?;
        let launcher = launcher::find(self.launcher.as_deref(), library.as_deref())?;
        let node = find_node(&variables)?;
        let job = self.job(node)?;
        self.set(&mut variables, common, &job, &launcher);
        let line = CommandLine::new(&launcher, &job, &variables);
        if self.dry_run {
            return output::print(&line.to_string());
        }
        launcher.check_library(variables.get("LONGSHORE_MPI_LIBRARY"))?;
        check_user(&launcher, &job, &variables)?;
        for host in job.hosts.iter().filter(|host| !host.has_address()) {
            log::warn!(
                "the host '{}' has no address: unless ssh knows the name, the launcher fails, or \
                 waits for ever",
                host.name
            );
        }
        let (program, arguments) = line.words.split_first().expect("a launcher comes first");
        log::info!("{line}");
        let error = Command::new(program).args(arguments).envs(variables.changed()).exec();
        let message = format!("'{}' cannot be started: {error}", launcher.path.display());
        Err(Failure::new(Exit::Runtime, message))
    }

    fn check_program(&self) -> Result<(), Failure> {
        if self.program.iter().any(|word| word == ":") {
            let message = "the program has the argument ':', which launchers of MPI take for the \
                           beginning of another program";
            return Err(Failure::new(Exit::Usage, message));
        }
        let program = Path::new(&self.program[0]);
        let is_there = match program.components().count() {
            1 => path::find(&program.to_string_lossy()).is_some(),
            _ => program.is_file(),
        };
        if is_there {
            return Ok(());
        }
        let message = format!("the program '{}' is not found", program.display());
        let failure = Failure::new(Exit::NothingFound, message);
        Err(match program.is_file() {
            true => failure.or_hint(format!("it is here: name it './{}'", program.display())),
            false => failure.or_hint("the program follows the options, with its path or on PATH"),
        })
    }

    fn job(&self, node: PathBuf) -> Result<Job, Failure> {
        let mut options = Vec::new();
        for text in &self.launcher_options {
            let words = shlex::split(text).ok_or_else(|| {
                let message = format!("--launcher-options has an open quote: {text}");
                Failure::new(Exit::Usage, message)
            })?;
            options.extend(words.into_iter().map(OsString::from));
        }
        let listed = match &self.hostfile {
            Some(file) => hosts::read(file)?,
            None => self.hosts.clone(),
        };
        let share = if self.spawn { self.programs } else { 1 };
        let nodes = self.nodes.map(|nodes| nodes.saturating_mul(share));
        let hosts = hosts::distribute(&listed, nodes)?;
        let nodes = match hosts.is_empty() {
            true => nodes.unwrap_or(share),
            false => hosts.iter().map(|host| host.count.unwrap_or(1)).sum(),
        };
        if self.spawn && nodes % share != 0 {
            let message = format!(
                "{nodes} nodes on the hosts are no equal share for {share} processes of the program"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        if nodes < self.programs {
            let message = format!(
                "{} processes of the program share {nodes} nodes; expected at least one for each",
                self.programs
            );
            return Err(Failure::new(Exit::Usage, message).or_hint("start more with --nodes"));
        }
        let mut program = self.program.clone();
        if !self.spawn
            && let Ok(this) = std::env::current_exe()
        {
            program.splice(0..0, [this.into_os_string(), "__program".into()]);
        }
        Ok(Job {
            programs: self.programs,
            nodes,
            hosts,
            is_spawning: self.spawn,
            is_oversubscribed: self.oversubscribe,
            options,
            program,
            node,
        })
    }

    /// Sets the variables of all processes.
    fn set(&self, to: &mut Variables, common: &CommonOptions, job: &Job, launcher: &Launcher) {
        let options =
            [("LONGSHORE_BACKEND", &common.backend), ("LONGSHORE_DEVICES", &common.devices)];
        for (name, value) in options {
            if let Some(value) = value {
                to.set(name, value);
            }
        }
        if let Some(level) = common.log_level() {
            to.set("LONGSHORE_LOG", level);
        }
        select_nodes(to);
        let mut plugins = common.plugin.clone();
        plugins.extend(to.plugin_path());
        plugins.extend(plugin_of(&job.node).filter(|plugin| !is_in(plugin, &plugins)));
        if let Ok(joined) =
            std::env::join_paths(plugins.iter().filter(|path| !path.as_os_str().is_empty()))
        {
            to.set("LONGSHORE_PLUGIN_PATH", joined);
        }
        match job.is_spawning {
            true => {
                to.set("LONGSHORE_MPI_SPAWN", (job.nodes / job.programs).to_string());
                to.set("LONGSHORE_MPI_NODE", &job.node);
                to.set("LONGSHORE_MPI_PROGRAMS", "");
            }
            false => {
                to.set("LONGSHORE_MPI_PROGRAMS", job.programs.to_string());
                to.set("LONGSHORE_MPI_SPAWN", "");
            }
        }
        if to.get("LONGSHORE_MPI_LIBRARY").is_none()
            && let Some(library) = launcher.own_library()
        {
            to.set("LONGSHORE_MPI_LIBRARY", library);
        }
    }
}

/// Selects the devices of nodes for the program, unless the user has selected devices.
fn select_nodes(variables: &mut Variables) {
    let text = |name| variables.get(name).map(|value| value.to_string_lossy().into_owned());
    let (backends, devices) = (text("LONGSHORE_BACKEND"), text("LONGSHORE_DEVICES"));
    if backends.is_none() && devices.is_none() {
        return variables.set("LONGSHORE_BACKEND", "mpi");
    }
    if let Some(backends) = backends
        && !backends.split(',').any(|name| name.trim().eq_ignore_ascii_case("mpi"))
    {
        log::warn!(
            "the program uses no node: LONGSHORE_BACKEND is '{backends}', without 'mpi' (the nodes' \
             own selection is LONGSHORE_NODE_BACKEND)"
        );
    }
}

/// Returns the executable of nodes.
fn find_node(variables: &Variables) -> Result<PathBuf, Failure> {
    if let Some(given) = variables.get("LONGSHORE_MPI_NODE").map(PathBuf::from) {
        if given.components().count() == 1 || given.is_file() {
            return Ok(given);
        }
        let message = format!("LONGSHORE_MPI_NODE is '{}', which is no file", given.display());
        return Err(Failure::new(Exit::NothingFound, message));
    }
    let this = std::env::current_exe().ok();
    let beside = this.map(|this| this.with_file_name(NODE)).filter(|file| file.is_file());
    beside.or_else(|| path::find(NODE)).ok_or_else(|| {
        let message =
            format!("the nodes' program '{NODE}' is neither beside this command nor on PATH");
        Failure::new(Exit::NothingFound, message).or_hint(
            "install the package liblongshore-plugin-mpi, build the crate longshore-node, or set \
             LONGSHORE_MPI_NODE to its path",
        )
    })
}

/// Returns the plugin in the installation of a node's executable, or beside it.
fn plugin_of(node: &Path) -> Option<PathBuf> {
    let folder = node.parent()?;
    let installed = folder.parent().map(|prefix| prefix.join("lib/longshore").join(PLUGIN));
    installed.into_iter().chain([folder.join(PLUGIN)]).find(|file| file.is_file())
}

/// Returns whether a plugin is the named one, or in a named folder.
fn is_in(plugin: &Path, named: &[PathBuf]) -> bool {
    named.iter().any(|place| place == plugin || plugin.parent() == Some(place))
}

/// Checks that the launcher runs for this user.
fn check_user(launcher: &Launcher, job: &Job, variables: &Variables) -> Result<(), Failure> {
    let is_root = || {
        // SAFETY: the call has no preconditions.
        unsafe { libc::geteuid() == 0 }
    };
    let option = OsStr::new("--allow-run-as-root");
    let names = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    let is_allowed = job.options.iter().any(|word| word == option)
        || names.iter().all(|name| variables.has(name));
    if launcher.kind != Kind::OpenMpi || is_allowed || !is_root() {
        return Ok(());
    }
    let message = "this is the user root, for whom Open MPI's launcher starts nothing";
    Err(Failure::new(Exit::Usage, message).or_hint(
        "become another user, or add --launcher-options=--allow-run-as-root (or set \
         OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_sees_the_nodes_unless_the_user_selects_devices() {
        let selected = |set: &[(&str, &str)]| {
            let mut variables = Variables::default();
            set.iter().for_each(|(name, value)| variables.set(name, value));
            select_nodes(&mut variables);
            variables.get("LONGSHORE_BACKEND").map(|value| value.to_string_lossy().into_owned())
        };
        assert_eq!(selected(&[]).as_deref(), Some("mpi"));
        assert_eq!(selected(&[("LONGSHORE_BACKEND", "mpi,host")]).as_deref(), Some("mpi,host"));
        assert_eq!(selected(&[("LONGSHORE_DEVICES", "mpi:0;host:0")]), None);
    }
}
