//! Memory at chosen addresses, in which nothing is executed.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use longshore_orc_rt::pages::unknown_allocation;
use parking_lot::Mutex;

use super::layout::{Layout, memory_error};
use super::{
    ActionPair, AllocationRequest, FinalizedAllocation, InFlightAllocation, MemoryManager, Pending,
    layout,
};
use crate::Result;

/// A slab of chosen addresses, for checks of the fields that fix-up writes there (llvm-jitlink's
/// `-slab-address`).
///
/// Addresses are assigned upwards in the order of the requests, each once. The content is on the
/// heap of this process, where [`SlabMemory::read`] finds it from finalization to deallocation.
/// This includes segments that a manager for executed code would give back sooner. Actions are
/// never run.
///
/// [`Placement::Low`](super::Placement::Low) has no effect on a slab. Code that holds addresses in
/// 32 bits is linked there if every field can hold its value.
#[derive(Debug)]
pub struct SlabMemory {
    page_size: u64,
    state: Arc<Mutex<State>>,
}

impl SlabMemory {
    /// Creates a slab of `size` bytes at `address`, with pages of `page_size` bytes.
    ///
    /// Fails with [`Error::Memory`](crate::Error::Memory) if the page size is not a power of two of
    /// at most 2 GiB, or the address not a multiple of it. A slab that ends behind the last address
    /// fails too.
    pub fn new(address: u64, size: u64, page_size: u64) -> Result<Self> {
        let fail = |problem| Err(memory_error("the slab", problem));
        if !page_size.is_power_of_two() || page_size > 1 << 31 {
            return fail(format!(
                "pages of {page_size:#x} bytes: not a power of two up to two gigabytes"
            ));
        }
        if !address.is_multiple_of(page_size) {
            return fail(format!(
                "address {address:#x} is not a multiple of the page size {page_size:#x}"
            ));
        }
        let Some(end) = address.checked_add(size) else {
            return fail(format!("{size:#x} bytes at {address:#x} end behind the last address"));
        };
        let state = State { next: address, end, last: 0, live: BTreeMap::new() };
        Ok(Self { page_size, state: Arc::new(Mutex::new(state)) })
    }

    /// Returns a copy of `size` bytes of a finalized segment; `None` if no segment has all of them.
    pub fn read(&self, address: u64, size: usize) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.live.values().flatten().find_map(|segment| segment.read(address, size))
    }
}

impl MemoryManager for SlabMemory {
    fn page_size(&self) -> u64 {
        self.page_size
    }

    fn allocate(&self, request: AllocationRequest<'_>) -> Pending<Box<dyn InFlightAllocation>> {
        let in_flight = InFlight::new(&request, self.page_size, &self.state);
        Box::pin(ready(
            in_flight.map(|in_flight| Box::new(in_flight) as Box<dyn InFlightAllocation>),
        ))
    }

    fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Pending<()> {
        let mut state = self.state.lock();
        let numbers = allocations.iter().map(FinalizedAllocation::number);
        let unknown: Vec<u64> =
            numbers.filter(|number| state.live.remove(number).is_none()).collect();
        Box::pin(ready(
            unknown.first().map_or(Ok(()), |number| Err(unknown_allocation(*number).into())),
        ))
    }
}

#[derive(Debug)]
struct State {
    next: u64,
    end: u64,
    last: u64,
    live: BTreeMap<u64, Vec<Segment>>,
}

impl State {
    /// Returns the address of a new reservation.
    fn take(&mut self, layout: &Layout) -> Result<u64, String> {
        let size = layout.size as u64;
        let address = self.next.checked_next_multiple_of(layout.alignment as u64);
        let fits =
            address.filter(|address| address.checked_add(size).is_some_and(|end| end <= self.end));
        let Some(address) = fits else {
            let (alignment, left) = (layout.alignment, self.end - self.next);
            return Err(format!(
                "{size:#x} bytes at a multiple of {alignment:#x} do not fit in the {left:#x} left in the slab"
            ));
        };
        self.next = address + size;
        Ok(address)
    }
}

#[derive(Debug)]
struct Segment {
    address: u64,
    content: Vec<u8>,
    /// Size in bytes, with the zeroes after the content.
    size: usize,
}

