//! Lanes: the threads and connections behind a context's streams.

use super::{Code, DriverResult};
use crate::protocol::{Reply, Request};
use crate::{Connection, Gpu, SubmissionQueue, Ticket};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// The order of a lane's work relative to other lanes of the context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Lane of the context's own stream, in order with all `WithOwn` lanes.
    Own,
    /// Lane in order with the context's own lane.
    WithOwn,
    /// Lane in order with no other lane.
    Free,
}

/// A thread of this process, and its connection to the GPU process.
pub(crate) struct Lane {
    pub(crate) queue: SubmissionQueue,
    connection: Arc<Connection>,
    order: Order,
}

impl Lane {
    /// Creates a lane of a GPU process.
    ///
    /// # Errors
    /// `LAUNCH_FAILED` if the process is gone.
    pub(crate) fn new(gpu: &Gpu, order: Order) -> DriverResult<Lane> {
        let connection = gpu.connect().map_err(|_| Code::LAUNCH_FAILED)?;
        Ok(Lane { queue: SubmissionQueue::new("stream"), connection: Arc::new(connection), order })
    }

    /// Returns a function that sends requests over the connection, for jobs of the submission
    /// queue.
    pub(crate) fn asks(&self) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        let connection = Arc::clone(&self.connection);
        move |request| connection.ask(request)
    }
}

/// The lanes of a context.
#[derive(Default)]
pub(crate) struct Lanes {
    own: OnceLock<Arc<Lane>>,
    /// Lanes of streams that the program made.
    others: Mutex<Vec<Weak<Lane>>>,
}

impl Lanes {
    /// Returns the context's own lane. The first call creates it by `make`.
    ///
    /// # Errors
    /// The error of `make`.
    pub(crate) fn own(&self, make: impl FnOnce() -> DriverResult<Lane>) -> DriverResult<Arc<Lane>> {
        if let Some(own) = self.own.get() {
            return Ok(Arc::clone(own));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(self.own.get_or_init(|| made)))
    }

    /// Inserts the lane of a stream.
    pub(crate) fn enter(&self, lane: &Arc<Lane>) {
        let mut others = self.others.lock();
        others.retain(|lane| lane.strong_count() > 0);
        others.push(Arc::downgrade(lane));
    }

    /// Returns all lanes, including busy lanes of destroyed streams.
    pub(crate) fn all(&self) -> Vec<Arc<Lane>> {
        self.others().into_iter().chain(self.own.get().cloned()).collect()
    }

    /// Returns the work that new work of a lane has to wait for. The context's own lane and the
    /// `WithOwn` lanes wait for each other.
    pub(crate) fn before(&self, lane: &Lane) -> Vec<Ticket> {
        let lanes = match lane.order {
            Order::Own => self.others(),
            Order::WithOwn => self.own.get().cloned().into_iter().collect(),
            Order::Free => Vec::new(),
        };
        let in_order = lanes.iter().filter(|other| other.order != Order::Free);
        in_order.map(|other| other.queue.tail()).filter(|ticket| !ticket.is_done()).collect()
    }

    fn others(&self) -> Vec<Arc<Lane>> {
        self.others.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
