//! A TCP stream with encryption.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use snow::{Builder, HandshakeState, StatelessTransportState};

use super::Key;
use super::progress::{IS_WRITING, Progress};
use crate::rpc::{EndReason, ProcessExit, Transport};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// Greatest number of bytes of a piece on the wire, including the [`ADDED`] bytes of the
/// encryption.
const PIECE: usize = 65535;
const ADDED: usize = 16;

/// Time of silence after which the system probes the other machine, and the number of probes before
/// it gives up.
const SILENCE: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;

/// The reason for a failed greeting.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Timeout of the greeting.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// End of the connection by the peer.
    #[error("it closed the connection")]
    Closed,
    /// Failure of the peer's proof or of the socket.
    #[error("{0}")]
    Refused(String),
}

/// A controller that has proved that it has the key.
pub(super) struct AuthenticatedController {
    pub(super) transport: Transport,
    pub(super) last_message: LastMessageSender,
}

/// Performs the controller's side of the greeting within `limit`. The controller sends the first
/// message and the last, since any peer can replay its first message.
pub(super) fn ask(socket: TcpStream, key: &Key, limit: Duration) -> Result<Transport, Failure> {
    let mut state = builder(key)?.build_initiator().map_err(refused)?;
    prepare(&socket)?;
    let mut stream = DeadlineSocket::new(&socket, limit);
    send(&mut stream, &mut state)?;
    receive(&mut stream, &mut state)?;
    let state = state.into_stateless_transport_mode().map_err(refused)?;
    confirm(&mut stream, &state)?;
    finish(socket, state, true).map(|accepted| accepted.transport)
}

/// Performs the executor's side of the greeting within `limit`.
pub(super) fn reply(
    socket: TcpStream,
    key: &Key,
    limit: Duration,
) -> Result<AuthenticatedController, Failure> {
    let mut state = builder(key)?.build_responder().map_err(refused)?;
    prepare(&socket)?;
    let mut stream = DeadlineSocket::new(&socket, limit);
    receive(&mut stream, &mut state)?;
    send(&mut stream, &mut state)?;
    let state = state.into_stateless_transport_mode().map_err(refused)?;
    await_confirmation(&mut stream, &state)?;
    finish(socket, state, false)
}

fn builder(key: &Key) -> Result<Builder<'_>, Failure> {
    Builder::new(PATTERN.parse().map_err(refused)?).psk(0, key.bytes()).map_err(refused)
}

fn prepare(socket: &TcpStream) -> Result<(), Failure> {
    let set = || {
        socket.set_nodelay(true)?;
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, SILENCE)?;
        sockopt::set_tcp_keepintvl(socket, SILENCE / PROBES)?;
        sockopt::set_tcp_keepcnt(socket, PROBES)?;
        sockopt::set_tcp_user_timeout(socket, 2 * SILENCE.as_millis() as u32)?;
        Ok(())
    };
    set().map_err(|error: io::Error| refused(error))
}

/// A socket with a deadline.
struct DeadlineSocket<'a> {
    socket: &'a TcpStream,
    limit: Duration,
    end: Instant,
}

impl<'a> DeadlineSocket<'a> {
    fn new(socket: &'a TcpStream, limit: Duration) -> Self {
        Self { socket, limit, end: Instant::now() + limit }
    }

