//! Queues.

use super::kind;
use crate::registry::handle::{Kind, Object};
use crate::registry::table::{ObjectGuard, Table};
use crate::types::structures::{ol_device_handle_t, ol_queue_handle_t, ol_queue_impl_t};
use longshore::{Queue, Result};
use std::ops::Deref;

/// All queues.
pub(crate) static ALL: Table<QueueObject> = Table::new();

/// A queue of a device.
pub(crate) struct QueueObject {
    queue: Queue,
    /// Handle of the queue's device.
    device: usize,
    shares_memory: bool,
    cycle: u32,
}

impl Object for QueueObject {
    type Pointee = ol_queue_impl_t;
    const KIND: Kind = kind::QUEUE;
}

impl QueueObject {
    /// Creates a queue of the device with this handle, in this cycle. `shares_memory` is true if
    /// the device and the program share all memory.
    pub(crate) fn new(
        queue: Queue,
        device: ol_device_handle_t,
        shares_memory: bool,
        cycle: u32,
    ) -> QueueObject {
        QueueObject { queue, device: device as usize, shares_memory, cycle }
    }

    /// Returns the handle of the queue's device.
    #[inline]
    pub(crate) fn device_handle(&self) -> ol_device_handle_t {
        self.device as ol_device_handle_t
    }

    /// Returns whether the queue's device and the program share all memory.
    #[inline]
    pub(crate) fn shares_memory(&self) -> bool {
        self.shares_memory
    }

    /// Returns the cycle in which the queue was created.
    pub(crate) fn cycle(&self) -> u32 {
        self.cycle
    }
}

impl Deref for QueueObject {
    type Target = Queue;

    #[inline]
    fn deref(&self) -> &Queue {
        &self.queue
    }
}

/// Returns the queue of a handle.
///
/// # Errors
/// `InvalidQueue` for a number that is not a handle of a queue.
#[inline]
pub(crate) fn from_handle(handle: ol_queue_handle_t) -> Result<ObjectGuard<'static, QueueObject>> {
    ALL.get(handle)
}
