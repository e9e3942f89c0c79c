//! Memory of another process.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, ready};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longshore_orc_rt::pages::{Plan, Run};
use longshore_orc_rt::service::memory::WRITE;
use longshore_orc_rt::service::pages::{
    ABANDON_PAGES, DEALLOCATE_PAGES, FINALIZE_PAGES, PageRequest, RESERVE_PAGES, Reserved,
};
use parking_lot::RwLock;
use serde_bytes::ByteBuf;

use super::layout::{Layout, memory_error};
use super::{
    ActionPair, AllocationRequest, FinalizedAllocation, InFlightAllocation, MemoryManager, Pending,
    Protection,
};
use crate::process::{ProcessCalls, call_service};
use crate::{Error, Result, wait};

/// Memory of a process that runs `longshore-orc-rt` (JITLink's `MapperJITLinkMemoryManager`, with
/// its `SharedMemoryMapper`). If both processes share a file, content is written once, in place;
/// without a file, each side has a copy.
///
/// Reservation and finalization take one message each. Actions run in the process. A thread that
/// polls a reply blocks until the reply is there.
///
/// Dropping the manager leaves finalized allocations as they are. An allocation in flight does not
/// need its manager any more.
pub struct ProcessMemory {
    process: Arc<dyn ProcessCalls>,
    file: Option<Arc<dyn SharedFile>>,
    shares: Arc<RwLock<Shares>>,
}

/// A file that this process and another one share.
pub trait SharedFile: Send + Sync {
    /// Takes pages of at least `size` bytes. They are zero, and mapped into this process until the
    /// value is dropped.
    ///
    /// # Errors
    /// The reason, as text.
    fn take(&self, size: u64) -> Result<Box<dyn SharedPages>, String>;
}

/// Pages of a shared file. Dropping the value frees them for reuse: by then the other process has
/// given them back.
pub trait SharedPages: Send + Sync {
    /// Returns the offset of the first page in the file.
    fn offset(&self) -> u64;

    /// Returns the bytes of all pages, in this process.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Unmaps some of the pages from this process; `pages` is in bytes.
    fn unmap(&mut self, pages: Range<usize>);

    /// Returns the address of the first page in this process.
    fn address(&self) -> NonNull<u8>;

    /// Keeps the pages in use until the file is gone.
    fn leave(&self);
}

/// The memory that both processes have.
#[derive(Default)]
struct Shares {
    /// Pages of the file of each finalized object.
    by_object: BTreeMap<u64, Arc<dyn SharedPages>>,
    /// Pages that this process can still write, by their address in the other process.
    writable: BTreeMap<u64, Writable>,
}

/// Pages that are `rw-` in both processes.
struct Writable {
    size: u64,
    /// Address of the first page in this process.
    here: NonNull<u8>,
    /// Objects that share the pages. When all are gone, the addresses may be reused.
    objects: Vec<u64>,
    pages: Arc<dyn SharedPages>,
}

// SAFETY: the address is only used to copy bytes and to store words, while the pages are kept.
unsafe impl Send for Writable {}
// SAFETY: as above.
unsafe impl Sync for Writable {}

impl ProcessMemory {
    /// Creates a manager for the memory of a process, which uses messages alone or a file that the
    /// process has too.
    pub fn new(process: Arc<dyn ProcessCalls>, file: Option<Arc<dyn SharedFile>>) -> Self {
        Self { process, file, shares: Arc::default() }
    }
}

impl Drop for ProcessMemory {
    fn drop(&mut self) {
        // Code in the pages may be running.
        std::mem::take(&mut *self.shares.write())
            .by_object
            .values()
            .for_each(|pages| pages.leave());
    }
}

impl ProcessMemory {
    /// Writes bytes at an address of the process, if both processes have that memory as writable
    /// data of linked code; `false` otherwise. A word at a multiple of its size is written
    /// atomically.
    ///
    /// # Safety
    /// No other thread may use the bytes during the call, except for atomic operations on such a
    /// word.
    pub unsafe fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let Some((_pages, here)) = self.shares.read().find(address, bytes.len() as u64) else {
            return false;
        };
        match <[u8; 8]>::try_from(bytes) {
            Ok(word) if address.is_multiple_of(8) => {
                // SAFETY: pages are mapped with the same alignment in both processes, and are kept
                // during this call.
                let to = unsafe { here.cast::<AtomicU64>().as_ref() };
                to.store(u64::from_ne_bytes(word), Ordering::Release);
            }
            // SAFETY: the pages are mapped, and kept during this call; the rest is promised by the
            // caller.
            _ => unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), here.as_ptr(), bytes.len());
            },
        }
        true
    }

    /// Reads `size` bytes at an address of the process, if both processes have that memory as
    /// writable data of linked code.
    ///
    /// # Safety
    /// No thread may write the bytes during the call.
    pub unsafe fn read(&self, address: u64, size: usize) -> Option<Vec<u8>> {
        let (_pages, here) = self.shares.read().find(address, size as u64)?;
        let mut bytes = Vec::with_capacity(size);
        // SAFETY: the pages are mapped, and kept during this call; the vector has room for `size`
        // bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(here.as_ptr(), bytes.as_mut_ptr(), size);
            bytes.set_len(size);
        }
        Some(bytes)
    }
}

