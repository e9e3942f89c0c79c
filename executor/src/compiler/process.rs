//! The program's side: the process, and the requests to it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use longshore_compiler::{
    Compile, CompileError, Compiled, LibraryChoice, LibraryVersion, Module, Part, Request,
};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;

use super::messages::{
    Bytes, COMPILER, COMPILER_POST, INLINE, Job, LAST_WORDS, LastWords, Message, Post, Reply,
    SharedRange, Source, VersionReply, read, write,
};
use crate::arena::Piece;
use crate::controller::{Executor, Spawn};
use crate::rpc::{CallError, EndReason, Peer, Service};

/// A compiler in a process of its own, which is started at the first request and kept until this is
/// dropped. Any thread may use it; several threads compile at the same time.
///
/// If the process ends while it compiles, or exceeds the time limit, the request that has caused
/// this fails, with the reason. Other requests under way are made again, one at a time, in a new
/// process.
pub struct CompilerProcess {
    spawn: Spawn,
    folders: Vec<PathBuf>,
    limits: Limits,
    running: Mutex<Option<Arc<Running>>>,
    /// Held shared by each request; exclusively by one that is made again after an end of the
    /// process, so that its own end is its own fault.
    alone: RwLock<()>,
}

/// The limits for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time after which the process is killed.
    pub time: Duration,
    /// Maximum size of the result in bytes, as far as memory is shared.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), output: 256 << 20 }
    }
}

/// A started process.
struct Running {
    executor: Executor,
    /// Numbers of the modules that the process keeps.
    kept: Mutex<HashSet<u64>>,
    last_words: Arc<LastMessage>,
    /// Number of jobs so far.
    started: AtomicU64,
    /// Number of jobs that are done.
    done: AtomicU64,
}

/// The receiver of the process's last message.
#[derive(Default)]
struct LastMessage(Mutex<Option<LastWords>>);

/// The failure of a request.
enum Failure {
    /// An error of the request, in a process that goes on.
    Own(CompileError),
    /// The end of the process. `is_own`: this request has caused it.
    End { reason: CompileError, is_own: bool },
}

impl CompilerProcess {
    /// Creates a compiler whose process is started with these settings.
    pub fn new(spawn: Spawn) -> Self {
        Self {
            // A program that waits for its children does not know this one.
            spawn: spawn.apart_from_children().with_spin(spin()),
            folders: Vec::new(),
            limits: Limits::default(),
            running: Mutex::default(),
            alone: RwLock::default(),
        }
    }

    /// Sets the folders that are searched for LLD, which links code objects.
    #[must_use]
    pub fn with_folders(self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { folders: folders.into_iter().collect(), ..self }
    }

    /// Sets other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the number of the process, if there is one.
    pub fn id(&self) -> Option<u32> {
        self.running.lock().as_ref().map(|running| running.executor.child().id())
    }

    /// Makes a request; again, alone, if another request may have ended the process.
    fn request<T>(&self, make: impl Fn(&Running) -> Result<T, Failure>) -> Result<T, CompileError> {
        let attempt = || {
            let running = self.running().map_err(Failure::Own)?;
            let result = make(&running);
            if let Err(Failure::End { .. }) = &result {
                self.give_up(&running);
            }
            result
        };
        let together = self.alone.read();
        let result = attempt();
        drop(together);
        let result = match result {
            Err(Failure::End { is_own: false, .. }) => {
                let _alone = self.alone.write();
                attempt()
            }
            result => result,
        };
        result.map_err(|failure| match failure {
            Failure::Own(error) => error,
            Failure::End { reason, .. } => reason,
        })
    }

    /// Returns the process, and starts one if none runs. Blocks until it is ready.
    fn running(&self) -> Result<Arc<Running>, CompileError> {
        let mut current = self.running.lock();
        if let Some(running) = current.as_ref()
            && running.peer().ended().is_none()
        {
            return Ok(Arc::clone(running));
        }
        let failed = |problem: String| CompileError::Process(problem);
        let last_words = Arc::<LastMessage>::default();
        let service = Arc::clone(&last_words) as Arc<dyn Service>;
        let executor = self.spawn.start(service).map_err(|error| failed(error.to_string()))?;
        let running = Arc::new(Running {
            executor,
            kept: Mutex::default(),
            last_words,
            started: AtomicU64::new(0),
            done: AtomicU64::new(0),
        });
        let start = Message::Start { folders: self.folders.clone() };
        let start = encode(&start).map_err(failed)?;
        let started = running.peer().call(COMPILER, &start);
        started.map_err(|error| failed(error.to_string()))?;
        *current = Some(Arc::clone(&running));
        Ok(running)
    }

