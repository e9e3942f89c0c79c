//! The end of an executor, and the report of it.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore_executor::controller::Spawn;
use longshore_executor::rpc::{CallError, EndReason};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::support::{ECHO, NoService, both_ways, children, is_gone, spawn, status};

#[test]
fn it_ends_when_the_controller_closes_the_connection() {
    both_ways(|executor| {
        let id = executor.child().id();
        drop(executor);
        assert_eq!(status(id, "State"), None);
    });
}

#[test]
fn calls_of_one_that_is_killed_end_with_the_signal() {
    both_ways(|executor| {
        let peer = Arc::clone(executor.peer());
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            if let Err(error) = peer.call(ECHO, &[1; 100]) {
                                return error;
                            }
                        }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(10));
            executor.child().kill();
            for call in calls {
                let error = call.join().unwrap();
                let CallError::Ended(EndReason::Died(death)) = &error else { panic!("{error}") };
                assert_eq!(death.0.signal(), Some(libc::SIGKILL));
                assert!(error.to_string().contains("SIGKILL"), "{error}");
            }
        });
        assert_eq!(peer.ended().unwrap(), peer.wait_for_end());
    });
}

#[test]
fn a_stopped_process_is_killed_at_its_drop() {
    let executor =
        spawn().with_ending_limit(Duration::from_millis(50)).start(Arc::new(NoService)).unwrap();
    let id = executor.child().id();
    kill_process(Pid::from_raw(id as i32).unwrap(), Signal::STOP).unwrap();
    let limit = Duration::from_millis(20);
    let error = executor.peer().call_within(Some(limit), ECHO, &[]).unwrap_err();
    assert_eq!(error, CallError::Ended(EndReason::Silent { limit }));
    let start = Instant::now();
    drop(executor);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(status(id, "State"), None);
}

#[test]
fn none_stays_when_its_controller_is_killed() {
    for shares in [true, false] {
        let stays = outlives_its_controller(&spawn().with_shared_memory(shares), |_| {});
        assert!(!stays, "an executor stays, sharing memory: {shares}");
    }
}

#[test]
fn a_stopped_process_ends_with_its_killed_controller() {
    let stop = |processes: &[u32]| {
        for process in processes {
            kill_process(Pid::from_raw(*process as i32).unwrap(), Signal::STOP).unwrap();
            while !status(*process, "State").unwrap().starts_with('T') {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    for spawn in [spawn(), spawn().with_argument("--sandbox")] {
        assert!(!outlives_its_controller(&spawn, stop), "{spawn:?} stays");
        let stop_the_one_that_serves = |processes: &[u32]| stop(&processes[..1]);
        assert!(!outlives_its_controller(&spawn, stop_the_one_that_serves), "{spawn:?} stays");
    }
}

/// Forks a controller, which starts an executor, calls `meanwhile` with its processes, the serving
/// one first, and kills the controller. Returns whether any of the processes remains.
fn outlives_its_controller(spawn: &Spawn, meanwhile: impl Fn(&[u32])) -> bool {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    // SAFETY: the child starts an executor and waits. The test has one other thread, the harness's,
    // which waits for this one.
    let controller = unsafe { libc::fork() };
    if controller == 0 {
        let executor = spawn.start(Arc::new(NoService)).unwrap();
        // The executor must end even if another process has inherited the socket.
        // SAFETY: that child sleeps, and is killed below.
        let sibling = unsafe { libc::fork() };
        if sibling != 0 {
            let ids = [executor.child().id(), sibling as u32].map(u32::to_le_bytes);
            rustix::io::write(&writer, ids.as_flattened()).unwrap();
        }
        loop {
            std::thread::sleep(Duration::from_secs(100));
        }
    }
    let mut ids = [0; 8];
    rustix::io::read(&reader, &mut ids).unwrap();
    let [executor, sibling] =
        [0, 4].map(|at| u32::from_le_bytes(ids[at..at + 4].try_into().unwrap()));
    // In a sandbox there are other processes between the controller and the serving one.
    let parent = |process: &u32| status(*process, "PPid").unwrap().parse::<u32>().unwrap();
    let above = |process: &u32| Some(parent(process)).filter(|parent| *parent != controller as u32);
    let processes: Vec<u32> = std::iter::successors(Some(executor), above).collect();
    meanwhile(&processes);
    kill_process(Pid::from_raw(controller).unwrap(), Signal::KILL).unwrap();
    // SAFETY: the call waits for the child made above.
    unsafe { libc::waitpid(controller, std::ptr::null_mut(), 0) };
    let stays = !processes.iter().all(|process| is_gone(*process));
    kill_process(Pid::from_raw(sibling as i32).unwrap(), Signal::KILL).unwrap();
    for process in processes {
        let _ = kill_process(Pid::from_raw(process as i32).unwrap(), Signal::KILL);
    }
    stays
}

#[test]
fn one_outlives_the_thread_that_started_it() {
    let start = || spawn().start(Arc::new(NoService)).unwrap();
    let executor = std::thread::scope(|scope| scope.spawn(start).join().unwrap());
    let id = executor.child().id();
    // The signal of a thread's end is sent after other threads can notice the end.
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(1));
        assert!(!status(id, "State").unwrap().starts_with('Z'));
    }
    assert_eq!(executor.peer().call(ECHO, b"still here").unwrap(), b"still here");
}

#[test]
fn a_forked_child_leaves_the_executor_to_its_parent() {
    both_ways(|executor| {
        // SAFETY: the child drops its handles and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused =
                executor.peer().call(ECHO, &[]) == Err(CallError::Ended(EndReason::Forked));
            drop(executor);
            // SAFETY: the call ends the child at once.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = 0;
        // SAFETY: the call waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(executor.peer().call(ECHO, b"still here").unwrap(), b"still here");
    });
}

#[test]
fn nothing_is_left_of_one_that_does_not_greet() {
    let before = children();
    let spawn = Spawn::new("/bin/cat");
    assert!(spawn.start(Arc::new(NoService)).is_err());
    assert_eq!(children(), before);
}
