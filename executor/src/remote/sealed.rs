//! A stream of TCP in which everything is encrypted.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use snow::{Builder, HandshakeState, StatelessTransportState};

use super::Key;
use crate::rpc::Transport;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// The most bytes of a piece on the wire; what encryption adds is part of it.
const PIECE: usize = 65535;
const ADDED: usize = 16;

/// How long each step of becoming acquainted may take.
const ANSWERING: Duration = Duration::from_secs(10);

/// After this time without a word the system asks whether the other machine is still there, so often before it gives up.
const SILENCE: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;

/// The controlling side: speaks first, and last, since anyone can repeat what it said first.
pub(super) fn ask(socket: TcpStream, key: &Key) -> Result<Transport, String> {
    let mut state = builder(key)?.build_initiator().map_err(text)?;
    prepare(&socket)?;
    send(&socket, &mut state)?;
    receive(&socket, &mut state)?;
    let state = state.into_stateless_transport_mode().map_err(text)?;
    confirm(&socket, &state)?;
    finish(socket, state, true)
}

/// The executing side.
pub(super) fn answer(socket: TcpStream, key: &Key) -> Result<Transport, String> {
    let mut state = builder(key)?.build_responder().map_err(text)?;
    prepare(&socket)?;
    receive(&socket, &mut state)?;
    send(&socket, &mut state)?;
    let state = state.into_stateless_transport_mode().map_err(text)?;
    await_confirmation(&socket, &state)?;
    finish(socket, state, false)
}

fn builder(key: &Key) -> Result<Builder<'_>, String> {
    Builder::new(PATTERN.parse().map_err(text)?).psk(0, key.bytes()).map_err(text)
}

fn prepare(socket: &TcpStream) -> Result<(), String> {
    let set = || {
        socket.set_nodelay(true)?;
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, SILENCE)?;
        sockopt::set_tcp_keepintvl(socket, SILENCE / PROBES)?;
        sockopt::set_tcp_keepcnt(socket, PROBES)?;
        sockopt::set_tcp_user_timeout(socket, 2 * SILENCE.as_millis() as u32)?;
        socket.set_read_timeout(Some(ANSWERING))?;
        socket.set_write_timeout(Some(ANSWERING))
    };
    set().map_err(|error: io::Error| text(error))
}

fn send(mut socket: &TcpStream, state: &mut HandshakeState) -> Result<(), String> {
    let mut message = [0; 256];
    let size = state.write_message(&[], &mut message[2..]).map_err(text)?;
    message[..2].copy_from_slice(&(size as u16).to_be_bytes());
    socket.write_all(&message[..2 + size]).map_err(text)
}

fn receive(mut socket: &TcpStream, state: &mut HandshakeState) -> Result<(), String> {
    let (mut size, mut message) = ([0; 2], [0; 256]);
    socket.read_exact(&mut size).map_err(text)?;
    let size = usize::from(u16::from_be_bytes(size));
    let message = message.get_mut(..size).ok_or("its first message is too long")?;
    socket.read_exact(message).map_err(text)?;
    let mut nothing = [0; 256];
    match state.read_message(message, &mut nothing) {
        Ok(_) => Ok(()),
        Err(snow::Error::Decrypt) => Err("its message does not fit the key".to_owned()),
        Err(error) => Err(text(error)),
    }
}

/// Proves that this side has the keys of this connection: an empty piece with the number 0.
fn confirm(mut socket: &TcpStream, state: &StatelessTransportState) -> Result<(), String> {
    let mut piece = [0; ADDED];
    state.write_message(0, &[], &mut piece).map_err(text)?;
    socket.write_all(&piece).map_err(text)
}

fn await_confirmation(
    mut socket: &TcpStream,
    state: &StatelessTransportState,
) -> Result<(), String> {
    let mut piece = [0; ADDED];
    socket.read_exact(&mut piece).map_err(text)?;
    match state.read_message(0, &piece, &mut []) {
        Ok(_) => Ok(()),
        Err(_) => Err("it repeats what another said".to_owned()),
    }
}

fn finish(
    socket: TcpStream,
    state: StatelessTransportState,
    controls: bool,
) -> Result<Transport, String> {
    let state = Arc::new(state);
    let socket = Arc::new(socket);
    let closer = Arc::clone(&socket);
    let shut_down = Box::new(move || drop(closer.shutdown(Shutdown::Both)));
    let limited = Arc::clone(&socket);
    let reader = Reader {
        socket: Arc::clone(&socket),
        state: Arc::clone(&state),
        number: 1,
        opened: Vec::new(),
        taken: 0,
    };
    let writer = Writer { socket, state, number: 1, waiting: Vec::with_capacity(PIECE) };
    let transport = Transport::over(controls, Box::new(reader), Box::new(writer), shut_down);
    Ok(transport.with_limit(move |read, write| {
        limited.set_read_timeout(read)?;
        limited.set_write_timeout(write)
    }))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Opens pieces.
struct Reader {
    socket: Arc<TcpStream>,
    state: Arc<StatelessTransportState>,
    /// Of the next piece.
    number: u64,
    opened: Vec<u8>,
    taken: usize,
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
        let mut socket = &*self.socket;
        let mut size = [0; 2];
        if socket.read(&mut size[..1])? == 0 {
            return Ok(false);
        }
        socket.read_exact(&mut size[1..])?;
        let mut piece = vec![0; usize::from(u16::from_be_bytes(size))];
        socket.read_exact(&mut piece)?;
        self.opened.resize(piece.len(), 0);
        let opened = self.state.read_message(self.number, &piece, &mut self.opened);
        let damaged =
            |_| io::Error::new(io::ErrorKind::InvalidData, "a piece that was changed on its way");
        let bytes = opened.map_err(damaged)?;
        self.opened.truncate(bytes);
        self.taken = 0;
        self.number += 1;
        match bytes {
            0 => Err(io::Error::new(io::ErrorKind::InvalidData, "a piece without content")),
            _ => Ok(true),
        }
    }
}

/// Seals pieces: what is written goes when it is flushed, or fills a piece.
struct Writer {
    socket: Arc<TcpStream>,
    state: Arc<StatelessTransportState>,
    /// Of the next piece.
    number: u64,
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
        let mut piece = vec![0; 2 + self.waiting.len() + ADDED];
        let sealed = self.state.write_message(self.number, &self.waiting, &mut piece[2..]);
        let size = sealed.map_err(io::Error::other)?;
        piece[..2].copy_from_slice(&(size as u16).to_be_bytes());
        self.number += 1;
        self.waiting.clear();
        (&*self.socket).write_all(&piece[..2 + size])
    }
}
