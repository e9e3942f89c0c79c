//! The launcher's command line.

use super::hosts::{Host, own_name};
use super::launcher::{Kind, Launcher};
use super::variables::Variables;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

/// The processes to start.
pub(super) struct Job {
    pub(super) programs: u32,
    /// Number of nodes of all processes of the program.
    pub(super) nodes: u32,
    /// The hosts of nodes; none for the launcher's choice.
    pub(super) hosts: Vec<Host>,
    pub(super) is_spawning: bool,
    pub(super) is_oversubscribed: bool,
    pub(super) options: Vec<OsString>,
    pub(super) program: Vec<OsString>,
    pub(super) node: PathBuf,
}

/// The words of a command line, and the variables that it needs.
pub(super) struct CommandLine {
    pub(super) words: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

impl CommandLine {
    pub(super) fn new(launcher: &Launcher, job: &Job, variables: &Variables) -> CommandLine {
        let mut words = vec![launcher.path.clone().into_os_string()];
        match launcher.kind {
            Kind::OpenMpi => open_mpi(&mut words, job, variables),
            Kind::Mpich => mpich(&mut words, job, variables),
        }
        let variables = variables.changed().map(|(name, value)| (name.into(), value.into()));
        CommandLine { words, variables: variables.collect() }
    }
}

/// Adds the words for Open MPI. A killed node is no reason for it to end the job, as the watching
/// process goes on. With `--enable-recovery` it would return 0 for every program.
fn open_mpi(words: &mut Vec<OsString>, job: &Job, variables: &Variables) {
    let passed = variables.passed_on();
    let pass = |words: &mut Vec<OsString>| {
        words.extend(passed.keys().flat_map(|name| [OsStr::new("-x"), name]).map(OsString::from));
    };
    // By default each process is bound to a core or a socket, and the CPU of a node has its cores.
    let binds = |word: &OsString| ["--bind-to", "-bind-to"].iter().any(|option| word == option);
    if !job.options.iter().any(binds) {
        words.extend(["--bind-to", "none"].map(OsString::from));
    }
    if is_oversubscribed(job, variables) {
        words.push("--oversubscribe".into());
    }
    words.extend(job.options.iter().cloned());
    let here = Host { name: own_name(), count: Some(job.programs) };
    let host = |words: &mut Vec<OsString>, hosts: &[&Host]| {
        if !job.hosts.is_empty() {
            words.extend(["--host".into(), listed(hosts).into()]);
        }
    };
    let nodes: Vec<&Host> = job.hosts.iter().collect();
    words.extend(["-n".into(), job.programs.to_string().into()]);
    match job.is_spawning {
        true => host(words, &[vec![&here], nodes].concat()),
        false => {
            host(words, &[&here]);
            pass(words);
            words.extend(job.program.iter().cloned());
            words.extend([":".into(), "-n".into(), job.nodes.to_string().into()]);
            host(words, &nodes);
            pass(words);
            words.push(job.node.clone().into());
            return;
        }
    }
    pass(words);
    words.extend(job.program.iter().cloned());
}

/// Adds the words for MPICH.
fn mpich(words: &mut Vec<OsString>, job: &Job, variables: &Variables) {
    if !job.hosts.is_empty() {
        let here = Host { name: own_name(), count: Some(job.programs) };
        let all: Vec<&Host> = [&here].into_iter().chain(&job.hosts).collect();
        words.extend(["-hosts".into(), listed(&all).into()]);
    }
    for (name, value) in variables.passed_on() {
        words.extend([OsString::from("-genv"), name.into(), value.into()]);
    }
    words.extend(job.options.iter().cloned());
    words.extend(["-n".into(), job.programs.to_string().into()]);
    words.extend(job.program.iter().cloned());
    if !job.is_spawning {
        words.extend([":".into(), "-n".into(), job.nodes.to_string().into()]);
        words.push(job.node.clone().into());
    }
}

/// Returns whether Open MPI needs consent to start more processes than there are cores.
fn is_oversubscribed(job: &Job, variables: &Variables) -> bool {
    let is_listed_twice = job.hosts.iter().any(Host::is_here);
    let processes = (job.programs + job.nodes) as usize;
    // Two threads of a core count as one.
    let cores = std::thread::available_parallelism().map_or(1, |threads| threads.get() / 2);
    let is_one_machine = job.hosts.is_empty() && !variables.is_in_batch_job();
    job.is_oversubscribed || is_listed_twice || (is_one_machine && processes > cores)
}

fn listed(hosts: &[&Host]) -> String {
    let hosts = hosts.iter().map(|host| format!("{}:{}", host.name, host.count.unwrap_or(1)));
    hosts.collect::<Vec<_>>().join(",")
}

impl fmt::Display for CommandLine {
    /// Writes the line for a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |word: &OsStr| {
            let text = word.to_string_lossy().into_owned();
            shlex::try_quote(&text).map(|quoted| quoted.into_owned()).unwrap_or(text)
        };
        for (name, value) in &self.variables {
            write!(f, "{}={} ", name.to_string_lossy(), quoted(value))?;
        }
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind, change: impl FnOnce(&mut Job)) -> String {
        let mut job = Job {
            programs: 1,
            nodes: 1 << 20,
            hosts: Vec::new(),
            is_spawning: false,
            is_oversubscribed: false,
            options: Vec::new(),
            program: ["./a", "b c"].map(OsString::from).into(),
            node: "/i/longshore-node".into(),
        };
        change(&mut job);
        let mut variables = Variables::default();
        variables.set("LONGSHORE_MPI_PROGRAMS", "1");
        let launcher = Launcher { path: "mpirun".into(), kind };
        CommandLine::new(&launcher, &job, &variables).to_string().replace(&own_name(), "HERE")
    }

    #[test]
    fn open_mpi_gets_the_variables_of_each_program_by_name() {
        assert_eq!(
            line(Kind::OpenMpi, |_| {}),
            "LONGSHORE_MPI_PROGRAMS=1 mpirun --bind-to none --oversubscribe -n 1 \
             -x LONGSHORE_MPI_PROGRAMS ./a 'b c' : -n 1048576 -x LONGSHORE_MPI_PROGRAMS \
             /i/longshore-node"
        );
        let bound =
            line(Kind::OpenMpi, |job| job.options = vec!["--bind-to".into(), "core".into()]);
        assert!(bound.contains("--bind-to core") && !bound.contains("none"), "{bound}");
    }

    #[test]
    fn mpich_gets_the_variables_once_with_their_values() {
        assert_eq!(
            line(Kind::Mpich, |job| job.nodes = 2),
            "LONGSHORE_MPI_PROGRAMS=1 mpirun -genv LONGSHORE_MPI_PROGRAMS 1 -n 1 ./a 'b c' : \
             -n 2 /i/longshore-node"
        );
    }

    #[test]
    fn the_program_runs_here_and_the_nodes_on_their_hosts() {
        let hosts = |job: &mut Job| {
            job.hosts = ["n1", "n2:3"].map(|host| Host::parse(host).unwrap()).into();
            job.nodes = 4;
        };
        let open_mpi = line(Kind::OpenMpi, hosts);
        assert!(open_mpi.contains("-n 1 --host HERE:1 -x"), "{open_mpi}");
        assert!(open_mpi.contains(": -n 4 --host 'n1:1,n2:3' -x"), "{open_mpi}");
        assert!(!open_mpi.contains("--oversubscribe"), "{open_mpi}");
        let mpich = line(Kind::Mpich, hosts);
        assert!(mpich.contains("mpirun -hosts 'HERE:1,n1:1,n2:3' -genv"), "{mpich}");
    }

    #[test]
    fn a_program_that_spawns_is_started_alone() {
        let spawning = line(Kind::OpenMpi, |job| {
            job.hosts = vec![Host::parse("n1:2").unwrap()];
            job.is_spawning = true;
        });
        assert!(
            spawning.ends_with("--host 'HERE:1,n1:2' -x LONGSHORE_MPI_PROGRAMS ./a 'b c'"),
            "{spawning}"
        );
        let spawning = line(Kind::Mpich, |job| job.is_spawning = true);
        assert!(spawning.ends_with("-n 1 ./a 'b c'"), "{spawning}");
    }
}