    fn left(&self) -> Result<Duration, Failure> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Failure::Silent(self.limit)) } else { Ok(left) }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, WouldBlock};
        match error.kind() {
            WouldBlock | TimedOut => Failure::Silent(self.limit),
            BrokenPipe | ConnectionReset => Failure::Closed,
            _ => refused(error),
        }
    }

    fn read(&mut self, mut buffer: &mut [u8]) -> Result<(), Failure> {
        while !buffer.is_empty() {
            self.socket.set_read_timeout(Some(self.left()?)).map_err(refused)?;
            let mut socket = self.socket;
            match socket.read(buffer) {
                Ok(0) => return Err(Failure::Closed),
                Ok(size) => buffer = &mut buffer[size..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }

    /// Writes a few bytes, which fit into the socket's buffer.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.socket.set_write_timeout(Some(self.left()?)).map_err(refused)?;
        let mut socket = self.socket;
        socket.write_all(bytes).map_err(|error| self.failed(&error))
    }
}

fn send(stream: &mut DeadlineSocket<'_>, state: &mut HandshakeState) -> Result<(), Failure> {
    let mut message = [0; 256];
    let size = state.write_message(&[], &mut message[2..]).map_err(refused)?;
    message[..2].copy_from_slice(&(size as u16).to_be_bytes());
    stream.write(&message[..2 + size])
}

fn receive(stream: &mut DeadlineSocket<'_>, state: &mut HandshakeState) -> Result<(), Failure> {
    let (mut size, mut message) = ([0; 2], [0; 256]);
    stream.read(&mut size)?;
    let size = usize::from(u16::from_be_bytes(size));
    let message =
        message.get_mut(..size).ok_or_else(|| refused("its first message is too long"))?;
    stream.read(message)?;
    let mut nothing = [0; 256];
    match state.read_message(message, &mut nothing) {
        Ok(_) => Ok(()),
        Err(snow::Error::Decrypt) => Err(refused("its message does not fit the key")),
        Err(error) => Err(refused(error)),
    }
}

/// Proves that this side has the keys of this connection, by an empty piece with the number 0.
fn confirm(
    stream: &mut DeadlineSocket<'_>,
    state: &StatelessTransportState,
) -> Result<(), Failure> {
    let mut piece = [0; ADDED];
    state.write_message(0, &[], &mut piece).map_err(refused)?;
    stream.write(&piece)
}

fn await_confirmation(
    stream: &mut DeadlineSocket<'_>,
    state: &StatelessTransportState,
) -> Result<(), Failure> {
    let mut piece = [0; ADDED];
    stream.read(&mut piece)?;
    match state.read_message(0, &piece, &mut []) {
        Ok(_) => Ok(()),
        Err(_) => Err(refused(
            "its confirmation is not for this connection: it repeats another peer's first message",
        )),
    }
}

fn finish(
    socket: TcpStream,
    state: StatelessTransportState,
    controls: bool,
) -> Result<AuthenticatedController, Failure> {
    let (state, socket) = (Arc::new(state), Arc::new(socket));
    let fate = Arc::new(OnceLock::new());
    let (closer, limited, reported) = (Arc::clone(&socket), Arc::clone(&socket), Arc::clone(&fate));
    let reader = Reader {
        socket: Arc::clone(&socket),
        state: Arc::clone(&state),
        number: 1,
        opened: Vec::new(),
        taken: 0,
        fate: controls.then_some(fate),
    };
    let outgoing =
        Arc::new(Outgoing { socket, state, progress: Progress::new(1).map_err(refused)? });
    let writer = Writer { outgoing: Arc::clone(&outgoing), waiting: Vec::with_capacity(PIECE) };
    let shut_down = Box::new(move || drop(closer.shutdown(Shutdown::Both)));
    let transport = Transport::over(controls, Box::new(reader), Box::new(writer), shut_down);
    let transport = transport.with_limit(move |read, write| {
        limited.set_read_timeout(read)?;
        limited.set_write_timeout(write)
    });
    let transport = transport.with_why(move || match reported.get() {
        Some(status) => EndReason::Died(ProcessExit(ExitStatus::from_raw(*status))),
        None => EndReason::Cut,
    });
    Ok(AuthenticatedController { transport, last_message: LastMessageSender(outgoing) })
}

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::Refused(error.to_string())
}

/// The receiving end, which decrypts pieces.
struct Reader {
    socket: Arc<TcpStream>,
    state: Arc<StatelessTransportState>,
    /// The number of the next piece.
    number: u64,
    opened: Vec<u8>,
    taken: usize,
    /// The receiver of the other process's exit status; `None` if the other side may not report
    /// one.
    fate: Option<Arc<OnceLock<i32>>>,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.opened.len() && !self.open_piece()? {
            return Ok(0);
        }
        let size = buffer.len().min(self.opened.len() - self.taken);
        buffer[..size].copy_from_slice(&self.opened[self.taken..self.taken + size]);
        self.taken += size;
        Ok(size)
    }
}

impl Reader {
    /// Reads and decrypts a piece. Returns false at the end of the stream between two pieces.
    fn open_piece(&mut self) -> io::Result<bool> {
        let Some(piece) = self.piece()? else { return Ok(false) };
        // An empty piece announces the last piece.
        if piece.len() == ADDED {
            self.open(LAST_WORDS, &piece)?;
            self.hear_last_words()?;
            return Ok(false);
        }
        self.open(self.number, &piece)?;
        self.number += 1;
        Ok(true)
    }

