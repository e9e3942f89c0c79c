//! Calls of the crate in jobs of processes, under the launcher of each implementation.
//!
//! A trial starts this program again under a launcher, as `processes job LIBRARY` with a part for
//! each process. The same command line runs a job by hand, with any library and launcher.

mod collectives;
mod communicators;
mod environment;
mod messages;
mod spawn;

use libtest_mimic::{Arguments, Trial};
use longshore_mpi::Mpi;
use std::path::Path;
use std::process::{Command, ExitCode};

/// First argument of a process of a job.
const JOB: &str = "job";
/// Seconds after which a job has failed.
const PATIENCE: &str = "120";

/// An implementation on this machine.
struct Installed {
    launcher: &'static str,
    /// Arguments of the launcher.
    options: &'static [&'static str],
    library: &'static str,
}

const OPEN_MPI: Installed = Installed {
    launcher: "mpirun.openmpi",
    options: &["--oversubscribe"],
    library: "libmpi.so.40",
};
const MPICH: Installed =
    Installed { launcher: "mpirun.mpich", options: &[], library: "libmpich.so.12" };

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [job, part, library] = &words[..]
        && job == JOB
    {
        run_part(part, library);
        return ExitCode::SUCCESS;
    }
    let trials = [
        trial("processes_of_open_mpi_communicate", || communicate(&OPEN_MPI)),
        trial("processes_of_mpich_communicate", || communicate(&MPICH)),
        trial("a_process_of_open_mpi_starts_others", || start_others(&OPEN_MPI)),
        trial("a_process_of_mpich_starts_others", || start_others(&MPICH)),
        trial("a_missing_library_is_named", environment::name_a_missing_library),
        trial("a_missing_function_is_named", environment::name_a_missing_function),
        trial("a_draft_of_the_standard_abi_is_refused", environment::refuse_a_draft),
        trial("a_library_without_mpi_is_refused", environment::refuse_another),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn trial(name: &str, run: fn()) -> Trial {
    Trial::test(name, move || {
        run();
        Ok(())
    })
}

/// Runs three processes of two programs.
fn communicate(installed: &Installed) {
    launch(installed, &[("1", "first"), ("2", "second")]);
}

/// Runs one process, which starts two others.
fn start_others(installed: &Installed) {
    launch(installed, &[("1", "parent")]);
}

/// Runs a job of several programs: the number of processes of each, and their part.
fn launch(installed: &Installed, programs: &[(&str, &str)]) {
    let Installed { launcher, options, library } = *installed;
    if Command::new(launcher).arg("--version").output().is_err() {
        return eprintln!("skipped: {launcher} is not installed");
    }
    let program = std::env::current_exe().unwrap();
    let mut job = Command::new("timeout");
    job.args([PATIENCE, launcher]).args(options);
    for (index, (count, part)) in programs.iter().enumerate() {
        job.args((index != 0).then_some(":")).args(["-n", count]);
        job.arg(&program).args([JOB, part, library]);
    }
    job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = job.output().unwrap();
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}: {}\n{}", output.status, texts[0], texts[1]);
}

/// Runs a process of a job. An error ends all processes of the job, by the launcher.
fn run_part(part: &str, library: &str) {
    let mpi = environment::begin(library, part == "second");
    match part {
        "first" | "second" => {
            environment::check(mpi, i32::from(part == "second"));
            messages::check(mpi);
            communicators::check(mpi);
            collectives::check(mpi);
        }
        "parent" => spawn::start(mpi, Path::new(library)),
        "child" => spawn::be_started(mpi),
        _ => panic!("'{part}' is no part of a job"),
    }
    environment::end(mpi);
}

/// Returns the rank of this process, and the number of all.
fn place(mpi: &Mpi) -> (i32, i32) {
    (mpi.rank(mpi.world()).unwrap(), mpi.size(mpi.world()).unwrap())
}
