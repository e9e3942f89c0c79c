//! A stream of a device, and the state for copies, launches and waits on it.

use crate::call::{Call, Failure};
use crate::device_core::DeviceCore;
use crate::driver::{Driver, EventKind};
use crate::handle::Stream;
use crate::in_flight::InFlight;
use crate::memory::{Locked, PinnedRange, locked_by_others};
use crate::staging::Staging;
use longshore_plugin_api::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The stream of a queue.
pub(crate) struct QueueStream<D: Driver> {
    device: Arc<DeviceCore<D>>,
    stream: Stream,
    staging: Mutex<Staging>,
    /// The result of the last lookup of pinned memory.
    pinned: Mutex<PinnedRange>,
    in_flight: Arc<InFlight>,
    /// The pending error: the first failure that no call has returned.
    error: Mutex<Option<Error>>,
    /// Whether `error` holds one. Written with the lock of `error`, read without it.
    has_error: AtomicBool,
}

impl<D: Driver> QueueStream<D> {
    /// Creates a queue stream on which nothing is queued.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>) -> Result<QueueStream<D>> {
        let (stream, staging) = device.take_stream()?;
        Ok(QueueStream {
            stream,
            staging: Mutex::new(staging),
            pinned: Mutex::default(),
            in_flight: device.register(),
            device: Arc::clone(device),
            error: Mutex::new(None),
            has_error: AtomicBool::new(false),
        })
    }

    /// Returns the device of the stream.
    pub(crate) fn device(&self) -> &Arc<DeviceCore<D>> {
        &self.device
    }

    /// Returns the stream itself.
    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// Returns the list of the last launches.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Returns how much of a range of host memory is page-locked, by Longshore or by other code of
    /// the process. The context is current.
    #[inline(always)]
    pub(crate) fn locked(&self, start: u64, bytes: u64) -> Locked {
        let memory = &self.device.memory;
        if memory.has_pinned() {
            if self.pinned.lock().covers(memory, start, bytes) {
                return Locked::All;
            }
            if memory.knows_some(start, bytes) {
                return Locked::Some;
            }
        }
        locked_by_others(self.device.driver(), start, bytes)
    }

    /// Copies host memory into the staging memory, and calls `hand` with the address there, from
    /// which the stream will read. `None` if the staging memory has no room. The context is
    /// current, and the caller vouches for the range.
    #[inline(always)]
    pub(crate) fn stage(
        &self,
        start: u64,
        bytes: u64,
        hand: impl FnOnce(u64) -> Call,
    ) -> Option<Call> {
        let mut staging = self.staging.lock();
        let staged = match staging.take(&self.device, self.stream, bytes) {
            Ok(staged) => staged?,
            Err(failure) => return Some(Err(failure)),
        };
        // SAFETY: the caller vouches for the source; the lock is held, so no other call writes this
        // staging memory.
        unsafe {
            std::ptr::copy_nonoverlapping(start as *const u8, staged as *mut u8, bytes as usize);
        }
        Some(hand(staged))
    }

    /// Returns the pending error, and leaves it pending.
    pub(crate) fn pending_error(&self) -> Option<Error> {
        match self.has_error.load(Ordering::Acquire) {
            true => self.error.lock().clone(),
            false => None,
        }
    }

    /// Takes the pending error, for the caller to return it.
    #[inline]
    pub(crate) fn take_error(&self) -> Option<Error> {
        if !self.has_error.load(Ordering::Acquire) {
            return None;
        }
        let mut error = self.error.lock();
        self.has_error.store(false, Ordering::Relaxed);
        error.take()
    }

    /// Keeps a failure as the pending error, unless one is pending already.
    #[cold]
    pub(crate) fn keep_error(&self, failure: Error) {
        let mut error = self.error.lock();
        error.get_or_insert(failure);
        self.has_error.store(true, Ordering::Release);
    }

    /// Blocks until the stream is done with its present work.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
    #[inline(always)]
    pub(crate) fn synchronize_stream(&self) -> Result<()> {
        let handed = self.in_flight.handed();
        let _current = self.device.enter()?;
        // SAFETY: the stream is live.
        let result = unsafe { self.device.driver().synchronize_stream(self.stream) };
        result.map_err(|failure| self.not_done(failure))?;
        self.in_flight.are_done(handed);
        self.device.was_waited_for();
        Ok(())
    }

    #[cold]
    fn not_done(&self, failure: Failure) -> Error {
        let queue = self.in_flight.queue;
        self.device.failed(format_args!("waiting for queue {queue}"), failure)
    }

    /// Waits as [`QueueStream::synchronize_stream`] does, but asleep where the driver can. A thread
    /// of the worker pool need not react fast, and otherwise the driver spins on a processor.
    ///
    /// # Errors
    /// As for [`QueueStream::synchronize_stream`].
    pub(crate) fn sleep_until_stream_is_done(&self) -> Result<()> {
        let handed = self.in_flight.handed();
        let (driver, _current) = (self.device.driver(), self.device.enter()?);
        let Ok(sleeper) = self.device.take_event(EventKind::Sleeper) else {
            return self.synchronize_stream();
        };
        // SAFETY: event and stream are live and of one context.
        let recorded = unsafe { driver.record_event(sleeper, self.stream) };
        let result = match recorded {
            // SAFETY: as above.
            Ok(()) => unsafe { driver.synchronize_event(sleeper) },
            Err(_) => Ok(()),
        };
        self.device.give_event(sleeper, EventKind::Sleeper);
        if recorded.is_err() {
            return self.synchronize_stream();
        }
        result.map_err(|failure| self.not_done(failure))?;
        self.in_flight.are_done(handed);
        self.device.was_waited_for();
        Ok(())
    }
}

impl<D: Driver> Drop for QueueStream<D> {
    fn drop(&mut self) {
        let staging = std::mem::take(self.staging.get_mut());
        self.device.give_stream(self.stream, staging);
    }
}
