//! Copies of mapped ranges around the attached pointers in them. A pointer on the device keeps the
//! address of its pointee at every moment, and a pointer on the host the program's value.

use super::Failure;
use super::removal::remove_if_unused;
use super::span::Span;
use super::table::{Entry, Locked, Shadow};
use crate::ompt;
use crate::stream::{Part, Stream};
use longshore::Event;
use smallvec::SmallVec;

/// Most bytes of a pointer: a Fortran descriptor of 15 dimensions has fewer.
const MOST_POINTER_BYTES: u64 = 1 << 10;

impl Entry {
    /// Returns the attached pointers with a part in a range of the host.
    pub(super) fn pointers_in(&self, range: Span) -> impl Iterator<Item = &Shadow> {
        let near = range.begin.saturating_sub(MOST_POINTER_BYTES)..range.end();
        let near = self.shadows.range(near).map(|(_, shadow)| shadow);
        near.filter(move |shadow| shadow.span().overlaps(range))
    }

    /// Returns whether an attached pointer has a part in a range of the host.
    pub(super) fn has_pointer_in(&self, range: Span) -> bool {
        !self.shadows.is_empty() && self.pointers_in(range).next().is_some()
    }
}

impl Shadow {
    fn span(&self) -> Span {
        Span { begin: self.host, bytes: self.target_contents.len() as u64 }
    }
}

/// A copy of one range without the attached pointers in it.
pub(super) struct RangeCopy {
    span: Span,
    /// Device address of the range.
    target: u64,
    parts: SmallVec<[Part; 2]>,
}

impl RangeCopy {
    /// Plans the copy of a range of an entry.
    pub(super) fn new(entry: &Entry, span: Span, target: u64) -> RangeCopy {
        let parts = match entry.has_pointer_in(span) {
            true => between(entry.pointers_in(span).map(Shadow::span), span),
            false => smallvec::smallvec![Part { offset: 0, bytes: span.bytes }],
        };
        RangeCopy { span, target, parts }
    }

    /// Copies the range to the device.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Safety
    /// The range is memory of the program, and mapped in whole.
    pub(super) unsafe fn submit(&self, stream: &mut Stream) -> Result<(), Failure> {
        let Span { begin, bytes } = self.span;
        // SAFETY: promised by the caller.
        unsafe { stream.submit_parts(self.target, begin, bytes, &self.parts) }
            .map_err(Failure::from)
    }

    /// Copies the range to the host.
    ///
    /// # Errors
    /// Errors of the device.
    ///
    /// # Safety
    /// As for [`RangeCopy::submit`].
    pub(super) unsafe fn retrieve(&self, stream: &mut Stream) -> Result<(), Failure> {
        let Span { begin, bytes } = self.span;
        // SAFETY: promised by the caller.
        unsafe { stream.retrieve_parts(begin, self.target, bytes, &self.parts) }
            .map_err(Failure::from)
    }
}

/// Copies the contents of an entry behind the earlier copies of them, and ends the copy. Returns
/// the locked table, and the result of `copy`.
pub(super) fn in_turn(
    stream: &mut Stream,
    number: u32,
    earlier: Option<Event>,
    copy: impl FnOnce(&mut Stream) -> Result<(), Failure>,
) -> (Locked<'static>, Result<(), Failure>) {
    let device = stream.device;
    let waited = match earlier {
        Some(event) => stream.queue().and_then(|queue| queue.wait_for(&event)),
        None => Ok(()),
    };
    let result = waited.map_err(Failure::from).and_then(|()| copy(stream));
    let event = match device.is_reachable || result.is_err() {
        true => None,
        false => stream.queue().and_then(|queue| queue.record()).ok(),
    };
    let mut locked = device.table.end_copy(number, event);
    // A construct may have left the range meanwhile.
    let entry = locked.get(number);
    let bytes = entry.end - entry.begin;
    let unused = remove_if_unused(&mut locked, device.number, number, bytes);
    if let Some(memory) = unused {
        // A large allocation is freed without the lock.
        drop(locked);
        let scope = ompt::deletion(device.number, memory.address());
        drop(memory);
        drop(scope);
        locked = device.table.lock();
    }
    (locked, result)
}

/// Returns the parts of a range outside of others, which are in the order of their addresses.
fn between(others: impl Iterator<Item = Span>, range: Span) -> SmallVec<[Part; 2]> {
    let mut parts = SmallVec::new();
    let mut add = |begin: u64, end: u64| {
        if begin < end {
            parts.push(Part { offset: begin - range.begin, bytes: end - begin });
        }
    };
    let mut at = range.begin;
    for other in others {
        add(at, other.begin.min(range.end()));
        at = at.max(other.end());
    }
    add(at, range.end());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(others: &[(u64, u64)], range: (u64, u64)) -> Vec<(u64, u64)> {
        let span = |(begin, bytes): (u64, u64)| Span { begin, bytes };
        let parts = between(others.iter().copied().map(span), span(range));
        parts.iter().map(|part| (part.offset, part.bytes)).collect()
    }

    #[test]
    fn copies_leave_out_pointers_at_any_place() {
        assert_eq!(parts(&[], (100, 40)), [(0, 40)]);
        assert_eq!(parts(&[(104, 8), (120, 8)], (100, 40)), [(0, 4), (12, 8), (28, 12)]);
        assert_eq!(parts(&[(100, 8), (132, 8)], (100, 40)), [(8, 24)]);
        assert_eq!(parts(&[(96, 8), (136, 8)], (100, 40)), [(4, 32)]);
        assert_eq!(parts(&[(104, 16), (112, 4)], (100, 40)), [(0, 4), (20, 20)]);
        assert_eq!(parts(&[(90, 100)], (100, 40)), []);
    }
}
