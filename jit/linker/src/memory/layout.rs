//! The places of a request's segments in their reservation.

use std::ops::Range;

use longshore_orc_rt::pages::{Plan, Run};

use super::{AllocationRequest, Lifetime, Protection, SegmentRequest};
use crate::{Error, Result};

/// The largest size of a reservation in bytes: code reaches its data with signed 32-bit distances.
const MAX_SIZE: u64 = 1 << 31;

/// The places of a request's segments: segments of one kind together, code before constants before
/// data.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The segments in the order of the request.
    pub(crate) segments: Vec<Segment>,
    /// Indices of the segments in the order of their offsets.
    order: Vec<usize>,
    /// Size of the reservation in bytes, whole pages.
    pub(crate) size: usize,
    /// Alignment of the reservation in bytes, at least a page.
    pub(crate) alignment: usize,
    page_size: usize,
}

/// A segment in a [`Layout`]. All numbers are in bytes.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Index of the segment's object in the request.
    pub(crate) object: usize,
    /// Offset in the reservation.
    pub(crate) offset: usize,
    /// Size of the written content.
    pub(crate) content: usize,
    /// Size with the zeroes after the content.
    pub(crate) size: usize,
    pub(crate) kind: Kind,
    group: u32,
}

/// The kind of a segment. Segments of one kind may share pages.
pub(crate) type Kind = (Protection, Lifetime);

impl Layout {
    /// Lays out a request on pages of `page_size` bytes, a power of two.
    ///
    /// Fails if a segment is empty, has no lifetime in memory or an alignment that is not a power
    /// of two, and if the whole spans more than 2 GiB.
    pub(crate) fn new(request: &AllocationRequest<'_>, page_size: u64) -> Result<Self> {
        let mut segments = checked(request)?;
        let order = by_kind(&segments);
        let requested: Vec<&SegmentRequest> = request.segments().collect();
        let (mut end, mut alignment) = (0_u64, page_size);
        let mut kind = None;
        for index in &order {
            let segment = &mut segments[*index];
            if kind.replace(segment.kind) != Some(segment.kind) {
                end = end.next_multiple_of(page_size);
            }
            let start = end.next_multiple_of(requested[*index].alignment);
            end = start + segment.size as u64;
            if end.next_multiple_of(page_size) > MAX_SIZE {
                let problem = format!(
                    "a segment would end {end:#x} bytes after the first; {MAX_SIZE:#x} is the limit"
                );
                return Err(memory_error(request.objects[segment.object].name, problem));
            }
            alignment = alignment.max(requested[*index].alignment);
            segment.offset = start as usize;
        }
        Ok(Self {
            segments,
            order,
            size: end.next_multiple_of(page_size) as usize,
            alignment: alignment as usize,
            page_size: page_size as usize,
        })
    }

    /// Returns the plan for the pages: their protections and their objects.
    pub(crate) fn plan(&self, request: &AllocationRequest<'_>) -> Plan {
        let names = request.objects.iter().map(|object| object.name.to_owned()).collect();
        Plan { names, protections: self.by_protection(), runs: self.runs() }
    }

    /// Returns the address of each segment in a reservation at `base`, in the order of the request.
    pub(crate) fn addresses(&self, base: u64) -> Vec<u64> {
        self.segments.iter().map(|segment| base + segment.offset as u64).collect()
    }

