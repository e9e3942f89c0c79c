//! A stream of TCP in which everything is encrypted.

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
use crate::rpc::{Death, Ended, Transport};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// The most bytes of a piece on the wire; what encryption adds is part of it.
const PIECE: usize = 65535;
const ADDED: usize = 16;

/// After this time without a word the system asks whether the other machine is still there, so often before it gives up.
const SILENCE: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;

/// Why a peer is not greeted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// It did not say enough in time.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// It closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// It proved nothing, or the socket failed.
    #[error("{0}")]
    Refused(String),
}

/// A controller that has proved that it has the key.
pub(super) struct Accepted {
    pub(super) transport: Transport,
    pub(super) epitaph: Epitaph,
}

/// The controlling side: speaks first, and last, since anyone can repeat what it said first. Takes `limit` at most.
pub(super) fn ask(socket: TcpStream, key: &Key, limit: Duration) -> Result<Transport, Failure> {
    let mut state = builder(key)?.build_initiator().map_err(refused)?;
    prepare(&socket)?;
    let mut stream = Timed::new(&socket, limit);
    send(&mut stream, &mut state)?;
    receive(&mut stream, &mut state)?;
    let state = state.into_stateless_transport_mode().map_err(refused)?;
    confirm(&mut stream, &state)?;
    finish(socket, state, true).map(|accepted| accepted.transport)
}

/// The executing side.
pub(super) fn answer(socket: TcpStream, key: &Key, limit: Duration) -> Result<Accepted, Failure> {
    let mut state = builder(key)?.build_responder().map_err(refused)?;
    prepare(&socket)?;
    let mut stream = Timed::new(&socket, limit);
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

/// A socket until a point in time.
struct Timed<'a> {
    socket: &'a TcpStream,
    limit: Duration,
    end: Instant,
}

impl<'a> Timed<'a> {
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

    /// Some bytes, which a socket's buffer has room for.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.socket.set_write_timeout(Some(self.left()?)).map_err(refused)?;
        let mut socket = self.socket;
        socket.write_all(bytes).map_err(|error| self.failed(&error))
    }
}

fn send(stream: &mut Timed<'_>, state: &mut HandshakeState) -> Result<(), Failure> {
    let mut message = [0; 256];
    let size = state.write_message(&[], &mut message[2..]).map_err(refused)?;
    message[..2].copy_from_slice(&(size as u16).to_be_bytes());
    stream.write(&message[..2 + size])
}

fn receive(stream: &mut Timed<'_>, state: &mut HandshakeState) -> Result<(), Failure> {
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

/// Proves that this side has the keys of this connection: an empty piece with the number 0.
fn confirm(stream: &mut Timed<'_>, state: &StatelessTransportState) -> Result<(), Failure> {
    let mut piece = [0; ADDED];
    state.write_message(0, &[], &mut piece).map_err(refused)?;
    stream.write(&piece)
}

fn await_confirmation(
    stream: &mut Timed<'_>,
    state: &StatelessTransportState,
) -> Result<(), Failure> {
    let mut piece = [0; ADDED];
    stream.read(&mut piece)?;
    match state.read_message(0, &piece, &mut []) {
        Ok(_) => Ok(()),
        Err(_) => Err(refused("it repeats what another said")),
    }
}

fn finish(
    socket: TcpStream,
    state: StatelessTransportState,
    controls: bool,
) -> Result<Accepted, Failure> {
    let (state, socket) = (Arc::new(state), Arc::new(socket));
    let fate = Arc::new(OnceLock::new());
    let (closer, limited, told) = (Arc::clone(&socket), Arc::clone(&socket), Arc::clone(&fate));
    let reader = Reader {
        socket: Arc::clone(&socket),
        state: Arc::clone(&state),
        number: 1,
        opened: Vec::new(),
        taken: 0,
        fate: controls.then_some(fate),
    };
    let line = Arc::new(Line { socket, state, progress: Progress::new(1).map_err(refused)? });
    let writer = Writer { line: Arc::clone(&line), waiting: Vec::with_capacity(PIECE) };
    let shut_down = Box::new(move || drop(closer.shutdown(Shutdown::Both)));
    let transport = Transport::over(controls, Box::new(reader), Box::new(writer), shut_down);
    let transport = transport.with_limit(move |read, write| {
        limited.set_read_timeout(read)?;
        limited.set_write_timeout(write)
    });
    let transport = transport.with_why(move || match told.get() {
        Some(status) => Ended::Died(Death(ExitStatus::from_raw(*status))),
        None => Ended::Cut,
    });
    Ok(Accepted { transport, epitaph: Epitaph(line) })
}

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::Refused(error.to_string())
}

