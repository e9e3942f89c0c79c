//! Threads that do the work of many queues.

use crate::{Error, ErrorCode, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Number of threads that may sleep beside a line that has run dry.
const MOST_BESIDE_LINES: usize = 64;
/// Time after which a thread without a line ends.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Time in which some line of a full crew's list is taken, unless all threads are stuck.
const STUCK_AFTER: Duration = Duration::from_millis(1);

/// Threads that take turns at many lines, each the work of one queue, so that a queue has a thread only while it has something to do.
///
/// A line that lacks a thread stands in a list, from which the crew's threads take it. The number of threads that are at
/// work is limited; where none of them comes back, as functions of the program may wait for each other, an overseer adds
/// further ones, one after the other. So a line that blocks delays others, but cannot keep them from going on.
///
/// A crew lives as long as the process: it is a static of the plugin, whose library is never unloaded.
pub struct Crew<L> {
    state: Mutex<State<L>>,
    /// A line was added to the list.
    called: Condvar,
    /// The length of the list.
    listed: AtomicUsize,
    /// Number of threads that sleep beside a line.
    attached_sleepers: AtomicUsize,
    name: &'static str,
    next: AtomicUsize,
    limit: usize,
    stack_bytes: Option<usize>,
    attend: fn(L),
}

struct State<L> {
    tasks: VecDeque<L>,
    /// How many lines were ever taken from the list.
    taken: u64,
    threads: usize,
    idle: usize,
    is_overseen: bool,
}

/// Wakes a thread of a crew when it is dropped, which is best done without a lock that the thread needs.
#[must_use]
pub struct Wake<'a>(Option<&'a Condvar>);

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        if let Some(called) = self.0 {
            called.notify_one();
        }
    }
}

