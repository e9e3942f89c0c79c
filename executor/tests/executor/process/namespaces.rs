//! The processes of a sandbox with its own namespaces: the started process, number 1, and the
//! serving process.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::Duration;

use longshore_executor::controller::{Executor, Spawn};
use longshore_executor::rpc::{CallError, EndReason};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

use crate::process::permitted::has_namespaces;
use crate::process::support::{ECHO, NoService, children, is_gone, open_files, spawn, status};

fn sandboxed() -> Spawn {
    spawn().with_argument("--sandbox").with_ending_limit(Duration::from_millis(200))
}

/// Returns the three processes in the order of their start. `None` where the system permits no
/// namespaces.
fn three() -> Option<(Executor, [u32; 3])> {
    if !has_namespaces() {
        println!("this system permits no namespaces; nothing was tried");
        return None;
    }
    let executor = sandboxed().start(Arc::new(NoService)).unwrap();
    assert_eq!(executor.peer().call(ECHO, b"hello").unwrap(), b"hello");
    let second = executor.child().id();
    let first = parent(second);
    let outer = parent(first);
    assert_eq!(parent(outer), std::process::id());
    Some((executor, [outer, first, second]))
}

fn parent(process: u32) -> u32 {
    status(process, "PPid").unwrap().parse().unwrap()
}

fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

