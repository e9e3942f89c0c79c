//! Calls, replies and posts.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use longshore_executor::rpc::{CallError, MAX_CONTENT, Peer};

use crate::rpc::support::{ALL, CALL_BACK, COUNT, ECHO, FAIL, HANG, MEET, NEST, Over, pair};

#[test]
fn calls_of_all_sizes_are_answered() {
    for over in ALL {
        let pair = pair(over);
        for size in [0, 1, 23, 4031, 4032, 4033, 65535, 65536, 65537, 1 << 20, MAX_CONTENT] {
            let argument: Vec<u8> = (0..size).map(|index| (index * 31) as u8).collect();
            assert_eq!(pair.controller.call(ECHO, &argument), Ok(argument), "{over:?} {size}");
        }
        let error = pair.controller.call(ECHO, &vec![0; MAX_CONTENT + 1]).unwrap_err();
        assert_eq!(error, CallError::TooLarge { bytes: MAX_CONTENT + 1, most: MAX_CONTENT });
        assert_eq!(pair.controller.call(ECHO, b"it goes on").unwrap(), b"it goes on");
    }
}

#[test]
fn a_failure_comes_back_as_its_text() {
    for over in ALL {
        let pair = pair(over);
        for size in [0, 7, 100_000] {
            let text = "x".repeat(size);
            let error = pair.controller.call(FAIL, text.as_bytes()).unwrap_err();
            assert_eq!(error, CallError::Failed(text), "{over:?}");
        }
    }
}

#[test]
fn the_executor_calls_back_while_it_is_called() {
    for over in ALL {
        let pair = pair(over);
        assert_eq!(pair.controller.call(CALL_BACK, b"back").unwrap(), b"back", "{over:?}");
        let deep: Vec<u8> = (1..=40).collect();
        assert_eq!(pair.controller.call(NEST, &[40]).unwrap(), deep, "{over:?}");
        assert_eq!(pair.executor.call(NEST, &[40]).unwrap(), deep, "{over:?}");
    }
}

#[test]
fn calls_that_wait_for_each_other_are_answered() {
    for over in ALL {
        let pair = pair(over);
        let started: Vec<_> =
            (0..200).map(|_| pair.controller.start(MEET, &[200]).unwrap()).collect();
        for call in started.into_iter().rev() {
            call.wait().unwrap();
        }
    }
}

#[test]
fn more_calls_than_slots_wait_for_each_other() {
    const CALLS: u16 = 700;
    for over in ALL {
        let pair = pair(over);
        let number = CALLS.to_le_bytes();
        let calls: Vec<_> =
            (0..CALLS).map(|_| pair.controller.start(MEET, &number).unwrap()).collect();
        // Other calls of either side are handled meanwhile.
        assert_eq!(pair.executor.call(CALL_BACK, b"back").unwrap(), b"back", "{over:?}");
        calls.into_iter().for_each(|call| assert_eq!(call.wait(), Ok(Vec::new()), "{over:?}"));
    }
}

#[test]
fn calls_beyond_the_most_are_refused_and_the_others_go_on() {
    let pair = pair(Over::SharedMemory);
    let hang = || pair.controller.start(HANG, &[]);
    let mut hanging = Vec::new();
    let refused = loop {
        match hang() {
            Ok(call) => hanging.push(call),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, CallError::TooMany { most: hanging.len() });
    assert_eq!(pair.executor.call(ECHO, b"it goes on").unwrap(), b"it goes on");
    drop(pair.executor);
    assert!(hanging.into_iter().all(|call| call.wait().is_err()));
}

#[test]
fn more_threads_than_slots_call_at_once() {
    for over in ALL {
        let pair = pair(over);
        let call_often = |peer: &Peer, thread: u64| {
            for index in 0..50_u64 {
                let argument = (thread << 32 | index).to_le_bytes().repeat(1 + index as usize * 20);
                assert_eq!(peer.call(ECHO, &argument).unwrap(), argument);
            }
        };
        thread::scope(|scope| {
            for thread in 0..300 {
                let peer: &Arc<Peer> =
                    if thread % 3 == 0 { &pair.executor } else { &pair.controller };
                scope.spawn(move || call_often(peer, thread));
            }
        });
    }
}

#[test]
fn messages_come_in_order_and_before_calls_that_follow() {
    for over in ALL {
        let pair = pair(over);
        for index in 0..5000_u32 {
            let content = index.to_le_bytes().repeat(index as usize % 97);
            pair.controller.post(index, &content).unwrap();
            if index % 500 == 499 {
                // Every second argument does not fit into the ring.
                let argument = vec![0; if index % 1000 == 999 { Peer::MAX_POST + 1 } else { 0 }];
                let count = pair.controller.call(COUNT, &argument).unwrap();
                assert_eq!(count, (index as usize + 1).to_le_bytes(), "{over:?}");
            }
        }
        for (index, (method, content)) in pair.service.posts.lock().iter().enumerate() {
            assert_eq!(*method, index as u32);
            assert_eq!(content.len(), 4 * (index % 97));
        }
        let most = Peer::MAX_POST;
        let error = pair.controller.post(0, &vec![0; most + 1]).unwrap_err();
        assert_eq!(error, CallError::TooLarge { bytes: most + 1, most });
    }
}

#[test]
fn a_close_waits_for_pending_replies_for_a_limited_time() {
    for over in ALL {
        let pair = pair(over);
        pair.controller.wait_until_idle(Duration::MAX);
        let (limit, started) = (Duration::from_millis(50), Instant::now());
        let first = pair.controller.start(MEET, &[2]).unwrap();
        pair.controller.wait_until_idle(limit);
        assert!(started.elapsed() >= limit, "{over:?}");
        thread::scope(|scope| {
            scope.spawn(|| first.wait().unwrap());
            scope.spawn(|| pair.controller.call(MEET, &[2]).unwrap());
            // The waiting threads give the slots back.
            pair.controller.wait_until_idle(Duration::MAX);
        });
    }
}

#[test]
fn a_call_that_is_not_waited_for_leaves_its_slot() {
    for over in ALL {
        let pair = pair(over);
        for _ in 0..1000 {
            drop(pair.controller.start(ECHO, b"dropped").unwrap());
        }
        assert_eq!(pair.controller.call(ECHO, b"last").unwrap(), b"last");
    }
}
