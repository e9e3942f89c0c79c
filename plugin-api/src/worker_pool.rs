//! Threads that do the work of many queues.

use crate::{Error, ErrorCode, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum number of threads that sleep attached to an empty submission queue.
const MOST_ATTACHED_SLEEPERS: usize = 64;
/// Time after which an idle thread ends.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Time within which a thread takes a listed submission queue, unless all threads are stuck.
const STUCK_AFTER: Duration = Duration::from_millis(1);

/// Threads shared by many submission queues, so that a queue occupies a thread only while it has
/// work.
///
/// A submission queue that needs a thread enters a list, from which the worker pool's threads take
/// it. The number of working threads is limited. If none of them returns, as functions of the
/// program may wait for each other, an overseer adds further threads, one after the other. A
/// submission queue that blocks therefore delays the others, but cannot stop them.
///
/// A worker pool lives until the process ends: it is a static of the plugin, whose library is never
/// unloaded.
pub struct WorkerPool<T> {
    state: Mutex<State<T>>,
    /// Condition that a submission queue was added to the list.
    called: Condvar,
    /// Length of the list, readable without the lock.
    listed: AtomicUsize,
    /// Number of threads that sleep attached to a submission queue.
    attached_sleepers: AtomicUsize,
    name: &'static str,
    next: AtomicUsize,
    limit: usize,
    stack_bytes: Option<usize>,
    attend: fn(T),
}

struct State<T> {
    tasks: VecDeque<T>,
    /// Number of submission queues ever taken from the list.
    taken: u64,
    threads: usize,
    idle: usize,
    is_overseen: bool,
}

/// A pending wake-up of a worker pool's thread, which happens on drop. Drop the value without a
/// lock that the thread needs.
#[must_use]
pub struct Wake<'a>(Option<&'a Condvar>);

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        if let Some(called) = self.0 {
            called.notify_one();
        }
    }
}