impl MemoryManager for ProcessMemory {
    fn page_size(&self) -> u64 {
        self.process.facts().page_size
    }

    fn allocate(&self, request: AllocationRequest<'_>) -> Pending<Box<dyn InFlightAllocation>> {
        match self.request(&request) {
            Ok(in_flight) => Box::pin(async move {
                let in_flight: Box<dyn InFlightAllocation> = Box::new(in_flight.await?);
                Ok(in_flight)
            }),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Pending<()> {
        let numbers: Vec<u64> = allocations.iter().map(FinalizedAllocation::number).collect();
        self.shares.write().hide(&numbers);
        // SAFETY: the deallocating caller promises that nothing uses the objects any more; the
        // creator of the actions vouches for the actions.
        let done = unsafe { call_service(&*self.process, DEALLOCATE_PAGES, &numbers) };
        let shares = Arc::clone(&self.shares);
        Box::pin(async move {
            let result = done.await;
            // From here on the process does not use the pages: it has released them, or is gone.
            shares.write().remove(&numbers);
            Ok(result??)
        })
    }
}

impl ProcessMemory {
    fn request(
        &self,
        request: &AllocationRequest<'_>,
    ) -> Result<impl Future<Output = Result<InFlight>> + Send + use<>> {
        let layout = Layout::new(request, self.page_size())?;
        let name = request.name();
        let size = layout.size as u64;
        let shared = self.file.as_ref().filter(|_| size > 0).map(|file| file.take(size));
        let content = match shared.transpose() {
            Ok(Some(pages)) => Content::Shared(pages),
            Ok(None) => Content::Own(zeroes(layout.size).map_err(|e| memory_error(&name, e))?),
            Err(problem) => return Err(memory_error(&name, problem)),
        };
        let wanted = PageRequest {
            name,
            size,
            alignment: layout.alignment as u64,
            placement: request.placement,
            offset: content.offset(),
        };
        // SAFETY: a request for pages is sound with any numbers.
        let reserved = unsafe { call_service(&*self.process, RESERVE_PAGES, &wanted) };
        let plan = layout.plan(request);
        let (process, shares) = (Arc::clone(&self.process), Arc::clone(&self.shares));
        Ok(async move {
            let Reserved { number, address } = reserved.await??;
            let reservation = Reservation { number: Some(number), process };
            let addresses = layout.addresses(address);
            Ok(InFlight { content, reservation, address, addresses, layout, plan, shares })
        })
    }
}

/// The memory in this process to which content is written.
enum Content {
    Shared(Box<dyn SharedPages>),
    Own(Vec<u8>),
}

impl Content {
    fn offset(&self) -> Option<u64> {
        match self {
            Self::Shared(pages) => Some(pages.offset()),
            Self::Own(_) => None,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Shared(pages) => pages.bytes_mut(),
            Self::Own(bytes) => bytes,
        }
    }
}

/// Reserved pages, which are given back on drop unless they were finalized.
struct Reservation {
    number: Option<u64>,
    process: Arc<dyn ProcessCalls>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        // SAFETY: nothing in the process knows these pages yet.
        let abandoned = unsafe { call_service(&*self.process, ABANDON_PAGES, &vec![number]) };
        if let Err(error) = crate::wait(abandoned) {
            log::debug!("giving back reserved memory: {error}");
        }
    }
}

struct InFlight {
    // Fields are dropped in this order, and the reservation must go before the content: the process
    // gives its pages back before they are free in the file.
    reservation: Reservation,
    content: Content,
    address: u64,
    addresses: Vec<u64>,
    layout: Layout,
    plan: Plan,
    shares: Arc<RwLock<Shares>>,
}

/// The largest number of messages with content under way, since a process limits all its messages.
const AT_ONCE: usize = 16;

/// The limit for the content in a message, in bytes.
const PIECE: usize = 1 << 20;

impl InFlight {
    /// Sends content that is not shared, and returns the pending replies.
    fn send_content(&mut self) -> Vec<Pending<()>> {
        let Content::Own(bytes) = &self.content else { return Vec::new() };
        let pieces = self.layout.content_pages().into_iter().flat_map(|pages| {
            pages.clone().step_by(PIECE).map(move |start| start..(start + PIECE).min(pages.end))
        });
        let write = |piece: Range<usize>| {
            let bytes = vec![(self.address + piece.start as u64, ByteBuf::from(&bytes[piece]))];
            // SAFETY: the pages are reserved and writable, and no other thread uses them.
            unsafe { call_service(&*self.reservation.process, WRITE, &bytes) }
        };
        let mut sent: VecDeque<Pending<()>> = VecDeque::new();
        for piece in pieces {
            if sent.len() == AT_ONCE
                && let Some(Err(error)) = sent.pop_front().map(wait)
            {
                sent.push_back(Box::pin(ready(Err(error))));
                break;
            }
            sent.push_back(write(piece));
        }
        sent.into()
    }
}

impl InFlightAllocation for InFlight {
    fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    fn working_memory(&mut self) -> Vec<&mut [u8]> {
        self.layout.contents(self.content.bytes_mut())
    }

