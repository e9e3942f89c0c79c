//! Jobs of MPI processes: a program and its nodes, under the launcher of an implementation.
//!
//! All processes of a job have a variable of one value, by which [`Job::run`] finds the processes
//! that outlive the launcher.

use crate::world::{mpi_plugin, node};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An implementation of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Open MPI.
    OpenMpi,
    /// MPICH, with its launcher Hydra.
    Mpich,
}

/// A job, before it starts. All methods that set something return the job.
#[derive(Clone, Debug)]
pub struct Job {
    implementation: Implementation,
    options: Vec<OsString>,
    ranks: u32,
    program: Vec<OsString>,
    nodes: u32,
    variables: Vec<(OsString, OsString)>,
    limit: Duration,
}

/// A started job. Dropping it kills all its processes.
pub struct Running {
    launcher: Child,
    mark: String,
    folder: TempDir,
    limit: Duration,
    line: String,
}

/// The end of a job.
#[derive(Debug)]
pub struct Outcome {
    /// The launcher's exit status; `None` if the job was killed because it did not end.
    pub status: Option<ExitStatus>,
    /// The output of all processes.
    pub printed: String,
    /// The errors of all processes.
    pub errors: String,
    /// The time from the end of the launcher to the end of its last process.
    pub leaving: Duration,
    /// Processes that were killed because they outlived the launcher by [`LEAVING`].
    pub remaining: Vec<String>,
    /// Files in the job's folder for temporary files.
    pub files: Vec<String>,
    line: String,
}

/// A process of a job.
#[derive(Clone, Debug)]
pub struct Process {
    /// The process number.
    pub number: i32,
    /// The number of the parent process.
    pub parent: i32,
    /// The name of the executable.
    pub name: String,
    /// The rank among all processes, if the launcher has given one.
    pub rank: Option<i32>,
}

/// Time for processes to end after the launcher.
pub const LEAVING: Duration = Duration::from_secs(15);
/// Variable with the mark of a job.
const MARK: &str = "LONGSHORE_TEST_JOB";
/// Variables that tests themselves have.
const KEPT: [&str; 4] = [
    "LONGSHORE_ROUNDS",
    "LONGSHORE_FLIPPED_BITS",
    "LONGSHORE_STRESS_SECONDS",
    "LONGSHORE_TEST_ALL",
];
const PAUSE: Duration = Duration::from_millis(5);

impl Implementation {
    /// Both implementations.
    pub const ALL: [Implementation; 2] = [Implementation::OpenMpi, Implementation::Mpich];

    /// Returns the name of the launcher.
    pub fn launcher(self) -> &'static str {
        match self {
            Implementation::OpenMpi => "mpirun.openmpi",
            Implementation::Mpich => "mpirun.mpich",
        }
    }

    /// Returns the name of the compiler for C.
    pub fn compiler(self) -> &'static str {
        match self {
            Implementation::OpenMpi => "mpicc.openmpi",
            Implementation::Mpich => "mpicc.mpich",
        }
    }

    /// Returns the reason why no job can run, if there is one.
    pub fn missing(self) -> Option<String> {
        let launcher = self.launcher();
        let starts = Command::new(launcher).arg("--version").output().is_ok();
        (!starts).then(|| format!("not installed: {launcher}"))
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(match self {
            Implementation::OpenMpi => "open_mpi",
            Implementation::Mpich => "mpich",
        })
    }
}

impl Job {
    /// Returns a job of one process of a program, without nodes, in the environment of this process
    /// without its settings of Longshore and of launchers.
    pub fn new(implementation: Implementation, program: impl AsRef<OsStr>) -> Job {
        Job {
            implementation,
            options: Vec::new(),
            ranks: 1,
            program: vec![program.as_ref().to_owned()],
            nodes: 0,
            variables: Vec::new(),
            limit: Duration::from_secs(120),
        }
    }