    /// Kills a process that has failed, so that the next request starts another one.
    fn give_up(&self, running: &Arc<Running>) {
        running.executor.child().kill();
        let mut current = self.running.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, running)) {
            let failed = current.take();
            drop(current);
            drop(failed);
        }
    }
}

impl Compile for CompilerProcess {
    fn compile(&self, request: &Request<'_>) -> Result<Compiled, CompileError> {
        self.request(|running| running.compile(request, self.limits))
    }

    fn version(&self, library: &LibraryChoice) -> Result<LibraryVersion, CompileError> {
        self.request(|running| {
            let message = Message::Version(library.clone());
            let reply = running.call(&message, self.limits.time)?;
            let version: VersionReply = decode(&reply)?;
            version.map_err(Failure::Own)
        })
    }

    fn forget(&self, module: &Module) {
        let Some(running) = self.running.lock().clone() else { return };
        let number = module.number();
        if running.kept.lock().remove(&number)
            && let Ok(message) = encode(&Post::Forget { number })
        {
            // A process that has ended keeps nothing.
            let _ = running.peer().post(COMPILER_POST, &message);
        }
    }
}

impl Running {
    fn peer(&self) -> &Arc<Peer> {
        self.executor.peer()
    }

    fn compile(&self, request: &Request<'_>, limits: Limits) -> Result<Compiled, Failure> {
        let (mut input, output) = (None, self.take(limits.output));
        let module = match request.part {
            Part::Whole => Source::Given(self.bytes(request.module, &mut input)?),
            _ => self.kept(request.module, &mut input)?,
        };
        let kept = matches!(module, Source::Keep { .. }).then_some(request.module.number());
        let range = |piece: &Piece| SharedRange { offset: piece.offset(), bytes: piece.bytes() };
        let job = self.started.fetch_add(1, Ordering::Relaxed);
        let is_first_alone = self.done.load(Ordering::Relaxed) == job;
        let message = Message::Compile(Box::new(Job {
            job,
            module,
            part: request.part.clone(),
            target: request.target.clone(),
            options: request.options.clone(),
            output: output.as_ref().map(range),
        }));
        let begin = Instant::now();
        let reply = self.call(&message, limits.time);
        self.done.fetch_add(1, Ordering::Relaxed);
        let reply = reply.map_err(|failure| match failure {
            Failure::End { reason, .. } => {
                let was_alone = is_first_alone && self.started.load(Ordering::Relaxed) == job + 1;
                let is_late = begin.elapsed() >= limits.time;
                self.blame(reason, job, was_alone || is_late)
            }
            failure => failure,
        })?;
        self.kept.lock().extend(kept);
        let reply: Result<Reply<'_>, CompileError> = decode(&reply)?;
        let Reply { code, facts } = reply.map_err(Failure::Own)?;
        let bytes = self.result(&code, output.as_ref())?.into_owned();
        let facts = decode(&self.result(&facts, output.as_ref())?)?;
        Ok(Compiled { bytes, facts })
    }

