//! One end of a connection.

use std::any::Any;
use std::io::{Read, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::adaptive_spin::AdaptiveSpin;
use super::fork::CreatorProcess;
use super::link::{Direction, Link, Origin};
use super::pool::Pool;
use super::ring::{MAX_IN_RING, Sender};
use super::slots::{CallSlot, Slots, reply_in_slot};
use super::transport::{Limits, Transport, ended_by};
use super::wire::{Header, Kind, MAX_CONTENT};
use super::worker::Workers;
use super::{CallError, EndReason};

/// The handlers of one side of a connection for the other side's calls and messages.
pub trait Service: Send + Sync + 'static {
    /// Handles a call and returns the reply. Other threads handle other calls meanwhile, so this
    /// may block, and may call back.
    ///
    /// # Errors
    /// A text, which becomes the caller's [`CallError::Failed`].
    fn call(&self, peer: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String>;

    /// Handles a message without a reply. Messages come in the order in which they were sent, each
    /// before any call sent after it. So this must not block, nor call back.
    fn post(&self, peer: &Arc<Peer>, method: u32, argument: &[u8]);

    /// Handles the end of the connection. Called once, on any thread; calls may still be under way.
    fn ended(&self, _why: &EndReason) {}
}

/// The settings of a connection.
#[derive(Debug, Clone)]
pub struct Options {
    /// The prefix of its threads' names.
    pub name: &'static str,
    /// The function that each of its threads runs first.
    pub on_thread: fn(),
    /// The time for which a waiting thread spins before it sleeps. Spinning saves the time of a
    /// wake-up and costs a processor. With zero, threads spin for some microseconds while messages
    /// come that soon. Without shared memory no thread spins.
    pub spin: Duration,
    /// Time limit of the other side's greeting.
    pub greeting_limit: Duration,
    /// Time limit for the stream to accept a message.
    pub write_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let (greeting_limit, write_limit) = (Duration::from_secs(10), Duration::from_secs(30));
        Self {
            name: "longshore-rpc",
            on_thread: || {},
            spin: Duration::ZERO,
            greeting_limit,
            write_limit,
        }
    }
}

/// One end of a connection, which ends when this is dropped. Any thread may use it.
pub struct Connection(Arc<Peer>);

/// The other side, as the target of calls. Any thread may use it.
pub struct Peer {
    side: Origin,
    /// The mapped memory; without shared memory only its slots are used.
    link: Link,
    is_shared: bool,
    memory: Option<OwnedFd>,
    sender: Mutex<Sender>,
    /// Whether messages without a reply went through the ring.
    has_posted: AtomicBool,
    writer: Mutex<Box<dyn Write + Send>>,
    shut_down: Box<dyn Fn() + Send + Sync>,
    why: Box<dyn Fn() -> EndReason + Send + Sync>,
    slots: Slots,
    adaptive_spin: AdaptiveSpin,
    workers: Workers,
    pool: Pool,
    service: Arc<dyn Service>,
    options: Options,
    ended: OnceLock<EndReason>,
    /// Whether calls under way return the reason in `ended`.
    is_finished: AtomicBool,
    end: (Mutex<bool>, Condvar),
    creator: CreatorProcess,
}

/// A sent call. Dropping it waits for the reply.
#[must_use = "dropping it waits for the reply"]
pub struct SentCall {
    peer: Arc<Peer>,
    taken: Option<CallSlot>,
}

impl Connection {
    /// Opens a connection by greeting the other side. Blocks until the other side has greeted, for
    /// at most [`Options::greeting_limit`].
    ///
    /// # Errors
    /// The reason for the failed connection.
    pub fn open(
        mut transport: Transport,
        options: Options,
        service: Arc<dyn Service>,
    ) -> Result<Self, EndReason> {
        let memory = transport.greet(Limits {
            read: Some(options.greeting_limit),
            write: Some(options.write_limit),
        })?;
        let link = match &memory {
            Some(memory) => Link::from_file(memory),
            None => Link::anonymous(),
        };
        let link =
            link.map_err(|error| EndReason::Stream(format!("mapping its memory: {error}")))?;
        let Transport { side, reader, writer, shut_down, why, .. } = transport;
        let peer = Arc::new(Peer {
            side,
            link,
            is_shared: memory.is_some(),
            memory,
            sender: Mutex::default(),
            has_posted: AtomicBool::new(false),
            writer: Mutex::new(writer),
            shut_down,
            why,
            slots: Slots::new(),
            adaptive_spin: AdaptiveSpin::default(),
            workers: Workers::default(),
            pool: Pool::default(),
            service,
            options,
            ended: OnceLock::new(),
            is_finished: AtomicBool::new(false),
            end: (Mutex::new(false), Condvar::new()),
            creator: CreatorProcess::here(),
        });
        let connection = Self(Arc::clone(&peer));
        if peer.is_shared {
            peer.workers.start(&peer)?;
        }
        let reading = Arc::clone(&peer);
        peer.spawn("stream", move || reading.read(reader))?;
        Ok(connection)
    }