    /// Returns the content of each segment in the bytes of the whole reservation, in the order of
    /// the request.
    pub(crate) fn contents<'a>(&self, mut bytes: &'a mut [u8]) -> Vec<&'a mut [u8]> {
        let mut contents: Vec<&mut [u8]> =
            self.segments.iter().map(|_| Default::default()).collect();
        let mut at = 0;
        for index in &self.order {
            let segment = &self.segments[*index];
            let (content, rest) =
                std::mem::take(&mut bytes).split_at_mut(segment.offset - at + segment.content);
            contents[*index] = &mut content[segment.offset - at..];
            bytes = rest;
            at = segment.offset + segment.content;
        }
        contents
    }

    /// Returns the pages that hold content; adjacent pages are one range.
    pub(crate) fn content_pages(&self) -> Vec<Range<usize>> {
        let written = self.in_order().filter(|segment| segment.content > 0);
        let pages = written.map(|s| ((), self.pages(s.offset..s.offset + s.content)));
        merge(pages).into_iter().map(|(_, range)| range).collect()
    }

    /// Returns the pages of each protection; adjacent pages with the same one are one range.
    pub(crate) fn by_protection(&self) -> Vec<(Protection, Range<usize>)> {
        merge(self.spans().map(|(segment, pages)| (segment.kind.0, pages)))
    }

    /// Returns all pages by the objects that share them, in ascending order.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let spans: Vec<_> = self.spans().collect();
        let mut bounds: Vec<usize> =
            spans.iter().flat_map(|(_, pages)| [pages.start, pages.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let (mut first, mut end) = (0, 0);
        let run = |bounds: &[usize]| {
            let pages = bounds[0]..bounds[1];
            while spans[first].1.end <= pages.start {
                first += 1;
            }
            while spans.get(end).is_some_and(|(_, span)| span.start < pages.end) {
                end += 1;
            }
            let mut objects: Vec<usize> =
                spans[first..end].iter().map(|(segment, _)| segment.object).collect();
            objects.dedup();
            let is_temporary = spans[first].0.kind.1 == Lifetime::Finalize;
            Run { pages, is_temporary, objects }
        };
        bounds.windows(2).map(run).collect()
    }

    /// Returns the segments in ascending order, each with the pages that it occupies. Padding after
    /// a segment belongs to the segment.
    fn spans(&self) -> impl Iterator<Item = (&Segment, Range<usize>)> {
        let starts = self.in_order().skip(1).map(|segment| segment.offset);
        let ends = starts.chain(std::iter::once(self.size));
        self.in_order().zip(ends).map(|(segment, end)| (segment, self.pages(segment.offset..end)))
    }

    fn in_order(&self) -> impl Iterator<Item = &Segment> {
        self.order.iter().map(|index| &self.segments[*index])
    }

    /// Returns the pages with at least one byte of a range.
    fn pages(&self, range: Range<usize>) -> Range<usize> {
        let start = range.start - range.start % self.page_size;
        start..range.end.next_multiple_of(self.page_size)
    }
}

/// Returns an [`Error::Memory`].
pub(crate) fn memory_error(name: &str, problem: impl ToString) -> Error {
    Error::Memory { name: name.to_owned(), problem: problem.to_string() }
}

/// Checks the segments of a request, and returns them without their places.
fn checked(request: &AllocationRequest<'_>) -> Result<Vec<Segment>> {
    let mut segments = Vec::with_capacity(request.segments().count());
    for (object, wanted) in request.objects.iter().enumerate() {
        for (index, segment) in wanted.segments.iter().enumerate() {
            let size = checked_size(segment).map_err(|problem| {
                memory_error(wanted.name, format!("segment {index}: {problem}"))
            })?;
            segments.push(Segment {
                object,
                offset: 0,
                content: segment.content_size as usize,
                size: size as usize,
                kind: (segment.protection, segment.lifetime),
                group: segment.group,
            });
        }
    }
    Ok(segments)
}

/// Returns the order of the segments in memory: code, constants, data.
fn by_kind(segments: &[Segment]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by_key(|index| {
        let Segment { kind: (protection, lifetime), group, .. } = segments[*index];
        (protection, lifetime, group)
    });
    order
}

/// Checks a segment, and returns its size in bytes.
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

