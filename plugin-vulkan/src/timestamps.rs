//! Timestamps, written by the device.

use crate::logical::LogicalDevice;
use ash::vk;
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of slots of a query pool.
const POOL_SLOTS: u32 = 256;

/// The query pools of a device.
pub(crate) struct Timestamps {
    device: Arc<LogicalDevice>,
    pools: Mutex<Vec<Pool>>,
}

struct Pool {
    raw: vk::QueryPool,
    free: Vec<u32>,
}

/// A slot for one timestamp. Dropping it frees the slot.
pub(crate) struct QuerySlot {
    timestamps: Arc<Timestamps>,
    pool: vk::QueryPool,
    index: u32,
    /// Whether the driver did not take the work that would have written the timestamp.
    skipped: AtomicBool,
}

impl Timestamps {
    /// Creates an empty list of pools.
    pub(crate) fn new(device: &Arc<LogicalDevice>) -> Arc<Timestamps> {
        Arc::new(Timestamps { device: Arc::clone(device), pools: Mutex::default() })
    }

    /// Takes a free slot.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn take(self: &Arc<Timestamps>) -> Result<Arc<QuerySlot>> {
        let device = &self.device;
        let mut pools = self.pools.lock();
        let free = pools.iter_mut().find_map(|pool| Some((pool.raw, pool.free.pop()?)));
        let (pool, index) = match free {
            Some(free) => free,
            None => {
                let info = vk::QueryPoolCreateInfo::default()
                    .query_type(vk::QueryType::TIMESTAMP)
                    .query_count(POOL_SLOTS);
                // SAFETY: the device is live.
                let raw = unsafe { device.raw.create_query_pool(&info, None) };
                let raw = device.check("making a query pool", raw)?;
                pools.push(Pool { raw, free: (1..POOL_SLOTS).rev().collect() });
                (raw, 0)
            }
        };
        let skipped = AtomicBool::new(false);
        Ok(Arc::new(QuerySlot { timestamps: Arc::clone(self), pool, index, skipped }))
    }
}

impl Drop for Timestamps {
    fn drop(&mut self) {
        for pool in self.pools.get_mut().drain(..) {
            // SAFETY: the pool belongs to this device; users of its slots hold this object.
            unsafe { self.device.raw.destroy_query_pool(pool.raw, None) };
        }
    }
}

impl QuerySlot {
    pub(crate) fn pool(&self) -> vk::QueryPool {
        self.pool
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Records that the timestamp will not be written.
    pub(crate) fn skip(&self) {
        self.skipped.store(true, Ordering::Release);
    }

    /// Returns the timestamp, after its event was reached. Does not block.
    ///
    /// # Errors
    /// `BackendFailure` if the driver did not take the work that would have written the timestamp.
    pub(crate) fn read(&self) -> Result<u64> {
        if self.skipped.load(Ordering::Acquire) {
            let message = "the driver did not take the work that would have recorded the time";
            return Err(Error::new(ErrorCode::BackendFailure, message));
        }
        let device = &self.timestamps.device;
        let mut ticks = [0u64];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: the pool is live and has the slot.
        let read =
            unsafe { device.raw.get_query_pool_results(self.pool, self.index, &mut ticks, flags) };
        device.check("reading a timestamp", read)?;
        Ok(ticks[0])
    }
}

impl Drop for QuerySlot {
    fn drop(&mut self) {
        let mut pools = self.timestamps.pools.lock();
        if let Some(pool) = pools.iter_mut().find(|pool| pool.raw == self.pool) {
            pool.free.push(self.index);
        }
    }
}
