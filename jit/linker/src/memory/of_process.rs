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
    ABANDON_PAGES, DEALLOCATE_PAGES, FINALIZE_PAGES, RESERVE_PAGES, Reserved, Wanted,
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

/// Memory of a process that runs `longshore-orc-rt` (JITLink's `MapperJITLinkMemoryManager`, with its `SharedMemoryMapper` or, with
/// nothing shared, a copy for each side). Content is written once, in place, if both processes share a file.
///
/// Reserving and finalizing take one message each. Actions run in the process. Who waits for an answer blocks where it polls.
///
/// Dropping the manager leaves finalized allocations as they are. One in flight does not need it any more.
pub struct ProcessMemory {
    process: Arc<dyn ProcessCalls>,
    file: Option<Arc<dyn SharedFile>>,
    shares: Arc<RwLock<Shares>>,
}

/// A file that this process and another one have.
pub trait SharedFile: Send + Sync {
    /// Takes pages for so many bytes: zeroes, mapped into this process, until the value is dropped.
    ///
    /// # Errors
    /// What is wrong, for people.
    fn take(&self, size: u64) -> Result<Box<dyn SharedPages>, String>;
}

/// Pages of a shared file, which are free again when this is dropped: by then the other process has given them back.
pub trait SharedPages: Send + Sync {
    /// Where they begin in the file.
    fn offset(&self) -> u64;

    /// All of them, in this process.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Unmaps some of them from this process: offsets in bytes.
    fn unmap(&mut self, pages: Range<usize>);

    /// Where they begin in this process.
    fn address(&self) -> NonNull<u8>;

    /// Leaves them in use until the file is gone.
    fn leave(&self);
}

/// What is known of memory that both processes have.
#[derive(Default)]
struct Shares {
    /// Which pages of the file the objects have that are finalized.
    by_object: BTreeMap<u64, Arc<dyn SharedPages>>,
    /// What can still be written from here, by its address in the process.
    writable: BTreeMap<u64, Writable>,
}

/// Pages that are `rw-` in both processes.
struct Writable {
    size: u64,
    /// Where they begin in this process.
    here: NonNull<u8>,
    /// The objects that have a part of them. When all are gone something else may be at the addresses.
    objects: Vec<u64>,
    pages: Arc<dyn SharedPages>,
}

// SAFETY: the address is used while the pages are kept, by copies alone.
unsafe impl Send for Writable {}
// SAFETY: as above.
unsafe impl Sync for Writable {}

impl ProcessMemory {
    /// Memory of a process, by messages alone or through a file that it has too.
    pub fn new(process: Arc<dyn ProcessCalls>, file: Option<Arc<dyn SharedFile>>) -> Self {
        Self { process, file, shares: Arc::default() }
    }
}

impl Drop for ProcessMemory {
    fn drop(&mut self) {
        // The code in them may be running.
        std::mem::take(&mut *self.shares.write())
            .by_object
            .values()
            .for_each(|pages| pages.leave());
    }
}

