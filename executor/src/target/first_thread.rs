//! The process's first thread, which runs programs, and ends the process if nobody else has.

use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

use super::last_threads;
use crate::rpc::Ended;

/// Work for the first thread.
pub(super) enum Work {
    /// Something to call, which sends its result itself.
    Call(Box<dyn FnOnce() + Send>),
    /// The connection is over.
    End(Ended),
}

/// Where work is given to it.
pub(super) struct FirstThread {
    state: Mutex<State>,
    work: Sender<Work>,
}

#[derive(Default)]
struct State {
    is_busy: bool,
    end: Option<Ended>,
}

impl FirstThread {
    /// One that waits, and what it does when it is ready.
    pub(super) fn new() -> (Self, Receiver<Work>) {
        let (work, receiver) = channel();
        (Self { state: Mutex::default(), work }, receiver)
    }

    /// Has the first thread call a function, and waits for the result.
    pub(super) fn call(
        &self,
        function: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<Vec<u8>, String> {
        let (answer, answered) = channel();
        let call = Work::Call(Box::new(move || {
            let _ = answer.send(function());
        }));
        self.work.send(call).map_err(|_| "the process is ending")?;
        answered.recv().map_err(|_| "the process is ending")?
    }

    /// The connection is over. If the first thread runs a program, the process ends at once; else that thread ends it.
    pub(super) fn end(&self, ended: &Ended) {
        let mut state = self.state.lock();
        if state.is_busy {
            super::leave(0);
        }
        state.end = Some(ended.clone());
        let _ = self.work.send(Work::End(ended.clone()));
    }

    /// What the first thread does: calls what it is given until the connection is over.
    pub(super) fn work(&self, work: &Receiver<Work>) -> Ended {
        while let Ok(work) = work.recv() {
            match work {
                Work::End(ended) => return ended,
                Work::Call(call) => {
                    {
                        let mut state = self.state.lock();
                        // The program is not begun when nobody is there for whom it would run.
                        if let Some(ended) = state.end.take() {
                            return ended;
                        }
                        state.is_busy = true;
                    }
                    last_threads::watch();
                    call();
                    let mut state = self.state.lock();
                    state.is_busy = false;
                    if let Some(ended) = state.end.take() {
                        return ended;
                    }
                }
            }
        }
        Ended::Cut
    }
}
