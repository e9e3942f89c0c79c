//! Channels: the threads and connections behind a context's streams.

use super::{Code, DriverResult};
use crate::protocol::{Reply, Request};
use crate::{Connection, Gpu, SubmissionQueue, Ticket};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// The order of a channel's work relative to other channels of the context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Channel of the context's own stream, in order with all `WithOwn` channels.
    Own,
    /// Channel in order with the context's own channel.
    WithOwn,
    /// Channel in order with no other channel.
    Free,
}

/// A thread of this process, and its connection to the GPU process.
pub(crate) struct Channel {
    pub(crate) queue: SubmissionQueue,
    connection: Arc<Connection>,
    order: Order,
}

impl Channel {
    /// Creates a channel of a GPU process.
    ///
    /// # Errors
    /// `LAUNCH_FAILED` if the process is gone.
    pub(crate) fn new(gpu: &Gpu, order: Order) -> DriverResult<Channel> {
        let connection = gpu.connect().map_err(|_| Code::LAUNCH_FAILED)?;
        Ok(Channel {
            queue: SubmissionQueue::new("stream"),
            connection: Arc::new(connection),
            order,
        })
    }

    /// Returns a function that sends requests over the connection, for jobs of the submission
    /// queue.
    pub(crate) fn asks(&self) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        let connection = Arc::clone(&self.connection);
        move |request| connection.ask(request)
    }
}

/// The channels of a context.
#[derive(Default)]
pub(crate) struct Channels {
    own: OnceLock<Arc<Channel>>,
    /// Channels of streams that the program made.
    others: Mutex<Vec<Weak<Channel>>>,
}

impl Channels {
    /// Returns the context's own channel. The first call creates it by `make`.
    ///
    /// # Errors
    /// The error of `make`.
    pub(crate) fn own(
        &self,
        make: impl FnOnce() -> DriverResult<Channel>,
    ) -> DriverResult<Arc<Channel>> {
        if let Some(own) = self.own.get() {
            return Ok(Arc::clone(own));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(self.own.get_or_init(|| made)))
    }

    /// Inserts the channel of a stream.
    pub(crate) fn enter(&self, channel: &Arc<Channel>) {
        let mut others = self.others.lock();
        others.retain(|channel| channel.strong_count() > 0);
        others.push(Arc::downgrade(channel));
    }

    /// Returns all channels, including busy channels of destroyed streams.
    pub(crate) fn all(&self) -> Vec<Arc<Channel>> {
        self.others().into_iter().chain(self.own.get().cloned()).collect()
    }

    /// Returns the work that new work of a channel has to wait for. The context's own channel and
    /// the `WithOwn` channels wait for each other.
    pub(crate) fn before(&self, channel: &Channel) -> Vec<Ticket> {
        let channels = match channel.order {
            Order::Own => self.others(),
            Order::WithOwn => self.own.get().cloned().into_iter().collect(),
            Order::Free => Vec::new(),
        };
        let in_order = channels.iter().filter(|other| other.order != Order::Free);
        in_order.map(|other| other.queue.tail()).filter(|ticket| !ticket.is_done()).collect()
    }

    fn others(&self) -> Vec<Arc<Channel>> {
        self.others.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
