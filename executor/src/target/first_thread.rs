//! The process's first thread, which runs programs, and ends the process unless another thread has.

use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

use super::last_threads;
use crate::rpc::EndReason;

/// Work for the first thread.
pub(super) enum Work {
    /// A function to call, which sends its own result.
    Call(Box<dyn FnOnce() + Send>),
    /// The end of the connection.
    End(EndReason),
}

/// The sending side of the first thread's work.
pub(super) struct FirstThread {
    state: Mutex<State>,
    work: Sender<Work>,
}

#[derive(Default)]
struct State {
    is_busy: bool,
    end: Option<EndReason>,
}

impl FirstThread {
    /// Creates the handle, and the receiver for [`FirstThread::work`].
    pub(super) fn new() -> (Self, Receiver<Work>) {
        let (work, receiver) = channel();
        (Self { state: Mutex::default(), work }, receiver)
    }

    /// Has the first thread call a function, and waits for the result.
    pub(super) fn call(
        &self,
        function: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<Vec<u8>, String> {
        let (reply, replied) = channel();
        let call = Work::Call(Box::new(move || {
            let _ = reply.send(function());
        }));
        self.work.send(call).map_err(|_| "the process is ending")?;
        replied.recv().map_err(|_| "the process is ending")?
    }

    /// Handles the end of the connection. If the first thread runs a program, the process ends at
    /// once; otherwise that thread ends it.
    pub(super) fn end(&self, ended: &EndReason) {
        let mut state = self.state.lock();
        if state.is_busy {
            super::leave(0);
        }
        state.end = Some(ended.clone());
        let _ = self.work.send(Work::End(ended.clone()));
    }

    /// Executes work on the first thread until the connection is over.
    pub(super) fn work(&self, work: &Receiver<Work>) -> EndReason {
        while let Ok(work) = work.recv() {
            match work {
                Work::End(ended) => return ended,
                Work::Call(call) => {
                    {
                        let mut state = self.state.lock();
                        // A program does not begin after the connection has ended.
                        if let Some(ended) = state.end.take() {
                            return ended;
                        }
                        state.is_busy = true;
                    }
                    last_threads::end_with_last_thread();
                    call();
                    let mut state = self.state.lock();
                    state.is_busy = false;
                    if let Some(ended) = state.end.take() {
                        return ended;
                    }
                }
            }
        }
        EndReason::Cut
    }
}