impl<L: Send + 'static> Crew<L> {
    /// Returns a crew without threads. They will have `name` with a number behind it, of which the system keeps 15 bytes; `limit` of them
    /// are started without waiting for others, and stay for a while without a line. `attend` does what a line has to do, and
    /// returns when there is nothing more; it may block.
    pub const fn new(name: &'static str, limit: usize, attend: fn(L)) -> Crew<L> {
        let state =
            State { tasks: VecDeque::new(), taken: 0, threads: 0, idle: 0, is_overseen: false };
        Crew {
            state: Mutex::new(state),
            called: Condvar::new(),
            listed: AtomicUsize::new(0),
            attached_sleepers: AtomicUsize::new(0),
            name,
            next: AtomicUsize::new(0),
            limit,
            stack_bytes: None,
            attend,
        }
    }

    /// Returns the same, with threads that have so much stack.
    pub const fn with_stack(mut self, bytes: usize) -> Crew<L> {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Has a thread attend to a line. Does not block for long. There is a thread, see [`Crew::ensure_thread`], but it may have others to attend
    /// to before.
    pub fn call(&'static self, task: L) {
        let mut state = self.lock();
        // Without a further thread those that there are take the line, unless all are stuck for good.
        let wake = self.rouse(&mut state);
        self.list(state, task);
        drop(wake);
    }

    /// Has a thread attend to a line, as [`Crew::call`] does, where none may be there. Drops the line if it fails. The thread
    /// may come at once, but if it has to be woken, that is done when the answer is dropped.
    ///
    /// # Errors
    /// `OutOfResources` if no thread is sure to come.
    pub fn try_call(&'static self, task: L) -> Result<Wake<'static>> {
        let mut state = self.lock();
        let wake = self.rouse(&mut state)?;
        self.list(state, task);
        Ok(wake)
    }

    /// Starts a thread if there is none. To be asked before work is taken that none but the crew will do.
    ///
    /// # Errors
    /// `OutOfResources` if it cannot be started.
    pub fn ensure_thread(&'static self) -> Result<()> {
        let mut state = self.lock();
        if state.threads > 0 { Ok(()) } else { self.start_thread(&mut state) }
    }

    /// Returns whether lines wait for a thread, so that one without work had better return from its line. Takes no lock.
    pub fn has_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed) > 0
    }

    /// Has `sleep` wait for more work of the line that the calling thread attends to, and answers true; or false, without a call, where too many
    /// sleep so, or lines wait for a thread. A sleeping thread does not count as one at work.
    pub fn sleep_attached(&self, sleep: impl FnOnce()) -> bool {
        let others = self.attached_sleepers.fetch_add(1, Ordering::Relaxed);
        let may_sleep = others < MOST_BESIDE_LINES && !self.has_listed();
        if may_sleep {
            sleep();
        }
        self.attached_sleepers.fetch_sub(1, Ordering::Relaxed);
        may_sleep
    }

    /// Adds a line to the list.
    fn list(&self, mut state: MutexGuard<'_, State<L>>, task: L) {
        state.tasks.push_back(task);
        self.listed.store(state.tasks.len(), Ordering::Relaxed);
    }

    /// Sees to it that a thread comes for one more line, which is listed before the lock is released.
    fn rouse(&'static self, state: &mut State<L>) -> Result<Wake<'static>> {
        if state.tasks.len() < state.idle {
            return Ok(Wake(Some(&self.called)));
        }
        let attached_sleepers = self.attached_sleepers.load(Ordering::Relaxed);
        let at_work = state.threads.saturating_sub(state.idle + attached_sleepers);
        if at_work < self.limit {
            match self.start_thread(state) {
                Ok(()) => return Ok(Wake(None)),
                // The line may be listed all the same.
                Err(error) if state.threads == 0 => return self.oversee(state).and(Err(error)),
                Err(_) => {}
            }
        }
        self.oversee(state).map(|()| Wake(None))
    }

    fn start_thread(&'static self, state: &mut State<L>) -> Result<()> {
        let name = format!("{}{}", self.name, self.next.fetch_add(1, Ordering::Relaxed));
        let builder = thread::Builder::new().name(name.clone());
        let builder = match self.stack_bytes {
            Some(bytes) => builder.stack_size(bytes),
            None => builder,
        };
        builder.spawn(|| self.work()).map_err(|error| no_thread(&name, error))?;
        state.threads += 1;
        Ok(())
    }

    /// The life of a thread.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                state.taken += 1;
                self.listed.store(state.tasks.len(), Ordering::Relaxed);
                drop(state);
                self.attend_to(task);
                state = self.lock();
                continue;
            }
            if state.idle >= self.limit {
                break;
            }
            state.idle += 1;
            let waited = self.called.wait_timeout(state, IDLE_TIME);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.tasks.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Keeps the thread, and the count of them, if a line panics.
    fn attend_to(&self, task: L) {
        if catch_unwind(AssertUnwindSafe(|| (self.attend)(task))).is_err() {
            log::error!("a queue's work has panicked on a thread of '{}'", self.name);
        }
    }

    /// Starts the overseer, unless there is one.
    fn oversee(&'static self, state: &mut State<L>) -> Result<()> {
        const NAME: &str = "longshore-crew";
        if !state.is_overseen {
            let builder = thread::Builder::new().name(NAME.to_owned());
            builder.spawn(|| self.add_threads()).map_err(|error| no_thread(NAME, error))?;
            state.is_overseen = true;
        }
        Ok(())
    }

    /// Adds a thread whenever no line of the list was taken for a while, until the list is empty.
    fn add_threads(&'static self) {
        let mut state = self.lock();
        while !state.tasks.is_empty() {
            let taken = state.taken;
            drop(state);
            thread::sleep(STUCK_AFTER);
            state = self.lock();
            if state.taken == taken && !state.tasks.is_empty() {
                // Where it fails, it is tried again.
                let _ = self.start_thread(&mut state);
            }
        }
        state.is_overseen = false;
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cold]
fn no_thread(name: &str, error: std::io::Error) -> Error {
    let message = format!("thread '{name}' for queues cannot be started: {error}");
    Error::new(ErrorCode::OutOfResources, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Barrier};
    use std::time::Instant;

    const TIMEOUT: Duration = Duration::from_secs(60);

    type Work = Box<dyn FnOnce() + Send>;

    fn crew(limit: usize) -> &'static Crew<Work> {
        Box::leak(Box::new(Crew::new("crew-test", limit, |work: Work| work())))
    }

    fn gate() -> (Sender<()>, Receiver<()>) {
        channel()
    }

    #[test]
    fn all_lines_are_attended_to_by_few_threads() {
        const TASKS: usize = 2000;
        let crew = crew(4);
        crew.ensure_thread().unwrap();
        let (done, all) = channel();
        for _ in 0..TASKS {
            let done = done.clone();
            crew.call(Box::new(move || done.send(thread::current().id()).unwrap()));
        }
        let threads: std::collections::HashSet<_> =
            (0..TASKS).map(|_| all.recv_timeout(TIMEOUT).unwrap()).collect();
        // Where the machine is busy, the overseer may have taken threads that did not get their turn for stuck.
        assert!(threads.len() < TASKS / 10, "{}", threads.len());
    }

    #[test]
    fn lines_that_wait_for_each_other_all_go_on() {
        const TASKS: usize = 12;
        let crew = crew(2);
        let meeting = Arc::new(Barrier::new(TASKS));
        let (done, all) = channel();
        for _ in 0..TASKS {
            let (meeting, done) = (Arc::clone(&meeting), done.clone());
            crew.call(Box::new(move || {
                meeting.wait();
                done.send(()).unwrap();
            }));
        }
        (0..TASKS).for_each(|_| all.recv_timeout(TIMEOUT).unwrap());
    }

    #[test]
    fn a_line_that_panics_costs_no_thread() {
        let crew = crew(1);
        crew.call(Box::new(|| panic!("a mistake of the plugin's")));
        let begin = Instant::now();
        while crew.lock().idle == 0 {
            assert!(begin.elapsed() < TIMEOUT, "the thread is gone, and counts still");
            thread::yield_now();
        }
    }

    #[test]
    fn a_thread_beside_its_line_is_not_at_work() {
        let crew = crew(1);
        let (asleep, has_slept) = gate();
        let (wake, woken) = gate();
        crew.call(Box::new(move || {
            let slept = crew.sleep_attached(|| {
                asleep.send(()).unwrap();
                woken.recv().unwrap();
            });
            assert!(slept);
        }));
        has_slept.recv_timeout(TIMEOUT).unwrap();
        let (done, answered) = gate();
        crew.call(Box::new(move || done.send(()).unwrap()));
        answered.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(crew.lock().threads, 2);
        assert!(!crew.lock().is_overseen);
        wake.send(()).unwrap();
    }
}
