//! Where the segments of a request lie within their reservation.

use std::ops::Range;

use super::{AllocationRequest, Lifetime, Protection, SegmentRequest};
use crate::{Error, Result};

/// No reservation spans more bytes than this: code reaches its data with signed 32-bit distances.
const MAX_SIZE: u64 = 1 << 31;

/// The segments of a request, placed one after the other.
#[derive(Debug)]
pub(crate) struct Layout {
    /// In the order of the request; they touch.
    pub(crate) segments: Vec<Segment>,
    /// Bytes of the reservation: whole pages.
    pub(crate) size: usize,
    /// What the reservation's address must be a multiple of: at least a page.
    pub(crate) alignment: usize,
    page_size: usize,
}

/// One segment in a [`Layout`]. All numbers are bytes.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Its offset in the reservation.
    pub(crate) offset: usize,
    /// What will be written.
    pub(crate) content: usize,
    /// What it occupies: whole pages, up to the next segment.
    pub(crate) size: usize,
    pub(crate) protection: Protection,
    pub(crate) lifetime: Lifetime,
}

impl Layout {
    /// Lays out a request on pages of `page_size` bytes, a power of two.
    ///
    /// Fails if a segment is empty, has no lifetime in memory or an alignment that is not a power of two, and if the whole
    /// spans more than two gigabytes.
    pub(crate) fn new(request: &AllocationRequest<'_>, page_size: u64) -> Result<Self> {
        let fail = |problem| memory_error(request.name, problem);
        let mut segments: Vec<Segment> = Vec::with_capacity(request.segments.len());
        let (mut end, mut alignment) = (0_u64, page_size);
        for (index, segment) in request.segments.iter().enumerate() {
            let size = checked_size(segment)
                .map_err(|problem| fail(format!("segment {index}: {problem}")))?;
            let start = end.next_multiple_of(segment.alignment);
            if let Some(previous) = segments.last_mut() {
                previous.size = start as usize - previous.offset;
            }
            end = (start + size).next_multiple_of(page_size);
            if end > MAX_SIZE {
                return Err(fail(format!(
                    "segment {index} would end {end:#x} bytes after the first; {MAX_SIZE:#x} is the limit"
                )));
            }
            alignment = alignment.max(segment.alignment);
            segments.push(Segment {
                offset: start as usize,
                content: segment.content_size as usize,
                size: (end - start) as usize,
                protection: segment.protection,
                lifetime: segment.lifetime,
            });
        }
        Ok(Self {
            segments,
            size: end as usize,
            alignment: alignment as usize,
            page_size: page_size as usize,
        })
    }

    /// The address of each segment in a reservation at `base`.
    pub(crate) fn addresses(&self, base: u64) -> Vec<u64> {
        self.segments.iter().map(|segment| base + segment.offset as u64).collect()
    }

    /// The content of each segment in the bytes of the whole reservation.
    pub(crate) fn contents<'a>(&self, mut bytes: &'a mut [u8]) -> Vec<&'a mut [u8]> {
        let content = |segment: &Segment| {
            let (pages, rest) = std::mem::take(&mut bytes).split_at_mut(segment.size);
            bytes = rest;
            &mut pages[..segment.content]
        };
        self.segments.iter().map(content).collect()
    }

    /// The pages that hold content; neighbours are one range.
    pub(crate) fn content_pages(&self) -> Vec<Range<usize>> {
        let pages =
            |s: &Segment| ((), s.offset..s.offset + s.content.next_multiple_of(self.page_size));
        merge(self.segments.iter().map(pages)).into_iter().map(|(_, range)| range).collect()
    }

    /// The pages of each protection; neighbours with the same one are one range.
    pub(crate) fn by_protection(&self) -> Vec<(Protection, Range<usize>)> {
        merge(self.segments.iter().map(|s| (s.protection, s.offset..s.offset + s.size)))
    }

    /// The pages of each lifetime, in ascending order without gaps; neighbours with the same one are one range.
    pub(crate) fn by_lifetime(&self) -> Vec<(Lifetime, Range<usize>)> {
        merge(self.segments.iter().map(|s| (s.lifetime, s.offset..s.offset + s.size)))
    }
}

/// An [`Error::Memory`].
pub(crate) fn memory_error(name: &str, problem: impl ToString) -> Error {
    Error::Memory { name: name.to_owned(), problem: problem.to_string() }
}

/// The bytes of a segment, once everything about it is known to be sane.
fn checked_size(segment: &SegmentRequest) -> Result<u64, String> {
    let SegmentRequest { alignment, content_size, zero_fill_size, lifetime, .. } = *segment;
    if lifetime == Lifetime::NoAlloc {
        return Err(format!("lifetime {lifetime} means that it has no memory"));
    }
    if !alignment.is_power_of_two() || alignment > MAX_SIZE {
        return Err(format!("alignment {alignment:#x} is not a power of two up to {MAX_SIZE:#x}"));
    }
    match content_size.checked_add(zero_fill_size) {
        Some(0) => Err("it is empty".to_owned()),
        Some(size @ ..=MAX_SIZE) => Ok(size),
        _ => Err(format!(
            "{content_size:#x} and {zero_fill_size:#x} bytes are more than {MAX_SIZE:#x}"
        )),
    }
}