    /// Receives the exit status of the other side's process. Rejects it if a piece sent before is
    /// missing.
    fn hear_last_words(&mut self) -> io::Result<()> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a piece without content");
        let Some(fate) = self.fate.clone() else { return Err(wrong()) };
        let piece = self.piece()?.ok_or_else(wrong)?;
        self.open(LAST_WORDS + 1, &piece)?;
        let words = std::mem::take(&mut self.opened);
        let (status, reached) = words.split_first_chunk().ok_or_else(wrong)?;
        let reached = u64::from_be_bytes(reached.try_into().map_err(|_| wrong())?);
        let (next, is_writing) = (reached & !IS_WRITING, reached & IS_WRITING != 0);
        if self.number != next && !(is_writing && self.number == next + 1) {
            return Err(wrong());
        }
        let _ = fate.set(i32::from_be_bytes(*status));
        Ok(())
    }

    /// Returns the next encrypted piece; `None` at the end of the stream.
    fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut socket = &*self.socket;
        let mut size = [0; 2];
        if socket.read(&mut size[..1])? == 0 {
            return Ok(None);
        }
        socket.read_exact(&mut size[1..])?;
        let mut piece = vec![0; usize::from(u16::from_be_bytes(size))];
        socket.read_exact(&mut piece)?;
        Ok(Some(piece))
    }

    fn open(&mut self, number: u64, piece: &[u8]) -> io::Result<()> {
        self.opened.resize(piece.len(), 0);
        let opened = self.state.read_message(number, piece, &mut self.opened);
        let damaged =
            |_| io::Error::new(io::ErrorKind::InvalidData, "a piece that was changed on its way");
        let bytes = opened.map_err(damaged)?;
        self.opened.truncate(bytes);
        self.taken = 0;
        Ok(())
    }
}

/// The outgoing direction.
struct Outgoing {
    socket: Arc<TcpStream>,
    state: Arc<StatelessTransportState>,
    progress: Progress,
}

impl Outgoing {
    fn send(&self, content: &[u8]) -> io::Result<()> {
        self.progress.send(|number| self.write(number, content))
    }

    fn write(&self, number: u64, content: &[u8]) -> io::Result<()> {
        let mut piece = vec![0; 2 + content.len() + ADDED];
        let sealed = self.state.write_message(number, content, &mut piece[2..]);
        let size = sealed.map_err(io::Error::other)?;
        piece[..2].copy_from_slice(&(size as u16).to_be_bytes());
        let mut socket = &*self.socket;
        socket.write_all(&piece[..2 + size])
    }
}

/// The number of the first of the last two pieces. The ended process may have been about to count a
/// sent piece, so the next number is unknown; this one is beyond all others.
const LAST_WORDS: u64 = 1 << 62;

/// The means to send the last message over a connection: the end of the process that had it.
pub(crate) struct LastMessageSender(Arc<Outgoing>);

impl LastMessageSender {
    /// Returns the connection's socket.
    pub(crate) fn controller(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }

    /// Reports the end of the process that was forked from this one and had the connection: a
    /// status of `waitpid`. The controller does not learn of it if that process was cut off in the
    /// middle of a piece. Blocks for up to a few seconds.
    pub(crate) fn tell(&self, status: i32) {
        let socket = &self.0.socket;
        let reported = || {
            socket.set_write_timeout(Some(PARTING))?;
            let reached = self.0.progress.reached().to_be_bytes();
            self.0.write(LAST_WORDS, &[])?;
            self.0.write(LAST_WORDS + 1, &[&status.to_be_bytes()[..], &reached].concat())?;
            socket.shutdown(Shutdown::Write)?;
            // Closing a socket with unread bytes would discard the pieces sent above.
            socket.set_read_timeout(Some(PARTING))
        };
        let end = Instant::now() + PARTING;
        let mut socket = &**socket;
        if reported().is_ok() {
            while Instant::now() < end && matches!(socket.read(&mut [0; 4096]), Ok(1..)) {}
        }
    }
}

/// Time allowed for a controller to receive the last message.
const PARTING: Duration = Duration::from_secs(2);

