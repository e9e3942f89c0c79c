//! Lanes: streams as their context knows them.

use super::{Answer, Code};
use crate::protocol::{Reply, Request};
use crate::{Connection, Gpu, Line, Ticket};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// Order of a lane's work with that of others of its context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The context's own lane: in order with those that say so.
    Own,
    /// In order with the context's own lane.
    WithOwn,
    /// In order with none.
    Free,
}

/// A thread of this process, and a connection to the GPU process that it uses.
pub(crate) struct Lane {
    pub(crate) line: Line,
    connection: Arc<Connection>,
    order: Order,
}

impl Lane {
    /// Makes a lane of a GPU process.
    ///
    /// # Errors
    /// `LAUNCH_FAILED` if the process is gone.
    pub(crate) fn new(gpu: &Gpu, order: Order) -> Answer<Lane> {
        let connection = gpu.connect().map_err(|_| Code::LAUNCH_FAILED)?;
        Ok(Lane { line: Line::new("stream"), connection: Arc::new(connection), order })
    }

    /// The connection, for jobs of the line.
    pub(crate) fn asks(&self) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        let connection = Arc::clone(&self.connection);
        move |request| connection.ask(request)
    }
}

/// The lanes of a context.
#[derive(Default)]
pub(crate) struct Lanes {
    own: OnceLock<Arc<Lane>>,
    /// Those of streams that the program made.
    others: Mutex<Vec<Weak<Lane>>>,
}

impl Lanes {
    /// The context's own lane, which `make` makes if it was never used.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn own(&self, make: impl FnOnce() -> Answer<Lane>) -> Answer<Arc<Lane>> {
        if let Some(own) = self.own.get() {
            return Ok(Arc::clone(own));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(self.own.get_or_init(|| made)))
    }

    /// Enters the lane of a stream.
    pub(crate) fn enter(&self, lane: &Arc<Lane>) {
        let mut others = self.others.lock();
        others.retain(|lane| lane.strong_count() > 0);
        others.push(Arc::downgrade(lane));
    }

    /// All lanes, those included whose streams were destroyed and that still work.
    pub(crate) fn all(&self) -> Vec<Arc<Lane>> {
        self.others().into_iter().chain(self.own.get().cloned()).collect()
    }

    /// What work that a lane is given now has to wait for: the context's own lane and those in order with it wait for each
    /// other.
    pub(crate) fn before(&self, lane: &Lane) -> Vec<Ticket> {
        let lanes = match lane.order {
            Order::Own => self.others(),
            Order::WithOwn => self.own.get().cloned().into_iter().collect(),
            Order::Free => Vec::new(),
        };
        let in_order = lanes.iter().filter(|other| other.order != Order::Free);
        in_order.map(|other| other.line.tail()).filter(|ticket| !ticket.is_done()).collect()
    }

    fn others(&self) -> Vec<Arc<Lane>> {
        self.others.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
