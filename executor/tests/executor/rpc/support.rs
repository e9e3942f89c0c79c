//! Pairs of connected ends.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use longshore_executor::rpc::{Connection, Options, Peer, Service, Transport};
use parking_lot::{Condvar, Mutex};

/// The method that returns its argument.
pub(crate) const ECHO: u32 = 1;
/// The method that fails with the argument as its text.
pub(crate) const FAIL: u32 = 2;
/// The method that calls [`ECHO`] on the other side and returns the reply.
pub(crate) const CALL_BACK: u32 = 3;
/// The method that returns when a number of calls of it are waiting: the argument is that number,
/// lowest byte first.
pub(crate) const MEET: u32 = 4;
/// The method that returns the number of posts received so far.
pub(crate) const COUNT: u32 = 5;
/// The method that does not return while the connection lasts.
pub(crate) const HANG: u32 = 6;
/// The method that calls back to a depth given by the first byte of the argument.
pub(crate) const NEST: u32 = 7;

#[derive(Default)]
pub(crate) struct Tester {
    pub(crate) posts: Mutex<Vec<(u32, Vec<u8>)>>,
    met: Mutex<usize>,
    has_met: Condvar,
}

impl Service for Tester {
    fn call(&self, peer: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        match method {
            ECHO => Ok(argument.to_vec()),
            FAIL => Err(String::from_utf8(argument.to_vec()).unwrap()),
            CALL_BACK => peer.call(ECHO, argument).map_err(|error| error.to_string()),
            MEET => {
                let number =
                    argument.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte));
                let mut met = self.met.lock();
                *met += 1;
                if *met >= number {
                    self.has_met.notify_all();
                }
                self.has_met.wait_while(&mut met, |met| *met < number);
                Ok(Vec::new())
            }
            COUNT => Ok(self.posts.lock().len().to_le_bytes().to_vec()),
            HANG => {
                peer.wait_for_end();
                Err("it was hanging".to_owned())
            }
            NEST => match argument[0] {
                0 => Ok(Vec::new()),
                depth => {
                    let mut answer =
                        peer.call(NEST, &[depth - 1]).map_err(|error| error.to_string())?;
                    answer.push(depth);
                    Ok(answer)
                }
            },
            other => Err(format!("no method {other}")),
        }
    }

    fn post(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) {
        self.posts.lock().push((method, argument.to_vec()));
    }
}

/// The transports that connect both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    SharedMemory,
    Spinning,
    Stream,
    Tcp,
}

pub(crate) const ALL: [Over; 4] = [Over::SharedMemory, Over::Spinning, Over::Stream, Over::Tcp];

pub(crate) struct Pair {
    pub(crate) controller: Connection,
    pub(crate) executor: Connection,
    pub(crate) service: Arc<Tester>,
}

pub(crate) fn pair(over: Over) -> Pair {
    let (ours, theirs) = transports(over);
    let service = Arc::new(Tester::default());
    let options = options(over);
    let (their_options, their_service) = (options.clone(), service.clone());
    let other =
        thread::spawn(move || Connection::open(theirs, their_options, their_service).unwrap());
    let controller = Connection::open(ours, options, Arc::new(Tester::default())).unwrap();
    let executor = other.join().unwrap();
    let shares = matches!(over, Over::SharedMemory | Over::Spinning);
    assert_eq!((controller.shares_memory(), executor.shares_memory()), (shares, shares));
    Pair { controller, executor, service }
}

pub(crate) fn options(over: Over) -> Options {
    let spin = match over {
        Over::Spinning => Duration::from_micros(50),
        _ => Duration::ZERO,
    };
    Options { spin, greeting_limit: Duration::from_millis(500), ..Options::default() }
}

fn transports(over: Over) -> (Transport, Transport) {
    if over == Over::Tcp {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        return (
            Transport::plain_tcp(ours, true).unwrap(),
            Transport::plain_tcp(theirs, false).unwrap(),
        );
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let shared = (over != Over::Stream).then(memory);
    (Transport::controller(ours, shared), Transport::executor(theirs))
}

pub(crate) fn memory() -> OwnedFd {
    let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, Transport::LINK_BYTES as u64).unwrap();
    file
}