/// The sending end, which encrypts pieces. Written bytes are sent on a flush, or when they fill a
/// piece.
struct Writer {
    outgoing: Arc<Outgoing>,
    waiting: Vec<u8>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.waiting.len() == PIECE - ADDED {
            self.flush()?;
        }
        let size = bytes.len().min(PIECE - ADDED - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..size]);
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.outgoing.send(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Returns the failure of a controller whose peer runs `replies`.
    fn asked(replies: impl FnOnce(TcpStream) + Send) -> Failure {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| replies(listener.accept().unwrap().0));
            let socket = TcpStream::connect(address).unwrap();
            let limit = Duration::from_millis(100);
            ask(socket, &Key::new([1; Key::BYTES]), limit).err().unwrap()
        })
    }

    #[test]
    fn a_silent_peer_is_distinguished_from_one_with_another_key() {
        let silent = asked(|mut peer| while matches!(peer.read(&mut [0; 64]), Ok(1..)) {});
        assert!(matches!(silent, Failure::Silent(_)), "{silent}");
        let closed = asked(|peer| {
            let other = Key::new([2; Key::BYTES]);
            let replied = reply(peer, &other, Duration::from_secs(5)).err().unwrap();
            assert!(replied.to_string().contains("does not fit the key"), "{replied}");
        });
        assert!(matches!(closed, Failure::Closed), "{closed}");
    }

    #[test]
    fn a_peer_that_says_a_byte_now_and_then_is_given_up_all_the_same() {
        let failure = asked(|mut peer| {
            let _ = peer.write_all(&[0, 200]);
            while peer.write_all(&[7]).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        assert!(matches!(failure, Failure::Silent(_)), "{failure}");
    }

    /// Returns both sides' states of an encrypted connection after its greeting.
    fn acquainted() -> [StatelessTransportState; 2] {
        let key = Key::new([1; Key::BYTES]);
        let mut one = builder(&key).unwrap().build_initiator().unwrap();
        let mut other = builder(&key).unwrap().build_responder().unwrap();
        let (mut said, mut heard) = ([0; 256], [0; 256]);
        let size = one.write_message(&[], &mut said).unwrap();
        other.read_message(&said[..size], &mut heard).unwrap();
        let size = other.write_message(&[], &mut said).unwrap();
        one.read_message(&said[..size], &mut heard).unwrap();
        [one, other].map(|state| state.into_stateless_transport_mode().unwrap())
    }

    /// Returns the text that a controller receives, and the reported status. The controller expects
    /// piece 1; the executor's counter starts at `next`.
    fn heard(next: u64, says: impl FnOnce(&Arc<Outgoing>)) -> (io::Result<String>, Option<i32>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let [ours, theirs] = acquainted().map(Arc::new);
        let fate = Arc::new(OnceLock::new());
        let mut reader = Reader {
            socket: Arc::new(socket),
            state: ours,
            number: 1,
            opened: Vec::new(),
            taken: 0,
            fate: Some(Arc::clone(&fate)),
        };
        let progress = Progress::new(next).unwrap();
        let socket = Arc::new(listener.accept().unwrap().0);
        let outgoing = Arc::new(Outgoing { socket, state: theirs, progress });
        let heard = std::thread::scope(|scope| {
            let controller = scope.spawn(move || {
                let mut text = String::new();
                reader.read_to_string(&mut text).map(|_| text)
            });
            says(&outgoing);
            controller.join().unwrap()
        });
        (heard, fate.get().copied())
    }

    #[test]
    fn the_end_of_a_process_is_reported_also_if_it_was_about_to_note_a_piece() {
        for is_written in [true, false] {
            let (heard, status) = heard(1, |outgoing| {
                outgoing.send(b"first").unwrap();
                let cut_off = outgoing.progress.send(|number| {
                    if is_written {
                        outgoing.write(number, b", second")?;
                    }
                    LastMessageSender(Arc::clone(outgoing)).tell(0x800);
                    Ok(())
                });
                cut_off.unwrap();
            });
            assert_eq!(heard.unwrap(), if is_written { "first, second" } else { "first" });
            assert_eq!(status, Some(0x800), "{is_written}");
        }
    }

    #[test]
    fn the_end_of_a_process_is_not_believed_where_a_piece_is_missing() {
        let (heard, status) = heard(3, |outgoing| {
            outgoing.write(1, b"first").unwrap();
            LastMessageSender(Arc::clone(outgoing)).tell(0);
        });
        assert_eq!(heard.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(status, None);
    }
}
