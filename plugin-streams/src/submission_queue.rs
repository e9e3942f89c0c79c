//! The order of a queue's work when some of it needs the host.
//!
//! Work goes straight to the stream until a *command* comes that a thread of the host must run.
//! Such a command is a function of the program, a copy that would block the caller, or a wait for
//! an event that another queue still keeps. From then on the submission queue *keeps* new work as
//! commands, and a thread of the backend's worker pool runs them in order. The thread hands a
//! command for the stream to the stream, and runs a command for the host when the stream has done
//! all earlier work. When no command is left, the thread leaves, and work goes straight to the
//! stream again.
//!
//! If the next command waits for an event that the driver was not given, the submission queue is
//! *parked* on that event's record. Its thread leaves at once, and the worker pool is called again
//! when the driver has the event.
//!
//! The stream itself waits only for other streams' work that the driver has, so no queue can stop
//! another.

use crate::call::Code;
use crate::command::Command;
use crate::device_core::DeviceCore;
use crate::driver::{Context, Driver};
use crate::queue_stream::QueueStream;
use crate::record::Record;
use crate::worker_pool::{BusyQueue, DeferredWork, WaitTarget};
use longshore_plugin_api::{Error, Result, WorkerGuard};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

/// The work of one queue.
pub(crate) struct SubmissionQueue<D: Driver> {
    queue_stream: QueueStream<D>,
    /// Whether work is kept and the worker pool has the submission queue: the worker pool was
    /// called, a thread runs commands, or the queue is parked. Written with the lock of `state`,
    /// read without it.
    keeps: AtomicBool,
    state: Mutex<State<D>>,
    /// Notified when a command is done.
    moved: Condvar,
}

struct State<D: Driver> {
    commands: VecDeque<Command<D>>,
    /// Number of commands kept so far, and the number of them that are done.
    kept: u64,
    done: u64,
    /// The thread that runs a function of the program, if any.
    runner: Option<ThreadId>,
}

impl<D: Driver> State<D> {
    fn new() -> State<D> {
        State { commands: VecDeque::new(), kept: 0, done: 0, runner: None }
    }
}

/// The right to add to a submission queue that keeps its work.
pub(crate) struct DeferredCommands<'a, D: Driver> {
    state: MutexGuard<'a, State<D>>,
}

impl<D: Driver> DeferredCommands<'_, D> {
    pub(crate) fn push(mut self, command: Command<D>) {
        self.state.commands.push_back(command);
        self.state.kept += 1;
    }
}

