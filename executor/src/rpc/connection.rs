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

use super::fork::Birthplace;
use super::link::{Direction, From, Link};
use super::patience::Patience;
use super::pool::Pool;
use super::ring::{MAX_IN_RING, Sender};
use super::slots::{Slots, Taken, answer_in_slot};
use super::transport::{Limits, Transport, ended_by};
use super::wire::{Header, Kind, MAX_CONTENT};
use super::worker::Workers;
use super::{CallError, Ended};

/// What one side of a connection does when the other one calls.
pub trait Service: Send + Sync + 'static {
    /// Answers a call. Other calls are answered by other threads meanwhile, so this may block, and may call back.
    ///
    /// # Errors
    /// A text, which becomes the caller's [`CallError::Failed`].
    fn call(&self, peer: &Arc<Peer>, method: u32, argument: &[u8]) -> Result<Vec<u8>, String>;

    /// Takes a message that is not answered. They come in the order in which they were sent, each before any call that was made
    /// after it was sent. So this must not block, nor call back.
    fn post(&self, peer: &Arc<Peer>, method: u32, argument: &[u8]);

    /// The connection is over. Called once, on any thread; calls may still be under way.
    fn ended(&self, _why: &Ended) {}
}

/// How a connection behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// What its threads are called.
    pub name: &'static str,
    /// What each of them does first.
    pub on_thread: fn(),
    /// How long who waits for the other side looks for it before it sleeps. It saves the time that waking takes, and costs a
    /// processor. With zero, both look for some microseconds as long as what they wait for comes that soon. Without shared memory nobody
    /// looks.
    pub spin: Duration,
    /// How long the other side may take to say who it is.
    pub greeting_limit: Duration,
    /// How long it may take to take a message from the stream.
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

/// The other side, as far as it can be called. Any thread may use it.
pub struct Peer {
    side: From,
    /// Only slots are used if nothing is shared.
    link: Link,
    is_shared: bool,
    memory: Option<OwnedFd>,
    sender: Mutex<Sender>,
    /// Whether messages that are not answered went through the ring.
    has_posted: AtomicBool,
    writer: Mutex<Box<dyn Write + Send>>,
    shut_down: Box<dyn Fn() + Send + Sync>,
    why: Box<dyn Fn() -> Ended + Send + Sync>,
    slots: Slots,
    patience: Patience,
    workers: Workers,
    pool: Pool,
    service: Arc<dyn Service>,
    options: Options,
    ended: OnceLock<Ended>,
    /// Whether the calls that are under way end with that.
    is_finished: AtomicBool,
    end: (Mutex<bool>, Condvar),
    birthplace: Birthplace,
}

/// A call that was sent. Dropping it waits for the answer.
#[must_use = "dropping it waits for the answer"]
pub struct Started {
    peer: Arc<Peer>,
    taken: Option<Taken>,
}

impl Connection {
    /// Greets the other side and begins. Blocks until it has answered, for [`Options::greeting_limit`] at most.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn open(
        mut transport: Transport,
        options: Options,
        service: Arc<dyn Service>,
    ) -> Result<Self, Ended> {
        let memory = transport.greet(Limits {
            read: Some(options.greeting_limit),
            write: Some(options.write_limit),
        })?;
        let link = match &memory {
            Some(memory) => Link::of_file(memory),
            None => Link::anonymous(),
        };
        let link = link.map_err(|error| Ended::Stream(format!("mapping its memory: {error}")))?;
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
            patience: Patience::default(),
            workers: Workers::default(),
            pool: Pool::default(),
            service,
            options,
            ended: OnceLock::new(),
            is_finished: AtomicBool::new(false),
            end: (Mutex::new(false), Condvar::new()),
            birthplace: Birthplace::here(),
        });
        let connection = Self(Arc::clone(&peer));
        if peer.is_shared {
            peer.workers.start(&peer)?;
        }
        let reading = Arc::clone(&peer);
        peer.spawn("stream", move || reading.read(reader))?;
        Ok(connection)
    }

    /// The other side, for those that do not keep the connection.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.0
    }

    /// Says farewell and ends the connection. Blocks until the other side's stream has taken that.
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
        // In a forked child it is the parent's.
        if self.0.is_here() && !self.0.is_over() {
            let bye = Header { kind: Kind::Bye, method: 0, identity: 0, size: 0 };
            let _ = self.0.write(bye, &[]);
            self.0.end(Ended::Here);
        }
    }
}