impl Segment {
    fn read(&self, address: u64, size: usize) -> Option<Vec<u8>> {
        let start = usize::try_from(address.checked_sub(self.address)?).ok()?;
        if start.checked_add(size)? > self.size {
            return None;
        }
        let content = self.content.iter().skip(start).copied();
        Some(content.chain(std::iter::repeat(0)).take(size).collect())
    }
}

struct InFlight {
    addresses: Vec<u64>,
    segments: Vec<Segment>,
    /// Number of segments of each object.
    counts: Vec<usize>,
    state: Arc<Mutex<State>>,
}

impl InFlight {
    fn new(
        request: &AllocationRequest<'_>,
        page_size: u64,
        state: &Arc<Mutex<State>>,
    ) -> Result<Self> {
        let fail = |problem| memory_error(&request.name(), problem);
        let layout = Layout::new(request, page_size)?;
        let base = state.lock().take(&layout).map_err(fail)?;
        let addresses = layout.addresses(base);
        let segment = |(placed, address): (&layout::Segment, &u64)| {
            let content = zeroes(placed.content)?;
            Ok(Segment { address: *address, content, size: placed.size })
        };
        let segments = layout.segments.iter().zip(&addresses).map(segment);
        let segments = segments.collect::<Result<_, String>>().map_err(fail)?;
        let counts = request.objects.iter().map(|object| object.segments.len()).collect();
        Ok(Self { addresses, segments, counts, state: Arc::clone(state) })
    }
}

impl InFlightAllocation for InFlight {
    fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    fn working_memory(&mut self) -> Vec<&mut [u8]> {
        self.segments.iter_mut().map(|segment| segment.content.as_mut_slice()).collect()
    }

    fn finalize(self: Box<Self>, _: Vec<Vec<ActionPair>>) -> Pending<Vec<FinalizedAllocation>> {
        let mut state = self.state.lock();
        let mut segments = self.segments.into_iter();
        let number = |count: usize| {
            state.last += 1;
            let number = state.last;
            state.live.insert(number, segments.by_ref().take(count).collect());
            FinalizedAllocation::new(number)
        };
        Box::pin(ready(Ok(self.counts.into_iter().map(number).collect())))
    }
}