/// Joins each range that starts where the one before it ends and has the same key; leaves out empty ones.
fn merge<K: PartialEq>(ranges: impl Iterator<Item = (K, Range<usize>)>) -> Vec<(K, Range<usize>)> {
    let mut merged: Vec<(K, Range<usize>)> = Vec::new();
    for (key, range) in ranges.filter(|(_, range)| !range.is_empty()) {
        match merged.last_mut() {
            Some((last, run)) if *last == key && run.end == range.start => run.end = range.end,
            _ => merged.push((key, range)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Placement;

    const PAGE: u64 = 0x1000;

    fn segment(
        protection: Protection,
        alignment: u64,
        content_size: u64,
        zero_fill_size: u64,
    ) -> SegmentRequest {
        SegmentRequest {
            protection,
            lifetime: Lifetime::Standard,
            alignment,
            content_size,
            zero_fill_size,
        }
    }

    fn layout(segments: &[SegmentRequest]) -> Result<Layout> {
        Layout::new(
            &AllocationRequest { name: "test", segments, placement: Placement::Anywhere },
            PAGE,
        )
    }

    #[test]
    fn every_segment_has_pages_of_its_own() {
        let layout = layout(&[
            segment(Protection::ReadExecute, 16, 1, 0),
            segment(Protection::Read, 16, 0x1000, 1),
            segment(Protection::ReadWrite, 16, 0, 0x3000),
        ])
        .unwrap();
        assert_eq!(layout.addresses(0x10000), [0x10000, 0x11000, 0x13000]);
        assert_eq!((layout.size, layout.alignment), (0x6000, 0x1000));
    }

    #[test]
    fn a_gap_before_an_aligned_segment_belongs_to_the_one_before() {
        let layout =
            layout(&[segment(Protection::Read, 1, 1, 0), segment(Protection::Read, 0x10000, 1, 0)])
                .unwrap();
        assert_eq!(layout.addresses(0), [0, 0x10000]);
        assert_eq!(
            (layout.segments[0].size, layout.size, layout.alignment),
            (0x10000, 0x11000, 0x10000)
        );
    }

    #[test]
    fn neighbours_of_one_kind_are_one_range() {
        let mut segments = [Protection::Read, Protection::Read, Protection::ReadWrite]
            .map(|p| segment(p, 1, 1, 0));
        segments[1].zero_fill_size = PAGE;
        segments[2].lifetime = Lifetime::Finalize;
        let layout = layout(&segments).unwrap();
        assert_eq!(
            layout.by_protection(),
            [(Protection::Read, 0..0x3000), (Protection::ReadWrite, 0x3000..0x4000)]
        );
        assert_eq!(
            layout.by_lifetime(),
            [(Lifetime::Standard, 0..0x3000), (Lifetime::Finalize, 0x3000..0x4000)]
        );
        assert_eq!(layout.content_pages(), [0..0x2000, 0x3000..0x4000]);
    }

    #[test]
    fn contents_are_where_the_addresses_say() {
        let layout =
            layout(&[segment(Protection::Read, 1, 3, 0), segment(Protection::Read, 1, 2, 9)])
                .unwrap();
        let mut bytes = vec![0; layout.size];
        for (index, content) in layout.contents(&mut bytes).into_iter().enumerate() {
            content.fill(index as u8 + 1);
        }
        assert_eq!((&bytes[..4], &bytes[0x1000..0x1003]), (&[1, 1, 1, 0][..], &[2, 2, 0][..]));
    }

    #[test]
    fn no_segments_need_no_memory() {
        assert_eq!(layout(&[]).unwrap().size, 0);
    }

    #[test]
    fn two_gigabytes_are_the_most() {
        assert_eq!(
            layout(&[segment(Protection::Read, 1, 1, MAX_SIZE - 1)]).unwrap().size as u64,
            MAX_SIZE
        );
        assert!(layout(&[segment(Protection::Read, 1, 1, MAX_SIZE)]).is_err());
        assert!(
            layout(&[
                segment(Protection::Read, 1, 1, 0),
                segment(Protection::Read, 1, 0, MAX_SIZE)
            ])
            .is_err()
        );
    }

    #[test]
    fn absurd_numbers_are_errors() {
        for (alignment, content, zeroes) in [
            (1, 1 << 60, 0),
            (1, 0, 1 << 60),
            (1, u64::MAX, 1),
            (1, u64::MAX, u64::MAX),
            (1, 0, 0),
            (0, 1, 0),
            (3, 1, 0),
            (1 << 32, 1, 0),
            (1 << 63, 1, 0),
        ] {
            let one = segment(Protection::Read, alignment, content, zeroes);
            assert!(matches!(layout(&[one]), Err(Error::Memory { .. })), "{one:?}");
            let second = layout(&[segment(Protection::Read, 1, 1, 0), one]);
            assert!(matches!(second, Err(Error::Memory { .. })), "{one:?}");
        }
    }

    #[test]
    fn a_segment_without_lifetime_in_memory_is_an_error() {
        let one =
            SegmentRequest { lifetime: Lifetime::NoAlloc, ..segment(Protection::Read, 1, 1, 0) };
        assert!(matches!(layout(&[one]), Err(Error::Memory { .. })));
    }
}
