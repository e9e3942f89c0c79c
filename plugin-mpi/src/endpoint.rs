//! Calls, messages and transfers between the processes of a communicator.
//!
//! A message consists of frames ([`frame`]): posts, and at most one call at its end. Posts that
//! follow each other closely go in one message. A reply is a message with the tag of the caller's
//! slot, for which the caller has posted a receive: the caller itself receives it. Bulk data has a
//! communicator of its own.

mod backoff;
mod bulk;
mod channel;
mod end;
mod frame;
mod gate;
mod outbox;
mod peer;
mod received;
mod receiver;
mod replies;
mod sent_calls;
mod threads;

pub use channel::MpiChannel;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use longshore_executor::plugin::{Address, Collective, Digest};
use longshore_executor::rpc::{CallError, EndReason};
use longshore_mpi::{Comm, Mpi, MpiError, ThreadLevel};
use longshore_plugin_api::Error;
use parking_lot::{Mutex, ReentrantMutex};

use crate::bells::Bells;
use crate::launch::Comms;
use backoff::Backoff;
use frame::Header;
use gate::Gate;
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
    /// Whether posts may wait some microseconds for later ones, to go together.
    pub collects_posts: bool,
}

/// One process among the processes of a communicator. Any thread may use it.
pub struct Endpoint {
    this: Weak<Self>,
    mpi: &'static Mpi,
    /// The communicators of messages and of bulk data.
    messages: Comm,
    data: Comm,
    bells: Arc<Bells>,
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
    /// Threads that poll MPI until something is done.
    polling: AtomicUsize,
    /// Transfers under way.
    transfers: AtomicUsize,
    /// Threads that wait for data, or for the effect of a post.
    awaiting_posts: AtomicUsize,
    /// Times of the last sent message, and of the last received one that was no sign of life,
    /// since `started`, in nanoseconds.
    activity: AtomicU64,
    heard: AtomicU64,
    started: Instant,
    is_over: AtomicBool,
    gate: Gate,
    /// The monitor's state, locked while the monitor calls MPI.
    life: Mutex<Life>,
}

impl Endpoint {
    /// Creates the endpoint of this process in the communicators of messages and of data, which it
    /// owns. If `level` permits, threads receive messages; else callers receive them while they
    /// wait.
    ///
    /// # Errors
    /// A failure of MPI or of the system, as a text.
    pub fn new(
        mpi: &'static Mpi,
        comms: &Comms,
        level: ThreadLevel,
        service: Arc<dyn Service>,
        options: Options,
    ) -> Result<Arc<Self>, String> {
        note_forks();
        let Comms { messages, data, ref bells, .. } = *comms;
        let text = |error: MpiError| error.to_string();
        mpi.return_errors(messages).map_err(text)?;
        mpi.return_errors(data).map_err(text)?;
        let (rank, size) = (mpi.rank(messages).map_err(text)?, mpi.size(messages).map_err(text)?);
        let most = mpi.tag_upper_bound().map_err(text)?;
        let is_threaded = level == ThreadLevel::Multiple;
        let endpoint = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            mpi,
            messages,
            data,
            bells: Arc::clone(bells),
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
            polling: AtomicUsize::new(0),
            transfers: AtomicUsize::new(0),
            awaiting_posts: AtomicUsize::new(0),
            activity: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            started: Instant::now(),
            is_over: AtomicBool::new(false),
            gate: Gate::default(),
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
        let mut backoff = Backoff::new(self);
        while !self.with(&mut *is_done)? {
            if backoff.looks_around() {
                if let Some(why) = is_over() {
                    return Err(why);
                }
                self.assist();
            }
            backoff.pause();
        }
        Ok(())
    }

    /// Returns whether threads of this endpoint receive messages and send signs of life.
    pub fn is_threaded(&self) -> bool {
        self.serial.is_none()
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

    /// Calls MPI, one thread at a time below `MPI_THREAD_MULTIPLE`. Blocks as the call does.
    ///
    /// # Errors
    /// The error of MPI as the reason of an end, and `Here` while this endpoint rests.
    #[inline]
    pub fn with<T>(&self, call: impl FnOnce(&Mpi) -> Result<T, MpiError>) -> Result<T, EndReason> {
        let _inside = self.gate.enter()?;
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

    fn note(&self, time: &AtomicU64) {
        time.store(self.started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn since(&self, time: &AtomicU64) -> Duration {
        let last = Duration::from_nanos(time.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
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
