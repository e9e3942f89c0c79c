//! Calls, messages and transfers between the processes of a communicator.
//!
//! A message consists of frames ([`frame`]): posts, and at most one call at its end. Posts that
//! follow each other closely go in one message. A reply is a message with the tag of the caller's
//! slot, for which the caller has posted a receive: the caller itself receives it. Bulk data has a
//! communicator of its own.

mod backoff;
mod bulk;
mod calls;
mod channel;
mod frame;
mod outbox;
mod peer;
mod receiver;
mod replies;
mod threads;

pub use channel::MpiChannel;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use longshore_executor::plugin::{Address, Collective, Digest};
use longshore_executor::rpc::{CallError, EndReason};
use longshore_mpi::{Comm, Mpi, MpiError, Source, Tag, ThreadLevel};
use longshore_plugin_api::Error;
use parking_lot::{Mutex, ReentrantMutex};

use backoff::Backoff;
use calls::Calls;
use frame::{Header, Kind};
use outbox::When;
use peer::{Life, Peer};
use receiver::Receiver;
use threads::Threads;

/// Greatest number of bytes of a message.
const MOST_IN_MESSAGE: usize = 48 << 10;
/// Greatest number of bytes of a frame's content.
const MOST_CONTENT: usize = MOST_IN_MESSAGE - Header::BYTES;
/// The tag of messages with frames. Replies have the tags after it.
const MESSAGES: i32 = 0;

/// The handlers of one process for messages of the others.
pub trait Service: Send + Sync + 'static {
    /// Handles a call to a plugin and returns the reply. May block, and may call back.
    ///
    /// # Errors
    /// A text, which becomes the caller's [`CallError::Failed`].
    fn call(
        &self,
        channel: &Arc<MpiChannel>,
        method: u32,
        argument: &[u8],
    ) -> Result<Vec<u8>, String>;

    /// Handles a message without a reply. Must not block.
    fn post(&self, from: Address, method: u32, argument: &[u8]);

    /// Handles the loss of a process. Must not block.
    fn lost(&self, rank: i32, why: &EndReason);

    /// Ensures that a process keeps an image, and returns its digest; `is_gone` if the process has
    /// just denied that. `None` if this process distributes no images.
    fn keep_image(
        &self,
        _rank: i32,
        _image: &[u8],
        _is_gone: bool,
    ) -> Option<Result<Digest, String>> {
        None
    }

    /// Performs a collective operation: see `Channel::collective`.
    fn collective(&self, _operation: &Collective<'_>) -> Option<Result<(), Error>> {
        None
    }

    /// Handles the farewell of a process. Must not block.
    fn bye(&self, _rank: i32) {}
}

/// The settings of an endpoint.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time after which a silent process is lost.
    pub limit: Duration,
    /// Time after a message for which the receiving thread polls without sleeping.
    pub spin: Duration,
}

/// One process among the processes of a communicator. Any thread may use it.
pub struct Endpoint {
    mpi: &'static Mpi,
    /// The communicators of messages and of bulk data.
    messages: Comm,
    data: Comm,
    rank: i32,
    /// Held during each call of MPI, unless MPI permits calls of all threads.
    serial: Option<ReentrantMutex<()>>,
    peers: Box<[Peer]>,
    receiver: Mutex<Receiver>,
    threads: Threads,
    service: Arc<dyn Service>,
    options: Options,
    numbers: AtomicU64,
    /// Number of tags for transfers.
    tags: u64,
    /// Processes whose frames wait for later ones.
    waiting: Mutex<Vec<i32>>,
    is_any_waiting: AtomicBool,
    /// Time of the last sent message since `started`, in nanoseconds.
    activity: AtomicU64,
    started: Instant,
    is_over: AtomicBool,
    calls: Calls,
    /// The monitor's state, locked while the monitor calls MPI.
    life: Mutex<Life>,
}

/// A sent call.
struct Begun {
    rank: i32,
    tag: i32,
    request: longshore_mpi::Request,
    slot: replies::Slot,
}