    fn finalize(
        mut self: Box<Self>,
        actions: Vec<Vec<ActionPair>>,
    ) -> Pending<Vec<FinalizedAllocation>> {
        let written = self.send_content();
        let finalized = match written.is_empty() {
            true => Some(self.send_plan(&actions)),
            false => None,
        };
        Box::pin(async move {
            for piece in written {
                piece.await?;
            }
            let finalized = match finalized {
                Some(finalized) => finalized,
                None => self.send_plan(&actions),
            };
            let answer = finalized.await;
            if !matches!(answer, Err(Error::Call { .. })) {
                // Finalization consumes the reservation, even if it fails.
                self.reservation.number = None;
            }
            let numbers = answer??;
            self.remember(&numbers);
            Ok(numbers.into_iter().map(FinalizedAllocation::new).collect())
        })
    }
}

impl InFlight {
    fn send_plan(
        &mut self,
        actions: &[Vec<ActionPair>],
    ) -> Pending<longshore_orc_rt::Result<Vec<u64>>> {
        if let Content::Shared(pages) = &mut self.content {
            let not_written =
                |(protection, _): &&(Protection, _)| *protection != Protection::ReadWrite;
            let ranges = self.plan.protections.iter().filter(not_written);
            ranges.for_each(|(_, range)| pages.unmap(range.clone()));
        }
        let number = self.reservation.number.expect("it is finalized once");
        let argument = (number, self.plan.clone(), actions.to_vec());
        // SAFETY: the creator of the actions vouches for them.
        unsafe { call_service(&*self.reservation.process, FINALIZE_PAGES, &argument) }
    }

    /// Records the finalized objects. The file's pages stay until the last of the objects is
    /// deallocated, and writable pages stay mapped here.
    fn remember(&mut self, numbers: &[u64]) {
        let content = std::mem::replace(&mut self.content, Content::Own(Vec::new()));
        let Content::Shared(pages) = content else { return };
        let pages: Arc<dyn SharedPages> = Arc::from(pages);
        let is_writable = |run: &&Run| {
            let mut protections = self.plan.protections.iter();
            let of_run = protections.find(|(_, range)| range.contains(&run.pages.start));
            !run.is_temporary
                && of_run.is_some_and(|(protection, _)| *protection == Protection::ReadWrite)
        };
        let mut shares = self.shares.write();
        for run in self.plan.runs.iter().filter(is_writable) {
            // SAFETY: the run is of these pages.
            let here = unsafe { pages.address().add(run.pages.start) };
            let objects = run.objects.iter().filter_map(|object| numbers.get(*object).copied());
            let (size, objects) = (run.pages.len() as u64, objects.collect());
            let writable = Writable { size, here, objects, pages: Arc::clone(&pages) };
            shares.writable.insert(self.address + run.pages.start as u64, writable);
        }
        shares.by_object.extend(numbers.iter().map(|number| (*number, Arc::clone(&pages))));
    }
}

impl Shares {
    /// Hides objects that are about to go. Pages become unwritable with their last object.
    fn hide(&mut self, numbers: &[u64]) {
        self.writable.retain(|_, writable| {
            writable.objects.retain(|object| !numbers.contains(object));
            !writable.objects.is_empty()
        });
    }

    fn remove(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| drop(self.by_object.remove(number)));
    }

    /// Returns the address in this process of bytes of the other one, if they can be written here.
    fn find(&self, address: u64, size: u64) -> Option<(Arc<dyn SharedPages>, NonNull<u8>)> {
        let (start, writable) = self.writable.range(..=address).next_back()?;
        let offset = address - start;
        (size <= writable.size.checked_sub(offset)?).then_some(())?;
        // SAFETY: the address is within the pages, which are kept.
        Some((Arc::clone(&writable.pages), unsafe { writable.here.add(offset as usize) }))
    }
}

fn zeroes(size: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|error| error.to_string())?;
    bytes.resize(size, 0);
    Ok(bytes)
}