impl Peer {
    /// Calls the other side and waits for its answer. Blocks for that time.
    ///
    /// # Errors
    /// [`CallError::Failed`] with what the other side says, [`CallError::TooMany`], and why there will be no answer.
    pub fn call(&self, method: u32, argument: &[u8]) -> Result<Vec<u8>, CallError> {
        self.call_within(None, method, argument)
    }

    /// The same, for so long at most. If there is no answer by then, the connection is given up.
    ///
    /// # Errors
    /// As for [`Peer::call`], and [`Ended::Silent`].
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

    /// Sends a call, whose answer is waited for later. Blocks while the other side's stream or ring is full.
    ///
    /// # Errors
    /// [`CallError::TooLarge`], [`CallError::TooMany`], and why the connection is over.
    pub fn start(self: &Arc<Self>, method: u32, argument: &[u8]) -> Result<Started, CallError> {
        self.check(argument)?;
        let limit = Limit::new(None);
        self.let_posts_go_first(argument.len(), &limit)?;
        let taken = self.slots.take(self.outgoing(), &|| self.ended_or_late(&limit))?;
        let started = Started { peer: Arc::clone(self), taken: Some(taken) };
        // If the connection is over, nobody answers it, and giving it up does not wait.
        self.send_call(method, argument, taken, &limit)?;
        Ok(started)
    }

    /// Sends a message that is not answered: see [`Service::post`]. Blocks while the other side's stream or ring is full.
    ///
    /// # Errors
    /// [`CallError::TooLarge`] for more than [`Peer::MAX_POST`] bytes, and why the connection is over.
    pub fn post(&self, method: u32, argument: &[u8]) -> Result<(), CallError> {
        self.check(argument)?;
        let size = argument.len();
        if size > Self::MAX_POST {
            return Err(CallError::TooLarge { bytes: size, most: Self::MAX_POST });
        }
        let header = Header { kind: Kind::Post, method, identity: 0, size };
        Ok(self.send(header, argument, &Limit::new(None))?)
    }

    /// The most bytes of a message that is not answered.
    pub const MAX_POST: usize = MAX_IN_RING;

    /// Whether messages go through shared memory.
    pub fn shares_memory(&self) -> bool {
        self.is_shared
    }

