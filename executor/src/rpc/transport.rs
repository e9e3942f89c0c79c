//! The stream below a connection, and the greeting of each side.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};

use super::EndReason;
use super::link::{LINK_BYTES, Origin};
use super::wire::{Greeting, VERSION};

/// A stream for a connection, and this process's side of it.
pub struct Transport {
    pub(super) side: Origin,
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) writer: Box<dyn Write + Send>,
    /// The function that makes blocked reads and writes return.
    pub(super) shut_down: Box<dyn Fn() + Send + Sync>,
    /// The function that returns the reason for the end of the stream. May block for a moment.
    pub(super) why: Box<dyn Fn() -> EndReason + Send + Sync>,
    /// The socket, if it can carry file descriptors.
    socket: Option<Arc<UnixStream>>,
    /// The function that sets the time limits of the stream's reads and writes.
    limit: Box<dyn Fn(Limits) -> io::Result<()> + Send + Sync>,
    /// The descriptor that this side passes with its greeting: memory to share, or the pidfd of the
    /// process that serves.
    passed: Option<OwnedFd>,
    /// The receiver of the pidfd of the process that serves, if the controller wants it.
    on_server: Option<PidfdReceiver>,
}

/// A receiver of the pidfd of the process that serves.
type PidfdReceiver = Box<dyn FnOnce(OwnedFd) + Send>;

/// The time limits of a stream's reads and writes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    pub(super) read: Option<Duration>,
    pub(super) write: Option<Duration>,
}

impl Transport {
    /// Creates the controller's side of a Unix socket. The executor gets `memory` too, if there is
    /// some, and both use its first bytes: see [`Transport::LINK_BYTES`].
    pub fn controller(socket: UnixStream, memory: Option<OwnedFd>) -> Self {
        Self::unix(socket, Origin::Controller, memory)
    }

    /// Creates the executor's side of a Unix socket.
    pub fn executor(socket: UnixStream) -> Self {
        Self::unix(socket, Origin::Executor, None)
    }

