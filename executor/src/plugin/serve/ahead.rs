//! Copies from a device of another process after an event there, of which the data comes in place
//! of the signal.
//!
//! A copy that follows a wait for an event would take three messages after the event: the signal,
//! the request for the data, and the data. Instead the queue asks for the data when it comes to the
//! wait, as all that the copy waits for but the event is done then. The other process sends the
//! data as soon as the event is reached. If the event is reached first, the signal comes, and the
//! data is asked for then.

use std::collections::HashMap;
use std::sync::Arc;

use longshore_plugin_api::{Backend, Error, Event as _, Result};
use parking_lot::Mutex;

use super::Server;
use super::bulk::{failed, unreachable};
use super::functions::queue_function;
use super::signals::{Signals, lost};
use super::transfer::Other;
use crate::plugin::channel::{Address, Channel, MOST_IN_COPY};
use crate::plugin::protocol::{Exchange, Id, POST, Push, Request, encode};

/// The data that other processes have asked for, by the signal of the event before it.
#[derive(Default)]
pub(super) struct Pushes {
    asked: Mutex<HashMap<u64, Push>>,
}

impl Pushes {
    /// Sends the data that was asked for after a signal, or else the signal. Called when its event
    /// is reached. Does not block for long.
    pub(super) fn send(&self, channel: &Arc<dyn Channel>, signal: u64, failure: Option<Error>) {
        let asked = self.asked.lock().remove(&signal);
        let is_sent = asked.is_some_and(|push| failure.is_none() && send(channel, &push).is_ok());
        if !is_sent {
            // If the other process is gone, so is its queue.
            let _ = channel.post(POST, &encode(&Request::Signal { signal, failure }));
        }
    }
}

fn send(channel: &Arc<dyn Channel>, push: &Push) -> Result<()> {
    let bulk = channel.bulk().ok_or_else(unreachable)?;
    let (from, bytes) = (push.address as *const u8, push.bytes as usize);
    // SAFETY: the host guarantees the device's range until the copy is done. `Server::push` has
    // checked that this process reaches the device's memory.
    let content = unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec();
    bulk.send_copy(push.number, content).map_err(failed)
}

/// A queued wait for a signal, with the copy that follows it, if that came before the wait began.
pub(super) struct Wait {
    queue: Id,
    from: Address,
    next: Mutex<Next>,
}

enum Next {
    /// The queue has not come to the wait.
    Unknown,
    Copy(Exchange),
    Begun,
}

impl Wait {
    pub(super) fn new(queue: Id, from: Address) -> Self {
        Self { queue, from, next: Mutex::new(Next::Unknown) }
    }

    /// Has the wait perform the copy that follows it. Returns whether it will.
    fn takes(&self, exchange: &Exchange) -> bool {
        let is_fit = exchange.to_device
            && !exchange.wait
            && exchange.queue == Some(self.queue)
            && exchange.other == self.from
            && (1..=MOST_IN_COPY as u64).contains(&exchange.bytes);
        let mut next = self.next.lock();
        match *next {
            Next::Unknown if is_fit => {
                *next = Next::Copy(*exchange);
                true
            }
            _ => false,
        }
    }

    /// Begins the wait.
    fn begin(&self) -> Option<Exchange> {
        match std::mem::replace(&mut *self.next.lock(), Next::Begun) {
            Next::Copy(exchange) => Some(exchange),
            Next::Unknown | Next::Begun => None,
        }
    }
}

impl<B: Backend> Server<B> {
    /// Returns the wait that is the last request to a queue, unless `request` is no request to one.
    pub(super) fn last_wait(&self, request: &Request<'_>) -> Option<Arc<Wait>> {
        match request {
            Request::Signal { .. } | Request::Push(_) | Request::Announce { .. } => None,
            _ => self.last_wait.lock().take(),
        }
    }

    /// Has the wait `before` perform a copy, if it can. Returns whether it will.
    pub(super) fn joins(&self, before: Option<&Wait>, exchange: &Exchange) -> bool {
        let reaches =
            |device: Id| self.devices.get(device).is_ok_and(|device| device.is_accessible);
        before.is_some_and(|wait| reaches(exchange.device) && wait.takes(exchange))
    }

    /// Has the queue wait for a signal. Does not block.
    ///
    /// # Errors
    /// `InvalidArgument` for a queue that is not there, the error of a process that cannot be
    /// reached, and the errors of the plugin.
    pub(super) fn await_signal(
        &self,
        peer: &Arc<dyn Channel>,
        id: Id,
        signal: u64,
        (from, to): (Address, Address),
    ) -> Result<()> {
        let queue = self.queues.get(id)?;
        let sender = peer.neighbour(from).ok_or_else(unreachable)?;
        let (signals, waiting) = (Arc::clone(&self.signals), Arc::clone(&queue));
        let wait = Arc::new(Wait::new(id, from));
        let this = Arc::clone(&wait);
        queue_function::<B>(&queue.queue, move || {
            let done = match this.begin() {
                Some(copy) => fetch(&signals, signal, (sender, to), &copy),
                None => signals.wait(signal, || lost(&*sender)),
            };
            if let Err(error) = done {
                waiting.defer(error);
            }
        })?;
        *self.last_wait.lock() = Some(wait);
        Ok(())
    }

