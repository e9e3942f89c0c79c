//! Work in order, on a thread of its own.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A piece of work.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A queue of jobs, which its thread runs one after the other. Dropping the queue does not wait:
/// its jobs still run, unless the queue was abandoned.
pub(crate) struct SubmissionQueue {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A position in a queue, after some job. A ticket may outlive the queue.
#[derive(Clone)]
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    number: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    given: u64,
    done: u64,
    /// Whether the thread ends when no job is waiting.
    is_closed: bool,
}

impl SubmissionQueue {
    /// Creates an idle queue, whose thread has this name.
    pub(crate) fn new(name: &str) -> SubmissionQueue {
        let shared = Arc::<Shared>::default();
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || worker.work())
            .expect("a test has threads to spare");
        SubmissionQueue { shared, thread: Mutex::new(Some(thread)) }
    }

    /// Enqueues a job. Does not block.
    pub(crate) fn push(&self, job: Job) -> Ticket {
        let mut state = self.shared.state.lock();
        state.waiting.push_back(job);
        state.given += 1;
        let number = state.given;
        drop(state);
        self.shared.changed.notify_all();
        Ticket { shared: Arc::clone(&self.shared), number }
    }

    /// Returns a ticket for all jobs enqueued so far.
    pub(crate) fn tail(&self) -> Ticket {
        let number = self.shared.state.lock().given;
        Ticket { shared: Arc::clone(&self.shared), number }
    }

    /// Drops the jobs that have not begun; their waiters continue.
    pub(crate) fn abandon(&self) {
        let mut state = self.shared.state.lock();
        let dropped = std::mem::take(&mut state.waiting);
        state.given = u64::MAX;
        state.done = u64::MAX;
        state.is_closed = true;
        drop(state);
        self.shared.changed.notify_all();
        drop(dropped);
    }

    /// Waits until the queue's thread has ended, as it does after `abandon`. Does nothing on that
    /// thread.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|it| it.thread().id() != std::thread::current().id()) {
            // A job that panicked has ended the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for SubmissionQueue {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Ticket {
    /// Returns whether the jobs up to the ticket are done.
    pub(crate) fn is_done(&self) -> bool {
        self.shared.state.lock().done >= self.number
    }

    /// Waits until the jobs up to the ticket are done.
    pub(crate) fn wait(&self) {
        let mut state = self.shared.state.lock();
        while state.done < self.number {
            self.shared.changed.wait(&mut state);
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
                state.done = state.done.saturating_add(1);
                self.changed.notify_all();
            } else if state.is_closed {
                return;
            } else {
                self.changed.wait(&mut state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_in_order_even_after_their_queue_is_dropped() {
        let (sender, receiver) = mpsc::channel();
        let queue = SubmissionQueue::new("test");
        let tickets: Vec<_> = (0..10)
            .map(|number| {
                let sender = sender.clone();
                queue.push(Box::new(move || sender.send(number).expect("the test receives")))
            })
            .collect();
        drop(queue);
        tickets[9].wait();
        assert!(tickets.iter().all(Ticket::is_done));
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_wait_for_an_abandoned_job_ends() {
        let (open, gate) = mpsc::channel::<()>();
        let queue = SubmissionQueue::new("test");
        let first = queue.push(Box::new(move || {
            let _ = gate.recv();
        }));
        let second = queue.push(Box::new(|| unreachable!("it was abandoned")));
        assert!(!first.is_done());
        queue.abandon();
        second.wait();
        drop(open);
    }
}
