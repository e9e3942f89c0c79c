//! A network link between two network namespaces, with a bandwidth and a delay. Not all kernels can
//! delay packets (`tc` with `netem`). So this process carries them between a virtual network card
//! in each namespace.

use std::fs::File;
use std::io::{Error, Read, Result, Write};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The namespaces, separated by a space.
const NAMESPACES: &str = "LONGSHORE_TEST_LINK";
/// Time from one end to the other.
const DELAY: Duration = Duration::from_millis(1);
/// Time for a byte at 1 Gbit/s.
const PER_BYTE: Duration = Duration::from_nanos(8);
/// Frames on their way. Further ones are lost, as in a switch.
const FRAMES: usize = 4096;
/// `TUNSETIFF` of `linux/if_tun.h`: `_IOW('T', 202, int)`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

pub(crate) const PARTS: [(&str, fn()); 1] = [("link", link)];

/// A frame, and the time of its arrival.
type Frame = (Instant, Vec<u8>);

fn link() {
    let names = std::env::var(NAMESPACES).expect("the namespaces of the link");
    let (one, other) = names.split_once(' ').expect("two namespaces");
    let cards = [one, other].map(|name| card(name).expect("a network card"));
    let copy = |card: &File| card.try_clone().expect("a descriptor");
    let ends = [(copy(&cards[0]), copy(&cards[1])), (copy(&cards[1]), copy(&cards[0]))];
    println!("the link is up");
    thread::scope(|scope| {
        for (from, to) in ends {
            let (send, receive) = sync_channel(FRAMES);
            scope.spawn(move || take(from, &send));
            scope.spawn(move || deliver(&receive, to));
        }
    });
}

/// Creates the network card `eth0` of a namespace.
fn card(namespace: &str) -> Result<File> {
    let namespace = File::open(format!("/run/netns/{namespace}"))?;
    let create = move || {
        // SAFETY: the call moves this thread alone.
        if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            return Err(Error::last_os_error());
        }
        let card = File::options().read(true).write(true).open("/dev/net/tun")?;
        // SAFETY: zeroes are a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(*b"eth0") {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the request is an `ifreq`, as the call expects.
        match unsafe { libc::ioctl(card.as_raw_fd(), TUNSETIFF, &raw mut request) } {
            0 => Ok(card),
            _ => Err(Error::last_os_error()),
        }
    };
    thread::spawn(create).join().expect("the thread does not panic")
}

/// Takes the frames that a namespace sends, until its card is gone.
fn take(mut from: File, to: &SyncSender<Frame>) {
    let (mut frame, mut is_free) = (vec![0; 1 << 16], Instant::now());
    while let Ok(bytes) = from.read(&mut frame) {
        is_free = is_free.max(Instant::now()) + PER_BYTE * bytes as u32;
        let _ = to.try_send((is_free + DELAY, frame[..bytes].to_vec()));
    }
}

/// Delivers frames at their time.
fn deliver(from: &Receiver<Frame>, mut to: File) {
    for (due, frame) in from {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // A card that is down loses the frame.
        let _ = to.write_all(&frame);
    }
}