impl ProcessMemory {
    /// Writes bytes at an address of the process, if both have them, as data of linked code that can be written; `false` if not. A
    /// word at a multiple of its size is written at once.
    ///
    /// # Safety
    /// Nobody may use the bytes meanwhile, or everybody by atomic operations if it is a word.
    pub unsafe fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let Some((_pages, here)) = self.shares.read().find(address, bytes.len() as u64) else {
            return false;
        };
        match <[u8; 8]>::try_from(bytes) {
            Ok(word) if address.is_multiple_of(8) => {
                // SAFETY: pages are mapped so that an address has the same alignment in both processes; they are kept.
                let to = unsafe { here.cast::<AtomicU64>().as_ref() };
                to.store(u64::from_ne_bytes(word), Ordering::Release);
            }
            // SAFETY: the pages are mapped, and kept during this call; the rest is promised by the caller.
            _ => unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), here.as_ptr(), bytes.len());
            },
        }
        true
    }

    /// Reads so many bytes at an address of the process, if both have them, as data of linked code that can be written.
    ///
    /// # Safety
    /// Nobody may write the bytes meanwhile.
    pub unsafe fn read(&self, address: u64, size: usize) -> Option<Vec<u8>> {
        let (_pages, here) = self.shares.read().find(address, size as u64)?;
        let mut bytes = Vec::with_capacity(size);
        // SAFETY: the pages are mapped, and kept during this call; there is room for so many bytes.
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
        // SAFETY: who deallocates says that nothing uses them any more; who made the actions vouches for those.
        let done = unsafe { call_service(&*self.process, DEALLOCATE_PAGES, &numbers) };
        let shares = Arc::clone(&self.shares);
        Box::pin(async move {
            let result = done.await;
            // Only then are they not in use there, whether all went well or the process is gone.
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
        let wanted = Wanted {
            name,
            size,
            alignment: layout.alignment as u64,
            placement: request.placement,
            offset: content.offset(),
        };
        // SAFETY: any pages may be asked for.
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

/// Where content is written in this process.
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

/// Reserved pages, which are given back when this is dropped, unless they were finalized.
struct Reservation {
    number: Option<u64>,
    process: Arc<dyn ProcessCalls>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        // SAFETY: nobody in the process knows these pages yet.
        let abandoned = unsafe { call_service(&*self.process, ABANDON_PAGES, &vec![number]) };
        if let Err(error) = crate::wait(abandoned) {
            log::debug!("giving back reserved memory: {error}");
        }
    }
}

struct InFlight {
    // The order matters: the process gives its pages back before they are free in the file.
    reservation: Reservation,
    content: Content,
    address: u64,
    addresses: Vec<u64>,
    layout: Layout,
    plan: Plan,
    shares: Arc<RwLock<Shares>>,
}

/// Messages with content under way: there is a limit for all of a process.
const AT_ONCE: usize = 16;

/// The most bytes of content in a message.
const PIECE: usize = 1 << 20;

impl InFlight {
    /// Sends content that is not shared, and gives what is to be waited for.
    fn send_content(&mut self) -> Vec<Pending<()>> {
        let Content::Own(bytes) = &self.content else { return Vec::new() };
        let pieces = self.layout.content_pages().into_iter().flat_map(|pages| {
            pages.clone().step_by(PIECE).map(move |start| start..(start + PIECE).min(pages.end))
        });
        let write = |piece: Range<usize>| {
            let bytes = vec![(self.address + piece.start as u64, ByteBuf::from(&bytes[piece]))];
            // SAFETY: the pages are reserved, writable, and nobody uses them.
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
                // Whatever came of it, there is no reservation any more.
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
        // SAFETY: who made the actions vouches for them.
        unsafe { call_service(&*self.reservation.process, FINALIZE_PAGES, &argument) }
    }

    /// The file's pages stay until the last of the objects is deallocated, and those that can be written stay mapped here.
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
    /// The objects are about to go, and with the last one of some pages what can be written.
    fn hide(&mut self, numbers: &[u64]) {
        self.writable.retain(|_, writable| {
            writable.objects.retain(|object| !numbers.contains(object));
            !writable.objects.is_empty()
        });
    }

    fn remove(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| drop(self.by_object.remove(number)));
    }

    /// Where bytes of the process are in this one, if they can be written here.
    fn find(&self, address: u64, size: u64) -> Option<(Arc<dyn SharedPages>, NonNull<u8>)> {
        let (start, writable) = self.writable.range(..=address).next_back()?;
        let offset = address - start;
        (size <= writable.size.checked_sub(offset)?).then_some(())?;
        // SAFETY: within the pages, which are kept.
        Some((Arc::clone(&writable.pages), unsafe { writable.here.add(offset as usize) }))
    }
}

fn zeroes(size: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|error| error.to_string())?;
    bytes.resize(size, 0);
    Ok(bytes)
}
