//! The progress of a queue, for freed memory that queued work may still use.

use super::core::Open;
use crate::backend::AnyEvent;
use longshore_plugin_api::{Device as _, Event as _, Queue as _};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// State: all queued work is done.
const IDLE: u32 = 0;
/// State: work was queued since the last look.
const USED: u32 = 1;
/// State: work was queued, and a thread checks or has checked whether it is done.
const LOOKED_AT: u32 = 2;

/// The state of a queue, idle or not, and the points in its order. Queueing costs one store.
pub(super) struct Usage {
    state: AtomicU32,
    /// The last point that the queue has reached.
    passed: AtomicU64,
    points: Mutex<Points>,
}

/// Points in a queue's order, by number. Freed memory waits for the next point, which lies behind
/// all work queued before. At most one point at a time is recorded as an event in the queue.
struct Points {
    next: u64,
    /// Whether freed memory waits for the next point.
    is_awaited: bool,
    recorded: Option<u64>,
    event: Option<AnyEvent>,
}

/// A guard that, when dropped, notes that work was queued.
pub(super) struct Queued<'a>(&'a Usage);

impl Drop for Queued<'_> {
    #[inline]
    fn drop(&mut self) {
        // Stored after the work was queued. If a look before the work found the queue idle, this
        // store replaces its `IDLE`.
        self.0.state.store(USED, Ordering::Release);
    }
}

impl Usage {
    pub(super) fn new() -> Usage {
        let points = Points { next: 1, is_awaited: false, recorded: None, event: None };
        Usage { state: AtomicU32::new(IDLE), passed: AtomicU64::new(0), points: Mutex::new(points) }
    }

    /// Returns a guard that notes work when dropped.
    #[inline]
    pub(super) fn queueing(&self) -> Queued<'_> {
        Queued(self)
    }

    /// Returns whether all queued work was done at the last look. Costs one load.
    #[inline]
    pub(super) fn is_known_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == IDLE
    }

    pub(super) fn has_passed(&self, point: u64) -> bool {
        self.passed.load(Ordering::Acquire) >= point
    }

    /// Returns the next point, unless the queue is idle.
    pub(super) fn point(&self, open: &Open) -> Option<u64> {
        let mut points = self.points.lock();
        if self.look(open, &points) {
            self.pass_all(&mut points);
            return None;
        }
        points.is_awaited = true;
        Some(points.next)
    }

    /// Updates the passed points, and records an event for the next point if freed memory waits for
    /// it.
    pub(super) fn poll(&self, open: &Open) {
        let mut points = self.points.lock();
        if self.look(open, &points) {
            return self.pass_all(&mut points);
        }
        if let (Some(point), Some(event)) = (points.recorded, &points.event)
            && event.is_complete() == Ok(true)
        {
            self.pass(&mut points, point);
        }
        if points.recorded.is_none() && points.is_awaited {
            // If recording fails, the point is passed when the queue is idle.
            if let Err(error) = points.record(open) {
                log::debug!("an event behind freed memory: {error}");
            }
        }
    }

    /// Notes that all work up to a point is done.
    pub(super) fn passed(&self, point: u64) {
        self.pass(&mut self.points.lock(), point);
    }

    /// Notes that all work is done and none follows.
    pub(super) fn close(&self) {
        self.points.lock().event = None;
        self.state.store(IDLE, Ordering::Release);
        self.passed.store(u64::MAX, Ordering::Release);
    }

    /// Returns whether all queued work is done. The guard parameter makes one thread look at a
    /// time.
    fn look(&self, open: &Open, _points: &MutexGuard<'_, Points>) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        // The swap acquires a store of `USED`, so `is_idle` sees the work queued before it.
        self.state.swap(LOOKED_AT, Ordering::AcqRel);
        let is_idle = open.queue.is_idle() == Ok(true);
        if is_idle {
            // Fails if more work was queued meanwhile; the next look handles that.
            let _ = self.state.compare_exchange(LOOKED_AT, IDLE, success, failure);
        }
        is_idle
    }

    fn pass_all(&self, points: &mut Points) {
        if points.is_awaited || points.recorded.is_some() {
            self.pass(points, points.next);
        }
    }

    fn pass(&self, points: &mut Points, point: u64) {
        self.passed.fetch_max(point, Ordering::AcqRel);
        if points.next == point {
            points.begin_next();
        }
        points.recorded = points.recorded.filter(|recorded| *recorded > point);
    }
}

impl Points {
    fn record(&mut self, open: &Open) -> longshore_plugin_api::Result<()> {
        let event = match self.event.take() {
            Some(event) => event,
            None => open.device.create_event(false)?,
        };
        open.queue.record_event(&event)?;
        self.event = Some(event);
        self.recorded = Some(self.next);
        self.begin_next();
        Ok(())
    }

    fn begin_next(&mut self) {
        self.next += 1;
        self.is_awaited = false;
    }
}
