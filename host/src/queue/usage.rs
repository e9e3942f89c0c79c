//! How far a queue has come, for memory that was freed while its work may still use it.

use super::core::Open;
use crate::backend::AnyEvent;
use longshore_plugin_api::{Device as _, Event as _, Queue as _};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// All that was queued is done.
const IDLE: u32 = 0;
/// Something was queued since the last look.
const USED: u32 = 1;
/// Something was queued, and a thread looks or has looked whether it is done.
const LOOKED_AT: u32 = 2;

/// Whether a queue has work that is not done, and points in its order. Queueing costs one store.
pub(super) struct Usage {
    state: AtomicU32,
    /// The last point that the queue has reached.
    passed: AtomicU64,
    points: Mutex<Points>,
}

/// Points in a queue's order, by number. Memory that is freed waits for the next point, which lies
/// behind all that was queued before; one point at a time is an event in the queue.
struct Points {
    next: u64,
    /// Whether freed memory waits for the next point.
    is_awaited: bool,
    recorded: Option<u64>,
    event: Option<AnyEvent>,
}

/// Tells, when it is dropped, that work was queued.
pub(super) struct Queued<'a>(&'a Usage);

impl Drop for Queued<'_> {
    #[inline]
    fn drop(&mut self) {
        // After the work, so that a look that this follows has not seen the queue idle.
        self.0.state.store(USED, Ordering::Release);
    }
}

impl Usage {
    pub(super) fn new() -> Usage {
        let points = Points { next: 1, is_awaited: false, recorded: None, event: None };
        Usage { state: AtomicU32::new(IDLE), passed: AtomicU64::new(0), points: Mutex::new(points) }
    }

    /// Notes what is queued until the answer is dropped.
    #[inline]
    pub(super) fn queueing(&self) -> Queued<'_> {
        Queued(self)
    }

    /// Returns whether all that was queued was done at the last look. One load.
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

    /// Looks how far the queue is, and has it say when it reaches the next point.
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
            // Without an event the point is passed when the queue is idle.
            if let Err(error) = points.record(open) {
                log::debug!("an event behind freed memory: {error}");
            }
        }
    }

    /// Notes that all up to a point is done.
    pub(super) fn passed(&self, point: u64) {
        self.pass(&mut self.points.lock(), point);
    }

    /// Notes that all is done, and that nothing comes any more.
    pub(super) fn close(&self) {
        self.points.lock().event = None;
        self.state.store(IDLE, Ordering::Release);
        self.passed.store(u64::MAX, Ordering::Release);
    }

    /// Returns whether all that was queued is done. The guard is held, so that one thread looks at a time.
    fn look(&self, open: &Open, _points: &MutexGuard<'_, Points>) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        // The replaced value was stored after work was queued, which the question then sees.
        self.state.swap(LOOKED_AT, Ordering::AcqRel);
        let is_idle = open.queue.is_idle() == Ok(true);
        if is_idle {
            // Fails if more was queued meanwhile, which is for the next look.
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
