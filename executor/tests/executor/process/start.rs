//! The resources of an executor, and their limits.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use longshore_executor::controller::{Spawn, SpawnError};
use longshore_executor::rpc::EndReason;

use crate::process::support::{NoService, both_ways, open_files, spawn, status};

#[test]
fn it_has_the_standard_streams_the_socket_and_the_shared_memory() {
    let inherited = File::open("/dev/zero").unwrap();
    // SAFETY: the call clears the flag of a descriptor of this test, so that children inherit it.
    assert_eq!(unsafe { libc::fcntl(inherited.as_raw_fd(), libc::F_SETFD, 0) }, 0);
    both_ways(|executor| {
        let files = open_files(executor.child().id());
        let others: Vec<String> = files
            .iter()
            .filter(|(number, _)| *number > 2)
            .map(|(_, file)| file.display().to_string())
            .collect();
        assert!(others.len() <= 3, "{others:?}");
        let ours = ["socket:", "/memfd:longshore", "anon_inode:[pidfd]"];
        let is_ours = |file: &String| ours.iter().any(|ours| file.starts_with(ours));
        assert!(others.iter().all(is_ours), "{others:?}");
    });
}

#[test]
fn it_is_in_a_session_of_its_own() {
    both_ways(|executor| {
        let id = executor.child().id();
        assert_eq!(status(id, "NSsid").unwrap(), id.to_string());
        // The C library blocks signals while it starts a thread.
        let is_open = || status(id, "SigBlk").unwrap() == "0000000000000000";
        assert!((0..1000).any(|_| is_open() || (sleep(Duration::from_millis(1)), false).1));
    });
}

#[test]
fn limits_are_the_process_s() {
    let spawn = spawn()
        .with_argument("--core")
        .with_argument("0")
        .with_argument("--files")
        .with_argument("99");
    let executor = spawn.start(Arc::new(NoService)).unwrap();
    let limits =
        std::fs::read_to_string(format!("/proc/{}/limits", executor.child().id())).unwrap();
    let line =
        |start: &str| limits.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert_eq!(line("Max core file size").split_whitespace().nth(4), Some("0"));
    assert_eq!(line("Max open files").split_whitespace().nth(3), Some("99"));
}

#[test]
fn it_links_neither_the_linker_nor_the_host() {
    let file = std::fs::read(env!("CARGO_BIN_EXE_longshore-executor")).unwrap();
    let has = |name: &str| file.windows(name.len()).any(|window| window == name.as_bytes());
    // Mangled names of functions contain the crate's name, preceded by its length.
    assert!(has("18longshore_executor") && has("16longshore_orc_rt"));
    assert!(!has("17longshore_jitlink") && !has("9longshore4host"));
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_its_path() {
    let error = Spawn::new("/nowhere/longshore-executor").start(Arc::new(NoService)).err().unwrap();
    let text = error.to_string();
    assert!(matches!(error, SpawnError::Start { .. }));
    assert!(
        text.contains("/nowhere/longshore-executor") && text.contains("No such file"),
        "{text}"
    );
}

#[test]
fn a_program_that_is_no_executor_is_an_error_that_says_how_it_ended() {
    for (program, reported) in
        [("/bin/false", "exited with code 1"), ("/bin/true", "exited with code 0")]
    {
        let error = Spawn::new(program).start(Arc::new(NoService)).err().unwrap();
        let SpawnError::Greeting { path, why } = &error else { panic!("{error}") };
        assert_eq!(path, &PathBuf::from(program));
        assert!(
            matches!(why, EndReason::Died(_)) && error.to_string().contains(reported),
            "{error}"
        );
    }
}

#[test]
fn run_by_hand_it_says_what_it_is() {
    let run = |arguments: &[&str]| {
        let executable = env!("CARGO_BIN_EXE_longshore-executor");
        std::process::Command::new(executable).args(arguments).output().unwrap()
    };
    let help = run(&["--help"]);
    assert!(help.status.success() && help.stdout.starts_with(b"Executes code and plugins"));
    assert!(run(&["--version"]).stdout.starts_with(b"longshore-executor "));
    for wrong in [&[][..], &["--fd", "77"], &["--fd", "0"]] {
        let output = run(wrong);
        assert!(!output.status.success() && !output.stderr.is_empty(), "{wrong:?}: {output:?}");
    }
}