/// Opens pieces.
struct Reader {
    socket: Arc<TcpStream>,
    state: Arc<StatelessTransportState>,
    /// Of the next piece.
    number: u64,
    opened: Vec<u8>,
    taken: usize,
    /// Where the end of the other side's process goes, if that may tell it.
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
    /// `false` at the end of the stream between two pieces.
    fn open_piece(&mut self) -> io::Result<bool> {
        let Some(piece) = self.piece()? else { return Ok(false) };
        // No piece is empty but the one before the last.
        if piece.len() == ADDED {
            self.open(LAST_WORDS, &piece)?;
            self.hear_last_words()?;
            return Ok(false);
        }
        self.open(self.number, &piece)?;
        self.number += 1;
        Ok(true)
    }

    /// Takes in how the other side's process ended, unless pieces that it had sent by then are missing.
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

    /// The next piece as it was sent; `None` at the end of the stream.
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

/// The direction in which this side speaks.
struct Line {
    socket: Arc<TcpStream>,
    state: Arc<StatelessTransportState>,
    progress: Progress,
}

impl Line {
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

/// The numbers of the last two pieces. The process that ended may have been about to note that it had sent one, so there is no
/// telling which number would be next.
const LAST_WORDS: u64 = 1 << 62;

/// The last words over a connection, about the process that had it.
pub(crate) struct Epitaph(Arc<Line>);

impl Epitaph {
    /// The socket of the connection.
    pub(crate) fn controller(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }

    /// Tells the controller how the process has ended that was forked from this one and had the connection: a status of `waitpid`.
    /// Nothing is heard of it if that process was cut off in the middle of a word, or if the controller is gone. Blocks for some
    /// seconds at most.
    pub(crate) fn tell(&self, status: i32) {
        let socket = &self.0.socket;
        let told = || {
            socket.set_write_timeout(Some(PARTING))?;
            let reached = self.0.progress.reached().to_be_bytes();
            self.0.write(LAST_WORDS, &[])?;
            self.0.write(LAST_WORDS + 1, &[&status.to_be_bytes()[..], &reached].concat())?;
            socket.shutdown(Shutdown::Write)?;
            // Closing with words unread would take back those above.
            socket.set_read_timeout(Some(PARTING))
        };
        let end = Instant::now() + PARTING;
        let mut socket = &**socket;
        if told().is_ok() {
            while Instant::now() < end && matches!(socket.read(&mut [0; 4096]), Ok(1..)) {}
        }
    }
}

/// How long a controller may take to hear the last words.
const PARTING: Duration = Duration::from_secs(2);

/// Seals pieces: what is written goes when it is flushed, or fills a piece.
struct Writer {
    line: Arc<Line>,
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
        self.line.send(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Why a controller is not served by what `answers`.
    fn asked(answers: impl FnOnce(TcpStream) + Send) -> Failure {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| answers(listener.accept().unwrap().0));
            let socket = TcpStream::connect(address).unwrap();
            let limit = Duration::from_millis(100);
            ask(socket, &Key::new([1; Key::BYTES]), limit).err().unwrap()
        })
    }

    #[test]
    fn a_peer_that_says_nothing_is_told_from_one_with_another_key() {
        let silent = asked(|mut peer| while matches!(peer.read(&mut [0; 64]), Ok(1..)) {});
        assert!(matches!(silent, Failure::Silent(_)), "{silent}");
        let closed = asked(|peer| {
            let other = Key::new([2; Key::BYTES]);
            let answered = answer(peer, &other, Duration::from_secs(5)).err().unwrap();
            assert!(answered.to_string().contains("does not fit the key"), "{answered}");
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

    /// State of an encrypted connection after its greeting.
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

    /// The answer to a controller that expects piece 1 from an executor that sends this piece next, and the reported status.
    fn heard(next: u64, says: impl FnOnce(&Arc<Line>)) -> (io::Result<String>, Option<i32>) {
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
        let line = Arc::new(Line { socket, state: theirs, progress });
        let heard = std::thread::scope(|scope| {
            let controller = scope.spawn(move || {
                let mut text = String::new();
                reader.read_to_string(&mut text).map(|_| text)
            });
            says(&line);
            controller.join().unwrap()
        });
        (heard, fate.get().copied())
    }

    #[test]
    fn the_end_of_a_process_is_told_also_if_it_was_about_to_note_a_piece() {
        for is_written in [true, false] {
            let (heard, status) = heard(1, |line| {
                line.send(b"first").unwrap();
                let cut_off = line.progress.send(|number| {
                    if is_written {
                        line.write(number, b", second")?;
                    }
                    Epitaph(Arc::clone(line)).tell(0x800);
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
        let (heard, status) = heard(3, |line| {
            line.write(1, b"first").unwrap();
            Epitaph(Arc::clone(line)).tell(0);
        });
        assert_eq!(heard.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(status, None);
    }
}
