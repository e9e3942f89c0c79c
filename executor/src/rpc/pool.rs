//! Threads that handle the calls received over the stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::EndReason;
use super::connection::Peer;
use super::link::MOST_CALLS;
use super::wire::Header;

/// Calls that wait for a thread, and threads that wait for a call.
#[derive(Debug, Default)]
pub(super) struct Pool {
    state: Mutex<State>,
    changed: Condvar,
}

/// Number of idle threads that are kept, and the idle time after which other threads end.
pub(super) const MOST_IDLE: usize = 16;
pub(super) const RESTING: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct State {
    calls: VecDeque<(Header, Vec<u8>)>,
    idle: usize,
    /// Calls without a reply yet.
    open: usize,
    is_over: bool,
}

impl Pool {
    /// Has a thread handle a call: an idle thread, otherwise a new one. Does not block.
    pub(super) fn add(
        &self,
        peer: &Arc<Peer>,
        header: Header,
        content: Vec<u8>,
    ) -> Result<(), EndReason> {
        let mut state = self.state.lock();
        // Some calls have their replies but are not counted as done yet, hence the factor 2.
        if state.open == 2 * MOST_CALLS {
            let problem = format!("more than {MOST_CALLS} calls are under way");
            return Err(EndReason::Protocol(problem));
        }
        state.open += 1;
        state.calls.push_back((header, content));
        if state.idle >= state.calls.len() {
            self.changed.notify_one();
            return Ok(());
        }
        drop(state);
        let worker = Arc::clone(peer);
        peer.spawn("calls", move || worker.pool().work(&worker))
    }

    /// Handles the end of the connection: the threads end when they have no call.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        state.calls.clear();
        drop(state);
        self.changed.notify_all();
    }

    fn work(&self, peer: &Arc<Peer>) {
        let mut state = self.state.lock();
        while !state.is_over {
            let Some((header, content)) = state.calls.pop_front() else {
                state.idle += 1;
                let is_late = self.changed.wait_for(&mut state, RESTING).timed_out();
                state.idle -= 1;
                if is_late && state.calls.is_empty() && state.idle >= MOST_IDLE {
                    return;
                }
                continue;
            };
            drop(state);
            peer.serve(header, &content, || {});
            state = self.state.lock();
            state.open -= 1;
        }
    }
}