/// A received call.
struct Call {
    from: i32,
    header: Header,
    /// The place of the content in `buffer`.
    at: usize,
    buffer: Box<[u8]>,
}

impl Endpoint {
    /// Creates the endpoint of this process in a communicator, which it owns; `data` has the same
    /// processes. If `level` permits, threads receive messages; else callers receive them while
    /// they wait.
    ///
    /// # Errors
    /// A failure of MPI or of the system, as a text.
    pub fn new(
        mpi: &'static Mpi,
        (messages, data): (Comm, Comm),
        level: ThreadLevel,
        service: Arc<dyn Service>,
        options: Options,
    ) -> Result<Arc<Self>, String> {
        note_forks();
        let text = |error: MpiError| error.to_string();
        mpi.return_errors(messages).map_err(text)?;
        mpi.return_errors(data).map_err(text)?;
        let (rank, size) = (mpi.rank(messages).map_err(text)?, mpi.size(messages).map_err(text)?);
        let most = mpi.tag_upper_bound().map_err(text)?;
        let is_threaded = level == ThreadLevel::Multiple;
        let endpoint = Arc::new(Self {
            mpi,
            messages,
            data,
            rank,
            serial: (!is_threaded).then(|| ReentrantMutex::new(())),
            peers: (0..size).map(|_| Peer::new()).collect(),
            receiver: Mutex::default(),
            threads: Threads::default(),
            service,
            options,
            numbers: AtomicU64::new(0),
            tags: u64::from(most.unsigned_abs() + 1),
            waiting: Mutex::default(),
            is_any_waiting: AtomicBool::new(false),
            activity: AtomicU64::new(0),
            started: Instant::now(),
            is_over: AtomicBool::new(false),
            calls: Calls::default(),
            life: Mutex::default(),
        });
        endpoint.receiver.lock().post(&endpoint).map_err(|error| error.to_string())?;
        if is_threaded {
            let failed = |error: std::io::Error| format!("starting a thread: {error}");
            endpoint.threads.start(&endpoint).map_err(failed)?;
            endpoint.start_monitor().map_err(failed)?;
        }
        Ok(endpoint)
    }

    /// Returns the rank of this process.
    pub fn rank(&self) -> i32 {
        self.rank
    }

    /// Returns whether a process is not lost, as far as is known.
    pub fn is_there(&self, rank: i32) -> bool {
        self.check(rank).is_ok()
    }

    /// Returns the reason for the loss of a process.
    pub fn why_lost(&self, rank: i32) -> Option<EndReason> {
        self.check(rank).err()
    }