    /// Adds an argument of the program.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Job {
        self.program.push(argument.as_ref().to_owned());
        self
    }

    /// Adds an option of the launcher.
    pub fn option(mut self, option: impl AsRef<OsStr>) -> Job {
        self.options.push(option.as_ref().to_owned());
        self
    }

    /// Sets the number of processes of the program.
    pub fn ranks(self, ranks: u32) -> Job {
        Job { ranks, ..self }
    }

    /// Sets the number of nodes.
    pub fn nodes(self, nodes: u32) -> Job {
        Job { nodes, ..self }
    }

    /// Sets a variable of all processes.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Job {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the time after which the job is killed.
    pub fn limit(self, limit: Duration) -> Job {
        Job { limit, ..self }
    }

    /// Starts the job.
    ///
    /// # Panics
    /// If the launcher cannot be started, or a file of the build is missing.
    pub fn start(&self) -> Running {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{number}", std::process::id());
        let folder = tempfile::Builder::new().prefix("mpi").tempdir().expect("a temporary folder");
        let mut command = self.command();
        let file = |name| File::create(folder.path().join(name)).expect("the folder is writable");
        command.env(MARK, &mark).env("TMPDIR", folder.path().join("tmp"));
        fs::create_dir(folder.path().join("tmp")).expect("the folder is writable");
        command.stdin(Stdio::null()).stdout(file("printed")).stderr(file("errors"));
        let line = format!("{command:?}");
        let launcher = command.spawn().unwrap_or_else(|error| panic!("{line}: {error}"));
        Running { launcher, mark, folder, limit: self.limit, line }
    }

    /// Runs the job to its end.
    ///
    /// # Panics
    /// As for [`Job::start`].
    pub fn run(&self) -> Outcome {
        self.start().finish()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.implementation.launcher());
        let is_foreign = |name: &str| {
            let begins =
                ["LONGSHORE_", "OMPI_", "PMIX_", "PMI_", "HYDRA_", "OMP_", "LIBOMPTARGET_"];
            begins.iter().any(|begin| name.starts_with(begin)) && !KEPT.contains(&name)
        };
        for (name, _) in std::env::vars_os() {
            if is_foreign(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command.env("LONGSHORE_PLUGIN_PATH", mpi_plugin().parent().expect("a file's folder"));
        command.env("LONGSHORE_BACKEND", "mpi").env("LONGSHORE_NODE_BACKEND", "host");
        if self.implementation == Implementation::OpenMpi {
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command.arg("--oversubscribe");
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.args(&self.options).args(["-n", &self.ranks.to_string()]).args(&self.program);
        if self.nodes > 0 {
            command.args([":", "-n", &self.nodes.to_string()]).arg(node());
        }
        command
    }
}

impl Running {
    /// Waits for the end of the launcher and of all its processes, and kills processes that stay.
    ///
    /// # Panics
    /// If the launcher's state cannot be read.
    pub fn finish(mut self) -> Outcome {
        let status = self.wait(self.limit);
        if status.is_none() {
            self.kill();
        }
        let ended = Instant::now();
        while !self.processes().is_empty() && ended.elapsed() < LEAVING {
            sleep(PAUSE);
        }
        let leaving = ended.elapsed();
        let remaining = self.processes().into_iter();
        let remaining = remaining.map(|process| format!("{} {}", process.number, process.name));
        let remaining: Vec<_> = remaining.collect();
        self.kill();
        let read = |name| {
            let bytes = fs::read(self.folder.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (printed, errors) = (read("printed"), read("errors"));
        let files = files_below(&self.folder.path().join("tmp"));
        let line = std::mem::take(&mut self.line);
        Outcome { status, printed, errors, leaving, remaining, files, line }
    }

    /// Waits for the end of the launcher; `None` after `limit`.
    ///
    /// # Panics
    /// If the launcher's state cannot be read.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            let status = self.launcher.try_wait().expect("the launcher is a child");
            if status.is_some() || started.elapsed() > limit {
                return status;
            }
            sleep(PAUSE);
        }
    }

    /// Returns the processes of the job, without the launcher.
    pub fn processes(&self) -> Vec<Process> {
        let mut all = marked(&self.mark);
        all.retain(|process| process.number != self.launcher.id() as i32);
        all
    }

    fn kill(&mut self) {
        // Processes may start others meanwhile.
        for _ in 0..100 {
            let _ = self.launcher.kill();
            let _ = self.launcher.wait();
            let all = marked(&self.mark);
            if all.is_empty() {
                return;
            }
            all.iter().for_each(|process| signal("KILL", process.number));
            sleep(PAUSE);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Outcome {
    /// Checks that the job has ended well and has left nothing.
    ///
    /// # Errors
    /// Everything known of the job.
    pub fn check(&self) -> Result<(), String> {
        match self.status.is_some_and(|status| status.success()) {
            true => self.check_end(),
            false => Err(self.text()),
        }
    }

    /// Checks that the job has ended, well or not, and has left nothing.
    ///
    /// # Errors
    /// Everything known of the job.
    pub fn check_end(&self) -> Result<(), String> {
        let is_clean = self.remaining.is_empty() && self.files.is_empty();
        if self.status.is_some() && is_clean { Ok(()) } else { Err(self.text()) }
    }

    /// Returns everything known of the job.
    pub fn text(&self) -> String {
        let end = match self.status {
            Some(status) => status.to_string(),
            None => "killed after its time limit".to_owned(),
        };
        let Self { printed, errors, remaining, files, line, .. } = self;
        format!("{line}: {end}\nleft: {remaining:?} {files:?}\n{printed}\n{errors}")
    }
}

/// Returns the processes of the job that has started this one.
pub fn processes_of_this_job() -> Vec<Process> {
    std::env::var(MARK).map(|mark| marked(&mark)).unwrap_or_default()
}

/// Returns the processes of a node of the job of this process: the one that watches and the one
/// that works.
pub fn node_processes(rank: i32) -> Option<[Process; 2]> {
    let mut all = processes_of_this_job();
    all.retain(|process| process.name == "longshore-node" && process.rank == Some(rank));
    let is_child = |process: &&Process| all.iter().any(|one| one.number == process.parent);
    let working = all.iter().find(is_child)?.clone();
    let watching = all.iter().find(|one| one.number == working.parent)?.clone();
    Some([watching, working])
}

/// Sends a signal to a process, which may be gone.
pub fn signal(name: &str, process: i32) {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{name}")).arg(process.to_string()).stderr(Stdio::null());
    let _ = kill.status();
}

/// Returns the processes with a mark that are no zombies.
fn marked(mark: &str) -> Vec<Process> {
    let entry = format!("{MARK}={mark}");
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten().map(|folder| folder.path());
    folders
        .filter_map(|folder| {
            let number = folder.file_name()?.to_str()?.parse().ok()?;
            let environment = fs::read(folder.join("environ")).ok()?;
            let has =
                |wanted: &str| environment.split(|byte| *byte == 0).any(|e| e == wanted.as_bytes());
            if !has(&entry) {
                return None;
            }
            let status = fs::read_to_string(folder.join("status")).ok()?;
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                Some(line.trim().to_owned())
            };
            if field("State:")?.starts_with('Z') {
                return None;
            }
            let rank = environment.split(|byte| *byte == 0).find_map(|entry| {
                let entry = std::str::from_utf8(entry).ok()?;
                let names = ["OMPI_COMM_WORLD_RANK=", "PMI_RANK="];
                names.iter().find_map(|name| entry.strip_prefix(name))?.parse().ok()
            });
            let parent = field("PPid:")?.parse().ok()?;
            Some(Process { number, parent, name: field("Name:")?, rank })
        })
        .collect()
}

fn files_below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}