/// Merges ranges in ascending order: each range that starts in the previous one, or at its end, and
/// has the same key.
fn merge<K: PartialEq>(ranges: impl Iterator<Item = (K, Range<usize>)>) -> Vec<(K, Range<usize>)> {
    let mut merged: Vec<(K, Range<usize>)> = Vec::new();
    for (key, range) in ranges {
        match merged.last_mut() {
            Some((last, run)) if *last == key && run.end >= range.start => {
                run.end = run.end.max(range.end);
            }
            _ => merged.push((key, range)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{ObjectRequest, Placement};

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
            group: 0,
        }
    }

    fn layout(segments: &[SegmentRequest]) -> Result<Layout> {
        together(&[segments])
    }

    /// Returns the layout of several objects.
    fn together(objects: &[&[SegmentRequest]]) -> Result<Layout> {
        let objects: Vec<_> =
            objects.iter().map(|segments| ObjectRequest { name: "test", segments }).collect();
        Layout::new(&AllocationRequest { objects: &objects, placement: Placement::Anywhere }, PAGE)
    }

    #[test]
    fn every_kind_has_pages_of_its_own() {
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
    fn code_lies_before_constants_before_data_whatever_comes_first() {
        let protections = [Protection::ReadWrite, Protection::Read, Protection::ReadExecute];
        let layout = layout(&protections.map(|protection| segment(protection, 1, 1, 0))).unwrap();
        assert_eq!(layout.addresses(0), [0x2000, 0x1000, 0]);
    }

    #[test]
    fn segments_of_one_kind_lie_together_in_their_order() {
        let (code, data) =
            (segment(Protection::ReadExecute, 16, 17, 0), segment(Protection::ReadWrite, 8, 1, 1));
        let layout = together(&[&[code, data], &[data], &[data, code]]).unwrap();
        assert_eq!(layout.addresses(0), [0, 0x1000, 0x1008, 0x1010, 0x20]);
        assert_eq!(layout.size, 0x2000);
    }

    #[test]
    fn segments_of_one_group_lie_together_among_segments_of_their_kind() {
        let other = segment(Protection::Read, 8, 8, 0);
        let listed = SegmentRequest { group: 1, ..segment(Protection::Read, 8, 8, 8) };
        let layout = together(&[&[listed, other], &[other], &[other, listed]]).unwrap();
        assert_eq!(layout.addresses(0), [24, 0, 8, 16, 40]);
    }

    #[test]
    fn a_gap_before_an_aligned_segment_belongs_to_the_one_before() {
        let (small, aligned) =
            (segment(Protection::Read, 1, 1, 0), segment(Protection::Read, 0x10000, 1, 0));
        let layout = together(&[&[small], &[aligned]]).unwrap();
        assert_eq!(layout.addresses(0), [0, 0x10000]);
        assert_eq!((layout.size, layout.alignment), (0x11000, 0x10000));
        let run = |pages, object| Run { pages, is_temporary: false, objects: vec![object] };
        assert_eq!(layout.runs(), [run(0..0x10000, 0), run(0x10000..0x11000, 1)]);
    }

    #[test]
    fn neighbours_of_one_protection_are_one_range() {
        let mut segments = [Protection::Read, Protection::Read, Protection::ReadWrite]
            .map(|p| segment(p, 1, PAGE + 1, 0));
        segments[1].lifetime = Lifetime::Finalize;
        let layout = layout(&segments).unwrap();
        assert_eq!(
            layout.by_protection(),
            [(Protection::Read, 0..0x4000), (Protection::ReadWrite, 0x4000..0x6000)]
        );
        assert_eq!(layout.content_pages().as_slice(), std::slice::from_ref(&(0..0x6000)));
    }

    #[test]
    fn zeroes_alone_have_no_content_pages() {
        let zeroes = segment(Protection::ReadWrite, 1, 0, 4 * PAGE);
        let content = segment(Protection::ReadWrite, 1, 1, 2 * PAGE);
        let layout = layout(&[content, zeroes, content]).unwrap();
        assert_eq!(layout.content_pages(), [0..0x1000, 0x6000..0x7000]);
    }

    #[test]
    fn pages_are_distinguished_by_the_owners_of_their_parts() {
        let read = |size| segment(Protection::Read, 1, size, 0);
        let temporary = SegmentRequest { lifetime: Lifetime::Finalize, ..read(1) };
        let layout = together(&[
            &[read(0x1800), temporary],
            &[read(0x400)],
            &[],
            &[read(0x400), temporary],
            &[read(0x2800)],
        ])
        .unwrap();
        let run = |pages, is_temporary, objects: &[usize]| Run {
            pages,
            is_temporary,
            objects: objects.to_vec(),
        };
        let (standard, finalize) = (false, true);
        assert_eq!(
            layout.runs(),
            [
                run(0..0x1000, standard, &[0]),
                run(0x1000..0x2000, standard, &[0, 1, 3]),
                run(0x2000..0x5000, standard, &[4]),
                run(0x5000..0x6000, finalize, &[0, 3]),
            ]
        );
    }

    #[test]
    fn contents_are_where_the_addresses_say() {
        let (read, write) =
            (segment(Protection::Read, 16, 3, 0), segment(Protection::ReadWrite, 1, 2, 9));
        let layout = together(&[&[write, read], &[write], &[read, read]]).unwrap();
        let mut bytes = vec![0; layout.size];
        for (index, content) in layout.contents(&mut bytes).into_iter().enumerate() {
            content.fill(index as u8 + 1);
        }
        for (index, offset) in layout.addresses(0).into_iter().enumerate() {
            let size = layout.segments[index].content;
            let content = &bytes[offset as usize..][..size + 1];
            assert!(
                content[..size].iter().all(|byte| *byte == index as u8 + 1) && content[size] == 0
            );
        }
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