    /// Returns the other side, for users that do not keep the connection.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.0
    }

    /// Sends a farewell and ends the connection. Blocks until the stream has accepted the farewell.
    pub fn close(self) {}
}

impl Deref for Connection {
    type Target = Arc<Peer>;

    fn deref(&self) -> &Arc<Peer> {
        &self.0
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // In a forked child the connection belongs to the parent.
        if self.0.is_here() && !self.0.is_over() {
            let bye = Header { kind: Kind::Bye, method: 0, identity: 0, size: 0 };
            let _ = self.0.write(bye, &[]);
            self.0.end(EndReason::Here);
        }
    }
}

impl Peer {
    /// Calls the other side and waits for the reply. Blocks for that time.
    ///
    /// # Errors
    /// [`CallError::Failed`] with the other side's text, [`CallError::TooMany`],
    /// [`CallError::TooLarge`], and the reason why there will be no reply.
    pub fn call(&self, method: u32, argument: &[u8]) -> Result<Vec<u8>, CallError> {
        self.call_within(None, method, argument)
    }

    /// Calls the other side and waits for the reply for at most `limit`. Without a reply by then
    /// the connection is given up.
    ///
    /// # Errors
    /// As for [`Peer::call`], and [`EndReason::Silent`].
    pub fn call_within(
        &self,
        limit: Option<Duration>,
        method: u32,
        argument: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        self.check(argument)?;
        let limit = Limit::new(limit);
        self.let_posts_go_first(argument.len(), &limit)?;
        self.exchange(method, argument, &limit)
    }

    /// Sends a call, to wait for its reply later. Blocks while the other side's stream or ring is
    /// full.
    ///
    /// # Errors
    /// [`CallError::TooLarge`], [`CallError::TooMany`], and the reason for the end of the
    /// connection.
    pub fn start(self: &Arc<Self>, method: u32, argument: &[u8]) -> Result<SentCall, CallError> {
        self.check(argument)?;
        let limit = Limit::new(None);
        self.let_posts_go_first(argument.len(), &limit)?;
        let taken = self.slots.take(self.outgoing(), &|| self.ended_or_late(&limit))?;
        let started = SentCall { peer: Arc::clone(self), taken: Some(taken) };
        // If the connection is over there will be no reply, and dropping `started` does not wait.
        self.send_call(method, argument, taken, &limit)?;
        Ok(started)
    }

    /// Sends a message without a reply: see [`Service::post`]. Blocks while the other side's stream
    /// or ring is full.
    ///
    /// # Errors
    /// [`CallError::TooLarge`] for more than [`Peer::MAX_POST`] bytes, and the reason for the end
    /// of the connection.
    pub fn post(&self, method: u32, argument: &[u8]) -> Result<(), CallError> {
        self.check(argument)?;
        let size = argument.len();
        if size > Self::MAX_POST {
            return Err(CallError::TooLarge { bytes: size, most: Self::MAX_POST });
        }
        let header = Header { kind: Kind::Post, method, identity: 0, size };
        Ok(self.send(header, argument, &Limit::new(None))?)
    }

    /// Greatest number of bytes of a message without a reply.
    pub const MAX_POST: usize = MAX_IN_RING;

    /// Returns whether messages go through shared memory.
    pub fn shares_memory(&self) -> bool {
        self.is_shared
    }