    /// Returns a part of a result, which may lie in the memory for the result.
    fn result<'a>(
        &self,
        part: &Bytes<'a>,
        output: Option<&Piece>,
    ) -> Result<Cow<'a, [u8]>, Failure> {
        let is_in = |range: &SharedRange, piece: &Piece| {
            let start = range.offset.checked_sub(piece.offset());
            let end = start.and_then(|start| start.checked_add(range.bytes));
            end.is_some_and(|end| end <= piece.bytes())
        };
        match (part, output, self.executor.arena()) {
            (Bytes::Inline(bytes), ..) => Ok(Cow::Borrowed(bytes)),
            (Bytes::Shared(range), Some(piece), Some(arena)) if is_in(range, piece) => {
                Ok(Cow::Owned(read(arena.file(), *range).map_err(|error| own(&error))?))
            }
            _ => Err(own(&"the result is in memory that is not the request's")),
        }
    }

    /// Returns a module that the process keeps: its number, and its bytes unless the process has
    /// them for certain.
    fn kept<'a>(
        &self,
        module: &'a Module,
        input: &mut Option<Piece>,
    ) -> Result<Source<'a>, Failure> {
        let number = module.number();
        if self.kept.lock().contains(&number) {
            return Ok(Source::Kept(number));
        }
        Ok(Source::Keep { number, bytes: self.bytes(module, input)? })
    }

    /// Returns a module's bytes for a message. `input` keeps shared memory for them.
    fn bytes<'a>(
        &self,
        module: &'a Module,
        input: &mut Option<Piece>,
    ) -> Result<Bytes<'a>, Failure> {
        let bytes = module.bytes();
        let arena = self.executor.arena().filter(|_| bytes.len() > INLINE);
        let Some(arena) = arena else { return Ok(Bytes::Inline(bytes)) };
        let shared = arena.take(bytes.len() as u64, 1).and_then(|piece| {
            write(arena.file(), piece.offset(), bytes)?;
            Ok(piece)
        });
        let piece = input.insert(shared.map_err(|error| own(&error))?);
        Ok(Bytes::Shared(SharedRange { offset: piece.offset(), bytes: bytes.len() as u64 }))
    }

    /// Takes shared memory for a result, less than `most` bytes if that much is not free.
    fn take(&self, most: u64) -> Option<Piece> {
        let arena = self.executor.arena()?;
        let sizes = std::iter::successors(Some(most), |size| Some(size / 2));
        sizes.take_while(|size| *size >= LEAST_OUTPUT).find_map(|size| arena.take(size, 1).ok())
    }

    fn call(&self, message: &Message<'_>, limit: Duration) -> Result<Vec<u8>, Failure> {
        let message = encode(message).map_err(|problem| own(&problem))?;
        self.peer().call_within(Some(limit), COMPILER, &message).map_err(|error| match error {
            CallError::Ended(EndReason::Silent { limit }) => {
                Failure::End { reason: CompileError::TimeLimit(limit), is_own: false }
            }
            CallError::Ended(ended) => {
                let reason = CompileError::Process(ended.to_string());
                Failure::End { reason, is_own: false }
            }
            error => own(&error),
        })
    }

    /// Explains the end of the process during a job.
    fn blame(&self, reason: CompileError, job: u64, is_own: bool) -> Failure {
        match self.last_words.0.lock().clone() {
            Some(LastWords { job: cause, reason }) => Failure::End {
                reason: CompileError::Process(format!("LLVM ended it: {reason}")),
                is_own: cause.map_or(is_own, |cause| cause == job),
            },
            None => Failure::End { reason, is_own },
        }
    }
}

impl Service for LastMessage {
    fn call(&self, _: &Arc<Peer>, method: u32, _: &[u8]) -> Result<Vec<u8>, String> {
        Err(format!("the controller of a compiler has no method {method}"))
    }

    fn post(&self, _: &Arc<Peer>, method: u32, argument: &[u8]) {
        if method == LAST_WORDS {
            *self.0.lock() = postcard::from_bytes(argument).ok();
        }
    }
}

/// Returns the time for which both sides spin. A small function takes less than a millisecond, of
/// which two wake-ups would be a fifth, and is often followed by another one.
fn spin() -> Duration {
    const SPIN: Duration = Duration::from_millis(1);
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => Duration::ZERO,
        _ => SPIN,
    }
}

/// Smallest number of bytes of shared memory for a result.
const LEAST_OUTPUT: u64 = 1 << 20;

fn own(problem: &dyn std::fmt::Display) -> Failure {
    Failure::Own(CompileError::Process(problem.to_string()))
}

fn encode(message: &impl Serialize) -> Result<Vec<u8>, String> {
    postcard::to_stdvec(message).map_err(|error| error.to_string())
}

fn decode<'a, T: serde::Deserialize<'a>>(reply: &'a [u8]) -> Result<T, Failure> {
    postcard::from_bytes(reply).map_err(|error| own(&format!("its reply is malformed: {error}")))
}