    /// Returns the MPI library. With less than `MPI_THREAD_MULTIPLE`, callers serialize its calls.
    pub fn mpi(&self) -> &'static Mpi {
        self.mpi
    }

    /// Calls `is_done` until it returns true; gives up if `is_over` returns a reason. Blocks.
    ///
    /// # Errors
    /// A failure of MPI, and the reason to give up.
    pub fn poll_until(
        &self,
        is_done: &mut dyn FnMut(&Mpi) -> Result<bool, MpiError>,
        is_over: &dyn Fn() -> Option<EndReason>,
    ) -> Result<(), EndReason> {
        let mut backoff = Backoff::new();
        while !self.with(&mut *is_done)? {
            if backoff.is_long() {
                if let Some(why) = is_over() {
                    return Err(why);
                }
                self.assist();
            }
            backoff.pause();
        }
        Ok(())
    }

    /// Calls a plugin of several processes and waits for all replies, after running `meanwhile`. A
    /// process whose reply takes longer than `limit` is lost.
    /// Runs `on_failure` once, if one of several calls fails. Blocks.
    pub fn call_all(
        &self,
        plugin: u16,
        method: u32,
        requests: &[(i32, Vec<u8>)],
        limit: Option<Duration>,
        meanwhile: &mut dyn FnMut(),
        on_failure: &mut dyn FnMut(),
    ) -> Vec<Result<Vec<u8>, CallError>> {
        let begun = requests
            .iter()
            .map(|(rank, argument)| self.begin_call((*rank, plugin), method, argument));
        let begun: Vec<_> = begun.collect();
        let mut has_failed = begun.iter().any(Result::is_err);
        if has_failed {
            on_failure();
        } else {
            meanwhile();
        }
        let end = |call: Result<Begun, CallError>| {
            let reply = call.and_then(|call| self.end_call(call, limit));
            if reply.is_err() && !has_failed {
                has_failed = true;
                on_failure();
            }
            reply
        };
        begun.into_iter().map(end).collect()
    }

    /// Returns whether threads of this endpoint receive messages and send signs of life.
    pub fn is_threaded(&self) -> bool {
        self.serial.is_none()
    }

    /// Calls a plugin of a process and waits for the reply, after running `meanwhile`. Blocks.
    fn call(
        &self,
        to: (i32, u16),
        method: u32,
        argument: &[u8],
        limit: Option<Duration>,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, CallError> {
        let begun = self.begin_call(to, method, argument)?;
        meanwhile();
        self.end_call(begun, limit)
    }

    /// Sends a call, for whose reply a place is ready.
    fn begin_call(
        &self,
        (rank, plugin): (i32, u16),
        method: u32,
        argument: &[u8],
    ) -> Result<Begun, CallError> {
        self.check(rank)?;
        self.check_thread()?;
        let most = longshore_executor::rpc::MAX_CONTENT;
        if argument.len() > most {
            return Err(CallError::TooLarge { bytes: argument.len(), most });
        }
        let most = replies::MOST_CALLS;
        let slot = self.peers[rank as usize].replies.take();
        let mut slot = slot.ok_or(CallError::TooMany { most })?;
        let number = slot.number;
        let tag = MESSAGES + 1 + number as i32;
        let (to, bytes) = (slot.buffer.as_mut_ptr(), slot.buffer.len());
        // SAFETY: the buffer stays in place until the receive is done, or for ever: see `give_up`.
        let request = self.with(|mpi| unsafe {
            mpi.irecv(to, bytes, Source::Rank(rank), Tag::Number(tag), self.messages)
        })?;
        let begun = Begun { rank, tag, request, slot };
        let size = (argument.len() as u64).to_le_bytes();
        let is_long = argument.len() > MOST_CONTENT;
        let (kind, content) =
            if is_long { (Kind::LongCall, &size[..]) } else { (Kind::Call, argument) };
        let header = Header { kind, plugin, method, slot: number, size: content.len() as u32 };
        let mut sent = self.add(rank, (header, content), When::Now);
        if is_long && sent.is_ok() {
            let tag = tag + replies::MOST_CALLS as i32;
            let mut outbox = self.peers[rank as usize].outbox.lock();
            sent = outbox.send(self, rank, tag, argument.to_vec()).map(drop);
        }
        match sent {
            Ok(()) => Ok(begun),
            Err(error) => {
                self.give_up(begun);
                Err(error)
            }
        }
    }

    /// Waits for the reply to a call. Blocks.
    fn end_call(&self, mut call: Begun, limit: Option<Duration>) -> Result<Vec<u8>, CallError> {
        match self.wait_for_reply(call.rank, &mut call.request, limit) {
            Ok(bytes) => {
                let tag = Tag::Number(call.tag);
                let reply = self.read_reply(call.rank, tag, &call.slot.buffer[..bytes]);
                self.peers[call.rank as usize].replies.give_back(call.slot);
                reply
            }
            Err(error) => {
                self.give_up(call);
                Err(error)
            }
        }
    }

    /// Gives a call up. The process may still reply: the place is not used again.
    fn give_up(&self, mut call: Begun) {
        let _ = self.with(|mpi| mpi.cancel(&mut call.request));
        std::mem::forget(call.slot.buffer);
    }

    fn wait_for_reply(
        &self,
        rank: i32,
        request: &mut longshore_mpi::Request,
        limit: Option<Duration>,
    ) -> Result<usize, CallError> {
        let (mut backoff, started) = (Backoff::new(), Instant::now());
        loop {
            if let Some(status) = self.with(|mpi| mpi.test(request))? {
                self.hear(rank);
                return Ok(status.bytes);
            }
            if backoff.is_long() {
                self.check(rank)?;
                self.assist();
                if let Some(limit) = limit.filter(|limit| started.elapsed() > *limit) {
                    self.lose(rank, EndReason::Silent { limit });
                }
            }
            backoff.pause();
        }
    }

    fn read_reply(&self, rank: i32, tag: Tag, reply: &[u8]) -> Result<Vec<u8>, CallError> {
        let broken = || EndReason::Protocol(format!("a reply of {} bytes", reply.len()));
        match reply.split_first() {
            Some((0, content)) => Ok(content.to_vec()),
            Some((1, text)) => Err(CallError::Failed(String::from_utf8_lossy(text).into_owned())),
            Some((2, size)) => {
                let size = size.try_into().map(u64::from_le_bytes).map_err(|_| broken())?;
                self.receive_long(rank, tag, size)
            }
            _ => Err(broken().into()),
        }
    }

    /// Receives a reply that is longer than a message.
    fn receive_long(&self, rank: i32, tag: Tag, size: u64) -> Result<Vec<u8>, CallError> {
        if size > longshore_executor::rpc::MAX_CONTENT as u64 {
            return Err(EndReason::Protocol(format!("a reply of {size} bytes")).into());
        }
        let mut content = vec![0; size as usize];
        let (to, bytes) = (content.as_mut_ptr(), content.len());
        // SAFETY: the buffer stays in place until the receive is done, or for ever.
        let mut request = self
            .with(|mpi| unsafe { mpi.irecv(to, bytes, Source::Rank(rank), tag, self.messages) })?;
        match self.wait_for_reply(rank, &mut request, None) {
            Ok(_) => Ok(content),
            Err(error) => {
                std::mem::forget(content);
                Err(error)
            }
        }
    }

    /// Sends a message without a reply.
    fn post(
        &self,
        (rank, plugin): (i32, u16),
        method: u32,
        argument: &[u8],
    ) -> Result<(), CallError> {
        self.check(rank)?;
        self.check_thread()?;
        check_size(argument)?;
        let size = argument.len() as u32;
        let header = Header { kind: Kind::Post, plugin, method, slot: 0, size };
        let may_wait = self.threads.is_attentive();
        let when = if may_wait { When::Soon } else { When::Now };
        self.add(rank, (header, argument), when)
    }

    fn add(&self, rank: i32, frame: (Header, &[u8]), when: When) -> Result<(), CallError> {
        let mut outbox = self.peers[rank as usize].outbox.lock();
        let added = outbox.add(self, rank, frame, when);
        drop(outbox);
        match added {
            Ok(false) => {
                self.note_activity();
                Ok(())
            }
            Ok(true) => {
                self.waiting.lock().push(rank);
                self.is_any_waiting.store(true, Ordering::Release);
                Ok(())
            }
            Err(CallError::Ended(why)) => {
                if !matches!(why, EndReason::Here | EndReason::Forked) {
                    self.lose(rank, why.clone());
                }
                Err(why.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the frames that wait for later ones. Called by the receiving thread.
    fn flush_waiting(&self) {
        if !self.is_any_waiting.load(Ordering::Acquire) {
            return;
        }
        self.is_any_waiting.store(false, Ordering::Relaxed);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        self.note_activity();
        for rank in waiting {
            let flushed = self.peers[rank as usize].outbox.lock().flush(self, rank);
            if let Err(CallError::Ended(why)) = flushed {
                self.lose(rank, why);
            }
        }
    }

    /// Sends a sign of life, unless MPI has too many messages.
    fn beat(&self, rank: i32) {
        let header = Header { kind: Kind::Beat, plugin: 0, method: 0, slot: 0, size: 0 };
        if let Some(mut outbox) = self.peers[rank as usize].outbox.try_lock() {
            let _ = outbox.add(self, rank, (header, &[]), When::IfPossible);
        }
    }

    /// Handles a call and sends the reply.
    fn handle(self: &Arc<Self>, call: Call) {
        let Call { from, header, at, buffer } = call;
        let content = &buffer[at..at + header.size as usize];
        let Some(channel) = self.mpi_channel(from, header.plugin) else { return };
        let run = || match header.kind {
            Kind::LongCall => {
                let size = content.try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
                let tag = MESSAGES + 1 + replies::MOST_CALLS as i32 + header.slot as i32;
                let content = self.receive_long(from, Tag::Number(tag), size);
                let content = content.map_err(|error| error.to_string())?;
                self.service.call(&channel, header.method, &content)
            }
            _ => self.service.call(&channel, header.method, content),
        };
        let reply = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err("the handler of the call panicked".to_owned()));
        self.receiver_spare(buffer);
        let tag = MESSAGES + 1 + header.slot as i32;
        let sent = self.reply(from, tag, reply);
        if let Err(CallError::Ended(why)) = sent {
            self.lose(from, why);
        }
    }

    fn reply(&self, to: i32, tag: i32, reply: Result<Vec<u8>, String>) -> Result<(), CallError> {
        let (kind, content) = match reply {
            Ok(content) => (0_u8, content),
            Err(text) => (1, text.into_bytes()),
        };
        let mut outbox = self.peers[to as usize].outbox.lock();
        if content.len() < MOST_IN_MESSAGE {
            let mut message = Vec::with_capacity(content.len() + 1);
            message.push(kind);
            message.extend_from_slice(&content);
            outbox.send(self, to, tag, message)?;
            return Ok(());
        }
        let mut message = vec![2_u8];
        message.extend_from_slice(&(content.len() as u64).to_le_bytes());
        outbox.send(self, to, tag, message)?;
        outbox.send(self, to, tag, content)?;
        Ok(())
    }

    fn receiver_spare(&self, buffer: Box<[u8]>) {
        if let Some(mut receiver) = self.receiver.try_lock() {
            receiver.give_back(buffer);
        }
    }

    fn take_post(&self, from: i32, header: Header, content: &[u8]) {
        let address = Address { rank: from as u32, plugin: u32::from(header.plugin) };
        let post = || self.service.post(address, header.method, content);
        if catch_unwind(AssertUnwindSafe(post)).is_err() {
            log::error!("the handler of a message panicked");
        }
    }

    fn take_bye(&self, from: i32) {
        self.service.bye(from);
    }

    fn broken(&self, from: i32, bytes: usize) {
        self.lose(from, EndReason::Protocol(format!("a message of {bytes} bytes is malformed")));
    }

    /// Handles a failed receive: with ULFM, processes have failed.
    fn failed(&self, error: &EndReason) {
        log::debug!("receiving messages: {error}");
        let failed = if self.mpi.has_ulfm() {
            self.mpi.comm_get_failed(self.messages).unwrap_or_default()
        } else {
            Vec::new()
        };
        for rank in failed {
            self.lose(rank, EndReason::Stream("MPI reports that the process has failed".into()));
        }
    }

    /// Receives and handles messages while a caller waits, if no thread of this endpoint does.
    fn assist(&self) {
        if self.serial.is_none() {
            return;
        }
        self.look_after_peers();
        self.assist_once();
    }

    fn assist_once(&self) {
        let Some(this) = THIS.lock().as_ref().and_then(std::sync::Weak::upgrade) else { return };
        let Some(mut receiver) = self.receiver.try_lock() else { return };
        match receiver.take(self) {
            Ok(Some(message)) => {
                let call = this.threads.take_frames(&this, message, &mut receiver);
                drop(receiver);
                if let Some(call) = call {
                    this.handle(call);
                }
            }
            Ok(None) => {}
            Err(error) => self.failed(&error),
        }
    }

    /// Registers this endpoint for callers that receive messages while they wait.
    pub fn register(self: &Arc<Self>) {
        *THIS.lock() = Some(Arc::downgrade(self));
    }

    /// Returns a number for a transfer with a process, which no other transfer under way has.
    fn number(&self, rank: i32) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        number * 2 + u64::from(self.rank > rank)
    }

    fn tag(&self, number: u64) -> i32 {
        // An even number of tags keeps the numbers of both sides apart.
        (number % (self.tags & !1)) as i32
    }

    /// Calls MPI.
    ///
    /// # Errors
    /// The error of MPI as the reason of an end.
    #[inline]
    fn with<T>(&self, call: impl FnOnce(&Mpi) -> Result<T, MpiError>) -> Result<T, EndReason> {
        let _inside = self.calls.enter()?;
        let _serial = self.serial.as_ref().map(|serial| serial.lock());
        call(self.mpi).map_err(|error| EndReason::Stream(error.to_string()))
    }

    /// Checks that the calling thread may call MPI.
    fn check_thread(&self) -> Result<(), CallError> {
        if self.serial.is_none() {
            return Ok(());
        }
        let level = self.mpi.query_thread().unwrap_or(ThreadLevel::Single);
        if level >= ThreadLevel::Serialized || self.mpi.is_main_thread().unwrap_or(false) {
            return Ok(());
        }
        let text = "the program has initialized MPI for its main thread alone: use devices of other \
                    machines from that thread, or request MPI_THREAD_MULTIPLE";
        Err(CallError::Failed(text.to_owned()))
    }

    fn note_activity(&self) {
        let now = self.started.elapsed().as_nanos() as u64;
        self.activity.store(now, Ordering::Relaxed);
    }

    fn since_activity(&self) -> Duration {
        let last = Duration::from_nanos(self.activity.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends the endpoint: its threads end, and then its last messages are sent, within `limit`.
    /// Each of `nodes` gets a farewell, and ends then. Returns whether MPI can be finalized: no
    /// process is lost, and no thread of this endpoint calls MPI any more.
    pub fn end(&self, nodes: &[i32], limit: Duration) -> bool {
        let started = Instant::now();
        self.is_over.store(true, Ordering::SeqCst);
        let are_threads_over = self.threads.end(limit);
        // Not all libraries permit calls of several threads while they are finalized.
        let _life = self.life.lock();
        for (rank, peer) in self.peers.iter().enumerate().filter(|(_, peer)| peer.lost().is_none())
        {
            let rank = rank as i32;
            let Some(mut outbox) = peer.outbox.try_lock_for(limit) else { return false };
            let header = Header { kind: Kind::Bye, plugin: 0, method: 0, slot: 0, size: 0 };
            let _ = match nodes.contains(&rank) {
                true => outbox.add(self, rank, (header, &[]), When::Now).map(drop),
                false => outbox.flush(self, rank),
            };
        }
        let are_all_sent = || {
            let mut peers = self.peers.iter().filter(|peer| peer.lost().is_none());
            peers.all(|peer| match peer.outbox.try_lock() {
                Some(mut outbox) => outbox.is_sent(self).unwrap_or(true),
                None => false,
            })
        };
        let mut is_sent = are_all_sent();
        while !is_sent && started.elapsed() < limit {
            std::thread::sleep(Duration::from_micros(100));
            is_sent = are_all_sent();
        }
        let is_whole = self.peers.iter().all(|peer| peer.lost().is_none());
        self.end_channels();
        match self.receiver.try_lock() {
            Some(mut receiver) => receiver.end(self),
            None => return false,
        }
        // Threads of plugins and of the program may still wait for transfers.
        self.calls.end(limit) && is_sent && are_threads_over && is_whole
    }
}

/// The endpoint of callers that receive messages while they wait.
static THIS: Mutex<Option<std::sync::Weak<Endpoint>>> = Mutex::new(None);

fn check_size(content: &[u8]) -> Result<(), CallError> {
    match content.len() <= MOST_CONTENT {
        true => Ok(()),
        false => Err(CallError::TooLarge { bytes: content.len(), most: MOST_CONTENT }),
    }
}

/// Whether this process is a forked child of the one that has the endpoint.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Returns whether this process is no forked child of the one with the endpoint.
pub fn is_here() -> bool {
    !IS_FORKED.load(Ordering::Relaxed)
}

fn note_forks() {
    static ONCE: Once = Once::new();
    unsafe extern "C" fn child() {
        IS_FORKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the function only sets a flag.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(child));
    });
}