    /// Returns the file of the shared memory, if there is one: see [`Arena`](crate::arena::Arena).
    pub fn memory(&self) -> Option<BorrowedFd<'_>> {
        self.memory.as_ref().map(AsFd::as_fd)
    }

    /// Returns the reason for the end of the connection, if it has ended.
    pub fn ended(&self) -> Option<EndReason> {
        if !self.is_here() {
            return Some(EndReason::Forked);
        }
        self.ended.get().cloned()
    }

    /// Returns whether this process opened the connection. A forked child did not.
    pub fn is_here(&self) -> bool {
        self.creator.is_here()
    }

    /// Blocks until the connection ends, and returns the reason.
    pub fn wait_for_end(&self) -> EndReason {
        if !self.is_here() {
            return EndReason::Forked;
        }
        let mut is_over = self.end.0.lock();
        while !*is_over {
            self.end.1.wait(&mut is_over);
        }
        self.ended.get().cloned().unwrap_or(EndReason::Cut)
    }

    /// Blocks until no call of this side is under way, for at most `limit`.
    pub fn wait_until_idle(&self, limit: Duration) {
        let started = Instant::now();
        while self.is_here() && !self.is_over() && self.slots.are_in_use() {
            if started.elapsed() >= limit {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the connection for the reason `ended`, unless it has ended. All calls under way end
    /// with it. Does not block.
    pub fn end(&self, ended: EndReason) {
        // In a forked child the connection belongs to the parent.
        if self.is_here() && self.ended.set(ended).is_ok() {
            self.finish();
        }
    }

    /// Ends the calls under way; the reason is set.
    fn finish(&self) {
        self.is_finished.store(true, Ordering::Release);
        (self.shut_down)();
        self.slots.give_up(self.outgoing());
        self.workers.end(self.incoming());
        self.pool.end();
        super::futex::wake(self.outgoing().head(), i32::MAX as u32);
        *self.end.0.lock() = true;
        self.end.1.notify_all();
        if let Some(ended) = self.ended.get() {
            self.service.ended(ended);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Returns whether the calls under way have ended, and messages are no longer handled.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Acquire)
    }

    pub(super) fn spin(&self) -> Duration {
        self.options.spin
    }

    pub(super) fn workers(&self) -> &Workers {
        &self.workers
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the direction of the other side's messages.
    pub(super) fn incoming(&self) -> Direction<'_> {
        self.link.direction(self.side.other())
    }

    fn outgoing(&self) -> Direction<'_> {
        self.link.direction(self.side)
    }

    pub(super) fn spawn(
        &self,
        what: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), EndReason> {
        let name = format!("{}-{what}", self.options.name);
        // Programs run on these threads, and expect the stack of a main thread. Its pages take
        // memory only when used.
        let thread = thread::Builder::new().name(name).stack_size(8 << 20);
        let first = self.options.on_thread;
        let spawned = thread.spawn(move || {
            first();
            work();
        });
        spawned.map(drop).map_err(|error| EndReason::Stream(format!("starting a thread: {error}")))
    }

    /// Handles a call. Runs `before` just before it stores the reply in the caller's slot.
    pub(super) fn serve(self: &Arc<Self>, header: Header, content: &[u8], before: impl FnOnce()) {
        let call = || match header.method {
            POSTS_ARE_TAKEN => Ok(Vec::new()),
            method => self.service.call(self, method, content),
        };
        let reply = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            Err(format!("the handler of the call panicked: {}", text_of(&*panic)))
        });
        if self.is_over() {
            return;
        }
        let replied = match self.is_shared {
            true => reply_in_slot(self.incoming(), header.identity, &reply, before),
            false => Ok(false),
        };
        let sent = match replied {
            Ok(true) => Ok(()),
            Ok(false) => self.reply_by_stream(header.identity, reply),
            Err(ended) => Err(ended),
        };
        if let Err(ended) = sent {
            self.ended_or(ended);
        }
    }

    pub(super) fn take_post(self: &Arc<Self>, header: Header, content: &[u8]) {
        let post = || self.service.post(self, header.method, content);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(post)) {
            log::error!("the handler of a message panicked: {}", text_of(&*panic));
        }
    }

    fn reply_by_stream(
        &self,
        identity: u64,
        reply: Result<Vec<u8>, String>,
    ) -> Result<(), EndReason> {
        let (method, content) = match reply {
            Ok(content) if content.len() > MAX_CONTENT => {
                let text = format!(
                    "the reply has {} bytes, expected at most {MAX_CONTENT}",
                    content.len()
                );
                (1, text.into_bytes())
            }
            Ok(content) => (0, content),
            Err(mut text) => {
                text.truncate(text.floor_char_boundary(MAX_CONTENT));
                (1, text.into_bytes())
            }
        };
        let header = Header { kind: Kind::Reply, method, identity, size: content.len() };
        self.write(header, &content)
    }

    fn check(&self, content: &[u8]) -> Result<(), CallError> {
        if !self.is_here() {
            return Err(EndReason::Forked.into());
        }
        if let Some(ended) = self.ended.get() {
            return Err(ended.clone().into());
        }
        match content.len() <= MAX_CONTENT {
            true => Ok(()),
            false => Err(CallError::TooLarge { bytes: content.len(), most: MAX_CONTENT }),
        }
    }

    fn send(&self, header: Header, content: &[u8], limit: &Limit) -> Result<(), EndReason> {
        let sent = match self.is_shared && content.len() <= MAX_IN_RING {
            true => {
                if header.kind == Kind::Post {
                    self.has_posted.store(true, Ordering::Relaxed);
                }
                let mut sender = self.sender.lock();
                sender.send(self.outgoing(), header, content, &|| self.ended_or_late(limit))
            }
            false => self.write(header, content),
        };
        sent.map_err(|ended| self.ended_or(ended))
    }

    /// Returns the reason for the end of the connection: the reason that the reading thread finds
    /// within [`LAST_WORDS`], otherwise `ended`.
    fn ended_or(&self, ended: EndReason) -> EndReason {
        if matches!(ended, EndReason::Cut | EndReason::Died(_)) {
            let mut is_over = self.end.0.lock();
            if !*is_over {
                // The other side's last messages may not have been read yet.
                self.end.1.wait_for(&mut is_over, LAST_WORDS);
            }
        }
        self.end(ended);
        self.ended.get().cloned().expect("it was just ended")
    }

    fn write(&self, header: Header, content: &[u8]) -> Result<(), EndReason> {
        let mut writer = self.writer.lock();
        let mut write = || {
            writer.write_all(&header.to_bytes())?;
            writer.write_all(content)?;
            writer.flush()
        };
        write().map_err(|error| ended_by(&error, &self.why))
    }

    /// Reads the stream until its end, on the reading thread.
    fn read(self: &Arc<Self>, mut reader: Box<dyn Read + Send>) {
        let ended = loop {
            if let Err(ended) = self.read_message(&mut reader) {
                break ended;
            }
        };
        // An executor whose controller has gone without a farewell does not execute the
        // controller's last messages.
        let listens = self.side == Origin::Controller || ended == EndReason::There;
        if self.ended.set(ended).is_err() {
            return;
        }
        // No call begins any more, not even by a handler of these posts. Calls under way end after
        // the last posts are handled.
        if self.is_shared && listens {
            self.workers.take_last_posts(self);
        }
        self.finish();
    }

    fn read_message(self: &Arc<Self>, reader: &mut Box<dyn Read + Send>) -> Result<(), EndReason> {
        let mut header = [0; Header::BYTES];
        reader.read_exact(&mut header).map_err(|error| ended_by(&error, &self.why))?;
        let header = Header::from_bytes(&header)?;
        let content = read_content(reader, header.size, &self.why)?;
        match header.kind {
            Kind::Call => self.pool.add(self, header, content),
            Kind::Post => {
                self.take_post(header, &content);
                Ok(())
            }
            Kind::Reply => {
                let reply = match header.method {
                    0 => Ok(content),
                    _ => Err(String::from_utf8_lossy(&content).into_owned()),
                };
                self.slots.replied(self.outgoing(), header.identity, reply)
            }
            Kind::Bye => Err(EndReason::There),
        }
    }
}