impl<T: Send + 'static> WorkerPool<T> {
    /// Creates a worker pool without threads. Each thread gets `name` and a number as its name, of
    /// which the system keeps 15 bytes. Up to `limit` threads start as soon as there is work for
    /// them; an idle thread ends after 5 seconds. `attend` does the work of a submission queue and
    /// returns when there is no more; it may block.
    pub const fn new(name: &'static str, limit: usize, attend: fn(T)) -> WorkerPool<T> {
        let state =
            State { tasks: VecDeque::new(), taken: 0, threads: 0, idle: 0, is_overseen: false };
        WorkerPool {
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

    /// Returns the same worker pool, whose threads have a stack of `bytes` bytes.
    pub const fn with_stack(mut self, bytes: usize) -> WorkerPool<T> {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Hands a submission queue to a thread. Does not block for long. The worker pool must have a
    /// thread, see [`WorkerPool::ensure_thread`], which may attend to other queues first.
    pub fn call(&'static self, task: T) {
        let mut state = self.lock();
        // Without a further thread, the present threads take the queue, unless all are stuck for
        // good.
        let wake = self.rouse(&mut state);
        self.list(state, task);
        drop(wake);
    }

    /// Hands a submission queue to a thread as [`WorkerPool::call`] does, for a worker pool that
    /// may have no thread. Drops the queue on failure. A thread may begin at once; if a thread must
    /// be woken, that happens when the returned [`Wake`] is dropped.
    ///
    /// # Errors
    /// `OutOfResources` if no thread is certain to come.
    pub fn try_call(&'static self, task: T) -> Result<Wake<'static>> {
        let mut state = self.lock();
        let wake = self.rouse(&mut state)?;
        self.list(state, task);
        Ok(wake)
    }

    /// Starts a thread if the worker pool has none. The caller does this before it accepts work
    /// that only the worker pool can do.
    ///
    /// # Errors
    /// `OutOfResources` if the thread cannot be started.
    pub fn ensure_thread(&'static self) -> Result<()> {
        let mut state = self.lock();
        if state.threads > 0 { Ok(()) } else { self.start_thread(&mut state) }
    }

    /// Returns whether submission queues wait for a thread; then a thread without work should
    /// return from its queue. Takes no lock.
    pub fn has_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed) > 0
    }

    /// Runs `sleep`, which waits for more work of the calling thread's submission queue, and
    /// returns true. Returns false without the call if 64 threads sleep so already, or if queues
    /// wait for a thread. A sleeping thread does not count as working.
    pub fn sleep_attached(&self, sleep: impl FnOnce()) -> bool {
        let others = self.attached_sleepers.fetch_add(1, Ordering::Relaxed);
        let may_sleep = others < MOST_ATTACHED_SLEEPERS && !self.has_listed();
        if may_sleep {
            sleep();
        }
        self.attached_sleepers.fetch_sub(1, Ordering::Relaxed);
        may_sleep
    }

    /// Adds a submission queue to the list.
    fn list(&self, mut state: MutexGuard<'_, State<T>>, task: T) {
        state.tasks.push_back(task);
        self.listed.store(state.tasks.len(), Ordering::Relaxed);
    }

    /// Ensures that a thread comes for one more submission queue, which the caller lists before it
    /// releases the lock.
    fn rouse(&'static self, state: &mut State<T>) -> Result<Wake<'static>> {
        if state.tasks.len() < state.idle {
            return Ok(Wake(Some(&self.called)));
        }
        let attached_sleepers = self.attached_sleepers.load(Ordering::Relaxed);
        let at_work = state.threads.saturating_sub(state.idle + attached_sleepers);
        if at_work < self.limit {
            match self.start_thread(state) {
                Ok(()) => return Ok(Wake(None)),
                // The caller may list the queue in spite of the error.
                Err(error) if state.threads == 0 => return self.oversee(state).and(Err(error)),
                Err(_) => {}
            }
        }
        self.oversee(state).map(|()| Wake(None))
    }

    fn start_thread(&'static self, state: &mut State<T>) -> Result<()> {
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

    /// Attends to submission queues until the worker pool no longer needs the thread.
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

    /// Attends to a submission queue. A panic neither ends the thread nor changes the count of
    /// threads.
    fn attend_to(&self, task: T) {
        if catch_unwind(AssertUnwindSafe(|| (self.attend)(task))).is_err() {
            log::error!("a queue's work has panicked on a thread of '{}'", self.name);
        }
    }

    /// Starts the overseer, unless it runs already.
    fn oversee(&'static self, state: &mut State<T>) -> Result<()> {
        const NAME: &str = "longshore-pool";
        if !state.is_overseen {
            let builder = thread::Builder::new().name(NAME.to_owned());
            builder.spawn(|| self.add_threads()).map_err(|error| no_thread(NAME, error))?;
            state.is_overseen = true;
        }
        Ok(())
    }

    /// Adds a thread whenever no queue was taken from the list for a while, until the list is
    /// empty.
    fn add_threads(&'static self) {
        let mut state = self.lock();
        while !state.tasks.is_empty() {
            let taken = state.taken;
            drop(state);
            thread::sleep(STUCK_AFTER);
            state = self.lock();
            if state.taken == taken && !state.tasks.is_empty() {
                // The next round repeats a failed start.
                let _ = self.start_thread(&mut state);
            }
        }
        state.is_overseen = false;
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
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

    fn worker_pool(limit: usize) -> &'static WorkerPool<Work> {
        Box::leak(Box::new(WorkerPool::new("pool-test", limit, |work: Work| work())))
    }

    fn gate() -> (Sender<()>, Receiver<()>) {
        channel()
    }

    #[test]
    fn all_tasks_are_attended_to_by_few_threads() {
        const TASKS: usize = 2000;
        let worker_pool = worker_pool(4);
        worker_pool.ensure_thread().unwrap();
        let (done, all) = channel();
        for _ in 0..TASKS {
            let done = done.clone();
            worker_pool.call(Box::new(move || done.send(thread::current().id()).unwrap()));
        }
        let threads: std::collections::HashSet<_> =
            (0..TASKS).map(|_| all.recv_timeout(TIMEOUT).unwrap()).collect();
        // On a busy machine, the overseer may take threads without processor time for stuck
        // threads.
        assert!(threads.len() < TASKS / 10, "{}", threads.len());
    }

    #[test]
    fn tasks_that_wait_for_each_other_all_go_on() {
        const TASKS: usize = 12;
        let worker_pool = worker_pool(2);
        let meeting = Arc::new(Barrier::new(TASKS));
        let (done, all) = channel();
        for _ in 0..TASKS {
            let (meeting, done) = (Arc::clone(&meeting), done.clone());
            worker_pool.call(Box::new(move || {
                meeting.wait();
                done.send(()).unwrap();
            }));
        }
        (0..TASKS).for_each(|_| all.recv_timeout(TIMEOUT).unwrap());
    }

    #[test]
    fn a_task_that_panics_costs_no_thread() {
        let worker_pool = worker_pool(1);
        worker_pool.call(Box::new(|| panic!("a mistake of the plugin's")));
        let begin = Instant::now();
        while worker_pool.lock().idle == 0 {
            assert!(begin.elapsed() < TIMEOUT, "the thread is gone, and counts still");
            thread::yield_now();
        }
    }

    #[test]
    fn an_attached_sleeper_is_not_at_work() {
        let worker_pool = worker_pool(1);
        let (asleep, has_slept) = gate();
        let (wake, woken) = gate();
        worker_pool.call(Box::new(move || {
            let slept = worker_pool.sleep_attached(|| {
                asleep.send(()).unwrap();
                woken.recv().unwrap();
            });
            assert!(slept);
        }));
        has_slept.recv_timeout(TIMEOUT).unwrap();
        let (done, answered) = gate();
        worker_pool.call(Box::new(move || done.send(()).unwrap()));
        answered.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(worker_pool.lock().threads, 2);
        assert!(!worker_pool.lock().is_overseen);
        wake.send(()).unwrap();
    }
}
