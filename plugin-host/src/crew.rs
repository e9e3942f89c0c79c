//! The threads that run the queues' commands.
//!
//! A line has a thread only while it has something to run, and for a moment afterwards. The lines that lack one stand in a list, from
//! which the crew's threads take them. The number of threads that are at work is limited by the number of processors; where none of
//! them comes back, as functions of the program may wait for each other, an overseer adds further ones, one after the other.

use crate::line::Line;
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Least number of threads that are started without waiting for others.
const LEAST_LIMIT: usize = 16;
/// Number of threads that may sleep beside a line that has run dry.
const MOST_BESIDE_LINES: usize = 64;
/// Number of threads that wait for lines; others end.
const MOST_IDLE: usize = 16;
/// Time after which a thread without a line ends.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Time in which some line of a full crew's list is taken, unless all threads are stuck.
const STUCK_AFTER: Duration = Duration::from_millis(1);
/// Kernels may use as much stack as on a program's main thread.
const STACK_BYTES: usize = 8 << 20;

/// The threads of all queues of the process.
pub(crate) struct Crew {
    state: Mutex<State>,
    /// A line was added to the list.
    called: Condvar,
    /// The length of the list.
    listed: AtomicUsize,
    /// Number of threads that sleep beside a line.
    beside_lines: AtomicUsize,
    limit: usize,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Arc<Line>>,
    /// How many lines were ever taken from the list.
    taken: u64,
    threads: usize,
    idle: usize,
    is_overseen: bool,
}

/// The crew, which lives as long as the process.
pub(crate) fn crew() -> &'static Crew {
    static CREW: LazyLock<Crew> = LazyLock::new(|| Crew {
        state: Mutex::default(),
        called: Condvar::new(),
        listed: AtomicUsize::new(0),
        beside_lines: AtomicUsize::new(0),
        limit: thread::available_parallelism().map_or(0, |count| 2 * count.get()).max(LEAST_LIMIT),
    });
    &CREW
}

impl Crew {
    /// Has a thread attend to a line. There is one, see [`Crew::ensure_thread`], but it may have others to attend to before.
    pub(crate) fn call(&'static self, line: Arc<Line>) {
        let mut state = self.lock();
        state.lines.push_back(line);
        self.listed.store(state.lines.len(), Ordering::Relaxed);
        if state.lines.len() <= state.idle {
            return self.called.notify_one();
        }
        let beside_lines = self.beside_lines.load(Ordering::Relaxed);
        let at_work = state.threads.saturating_sub(state.idle + beside_lines);
        if at_work >= self.limit || self.start_thread(&mut state).is_err() {
            self.oversee(&mut state);
        }
    }

    /// Starts a thread if there is none.
    ///
    /// # Errors
    /// `OutOfResources` if it cannot be started.
    pub(crate) fn ensure_thread(&'static self) -> Result<()> {
        let mut state = self.lock();
        if state.threads > 0 { Ok(()) } else { self.start_thread(&mut state) }
    }

    /// Whether lines wait for a thread.
    pub(crate) fn has_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed) > 0
    }

    /// Sleeps beside a line that has run dry, unless there are too many that do, or lines that wait for a thread.
    pub(crate) fn beside_line(&self, sleep: impl FnOnce()) -> bool {
        let others = self.beside_lines.fetch_add(1, Ordering::Relaxed);
        let may_sleep = others < MOST_BESIDE_LINES && !self.has_listed();
        if may_sleep {
            sleep();
        }
        self.beside_lines.fetch_sub(1, Ordering::Relaxed);
        may_sleep
    }

    fn start_thread(&'static self, state: &mut State) -> Result<()> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("longshore-q{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let builder = thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
        builder.spawn(|| self.work()).map_err(|error| {
            let message = format!("thread '{name}' for queues cannot be started: {error}");
            Error::new(ErrorCode::OutOfResources, message)
        })?;
        state.threads += 1;
        Ok(())
    }

    /// The life of a thread.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.taken += 1;
                self.listed.store(state.lines.len(), Ordering::Relaxed);
                drop(state);
                line.attend();
                drop(line);
                state = self.lock();
                continue;
            }
            if state.idle >= MOST_IDLE {
                break;
            }
            state.idle += 1;
            let waited = self.called.wait_timeout(state, IDLE_TIME);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.lines.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Starts the overseer, unless there is one.
    fn oversee(&'static self, state: &mut State) {
        if state.is_overseen {
            return;
        }
        let builder = thread::Builder::new().name("longshore-crew".to_owned());
        // Without one the threads that there are take the line, unless all are stuck for good.
        state.is_overseen = builder.spawn(|| self.add_threads()).is_ok();
    }

    /// Adds a thread whenever no line of the list was taken for a while, until the list is empty.
    fn add_threads(&'static self) {
        let mut state = self.lock();
        while !state.lines.is_empty() {
            let taken = state.taken;
            drop(state);
            thread::sleep(STUCK_AFTER);
            state = self.lock();
            if state.taken == taken && !state.lines.is_empty() {
                // Where it fails, it is tried again.
                let _ = self.start_thread(&mut state);
            }
        }
        state.is_overseen = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
