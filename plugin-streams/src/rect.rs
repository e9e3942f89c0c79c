//! Rectangular copies on a stream.

use crate::call::Failure;
use crate::device_core::DeviceCore;
use crate::driver::{Driver, RectCopy, RectEnd};
use crate::memory::Locked;
use crate::queue_stream::QueueStream;
use crate::transfer::{Copy, End};
use longshore_plugin_api::{Error, ErrorCode, Extent, PitchedSpan, Result};

/// Greatest distance between two rows in bytes: `CU_DEVICE_ATTRIBUTE_MAX_PITCH` of each device.
const MAX_PITCH: u64 = i32::MAX as u64;

/// A rectangular copy. The caller that queued it vouches for the rows of both ends until it is
/// done.
pub(crate) struct Rect {
    copy: RectCopy,
    /// Host memory that the stream can read and write only while it is page-locked, if any.
    host: Option<PitchedSpan>,
}

impl Rect {
    /// Creates a copy between memory of the queue's device, or between this and the host.
    ///
    /// # Errors
    /// `Unsupported` for other places, for which the driver has other functions, and for rows that
    /// are too far apart.
    pub(crate) fn new<D: Driver>(
        device: &DeviceCore<D>,
        (to, to_end): (PitchedSpan, &End<D>),
        (from, from_end): (PitchedSpan, &End<D>),
        extent: Extent,
    ) -> Result<Rect> {
        let end = |span: PitchedSpan, end: &End<D>| match end {
            End::Host(_) => Ok(RectEnd { span, is_of_host: true }),
            End::Own(_) => Ok(RectEnd { span, is_of_host: end.is_of_host(device) }),
            End::Other(..) => Err(unsupported("rectangles in memory of another device")),
        };
        if to.pitch().row.max(from.pitch().row) > MAX_PITCH {
            return Err(unsupported("rows that are more than 2^31 - 1 bytes apart"));
        }
        let copy = RectCopy { to: end(to, to_end)?, from: end(from, from_end)?, extent };
        let host = match (to_end, from_end) {
            _ if copy.to.is_of_host && copy.from.is_of_host => {
                return Err(unsupported("rectangles of which both ends are host memory"));
            }
            (End::Host(_), _) => Some(to),
            (_, End::Host(_)) => Some(from),
            _ => None,
        };
        Ok(Rect { copy, host })
    }

    /// Hands the copy to the stream if that does not block and accesses no host memory earlier or
    /// later than allowed. Returns whether the stream has the copy. The context is current.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn hand<D: Driver>(&self, queue_stream: &QueueStream<D>) -> Result<bool> {
        if self.host.is_some() && self.locked(queue_stream) != Locked::All {
            return Ok(false);
        }
        self.queue(queue_stream).map(|()| true)
    }

    /// Hands the copy to the stream, and waits for it if handing it over may block anyway.
    ///
    /// # Errors
    /// Errors of the driver; a lost device.
    pub(crate) fn run<D: Driver>(self, queue_stream: &QueueStream<D>) -> Result<()> {
        let current = queue_stream.device().enter()?;
        if self.hand(queue_stream)? {
            return Ok(());
        }
        drop(current);
        self.run_blocking(queue_stream)
    }

    /// Hands the copy to the stream and waits for it. The driver refuses memory that is page-locked
    /// in part, whose rows are copied one by one.
    ///
    /// # Errors
    /// As for [`Rect::run`].
    pub(crate) fn run_blocking<D: Driver>(self, queue_stream: &QueueStream<D>) -> Result<()> {
        let current = queue_stream.device().enter()?;
        let handed = match self.locked(queue_stream) {
            Locked::Some => {
                drop(current);
                self.rows().try_for_each(|row: Copy<D>| row.submit(queue_stream))
            }
            Locked::All | Locked::None => {
                let handed = self.queue(queue_stream);
                drop(current);
                handed
            }
        };
        queue_stream.sleep_until_stream_is_done().and(handed)
    }

    /// Returns how much of the program's memory is page-locked, from the first row to the last.
    fn locked<D: Driver>(&self, queue_stream: &QueueStream<D>) -> Locked {
        let span = self.host.map(|host| host.span(&self.copy.extent));
        span.map_or(Locked::All, |span| queue_stream.locked(span.address(), span.bytes()))
    }

    /// Returns a copy for each row.
    fn rows<D: Driver>(&self) -> impl Iterator<Item = Copy<D>> + use<'_, D> {
        let RectCopy { to, from, extent } = self.copy;
        let end = move |end: RectEnd, offset| match end.is_of_host {
            true => End::Host(end.span.address() + offset),
            false => End::Own(end.span.address() + offset),
        };
        extent.offsets(to.span.pitch(), from.span.pitch()).map(move |(to_offset, from_offset)| {
            Copy { to: end(to, to_offset), from: end(from, from_offset), bytes: extent.row_bytes }
        })
    }

    fn queue<D: Driver>(&self, queue_stream: &QueueStream<D>) -> Result<()> {
        let device = queue_stream.device();
        // SAFETY: the caller that queued the copy vouches for the rows; the stream is live.
        let queued = unsafe { device.driver().copy_rect(&self.copy, queue_stream.stream()) };
        queued.map_err(|failure| self.failed(device, failure))
    }

    #[cold]
    fn failed<D: Driver>(&self, device: &DeviceCore<D>, failure: Failure) -> Error {
        let Extent { row_bytes, rows, slices } = self.copy.extent;
        let doing = format_args!("copying {slices} slices of {rows} rows of {row_bytes} bytes");
        device.failed(doing, failure)
    }
}

#[cold]
fn unsupported(what: &str) -> Error {
    Error::new(ErrorCode::Unsupported, format!("the driver's copies have no {what}"))
}
