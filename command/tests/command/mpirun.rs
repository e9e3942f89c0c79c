//! `longshore mpirun`: its command line, its mistakes, and jobs under Open MPI and MPICH.

use crate::support::{EXECUTABLE, Outcome, command, ensure_built, outcome};
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The variables without which Open MPI starts nothing for the user root.
const AS_ROOT: [(&str, &str); 2] =
    [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

/// Creates the command with nodes beside it.
fn mpirun() -> Command {
    ensure_built("longshore-node", "longshore-node");
    ensure_built("longshore-plugin-mpi-library", "liblongshore_plugin_mpi.so");
    let mut command = command();
    command.arg("mpirun").envs(AS_ROOT);
    command
}

/// Runs a job under each installed launcher; a job that hangs fails.
fn under_each(arguments: &[&str], check: impl Fn(&str, &Outcome)) {
    for launcher in ["mpirun.openmpi", "mpirun.mpich"] {
        if Command::new(launcher).arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: {launcher} is not installed");
            continue;
        }
        let job = mpirun();
        let mut limited = Command::new("timeout");
        limited.args(["-k", "10", "120"]).arg(EXECUTABLE).args(["mpirun", "--launcher", launcher]);
        for (name, value) in job.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        check(launcher, &outcome(limited.env("LONGSHORE_NODE_BACKEND", "host").args(arguments)));
    }
}

/// Makes a launcher that only prints its version.
fn stand_in(folder: &Path, name: &str, version: &str) {
    let file = folder.join(name);
    write(&file, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
    set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_command_line_is_that_of_the_launcher_and_fit_for_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    stand_in(folder.path(), "mpirun", "mpirun (Open MPI) 5.0.7");
    stand_in(folder.path(), "mpiexec.hydra", "HYDRA build details:");
    stand_in(folder.path(), "p q", "");
    let line = |arguments: &[&str]| {
        let mut mpirun = mpirun();
        mpirun.env("PATH", folder.path()).args(["--dry-run"]).args(arguments);
        let outcome = outcome(&mut mpirun);
        outcome.assert_succeeds();
        outcome.stdout
    };
    let open_mpi = line(&["--hosts", "n1:2,n2", "-n", "1", "p q", "a b", "--dry-run"]);
    for part in [
        "LONGSHORE_BACKEND=mpi",
        "LONGSHORE_MPI_PROGRAMS=1",
        "/mpirun --bind-to none -n 1 --host ",
        "-x LONGSHORE_BACKEND",
        "longshore __program 'p q' 'a b' --dry-run : -n 3 --host 'n1:2,n2:1' ",
    ] {
        assert!(open_mpi.contains(part), "no '{part}' in {open_mpi}");
    }
    assert!(open_mpi.trim_end().ends_with("/longshore-node"), "{open_mpi}");
    let mpich = line(&["--launcher", "mpich", "--nodes", "4", "--devices", "mpi:0", "p q"]);
    for part in ["mpiexec.hydra -genv LONGSHORE_", "LONGSHORE_DEVICES mpi:0 ", " : -n 4 "] {
        assert!(mpich.contains(part), "no '{part}' in {mpich}");
    }
    let spawning = line(&["--spawn", "--nodes", "2", "--launcher-options", "--mca a 'b c'", "p q"]);
    for part in ["LONGSHORE_MPI_SPAWN=2", "LONGSHORE_MPI_NODE=", "--mca a 'b c' -n 1 -x"] {
        assert!(spawning.contains(part), "no '{part}' in {spawning}");
    }
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    stand_in(folder.path(), "srun", "slurm 23.02");
    stand_in(folder.path(), "sh", "");
    let (with_launcher, without) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    stand_in(with_launcher.path(), "mpirun", "mpirun (Open MPI) 4.1.4");
    let srun = folder.path().join("srun");
    let (srun, path) = (srun.to_str().unwrap(), folder.path());
    let wrong = folder.path().join("hosts");
    write(&wrong, "n1\n-n2\n").unwrap();
    for (arguments, code, texts) in [
        (&["--nodes", "0", "sh"][..], 2, &["'0'", "--nodes"][..]),
        (&["sh"], 3, &["no launcher on PATH", "openmpi-bin"]),
        (&["--launcher", "mpich", "sh"], 3, &["no launcher of the MPICH family"]),
        (&["--launcher", "/nowhere", "sh"], 3, &["'/nowhere' is not found"]),
        (&["--launcher", srun, "sh"], 2, &["neither Open MPI nor", "docs/clusters.md"]),
        (&["nowhere-at-all"], 3, &["'nowhere-at-all' is not found"]),
        (&["sh", "a", ":", "b"], 2, &["':'"]),
        (&["--hosts", "n1,n2:x", "sh"], 2, &["n2:x", "positive number"]),
        (&["--hostfile", wrong.to_str().unwrap(), "sh"], 2, &["line 2", "-n2"]),
        (&["-n", "3", "--nodes", "2", "sh"], 2, &["3 processes", "2 nodes"]),
        (&[], 2, &["PROGRAM"]),
    ] {
        let mut job = mpirun();
        // A mistake in hosts is found with a launcher only.
        let has_launcher = arguments.iter().any(|word| ["--hostfile", "-n"].contains(word));
        let launchers = if has_launcher { &with_launcher } else { &without };
        job.env("PATH", std::env::join_paths([path, launchers.path()]).unwrap()).args(arguments);
        outcome(&mut job).assert_fails(code, texts);
    }
}

#[test]
fn a_library_of_another_mpi_than_the_launchers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    stand_in(folder.path(), "mpirun", "mpirun (Open MPI) 4.1.4");
    stand_in(folder.path(), "libmpich.so.12", "");
    let mut job = mpirun();
    job.env("LONGSHORE_MPI_LIBRARY", folder.path().join("libmpich.so.12"));
    job.env("PATH", folder.path()).args(["--launcher", "openmpi", EXECUTABLE]);
    outcome(&mut job).assert_fails(2, &["of Open MPI", "libmpich.so.12", "--launcher"]);
    let mut job = mpirun();
    job.env("LONGSHORE_MPI_LIBRARY", "/nowhere/libmpi.so").arg(EXECUTABLE);
    outcome(&mut job).assert_fails(3, &["LONGSHORE_MPI_LIBRARY", "/nowhere/libmpi.so"]);
}

