//! Signals between processes: how a queue waits for an event of another process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_plugin_api::{Backend, Error, ErrorCode, Queue as _, Result};
use parking_lot::{Condvar, Mutex};

use super::Server;
use super::bulk::unreachable;
use super::functions::queue_function;
use crate::plugin::channel::{Address, Channel};
use crate::plugin::protocol::Id;

/// The signals that have arrived and that no queue has waited for yet.
#[derive(Debug, Default)]
pub(super) struct Signals {
    arrived: Mutex<HashMap<u64, Option<Error>>>,
    changed: Condvar,
}

/// Time between looks at the channel of a signal's sender.
const LOOK: Duration = Duration::from_millis(200);

impl Signals {
    /// Notes a signal, or the error in place of it.
    pub(super) fn arrive(&self, signal: u64, failure: Option<Error>) {
        self.arrived.lock().insert(signal, failure);
        self.changed.notify_all();
    }

    /// Takes a signal that has arrived, or the error in place of it.
    pub(super) fn take(&self, signal: u64) -> Option<Option<Error>> {
        self.arrived.lock().remove(&signal)
    }

    /// Blocks until a signal arrives.
    ///
    /// # Errors
    /// The error in place of the signal, and the one of `lost` as soon as there is one.
    pub(super) fn wait(&self, signal: u64, lost: impl Fn() -> Option<Error>) -> Result<()> {
        let mut arrived = self.arrived.lock();
        loop {
            if let Some(failure) = arrived.remove(&signal) {
                return failure.map_or(Ok(()), Err);
            }
            let is_late = self.changed.wait_for(&mut arrived, LOOK).timed_out();
            if is_late
                && let Some(error) = lost()
                && !arrived.contains_key(&signal)
            {
                return Err(error);
            }
        }
    }
}

/// Returns the error of a wait for a process that is lost.
pub(super) fn lost(sender: &dyn Channel) -> Option<Error> {
    let why = sender.ended()?;
    let message = format!("the process of an awaited event is lost: {why}");
    Some(Error::new(ErrorCode::BackendFailure, message))
}

impl<B: Backend> Server<B> {
    pub(super) fn wait_event(&self, queue: Id, event: Id) -> Result<()> {
        let (queue, event) = (self.queues.get(queue)?, self.events.get(event)?);
        queue.queue.wait_event(&event.event)
    }

    /// Has the signal, or the data in place of it, sent when the event's last record is reached.
    /// The queue of the record sends it, if that queue reports the record. Else a queue that waits
    /// for the event sends it. If that fails, the signal is sent with the error. Does not block.
    ///
    /// # Errors
    /// The error of a process that cannot be reached.
    pub(super) fn announce(
        &self,
        peer: &Arc<dyn Channel>,
        event: Id,
        to: Address,
        signal: u64,
    ) -> Result<()> {
        let channel = peer.neighbour(to).ok_or_else(unreachable)?;
        let pushes = Arc::clone(&self.pushes);
        let send = move |failure| pushes.send(&channel, signal, failure);
        let queued = self.events.get(event).and_then(|event| {
            let then = send.clone();
            if event.records.when_reached(Box::new(move || then(None))).is_none() {
                return Ok(());
            }
            event.device.with_signaller(|queue, is_free| {
                queue.wait_event(&event.event)?;
                let send = send.clone();
                queue_function::<B>(queue, move || {
                    send(None);
                    is_free.store(true, Ordering::Release);
                })
            })
        });
        queued.or_else(|error| {
            send(Some(error));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_seen_whether_it_comes_before_or_after_the_wait_and_once() {
        let signals = Signals::default();
        let error = || Error::new(ErrorCode::InvalidEvent, "no such event");
        signals.arrive(1, None);
        signals.wait(1, || Some(error())).unwrap();
        assert_eq!(signals.wait(1, || Some(error())), Err(error()));
        signals.arrive(3, Some(error()));
        assert_eq!(signals.wait(3, || None), Err(error()));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| signals.wait(2, || None));
            std::thread::sleep(Duration::from_millis(20));
            signals.arrive(2, None);
            waits.join().unwrap().unwrap();
        });
    }
}