    /// The file of the memory that both sides have, if they share some: see [`Arena`](crate::arena::Arena).
    pub fn memory(&self) -> Option<BorrowedFd<'_>> {
        self.memory.as_ref().map(AsFd::as_fd)
    }

    /// Why the connection is over, if it is.
    pub fn ended(&self) -> Option<Ended> {
        if !self.is_here() {
            return Some(Ended::Forked);
        }
        self.ended.get().cloned()
    }

    /// Whether this process opened the connection, and was not forked from the one that did.
    pub fn is_here(&self) -> bool {
        self.birthplace.is_here()
    }

    /// Blocks until the connection is over, and says why.
    pub fn wait_for_end(&self) -> Ended {
        if !self.is_here() {
            return Ended::Forked;
        }
        let mut is_over = self.end.0.lock();
        while !*is_over {
            self.end.1.wait(&mut is_over);
        }
        self.ended.get().cloned().unwrap_or(Ended::Cut)
    }

    /// Blocks until no call of this side is under way, or for so long.
    pub fn wait_until_idle(&self, limit: Duration) {
        let started = Instant::now();
        while self.is_here() && !self.is_over() && self.slots.are_in_use() {
            if started.elapsed() >= limit {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the connection for this reason, unless it is over. All calls that are under way end with it. Does not block.
    pub fn end(&self, ended: Ended) {
        // In a forked child it is the parent's.
        if self.is_here() && self.ended.set(ended).is_ok() {
            self.finish();
        }
    }

    /// Ends what is under way, now that it is known why.
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

    /// Whether the calls that were under way have ended, and messages are not taken any more.
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

    /// Where the other side's messages come.
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
    ) -> Result<(), Ended> {
        let name = format!("{}-{what}", self.options.name);
        // Programs run on these threads, and expect a main thread's stack. It takes memory when it is used.
        let thread = thread::Builder::new().name(name).stack_size(8 << 20);
        let first = self.options.on_thread;
        let spawned = thread.spawn(move || {
            first();
            work();
        });
        spawned.map(drop).map_err(|error| Ended::Stream(format!("starting a thread: {error}")))
    }

    /// Answers a call. Does `before` when it is about to put the answer where its caller sees it at once.
    pub(super) fn serve(self: &Arc<Self>, header: Header, content: &[u8], before: impl FnOnce()) {
        let call = || match header.method {
            POSTS_ARE_TAKEN => Ok(Vec::new()),
            method => self.service.call(self, method, content),
        };
        let answer = catch_unwind(AssertUnwindSafe(call))
            .unwrap_or_else(|panic| Err(format!("what answers it panicked: {}", text_of(&*panic))));
        if self.is_over() {
            return;
        }
        let answered = match self.is_shared {
            true => answer_in_slot(self.incoming(), header.identity, &answer, before),
            false => Ok(false),
        };
        let sent = match answered {
            Ok(true) => Ok(()),
            Ok(false) => self.answer_by_stream(header.identity, answer),
            Err(ended) => Err(ended),
        };
        if let Err(ended) = sent {
            self.ended_or(ended);
        }
    }

    pub(super) fn take_post(self: &Arc<Self>, header: Header, content: &[u8]) {
        let post = || self.service.post(self, header.method, content);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(post)) {
            log::error!("what takes a message panicked: {}", text_of(&*panic));
        }
    }

    fn answer_by_stream(
        &self,
        identity: u64,
        answer: Result<Vec<u8>, String>,
    ) -> Result<(), Ended> {
        let (method, content) = match answer {
            Ok(content) if content.len() > MAX_CONTENT => {
                let text = format!(
                    "the answer has {} bytes, at most {MAX_CONTENT} are possible",
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
        let header = Header { kind: Kind::Answer, method, identity, size: content.len() };
        self.write(header, &content)
    }

    fn check(&self, content: &[u8]) -> Result<(), CallError> {
        if !self.is_here() {
            return Err(Ended::Forked.into());
        }
        if let Some(ended) = self.ended.get() {
            return Err(ended.clone().into());
        }
        match content.len() <= MAX_CONTENT {
            true => Ok(()),
            false => Err(CallError::TooLarge { bytes: content.len(), most: MAX_CONTENT }),
        }
    }

    fn send(&self, header: Header, content: &[u8], limit: &Limit) -> Result<(), Ended> {
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

    /// Why the connection is over: what the thread that reads finds, if it finds something, else this.
    fn ended_or(&self, ended: Ended) -> Ended {
        if matches!(ended, Ended::Cut | Ended::Died(_)) {
            let mut is_over = self.end.0.lock();
            if !*is_over {
                // The other side's last words may not have been read yet.
                self.end.1.wait_for(&mut is_over, LAST_WORDS);
            }
        }
        self.end(ended);
        self.ended.get().cloned().expect("it was just ended")
    }

    fn write(&self, header: Header, content: &[u8]) -> Result<(), Ended> {
        let mut writer = self.writer.lock();
        let mut write = || {
            writer.write_all(&header.to_bytes())?;
            writer.write_all(content)?;
            writer.flush()
        };
        write().map_err(|error| ended_by(&error, &self.why))
    }

    /// What the thread that reads the stream does, until that ends.
    fn read(self: &Arc<Self>, mut reader: Box<dyn Read + Send>) {
        let ended = loop {
            if let Err(ended) = self.read_message(&mut reader) {
                break ended;
            }
        };
        // An executor whose controller is gone has nobody for whom it would do what was asked for last.
        let listens = self.side == From::Controller || ended == Ended::There;
        if self.ended.set(ended).is_err() {
            return;
        }
        // No call is begun any more, also not by what takes these. Those under way do not end before it is known what was said last.
        if self.is_shared && listens {
            self.workers.take_last_posts(self);
        }
        self.finish();
    }

    fn read_message(self: &Arc<Self>, reader: &mut Box<dyn Read + Send>) -> Result<(), Ended> {
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
            Kind::Answer => {
                let answer = match header.method {
                    0 => Ok(content),
                    _ => Err(String::from_utf8_lossy(&content).into_owned()),
                };
                self.slots.answered(self.outgoing(), header.identity, answer)
            }
            Kind::Bye => Err(Ended::There),
        }
    }
}

impl Started {
    /// Blocks until the answer is there.
    ///
    /// # Errors
    /// As for [`Peer::call`].
    pub fn wait(self) -> Result<Vec<u8>, CallError> {
        self.wait_for(None)
    }

    /// The same, for so long at most. If there is no answer by then, the connection is given up.
    ///
    /// # Errors
    /// As for [`Peer::call_within`].
    pub fn wait_for(mut self, limit: Option<Duration>) -> Result<Vec<u8>, CallError> {
        if !self.peer.is_here() {
            self.taken = None;
            return Err(Ended::Forked.into());
        }
        let taken = self.taken.expect("it is taken by waiting alone");
        let answer = self.peer.wait(taken, &Limit::new(limit));
        self.give_up_slot();
        answer
    }

    fn give_up_slot(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.peer.slots.free(self.peer.outgoing(), taken);
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.filter(|_| self.peer.is_here()) {
            let _ = self.peer.wait(taken, &Limit::new(None));
            self.give_up_slot();
        }
    }
}

impl Peer {
    /// What is too large for the ring goes over the stream, where it could overtake messages: blocks until those are taken.
    fn let_posts_go_first(&self, size: usize, limit: &Limit) -> Result<(), CallError> {
        if self.is_shared && size > MAX_IN_RING && self.has_posted.load(Ordering::Relaxed) {
            self.exchange(POSTS_ARE_TAKEN, &[], limit)?;
        }
        Ok(())
    }

    fn exchange(&self, method: u32, argument: &[u8], limit: &Limit) -> Result<Vec<u8>, CallError> {
        let taken = self.take_slot(limit)?;
        let sent = self.send_call(method, argument, taken, limit);
        let answer = sent.map_err(CallError::from).and_then(|()| self.wait(taken, limit));
        self.slots.free(self.outgoing(), taken);
        answer
    }

    fn take_slot(&self, limit: &Limit) -> Result<Taken, CallError> {
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
        taken: Taken,
        limit: &Limit,
    ) -> Result<(), Ended> {
        let size = argument.len();
        let header = Header { kind: Kind::Call, method, identity: taken.identity, size };
        self.send(header, argument, limit)
    }

    fn wait(&self, taken: Taken, limit: &Limit) -> Result<Vec<u8>, CallError> {
        let finished = || self.ended.get().filter(|_| self.is_finished());
        let ended = || finished().cloned();
        if self.is_shared {
            let has_come = self.slots.look(self.outgoing(), taken, &ended);
            self.patience.look(self.spin(), has_come);
        }
        let answer = self.slots.wait(self.outgoing(), taken, limit.deadline, &ended);
        answer.unwrap_or_else(|| {
            self.end(limit.passed());
            Err(self.ended.get().cloned().unwrap_or(Ended::Cut).into())
        })
    }

    /// Why it is in vain to go on, if it is.
    fn ended_or_late(&self, limit: &Limit) -> Option<Ended> {
        let is_late = limit.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.ended.get().cloned().or(is_late.then(|| limit.passed()))
    }
}

/// The method that no service has: once it is answered, the messages that were sent before it are taken.
const POSTS_ARE_TAKEN: u32 = u32::MAX;

/// When a call has taken too long.
struct Limit {
    time: Option<Duration>,
    deadline: Option<Instant>,
}

impl Limit {
    fn new(time: Option<Duration>) -> Self {
        Self { time, deadline: time.and_then(|time| Instant::now().checked_add(time)) }
    }

    fn passed(&self) -> Ended {
        Ended::Silent { limit: self.time.unwrap_or_default() }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// How long the stream is read to its end when it cannot be written any more.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Reads so many bytes. Memory is taken as they come, not as they are announced.
fn read_content(
    reader: &mut Box<dyn Read + Send>,
    size: usize,
    why: &dyn Fn() -> Ended,
) -> Result<Vec<u8>, Ended> {
    let mut content = Vec::with_capacity(size.min(64 << 10));
    let read = reader.take(size as u64).read_to_end(&mut content);
    match read {
        Ok(read) if read == size => Ok(content),
        Ok(_) => Err(why()),
        Err(error) => Err(ended_by(&error, why)),
    }
}