fn stop(process: u32) {
    send(process, Signal::STOP);
    while !status(process, "State").unwrap().starts_with('T') {
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_process_that_serves_has_numbers_and_users_of_its_own() {
    let Some((_executor, [outer, first, second])) = three() else { return };
    assert_eq!(status(first, "NSpid").unwrap(), format!("{first}\t1"));
    assert_eq!(status(second, "NSpid").unwrap(), format!("{second}\t2"));
    assert_eq!(status(outer, "NSpid").unwrap(), outer.to_string());
    for namespace in ["pid", "user", "ipc"] {
        let of = |process| fs::read_link(format!("/proc/{process}/ns/{namespace}")).unwrap();
        assert_ne!(of(second), of(std::process::id()), "{namespace}");
    }
    let own = status(std::process::id(), "Uid").unwrap();
    assert_eq!(status(second, "Uid").unwrap(), own);
    assert_eq!(status(second, "NSsid").unwrap(), format!("{second}\t2"));
    for process in [outer, first] {
        assert_eq!(status(process, "CapPrm").unwrap(), "0000000000000000");
    }
}

#[test]
fn the_processes_that_wait_have_no_file_but_the_pipe_between_them() {
    let Some((_executor, [outer, first, _])) = three() else { return };
    for process in [outer, first] {
        let files = || open_files(process).into_iter().map(|(_, file)| file.display().to_string());
        let is_pipe = || files().count() == 1 && files().all(|file| file.starts_with("pipe:"));
        // Number 1 closes its files while the serving process begins.
        assert!((0..1000).any(|_| is_pipe() || (sleep(Duration::from_millis(1)), false).1));
    }
}

#[test]
fn the_process_that_serves_watches_the_controller_and_has_no_other_file() {
    let Some((_executor, [_, _, second])) = three() else { return };
    let others = open_files(second).into_iter().filter(|(number, _)| *number > 2);
    let mut kinds = BTreeMap::new();
    for (number, file) in others {
        let facts = fs::read_to_string(format!("/proc/{second}/fdinfo/{number}")).unwrap();
        let watched = facts.lines().find_map(|line| line.strip_prefix("Pid:\t")).map(str::to_owned);
        kinds.insert(file.display().to_string().split(':').next().unwrap().to_owned(), watched);
    }
    let expected = [
        ("/memfd".to_owned(), None),
        ("anon_inode".to_owned(), Some(std::process::id().to_string())),
        ("socket".to_owned(), None),
    ];
    assert_eq!(kinds, expected.into());
}

#[test]
fn whichever_is_killed_the_others_end_also_if_they_are_stopped() {
    for killed in 0..3 {
        for stopped in [None, Some(0), Some(1), Some(2)] {
            let Some((executor, processes)) = three() else { return };
            if let Some(stopped) = stopped {
                stop(processes[stopped]);
            }
            send(processes[killed], Signal::KILL);
            // A stopped process that waits does not report the end; the kill sent on drop reaches
            // it.
            let hears = killed == 0 || stopped.is_none_or(|stopped| stopped >= killed);
            if hears {
                let ended = executor.peer().wait_for_end();
                let EndReason::Died(death) = &ended else { panic!("{ended}") };
                assert_eq!(death.0.signal(), Some(libc::SIGKILL), "{killed} {stopped:?}");
            }
            drop(executor);
            for process in processes {
                assert!(is_gone(process), "{killed} {stopped:?}: {process} of {processes:?} stays");
            }
        }
    }
}

#[test]
fn no_stopped_process_outlives_its_drop() {
    for stopped in [&[0][..], &[1], &[2], &[0, 1], &[0, 1, 2]] {
        let Some((executor, processes)) = three() else { return };
        stopped.iter().for_each(|stopped| stop(processes[*stopped]));
        let is_silent = stopped.contains(&2);
        let limit = if is_silent { Duration::from_millis(20) } else { Duration::from_secs(100) };
        let answer = executor.peer().call_within(Some(limit), ECHO, &[]);
        assert_eq!(answer.is_err(), is_silent, "{stopped:?}");
        drop(executor);
        for process in processes {
            assert!(is_gone(process), "{stopped:?}: {process} of {processes:?} stays");
        }
    }
}

#[test]
fn nothing_serves_any_more_when_the_end_is_known() {
    for killed in 0..3 {
        let Some((executor, processes)) = three() else { return };
        send(processes[killed], Signal::KILL);
        assert!(executor.child().wait(Duration::from_secs(100)).is_some());
        let state = status(processes[2], "State");
        assert!(state.as_ref().is_none_or(|state| state.starts_with(['Z', 'X'])), "{state:?}");
    }
}

#[test]
fn signals_to_the_process_that_was_started_reach_the_one_that_serves() {
    let signals =
        [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2];
    for signal in signals {
        if three().is_none() {
            return;
        }
        let executor = sandboxed()
            .with_argument("--core")
            .with_argument("0")
            .start(Arc::new(NoService))
            .unwrap();
        let second = executor.child().id();
        let outer = parent(parent(second));
        // The signal stays pending in the stopped serving process, so the started process goes on.
        stop(second);
        send(outer, signal);
        let mut states = (0..500).map(|_| {
            sleep(Duration::from_millis(20));
            status(outer, "State")
        });
        let sleeps = states.any(|state| state.is_some_and(|state| state.starts_with('S')));
        assert!(sleeps, "{signal:?}");
        send(second, Signal::CONT);
        let error = executor.peer().wait_for_end();
        let EndReason::Died(death) = &error else { panic!("{error}") };
        assert_eq!(death.0.signal(), Some(signal.as_raw()), "{error}");
    }
}

#[test]
fn a_signal_ends_them_however_early_it_comes() {
    if three().is_none() {
        return;
    }
    for step in 0..100 {
        let before = children();
        let sender = thread::spawn(move || {
            let started = || children().difference(&before).next().copied();
            let outer = std::iter::repeat_with(started).flatten().next().unwrap();
            sleep(Duration::from_micros(100 * step));
            send(outer, Signal::TERM);
            let is_ended = is_gone(outer);
            if !is_ended {
                send(outer, Signal::KILL);
            }
            is_ended
        });
        let executor = sandboxed().start(Arc::new(NoService));
        let is_ended = sender.join().unwrap();
        let serves = executor.is_ok_and(|executor| executor.peer().call(ECHO, &[]).is_ok());
        assert!(is_ended && !serves, "the signal of step {step} was lost");
    }
}

#[test]
fn a_kill_of_the_child_is_reported_as_its_end() {
    let Some((executor, processes)) = three() else { return };
    executor.child().kill();
    let error = executor.peer().call(ECHO, &[]).unwrap_err();
    let CallError::Ended(EndReason::Died(death)) = &error else { panic!("{error}") };
    assert_eq!(death.0.signal(), Some(libc::SIGKILL));
    assert!(processes.into_iter().all(is_gone));
}

#[test]
fn ended_processes_are_left_to_no_other_process() {
    // Orphans below this process become its children.
    set_child_subreaper(Some(getpid())).unwrap();
    for is_killed in [false, true] {
        let Some((executor, _)) = three() else { return };
        if is_killed {
            executor.child().kill();
        }
        drop(executor);
        assert_eq!(children(), [].into(), "{is_killed}");
    }
}