    /// Creates the controller's or the executor's side of a TCP connection. No memory is shared,
    /// and nothing is authenticated or encrypted: see [`crate::remote`] for that.
    ///
    /// # Errors
    /// Every error of setting up the socket.
    pub fn plain_tcp(socket: TcpStream, controls: bool) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let socket = Arc::new(socket);
        let (closer, limited) = (Arc::clone(&socket), Arc::clone(&socket));
        let limit = move |read, write| {
            limited.set_read_timeout(read)?;
            limited.set_write_timeout(write)
        };
        let shut_down = move || drop(closer.shutdown(Shutdown::Both));
        let (reader, writer) = (Shared(Arc::clone(&socket)), NoSigpipeSocket(socket));
        Ok(Self::over(controls, Box::new(reader), Box::new(writer), Box::new(shut_down))
            .with_limit(limit))
    }

    /// Creates one side of any other stream. Blocked reads and writes must return after a call of
    /// `shut_down`, and when the other side has gone.
    pub fn over(
        controls: bool,
        reader: Box<dyn Read + Send>,
        writer: Box<dyn Write + Send>,
        shut_down: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            side: if controls { Origin::Controller } else { Origin::Executor },
            reader,
            writer,
            shut_down,
            why: Box::new(|| EndReason::Cut),
            socket: None,
            limit: Box::new(|_| Ok(())),
            passed: None,
            on_server: None,
        }
    }

    /// Number of bytes at the start of shared memory that a connection uses.
    pub const LINK_BYTES: usize = LINK_BYTES;

    /// Ends the stream also when a process ends: `process` becomes readable then, as a pidfd does.
    /// `why` returns the reason for the end.
    pub(crate) fn watch(
        mut self,
        process: Arc<OwnedFd>,
        why: impl Fn() -> EndReason + Send + Sync + 'static,
    ) -> Self {
        if let Some(socket) = &self.socket {
            self.reader = Box::new(MonitoredSocket { socket: Arc::clone(socket), process });
        }
        self.why = Box::new(why);
        self
    }

    /// Sets the pidfd to pass to the controller: that of this process, which serves in place of the
    /// started one.
    pub(crate) fn served_by(self, process: OwnedFd) -> Self {
        Self { passed: Some(process), ..self }
    }

    /// Sets the receiver of the pidfd of a process that serves in place of the started one.
    pub(crate) fn on_server(self, take: impl FnOnce(OwnedFd) + Send + 'static) -> Self {
        Self { on_server: Some(Box::new(take)), ..self }
    }

    /// Sets the function that returns the reason for the end of the stream.
    pub(crate) fn with_why(self, why: impl Fn() -> EndReason + Send + Sync + 'static) -> Self {
        Self { why: Box::new(why), ..self }
    }

    /// Sets the function that sets the time limits of reads and writes.
    pub(crate) fn with_limit(
        self,
        limit: impl Fn(Option<Duration>, Option<Duration>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { limit: Box::new(move |limits| limit(limits.read, limits.write)), ..self }
    }

    fn unix(socket: UnixStream, side: Origin, memory: Option<OwnedFd>) -> Self {
        let socket = Arc::new(socket);
        let (closer, limited) = (Arc::clone(&socket), Arc::clone(&socket));
        Self {
            side,
            reader: Box::new(Shared(Arc::clone(&socket))),
            writer: Box::new(NoSigpipeSocket(Arc::clone(&socket))),
            shut_down: Box::new(move || drop(closer.shutdown(Shutdown::Both))),
            why: Box::new(|| EndReason::Cut),
            socket: Some(socket),
            limit: Box::new(move |limits| {
                limited.set_read_timeout(limits.read)?;
                limited.set_write_timeout(limits.write)
            }),
            passed: memory,
            on_server: None,
        }
    }

    /// Exchanges greetings. Returns the memory of both sides, if they share some.
    pub(super) fn greet(&mut self, limits: Limits) -> Result<Option<OwnedFd>, EndReason> {
        let stream = |error: io::Error| EndReason::Stream(error.to_string());
        (self.limit)(limits).map_err(stream)?;
        let passed = self.passed.take();
        let memory = match self.side {
            Origin::Controller => {
                let greeting = greeting(passed.is_some());
                self.send_greeting(greeting, passed.as_ref()).map_err(|e| self.failed(e))?;
                let (greeting, server) = self.receive_greeting()?;
                if let (Some(server), Some(take)) = (server, self.on_server.take()) {
                    take(server);
                }
                passed.filter(|_| greeting.shares_memory)
            }
            Origin::Executor => {
                let (greeted, memory) = self.receive_greeting()?;
                let memory = memory
                    .filter(|_| greeted.shares_memory && greeted.link_bytes == LINK_BYTES as u64);
                let greeting = greeting(memory.is_some());
                self.send_greeting(greeting, passed.as_ref()).map_err(|e| self.failed(e))?;
                memory
            }
        };
        (self.limit)(Limits { read: None, ..limits }).map_err(stream)?;
        Ok(memory)
    }

    fn send_greeting(&mut self, greeting: Greeting, passed: Option<&OwnedFd>) -> io::Result<()> {
        let bytes = greeting.to_bytes();
        let (Some(socket), Some(passed)) = (&self.socket, passed) else {
            self.writer.write_all(&bytes)?;
            return self.writer.flush();
        };
        let files = [passed.as_fd()];
        let mut space =
            [const { std::mem::MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let sent = retry_on_intr(|| {
            sendmsg(&**socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)
        })?;
        self.writer.write_all(&bytes[sent..])
    }

    fn receive_greeting(&mut self) -> Result<(Greeting, Option<OwnedFd>), EndReason> {
        let mut bytes = [0; Greeting::BYTES];
        let (mut filled, mut memory) = (0, None);
        if let Some(socket) = &self.socket {
            let mut space =
                [const { std::mem::MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut bytes)];
            let received = retry_on_intr(|| {
                recvmsg(&**socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)
            });
            let received = received.map_err(|e| self.failed(e.into()))?;
            let is_cut = received.flags.contains(ReturnFlags::CTRUNC);
            if is_cut && matches!(self.side, Origin::Controller) {
                let problem = "no descriptor is left for the process that serves";
                return Err(EndReason::Stream(problem.to_owned()));
            }
            filled = received.bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(mut files) = message {
                    memory = files.next();
                }
            }
            if filled == 0 {
                return Err((self.why)());
            }
        }
        self.reader.read_exact(&mut bytes[filled..]).map_err(|e| self.failed(e))?;
        Ok((Greeting::from_bytes(&bytes)?, memory))
    }

    fn failed(&self, error: io::Error) -> EndReason {
        ended_by(&error, &self.why)
    }
}

fn greeting(shares_memory: bool) -> Greeting {
    Greeting { version: VERSION, shares_memory, link_bytes: LINK_BYTES as u64 }
}

/// Returns the reason for the connection's end that an error of its stream implies.
pub(super) fn ended_by(error: &io::Error, why: &dyn Fn() -> EndReason) -> EndReason {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock,
    };
    match error.kind() {
        UnexpectedEof | BrokenPipe | ConnectionReset | ConnectionAborted => why(),
        WouldBlock | TimedOut => {
            EndReason::Stream("the other side neither sends nor takes anything".to_owned())
        }
        _ => EndReason::Stream(error.to_string()),
    }
}

/// A socket whose writes raise no signal when the other end is gone.
struct NoSigpipeSocket<S>(Arc<S>);

impl<S: AsFd> Write for NoSigpipeSocket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&*self.0, bytes, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A shared socket.
struct Shared<S>(Arc<S>);

impl<S> Read for Shared<S>
where
    for<'a> &'a S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

/// A socket whose reads also end when a process has ended, even if another process holds the other
/// end of the socket.
struct MonitoredSocket {
    socket: Arc<UnixStream>,
    process: Arc<OwnedFd>,
}

impl MonitoredSocket {
    /// Returns the socket's time limit of reads.
    fn limit(&self) -> io::Result<Option<Timespec>> {
        let limit = self.socket.read_timeout()?;
        Ok(limit.map(|time| Timespec {
            tv_sec: time.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        }))
    }
}

impl Read for MonitoredSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = self.limit()?;
        loop {
            let mut files = [
                PollFd::new(&*self.socket, PollFlags::IN),
                PollFd::new(&self.process, PollFlags::IN),
            ];
            match poll(&mut files, limit.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                result => result?,
            };
            if !files[0].revents().is_empty() {
                return (&*self.socket).read(buffer);
            }
            if !files[1].revents().is_empty() {
                return Ok(0);
            }
        }
    }
}