fn zeroes(size: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|e| e.to_string())?;
    bytes.resize(size, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::support::{
        CODE, Log, allocate, allocate_at, allocate_together, finalize, now, pair, standard,
    };
    use super::super::{Lifetime, Protection, SegmentRequest};
    use super::*;
    use crate::Error;
    use crate::memory::Placement;

    fn addresses(slab: &SlabMemory, segments: &[SegmentRequest]) -> Vec<u64> {
        allocate(slab, segments).addresses().to_vec()
    }

    #[test]
    fn addresses_are_handed_out_upwards_in_pages_of_the_given_size() {
        let slab = SlabMemory::new(0x7000_0000_0000, 0x100000, 0x4000).unwrap();
        let (code, data) =
            (standard(Protection::ReadExecute, 0x4001), standard(Protection::ReadWrite, 1));
        assert_eq!(addresses(&slab, &[code, data]), [0x7000_0000_0000, 0x7000_0000_8000]);
        assert_eq!(addresses(&slab, &[data]), [0x7000_0000_c000]);
        assert_eq!(
            addresses(&slab, &[SegmentRequest { alignment: 0x10000, ..data }]),
            [0x7000_0001_0000]
        );
    }

    #[test]
    fn a_full_slab_is_an_error_with_sizes() {
        let slab = SlabMemory::new(0x10000, 0x2000, 0x1000).unwrap();
        let page = standard(Protection::Read, 0x1000);
        assert_eq!(addresses(&slab, &[page]), [0x10000]);
        let larger = [SegmentRequest { content_size: 0x2000, ..page }];
        let error = allocate_at(&slab, Placement::Anywhere, &larger).err().unwrap().to_string();
        assert!(error.contains("0x2000 bytes") && error.contains("0x1000 left"), "{error}");
        assert_eq!(addresses(&slab, &[page]), [0x11000], "what failed took nothing");
    }

    #[test]
    fn content_and_zeroes_are_read_until_deallocation() {
        let slab = SlabMemory::new(0x10000, 0x10000, 0x1000).unwrap();
        let code = SegmentRequest {
            zero_fill_size: 4,
            ..standard(Protection::ReadExecute, CODE.len() as u64)
        };
        let temporary = SegmentRequest { lifetime: Lifetime::Finalize, ..code };
        let mut in_flight = allocate(&slab, &[code, temporary]);
        for content in in_flight.working_memory() {
            content.copy_from_slice(&CODE);
        }
        assert_eq!(slab.read(0x10000, 1), None);
        let finalized = finalize(in_flight, Vec::new()).unwrap();
        let mut expected = CODE.to_vec();
        expected.extend([0; 4]);
        let size = expected.len();
        assert_eq!(slab.read(0x10000, size), Some(expected.clone()));
        assert_eq!(slab.read(0x11000, size), Some(expected.clone()));
        assert_eq!(slab.read(0x10001, size - 1).as_deref(), Some(&expected[1..]));
        assert_eq!(slab.read(0x10000 + size as u64 - 2, 2), Some(vec![0, 0]));
        assert_eq!(slab.read(0x10000, size + 1), None);
        assert_eq!(slab.read(0xffff, 2), None);
        assert_eq!(slab.read(u64::MAX, usize::MAX), None);
        now(slab.deallocate(vec![finalized])).unwrap();
        assert_eq!(slab.read(0x10000, 1), None);
    }

    #[test]
    fn each_object_is_deallocated_alone() {
        let slab = SlabMemory::new(0x10000, 0x10000, 0x1000).unwrap();
        let mut in_flight = allocate_together(&slab, 2, &[standard(Protection::Read, 16)]);
        assert_eq!(in_flight.addresses(), [0x10000, 0x10010]);
        for (index, content) in in_flight.working_memory().into_iter().enumerate() {
            content.fill(index as u8 + 1);
        }
        let mut finalized = now(in_flight.finalize(Vec::new())).unwrap();
        now(slab.deallocate(vec![finalized.remove(0)])).unwrap();
        assert_eq!((slab.read(0x10000, 1), slab.read(0x10010, 1)), (None, Some(vec![2])));
        now(slab.deallocate(finalized)).unwrap();
        assert_eq!(slab.read(0x10010, 1), None);
    }

    #[test]
    fn actions_are_not_run() {
        let slab = SlabMemory::new(0x10000, 0x10000, 0x1000).unwrap();
        let log = Log::default();
        let in_flight = allocate(&slab, &[standard(Protection::Read, 1)]);
        let finalized = finalize(in_flight, vec![pair(&log, "a")]).unwrap();
        now(slab.deallocate(vec![finalized])).unwrap();
        assert!(log.take().is_empty());
    }

    #[test]
    fn a_slab_is_where_it_is_whatever_placement_is_wanted() {
        let segments = [standard(Protection::Read, 1)];
        for address in [0x7fff_0000, 0x9000_0000, 0x12_0000_0000] {
            let slab = SlabMemory::new(address, 0x10000, 0x1000).unwrap();
            let low = allocate_at(&slab, Placement::Low, &segments);
            assert_eq!(low.unwrap().addresses(), [address]);
        }
    }

    #[test]
    fn impossible_slabs_are_errors() {
        for (address, size, page_size) in [
            (0, 1, 0),
            (0, 1, 3),
            (0, 1, 1 << 32),
            (1, 1, 0x1000),
            (0u64.wrapping_sub(0x1000), 0x1001, 0x1000),
        ] {
            assert!(
                SlabMemory::new(address, size, page_size).is_err(),
                "{address:#x} {size:#x} {page_size:#x}"
            );
        }
    }

    #[test]
    fn the_end_of_the_address_space_is_not_passed() {
        let slab = SlabMemory::new(0u64.wrapping_sub(0x2000), 0x1fff, 0x1000).unwrap();
        let page = standard(Protection::Read, 1);
        assert_eq!(addresses(&slab, &[page]), [0u64.wrapping_sub(0x2000)]);
        for alignment in [1, 1 << 31] {
            let segments = [SegmentRequest { alignment, ..page }];
            assert!(allocate_at(&slab, Placement::Anywhere, &segments).is_err());
        }
    }

    #[test]
    fn an_unknown_allocation_is_an_error() {
        let slab = SlabMemory::new(0x10000, 0x10000, 0x1000).unwrap();
        assert!(matches!(
            now(slab.deallocate(vec![FinalizedAllocation::new(7)])),
            Err(Error::Memory { .. })
        ));
    }
}
