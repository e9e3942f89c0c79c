//! Signals between processes: how a queue waits for an event of another process.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use longshore_plugin_api::{Backend, Error, ErrorCode, Queue as _, Result};
use parking_lot::{Condvar, Mutex};

use super::Server;
use super::bulk::unreachable;
use super::functions::queue_function;
use crate::plugin::channel::{Address, Channel};
use crate::plugin::protocol::{Id, POST, Request, encode};

/// The signals that have arrived and that no queue has waited for yet.
#[derive(Debug, Default)]
pub(super) struct Signals {
    arrived: Mutex<HashSet<u64>>,
    changed: Condvar,
}

/// Time between looks at the channel of a signal's sender.
const LOOK: Duration = Duration::from_millis(200);

impl Signals {
    pub(super) fn arrive(&self, signal: u64) {
        self.arrived.lock().insert(signal);
        self.changed.notify_all();
    }

    /// Blocks until a signal arrives. Returns false if `is_lost` becomes true before.
    fn wait(&self, signal: u64, is_lost: impl Fn() -> bool) -> bool {
        let mut arrived = self.arrived.lock();
        loop {
            if arrived.remove(&signal) {
                return true;
            }
            let is_late = self.changed.wait_for(&mut arrived, LOOK).timed_out();
            if is_late && is_lost() && !arrived.contains(&signal) {
                return false;
            }
        }
    }
}

impl<B: Backend> Server<B> {
    pub(super) fn wait_event(&self, queue: Id, event: Id) -> Result<()> {
        let (queue, event) = (self.queues.get(queue)?, self.events.get(event)?);
        queue.queue.wait_event(&event.event)
    }

    /// Has a queue of its own wait for the event's last record and then send the signal. Does not
    /// block.
    pub(super) fn announce(
        &self,
        peer: &Arc<dyn Channel>,
        event: Id,
        to: Address,
        signal: u64,
    ) -> Result<()> {
        let event = self.events.get(event)?;
        let channel = peer.neighbour(to).ok_or_else(unreachable)?;
        let queue = event.device.own_queue()?;
        queue.wait_event(&event.event)?;
        queue_function::<B>(&queue, move || {
            // If the other process is gone, so is its queue.
            let _ = channel.post(POST, &encode(&Request::Signal { signal }));
        })
    }

    /// Has the queue wait for a signal. Does not block.
    pub(super) fn await_signal(
        &self,
        peer: &Arc<dyn Channel>,
        queue: Id,
        signal: u64,
        from: Address,
    ) -> Result<()> {
        let queue = self.queues.get(queue)?;
        let sender = peer.neighbour(from).ok_or_else(unreachable)?;
        let signals = Arc::clone(&self.signals);
        let waiting = Arc::clone(&queue);
        queue_function::<B>(&queue.queue, move || {
            if !signals.wait(signal, || sender.ended().is_some()) {
                let why = sender.ended().map_or_else(String::new, |why| format!(": {why}"));
                let message = format!("the process of an awaited event is lost{why}");
                waiting.defer(Error::new(ErrorCode::BackendFailure, message));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_seen_whether_it_comes_before_or_after_the_wait_and_once() {
        let signals = Signals::default();
        signals.arrive(1);
        assert!(signals.wait(1, || false));
        assert!(!signals.wait(1, || true));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| signals.wait(2, || false));
            std::thread::sleep(Duration::from_millis(20));
            signals.arrive(2);
            assert!(waits.join().unwrap());
        });
    }
}