impl SentCall {
    /// Blocks until the reply has come.
    ///
    /// # Errors
    /// As for [`Peer::call`].
    pub fn wait(self) -> Result<Vec<u8>, CallError> {
        self.wait_for(None)
    }

    /// Waits for the reply for at most `limit`. Without a reply by then the connection is given up.
    ///
    /// # Errors
    /// As for [`Peer::call_within`].
    pub fn wait_for(mut self, limit: Option<Duration>) -> Result<Vec<u8>, CallError> {
        if !self.peer.is_here() {
            self.taken = None;
            return Err(EndReason::Forked.into());
        }
        let taken = self.taken.expect("it is taken by waiting alone");
        let reply = self.peer.wait(taken, &Limit::new(limit));
        self.give_up_slot();
        reply
    }

    fn give_up_slot(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.peer.slots.free(self.peer.outgoing(), taken);
        }
    }
}

impl Drop for SentCall {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.filter(|_| self.peer.is_here()) {
            let _ = self.peer.wait(taken, &Limit::new(None));
            self.give_up_slot();
        }
    }
}

impl Peer {
    /// Blocks until sent posts are handled, before a message of `size` bytes that must use the
    /// stream, where it could overtake posts in the ring.
    fn let_posts_go_first(&self, size: usize, limit: &Limit) -> Result<(), CallError> {
        if self.is_shared && size > MAX_IN_RING && self.has_posted.load(Ordering::Relaxed) {
            self.exchange(POSTS_ARE_TAKEN, &[], limit)?;
        }
        Ok(())
    }

