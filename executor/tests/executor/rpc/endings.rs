//! The ends of connections.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use longshore_executor::rpc::{CallError, Connection, EndReason, Transport};

use crate::rpc::support::{ALL, ECHO, HANG, Over, Tester, options, pair};

#[test]
fn closing_one_end_ends_the_calls_of_the_other() {
    for over in ALL {
        let pair = pair(over);
        thread::scope(|scope| {
            let calls: Vec<_> = (0..20)
                .map(|_| scope.spawn(|| pair.executor.call(HANG, &[]).unwrap_err()))
                .collect();
            thread::sleep(Duration::from_millis(20));
            pair.controller.close();
            for call in calls {
                assert_eq!(call.join().unwrap(), CallError::Ended(EndReason::There), "{over:?}");
            }
        });
        assert_eq!(pair.executor.wait_for_end(), EndReason::There);
        assert_eq!(pair.executor.call(ECHO, &[]), Err(CallError::Ended(EndReason::There)));
        assert_eq!(pair.executor.post(1, &[]), Err(CallError::Ended(EndReason::There)));
    }
}

#[test]
fn messages_posted_before_the_end_are_received() {
    for over in ALL {
        for _ in 0..50 {
            let pair = pair(over);
            for index in 0..20 {
                pair.controller.post(index, &[0; 100]).unwrap();
            }
            pair.controller.close();
            assert_eq!(pair.executor.wait_for_end(), EndReason::There);
            let posts = pair.service.posts.lock();
            let methods: Vec<_> = posts.iter().map(|(method, _)| *method).collect();
            assert_eq!(methods, (0..20).collect::<Vec<_>>(), "{over:?}");
        }
    }
}

#[test]
fn a_peer_that_does_not_answer_in_time_is_given_up() {
    for over in ALL {
        let pair = pair(over);
        let limit = Duration::from_millis(50);
        let start = Instant::now();
        let error = pair.controller.call_within(Some(limit), HANG, &[]).unwrap_err();
        assert_eq!(error, CallError::Ended(EndReason::Silent { limit }), "{over:?}");
        assert!(start.elapsed() >= limit);
        assert_eq!(pair.executor.wait_for_end(), EndReason::Cut);
    }
}

#[test]
fn a_wait_for_room_ends_with_the_connection() {
    for over in ALL {
        let pair = pair(over);
        let posts = pair.service.posts.lock();
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                loop {
                    if let Err(error) = pair.controller.post(0, &[0; 60_000]) {
                        return error;
                    }
                }
            });
            thread::sleep(Duration::from_millis(50));
            pair.controller.end(EndReason::Here);
            assert_eq!(sender.join().unwrap(), CallError::Ended(EndReason::Here), "{over:?}");
        });
        drop(posts);
    }
}

#[test]
fn a_peer_that_says_nothing_is_refused_after_a_while() {
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let transport = Transport::controller(ours, None);
    let opened = Connection::open(transport, options(Over::Stream), Arc::new(Tester::default()));
    let ended = opened.err().unwrap();
    assert!(matches!(ended, EndReason::Stream(_)), "{ended}");
}

#[test]
fn a_forked_child_does_not_touch_the_connection() {
    for over in ALL {
        let pair = pair(over);
        // SAFETY: the child makes calls that fail at once, drops its end and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused =
                pair.controller.call(ECHO, &[]) == Err(CallError::Ended(EndReason::Forked));
            let posted =
                pair.controller.post(ECHO, &[]) == Err(CallError::Ended(EndReason::Forked));
            drop(pair.controller);
            // SAFETY: the call ends the child at once.
            unsafe { libc::_exit(i32::from(!(refused && posted))) };
        }
        let mut status = 0;
        // SAFETY: the call waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "{over:?}");
        assert_eq!(pair.controller.call(ECHO, b"still here").unwrap(), b"still here");
    }
}