impl<D: Driver> SubmissionQueue<D> {
    /// Creates an empty submission queue.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>) -> Result<Arc<SubmissionQueue<D>>> {
        Ok(Arc::new(SubmissionQueue {
            queue_stream: QueueStream::new(device)?,
            keeps: AtomicBool::new(false),
            state: Mutex::new(State::new()),
            moved: Condvar::new(),
        }))
    }

    /// Returns the right to add work after the kept commands; `None` if none is kept, so that work
    /// goes straight to the stream.
    #[inline]
    pub(crate) fn deferred(&self) -> Option<DeferredCommands<'_, D>> {
        if !self.keeps.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state.lock();
        self.keeps.load(Ordering::Relaxed).then_some(DeferredCommands { state })
    }

    /// Queues a command for a thread of the host, and keeps all later work.
    ///
    /// # Errors
    /// A lost device; `OutOfResources` if no thread can be started.
    pub(crate) fn keep(self: &Arc<SubmissionQueue<D>>, command: Command<D>) -> Result<()> {
        self.device().refuse_if_lost()?;
        let state = self.state.lock();
        // The worker pool's thread finds the command, as it needs the lock first.
        let wake = match self.keeps.load(Ordering::Relaxed) {
            true => None,
            false => Some(D::worker_pool().try_call(self.busy())?),
        };
        self.keeps.store(true, Ordering::Release);
        DeferredCommands { state }.push(command);
        drop(wake);
        Ok(())
    }

    /// Queues a wait for a record, and keeps later work if the driver was not given the record. No
    /// thread is needed until then.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
    pub(crate) fn await_record(
        self: &Arc<SubmissionQueue<D>>,
        record: Arc<Record<D>>,
    ) -> Result<()> {
        self.device().refuse_if_lost()?;
        let state = self.state.lock();
        if !self.keeps.load(Ordering::Relaxed) {
            if record.park(self.busy()).is_some() {
                drop(state);
                return record.hold_up(self);
            }
            // The worker pool's thread, called when the driver has the record, finds the command,
            // as it needs the lock first.
            self.keeps.store(true, Ordering::Release);
        }
        DeferredCommands { state }.push(Command::Wait(record));
        Ok(())
    }

    /// Blocks until all that was queued before the call is done.
    ///
    /// # Errors
    /// The pending error; a lost device; `Unsupported` on the thread that runs a function of this
    /// queue, which would wait for itself.
    #[inline]
    pub(crate) fn synchronize(&self) -> Result<()> {
        let mut state = self.state.lock();
        if self.keeps.load(Ordering::Relaxed) {
            refuse_runner(&state)?;
            let until = state.kept;
            while state.done < until {
                self.moved.wait(&mut state);
            }
        }
        drop(state);
        let earlier = self.take_error();
        let result = self.synchronize_stream();
        earlier.map_or(result, Err)
    }

    /// Returns an error for a wait by a function of this queue.
    ///
    /// # Errors
    /// `Unsupported` on the thread that runs a function of this queue, which would wait for
    /// itself.
    pub(crate) fn refuse_runner(&self) -> Result<()> {
        match self.keeps.load(Ordering::Acquire) {
            true => refuse_runner(&self.state.lock()),
            false => Ok(()),
        }
    }

    /// Returns whether all queued work is done.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let _current = self.device().enter()?;
        if self.keeps.load(Ordering::Acquire) {
            let state = self.state.lock();
            if state.done < state.kept {
                return Ok(false);
            }
        }
        // SAFETY: the stream is live.
        match unsafe { self.device().driver().query_stream(self.stream()) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.is(Code::NOT_READY) => Ok(false),
            Err(failure) => Err(self.device().failed("querying whether a queue is idle", failure)),
        }
    }

    /// Returns the submission queue in the form for the worker pool.
    fn busy(self: &Arc<SubmissionQueue<D>>) -> BusyQueue {
        BusyQueue::new(Arc::clone(self) as Arc<dyn DeferredWork>)
    }
}

impl<D: Driver> DeferredWork for SubmissionQueue<D> {
    fn run_commands(self: Arc<SubmissionQueue<D>>) -> Option<Arc<dyn WaitTarget>> {
        // Every command enters the context itself, so a failure here matters only to functions of
        // the program.
        let _current = self.device().context().visit().ok();
        let mut state = self.state.lock();
        loop {
            if let Some(Command::Wait(record)) = state.commands.front()
                && !record.is_submitted()
            {
                return Some(Arc::clone(record) as Arc<dyn WaitTarget>);
            }
            let Some(command) = state.commands.pop_front() else {
                self.keeps.store(false, Ordering::Release);
                return None;
            };
            if command.is_function() {
                state.runner = Some(thread::current().id());
            }
            let result = MutexGuard::unlocked(&mut state, || command.run(&self));
            state.runner = None;
            if let Err(error) = result {
                log::warn!("{error}");
                self.keep_error(error);
            }
            state.done += 1;
            self.moved.notify_all();
        }
    }

    fn worker_guard(&self) -> WorkerGuard {
        self.device().worker_guard()
    }
}

impl<D: Driver> Deref for SubmissionQueue<D> {
    type Target = QueueStream<D>;

    #[inline]
    fn deref(&self) -> &QueueStream<D> {
        &self.queue_stream
    }
}

fn refuse_runner<D: Driver>(state: &State<D>) -> Result<()> {
    match state.runner {
        Some(runner) if runner == thread::current().id() => Err(own_queue()),
        _ => Ok(()),
    }
}

#[cold]
fn own_queue() -> Error {
    Error::would_deadlock("waiting for a queue", "the same queue")
}
