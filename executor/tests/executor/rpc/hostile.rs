//! Peers that break the protocol.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use longshore_executor::rpc::{Connection, EndReason, Transport, VERSION};

use crate::exercise;
use crate::rpc::support::{ECHO, Over, Tester, options};

/// Returns the greeting of a peer with this version.
fn greeting(version: u32) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(b"LNGSHREX");
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Opens a connection to a peer that sends these bytes and ends. Returns the end of the connection.
fn answered_with(bytes: &[u8]) -> Result<EndReason, EndReason> {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let transport = Transport::controller(ours, None);
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = theirs.write_all(bytes);
            let _ = theirs.read_exact(&mut [0; 32]);
        });
        let connection =
            Connection::open(transport, options(Over::Stream), Arc::new(Tester::default()))?;
        let _ = connection.call(ECHO, b"anyone there?");
        Ok(connection.wait_for_end())
    })
}

fn frame(size: u32, kind: u32, identity: u64, method: u32) -> Vec<u8> {
    [
        &size.to_le_bytes()[..],
        &kind.to_le_bytes(),
        &identity.to_le_bytes(),
        &method.to_le_bytes(),
        &[0; 4],
    ]
    .concat()
}

#[test]
fn a_peer_of_another_version_is_refused_with_both_versions() {
    let ended = answered_with(&greeting(VERSION + 1)).unwrap_err();
    assert_eq!(ended, EndReason::Version { ours: VERSION, theirs: VERSION + 1 });
}

#[test]
fn an_invalid_or_truncated_greeting_is_refused() {
    assert!(matches!(answered_with(&[b'x'; 64]), Err(EndReason::Protocol(_))));
    for length in 0..32 {
        assert_eq!(answered_with(&greeting(VERSION)[..length]), Err(EndReason::Cut), "{length}");
    }
}

#[test]
fn a_connection_that_is_cut_in_the_middle_of_a_message_ends() {
    let message = [&frame(100, 3, 0, 1)[..], &[7; 100]].concat();
    for length in 0..message.len() {
        let bytes = [&greeting(VERSION)[..], &message[..length]].concat();
        assert_eq!(answered_with(&bytes), Ok(EndReason::Cut), "{length}");
    }
}

#[test]
fn messages_that_may_not_be_sent_end_the_connection() {
    for (what, frame) in [
        ("too large", frame(u32::MAX, 1, 0, 1)),
        ("of no kind", frame(0, 9, 0, 1)),
        ("an answer to nothing", frame(0, 2, 3, 0)),
        ("an answer to a slot that is none", frame(0, 2, 1 << 20, 0)),
    ] {
        let ended = answered_with(&[&greeting(VERSION)[..], &frame].concat());
        assert!(matches!(ended, Ok(EndReason::Protocol(_))), "{what}: {ended:?}");
    }
}

#[test]
fn a_farewell_ends_the_connection() {
    let ended = answered_with(&[&greeting(VERSION)[..], &frame(0, 4, 0, 0)].concat());
    assert_eq!(ended, Ok(EndReason::There));
}

fn random(seed: u64) -> impl FnMut() -> u32 {
    let mut seed = seed;
    move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as u32
    }
}

#[test]
fn random_messages_end_the_connection() {
    let mut random = random(7);
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..random() % 8 {
            let size = random() % 64;
            bytes.extend(frame(size, 1 + random() % 3, u64::from(random() % 300), random() % 8));
            bytes.extend((0..random() % 80).map(|_| random() as u8));
        }
        bytes.extend((0..random() % 64).map(|_| random() as u8));
        exercise::says(&bytes);
    }
}

#[test]
fn shared_memory_with_random_bytes_ends_the_connection_or_not_but_nothing_hangs() {
    let mut random = random(11);
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..1 + random() % 6 {
            // The counters, the slots and the ring.
            let place = match random() % 4 {
                0 => random() % 16 * 16,
                1 => 4096 + random() % 65536,
                _ => 4096 + 256 * 4096 + random() % 4096,
            };
            let place = place + random() % 2 * (Transport::LINK_BYTES as u32 / 2);
            bytes.extend(place.to_le_bytes());
            let size = random() % 64;
            bytes.push(size as u8);
            bytes.extend((0..size).map(|_| random() as u8));
        }
        exercise::writes(&bytes);
    }
}