#[test]
fn a_program_sees_the_devices_of_its_nodes() {
    under_each(&["--nodes", "2", EXECUTABLE, "devices", "--json"], |launcher, listed| {
        assert_eq!(listed.code, 0, "{launcher}: {}", listed.stderr);
        let devices = listed.json();
        let ids: Vec<_> = devices.as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, ["mpi:0", "mpi:1"], "{launcher}");
    });
}

#[test]
fn a_list_of_plugins_leaves_the_nodes_to_the_program() {
    under_each(&[EXECUTABLE, "plugins", "--json"], |launcher, listed| {
        assert_eq!(listed.code, 0, "{launcher}: {}", listed.stderr);
        let plugins = listed.json();
        let mut plugins = plugins.as_array().unwrap().iter();
        let ours = plugins.find(|plugin| plugin["backend"] == "mpi").unwrap();
        assert_eq!(ours["outcome"], "loaded", "{launcher}: {ours}");
    });
}

#[test]
fn the_exit_code_of_a_program_that_uses_no_node_is_passed_on() {
    for (script, code) in [("exit 7", 7), ("exit 0", 0)] {
        under_each(&["--nodes", "2", "sh", "-c", script], |launcher, ended| {
            assert_eq!(ended.code, code, "{launcher}: {}", ended.stderr);
            assert!(ended.stderr.contains("without using its nodes"), "{}", ended.stderr);
        });
    }
}

#[test]
fn a_second_program_of_a_job_is_refused_with_the_reason() {
    let script = format!("'{EXECUTABLE}' devices && ! '{EXECUTABLE}' devices");
    under_each(&["sh", "-c", &script], |launcher, ended| {
        assert_eq!(ended.code, 0, "{launcher}: {}", ended.stderr);
        assert!(ended.stderr.contains("another process of this rank"), "{}", ended.stderr);
    });
}

#[test]
fn each_process_of_a_program_has_its_share_of_the_nodes() {
    let arguments = ["-n", "2", "--nodes", "3", EXECUTABLE, "devices"];
    under_each(&arguments, |launcher, listed| {
        assert_eq!(listed.code, 0, "{launcher}: {}", listed.stderr);
        assert_eq!(listed.stdout.matches("mpi:0").count(), 2, "{}", listed.stdout);
        assert_eq!(listed.stdout.matches("mpi:1").count(), 1, "{}", listed.stdout);
    });
}