    /// Sends data to the process that asks for it, now or when its event is reached. Does not block
    /// for long.
    ///
    /// # Errors
    /// The error of a process that cannot be reached.
    pub(super) fn push(&self, peer: &Arc<dyn Channel>, push: Push) -> Result<()> {
        let channel = peer.neighbour(push.to).ok_or_else(unreachable)?;
        let device = self.devices.get(push.device);
        let is_possible =
            push.bytes <= MOST_IN_COPY as u64 && device.is_ok_and(|device| device.is_accessible);
        let signal = push.signal;
        let mut asked = self.pushes.asked.lock();
        if is_possible {
            asked.insert(signal, push.clone());
        }
        drop(asked);
        if push.is_reached {
            self.pushes.send(&channel, signal, None);
        }
        Ok(())
    }

    /// Has the queue report an event's record that was just queued, if that costs it nothing but a
    /// call: on a device whose memory this process reaches.
    pub(super) fn report_record(&self, queue: Id, event: Id) {
        let (Ok(queue), Ok(event)) = (self.queues.get(queue), self.events.get(event)) else {
            return;
        };
        if !event.device.is_accessible {
            return;
        }
        let (records, number) = (Arc::clone(&event.records), event.records.add());
        if event.event.is_complete().unwrap_or(false) {
            return records.reach(number);
        }
        let report = move || records.reach(number);
        if let Err(error) = queue_function::<B>(&queue.queue, report) {
            // Another queue waits for the event.
            log::debug!("the record of an event is not reported: {error}");
            event.records.give_up_report();
        }
    }
}

/// Fetches the data of a copy, as soon as the event before it is reached. Blocks.
///
/// # Errors
/// The error in place of the signal, the loss of the other process, and a failure of the network.
fn fetch(
    signals: &Signals,
    signal: u64,
    (channel, own): (Arc<dyn Channel>, Address),
    copy: &Exchange,
) -> Result<()> {
    let bulk = channel.bulk().ok_or_else(unreachable)?;
    let (number, to) = (bulk.number(), copy.address as *mut u8);
    let ask = |is_reached: bool| {
        let push = Push {
            to: own,
            signal,
            is_reached,
            device: copy.other_device,
            address: copy.other_address,
            bytes: copy.bytes,
            number,
        };
        channel.post(POST, &encode(&Request::Push(push))).map_err(failed)
    };
    let mut is_reached = match signals.take(signal) {
        Some(Some(failure)) => return Err(failure),
        arrived => arrived.is_some(),
    };
    // SAFETY: the host guarantees the device's range, which this process reaches.
    let received = unsafe { bulk.receive(number, to, copy.bytes as usize) };
    let mut received = received.map_err(failed)?;
    loop {
        ask(is_reached)?;
        let mut arrived = None;
        let waited = received.wait_unless(&mut || {
            arrived = signals.take(signal);
            arrived.is_some()
        });
        match (waited, arrived) {
            (Ok(true), _) => return Ok(()),
            (Ok(false), Some(Some(failure))) => return Err(failure),
            (Ok(false), _) if is_reached => break,
            (Ok(false), _) => is_reached = true,
            (Err(error), _) => return Err(lost(&*channel).unwrap_or_else(|| failed(error))),
        }
    }
    // The other process does not reach its device's memory itself.
    drop(received);
    let (device, address) = (copy.other_device, copy.other_address);
    let other = Other::Neighbour { channel: Arc::clone(&channel), device, address };
    // SAFETY: as above.
    unsafe { other.fetch(0, copy.bytes, to, false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_takes_the_copy_from_its_sender_alone_and_before_it_begins() {
        let from = Address { rank: 3, plugin: 0 };
        let copy = Exchange {
            queue: Some(7),
            device: 1,
            address: 0x1000,
            bytes: 8,
            other: from,
            other_device: 1,
            other_address: 0x2000,
            to_device: true,
            wait: false,
        };
        let other = Address { rank: 4, plugin: 0 };
        for wrong in [
            Exchange { queue: Some(8), ..copy },
            Exchange { bytes: MOST_IN_COPY as u64 + 1, ..copy },
            Exchange { other, ..copy },
            Exchange { to_device: false, ..copy },
            Exchange { wait: true, ..copy },
        ] {
            assert!(!Wait::new(7, from).takes(&wrong), "{wrong:?}");
        }
        let wait = Wait::new(7, from);
        assert!(wait.takes(&copy) && !wait.takes(&copy));
        assert!(wait.begin().is_some() && wait.begin().is_none() && !wait.takes(&copy));
        let wait = Wait::new(7, from);
        assert!(wait.begin().is_none() && !wait.takes(&copy));
    }
}