    fn exchange(&self, method: u32, argument: &[u8], limit: &Limit) -> Result<Vec<u8>, CallError> {
        let taken = self.take_slot(limit)?;
        let sent = self.send_call(method, argument, taken, limit);
        let reply = sent.map_err(CallError::from).and_then(|()| self.wait(taken, limit));
        self.slots.free(self.outgoing(), taken);
        reply
    }

    /// Sends a call, runs `meanwhile`, and then waits for the reply. Blocks.
    ///
    /// # Errors
    /// As for [`Peer::call`].
    pub(crate) fn exchange_while(
        &self,
        method: u32,
        argument: &[u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, CallError> {
        self.check(argument)?;
        let limit = Limit::new(None);
        self.let_posts_go_first(argument.len(), &limit)?;
        let taken = self.take_slot(&limit)?;
        let sent = self.send_call(method, argument, taken, &limit);
        let reply = sent.map_err(CallError::from).and_then(|()| {
            meanwhile();
            self.wait(taken, &limit)
        });
        self.slots.free(self.outgoing(), taken);
        reply
    }

    fn take_slot(&self, limit: &Limit) -> Result<CallSlot, CallError> {
        let taken = self.slots.take(self.outgoing(), &|| self.ended_or_late(limit));
        taken.map_err(|error| match error {
            CallError::Ended(ended) => self.ended_or(ended).into(),
            other => other,
        })
    }

    fn send_call(
        &self,
        method: u32,
        argument: &[u8],
        taken: CallSlot,
        limit: &Limit,
    ) -> Result<(), EndReason> {
        let size = argument.len();
        let header = Header { kind: Kind::Call, method, identity: taken.identity, size };
        self.send(header, argument, limit)
    }

    fn wait(&self, taken: CallSlot, limit: &Limit) -> Result<Vec<u8>, CallError> {
        let finished = || self.ended.get().filter(|_| self.is_finished());
        let ended = || finished().cloned();
        if self.is_shared {
            let has_come = self.slots.look(self.outgoing(), taken, &ended);
            self.adaptive_spin.look(self.spin(), has_come);
        }
        let reply = self.slots.wait(self.outgoing(), taken, limit.deadline, &ended);
        reply.unwrap_or_else(|| {
            self.end(limit.passed());
            Err(self.ended.get().cloned().unwrap_or(EndReason::Cut).into())
        })
    }

    /// Returns the reason to give up: the end of the connection, or a passed limit.
    fn ended_or_late(&self, limit: &Limit) -> Option<EndReason> {
        let is_late = limit.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.ended.get().cloned().or(is_late.then(|| limit.passed()))
    }
}

/// The built-in method whose reply shows that all earlier messages were handled. No service uses
/// its number.
const POSTS_ARE_TAKEN: u32 = u32::MAX;

/// The time limit of a call.
struct Limit {
    time: Option<Duration>,
    deadline: Option<Instant>,
}

impl Limit {
    fn new(time: Option<Duration>) -> Self {
        Self { time, deadline: time.and_then(|time| Instant::now().checked_add(time)) }
    }

    fn passed(&self) -> EndReason {
        EndReason::Silent { limit: self.time.unwrap_or_default() }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// Time for which the stream is read to its end after a failed write.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Reads `size` bytes. Memory is allocated as they arrive, not as announced.
fn read_content(
    reader: &mut Box<dyn Read + Send>,
    size: usize,
    why: &dyn Fn() -> EndReason,
) -> Result<Vec<u8>, EndReason> {
    let mut content = Vec::with_capacity(size.min(64 << 10));
    let read = reader.take(size as u64).read_to_end(&mut content);
    match read {
        Ok(read) if read == size => Ok(content),
        Ok(_) => Err(why()),
        Err(error) => Err(ended_by(&error, why)),
    }
}
