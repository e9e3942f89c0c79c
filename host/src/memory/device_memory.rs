//! The memory of one device: allocation through the cache of freed blocks.

use super::block::{BLOCK_ALIGNMENT, Block, CLASSES, Use, class_of};
use super::pending::PendingBlocks;
use super::table::AllocationTable;
use super::tracking::{CallStack, DeviceTracker, Ledger, MemoryReport};
use crate::backend::AnyDevice;
use crate::queue::core::{Point, QueueCore};
use longshore_plugin_api::{Device as _, Error, ErrorCode, MemoryKind, Result, bounds};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Keeps freed blocks by size class for reuse: bounded, and given back when the device is short.
/// LLVM: `MemoryManagerTy`.
pub(crate) struct DeviceMemory {
    device: u64,
    table: Arc<AllocationTable>,
    limit: u64,
    cache: Mutex<Cache>,
    /// How many freed blocks wait for queued work.
    pending: AtomicUsize,
    /// `None` if nobody asked for tracking.
    tracker: Option<DeviceTracker>,
    /// Whether the plugin wants to know how much of a block the program sees, until it says no.
    reports_logical_sizes: AtomicBool,
}

/// How often a plugin is asked for a block that overlaps none.
const MOST_MOVES: usize = 16;

struct Cache {
    bins: Vec<Vec<Arc<Block>>>,
    bytes: u64,
    pending: PendingBlocks,
    closed: bool,
}

/// What became of a block whose use ended.
pub(crate) enum Released {
    /// It is in the cache, will be there when queued work is done, or went with its device.
    Done,
    /// It must be given back to the plugin.
    GiveBack(Arc<Block>),
    /// It was not live.
    NotLive,
}

/// A request, checked by [`Request::new`].
pub(crate) struct Request {
    kind: MemoryKind,
    alignment: u64,
    user: Use,
}

impl Request {
    /// Checks a request.
    ///
    /// # Errors
    /// `InvalidSize` for 0 bytes, `InvalidArgument` for an alignment that is no power of two,
    /// `OutOfResources` for more than any device has.
    pub(crate) fn new(kind: MemoryKind, alignment: u64, user: Use) -> Result<Request> {
        if user.bytes == 0 {
            return Err(Error::new(
                ErrorCode::InvalidSize,
                "an allocation of 0 bytes; at least 1 is needed",
            ));
        }
        if !alignment.is_power_of_two() {
            let message = format!("the alignment {alignment} is no power of two");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        if user.bytes > i64::MAX as u64 {
            let message = format!("{} bytes are more than any device has", user.bytes);
            return Err(Error::new(ErrorCode::OutOfResources, message));
        }
        Ok(Request { kind, alignment, user })
    }

    fn class(&self) -> Option<(usize, u64)> {
        (self.alignment <= BLOCK_ALIGNMENT).then(|| class_of(self.user.bytes)).flatten()
    }
}

impl DeviceMemory {
    pub(crate) fn new(
        device: u64,
        table: Arc<AllocationTable>,
        limit: u64,
        tracker: Option<DeviceTracker>,
    ) -> DeviceMemory {
        let bins = std::iter::repeat_with(Vec::new).take(CLASSES * 3).collect();
        let pending = PendingBlocks::default();
        let cache = Mutex::new(Cache { bins, bytes: 0, pending, closed: false });
        DeviceMemory {
            device,
            table,
            limit,
            cache,
            pending: AtomicUsize::new(0),
            tracker,
            reports_logical_sizes: AtomicBool::new(true),
        }
    }

    /// Returns a block from the cache, taken into use, and whether the plugin has to be told its logical size.
    /// For a user whose first use comes behind all work of `queue`, that of other queues behind that
    /// use, the block may be one that only `queue` can still use.
    pub(crate) fn reuse(
        &self,
        request: &Request,
        queue: Option<&Arc<QueueCore>>,
    ) -> Option<(Arc<Block>, bool)> {
        let (class, _) = request.class()?;
        let block = {
            let mut cache = self.cache.lock();
            match cache.bins[bin(request.kind, class)].pop() {
                Some(block) => {
                    cache.bytes -= block.capacity;
                    block
                }
                None => self.take_pending(&mut cache, request.kind, class, queue?)?,
            }
        };
        let changed = block.revive(request.user);
        Some((block, changed && self.reports_logical_sizes.load(Ordering::Relaxed)))
    }

    fn take_pending(
        &self,
        cache: &mut Cache,
        kind: MemoryKind,
        class: usize,
        queue: &Arc<QueueCore>,
    ) -> Option<Arc<Block>> {
        let suits = |block: &Block| block.kind == kind && block.class == Some(class);
        let block = cache.pending.take_for(queue, suits);
        self.pending.store(cache.pending.len(), Ordering::Relaxed);
        block
    }

    /// Tells the plugin how much of a block the program sees.
    ///
    /// # Errors
    /// Those of the plugin, but not that it has no use for it.
    pub(crate) fn report_logical_size(&self, block: &Block, remote: &AnyDevice) -> Result<()> {
        match remote.set_logical_size(block.address, block.current_use().bytes) {
            Err(error) if error.code() == ErrorCode::Unsupported => {
                self.reports_logical_sizes.store(false, Ordering::Relaxed);
                Ok(())
            }
            reported => reported,
        }
    }

    /// Returns a block from the plugin. If the device is short, what is cached, and what is when queued work
    /// is done, is given back and it is tried again, at last without rounding up. May block.
    ///
    /// # Errors
    /// Those of the plugin.
    pub(crate) fn obtain(&self, request: &Request, remote: &AnyDevice) -> Result<Arc<Block>> {
        let class = request.class();
        let capacity = class.map_or(request.user.bytes, |(_, capacity)| capacity);
        let alignment = request.alignment.max(BLOCK_ALIGNMENT);
        let ask = |bytes| {
            let class = class.filter(|_| bytes == capacity).map(|(class, _)| class);
            self.obtain_apart(remote, || {
                let address = remote.allocate(request.kind, bytes, alignment)?;
                Ok(Block::new(address, bytes, request.kind, self.device, class, request.user))
            })
        };
        let short = |error: &Error| error.code() == ErrorCode::OutOfResources;
        let block = ask(capacity).or_else(|error| match error {
            error if short(&error) => {
                self.reclaim(remote);
                ask(capacity).or_else(|_| ask(request.user.bytes))
            }
            error => Err(error),
        })?;
        if block.capacity != request.user.bytes
            && self.reports_logical_sizes.load(Ordering::Relaxed)
        {
            self.report_logical_size(&block, remote).inspect_err(|_| {
                self.table.remove(block.address);
                free(&block, remote);
            })?;
        }
        Ok(block)
    }

    /// Returns a block that overlaps none of any device, and is known from now on. Plugins in processes of their own know nothing of each other's
    /// addresses.
    ///
    /// # Errors
    /// Errors of `ask`; a breach for a block that overlaps another of this device; `OutOfResources` if all overlap those of other devices.
    fn obtain_apart(
        &self,
        remote: &AnyDevice,
        ask: impl Fn() -> Result<Block>,
    ) -> Result<Arc<Block>> {
        let mut moved: Vec<Arc<Block>> = Vec::new();
        let found = loop {
            let block = match ask() {
                Ok(block) => Arc::new(block),
                Err(error) => break Err(error),
            };
            let Err(known) = self.table.insert(&block) else { break Ok(block) };
            let of_device = moved.iter().find(|moved| moved.overlaps(&block));
            let of_device = of_device.or(Some(&known).filter(|known| known.device == self.device));
            if let Some(other) = of_device {
                let error = overlap(remote.plugin(), &block, other);
                // The other one would be freed if both begin there.
                if other.address != block.address {
                    moved.push(block);
                }
                break Err(error);
            }
            // Kept until there is another, so that it is not handed out again.
            moved.push(block);
            if moved.len() == MOST_MOVES {
                break Err(no_free_address(remote.plugin(), &known));
            }
        };
        moved.iter().for_each(|block| free(block, remote));
        found
    }

    /// Tracks that a block was taken into use by who called this.
    #[inline]
    pub(crate) fn track(&self, block: &Block) {
        if let Some(tracker) = &self.tracker {
            tracker.allocated(block);
        }
    }

    /// Ends the use of a block and puts it into the cache, if it fits, or in place of a larger one;
    /// if queued work may use it, when queues have passed `points`, which are asked for then.
    #[must_use = "what is not cached must be given back"]
    pub(crate) fn release(
        &self,
        block: Arc<Block>,
        points: impl FnOnce(MemoryKind) -> Vec<Point>,
    ) -> Released {
        if !block.retire() {
            return Released::NotLive;
        }
        // Before anybody else can have the address.
        if let Some(tracker) = &self.tracker {
            tracker.freed(&block);
        }
        let points = points(block.kind);
        let mut cache = self.cache.lock();
        if cache.closed {
            return Released::Done;
        }
        if !points.is_empty() {
            cache.pending.push(block, points);
            self.pending.store(cache.pending.len(), Ordering::Relaxed);
            return Released::Done;
        }
        cache.take_back(block, self.limit).map_or(Released::Done, Released::GiveBack)
    }

    /// Returns whether freed blocks wait for queued work.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) != 0
    }

    /// Puts freed blocks that queued work has done with into the cache, or gives them back. Answers
    /// whether there were some. Does not wait for the work.
    pub(crate) fn collect_freed(&self, remote: &AnyDevice) -> bool {
        let mut some = false;
        loop {
            let Some(oldest) = self.cache.lock().pending.oldest() else { return some };
            if !oldest.points.iter().all(Point::is_passed) {
                return some;
            }
            let surplus = {
                let mut cache = self.cache.lock();
                if !cache.pending.remove(&oldest.block) {
                    continue;
                }
                self.pending.store(cache.pending.len(), Ordering::Relaxed);
                cache.take_back(oldest.block, self.limit)
            };
            some = true;
            if let Some(block) = surplus {
                self.give_back(&block, remote).unwrap_or_else(|error| log::error!("{error}"));
            }
        }
    }

    /// Waits for the work that may use freed blocks, then gives all cached blocks back to the plugin.
    pub(crate) fn reclaim(&self, remote: &AnyDevice) {
        loop {
            let Some(oldest) = self.cache.lock().pending.oldest() else { break };
            // In a host function there is no waiting for its own queue.
            if !oldest.points.iter().all(Point::wait) {
                break;
            }
            self.collect_freed(remote);
        }
        self.trim(remote);
    }

    /// Gives all cached blocks back to the plugin.
    pub(crate) fn trim(&self, remote: &AnyDevice) {
        self.collect_freed(remote);
        // Others may use the cache while the driver frees.
        let blocks = self.cache.lock().drain();
        for block in blocks {
            self.give_back(&block, remote).unwrap_or_else(|error| log::error!("{error}"));
        }
    }

    /// What is and was allocated, with the device's name.
    pub(crate) fn report(&self, name: &str) -> MemoryReport {
        let report = match &self.tracker {
            Some(tracker) => {
                let (ledger, elapsed) = tracker.snapshot();
                ledger.report(name, elapsed, true)
            }
            None => {
                let live = self.table.live(Some(self.device));
                Ledger::from_live(live).report(name, Duration::ZERO, false)
            }
        };
        report.with_cached(self.cached())
    }

    /// How many blocks lie in the cache, and their bytes.
    pub(crate) fn cached(&self) -> (u64, u64) {
        let cache = self.cache.lock();
        (cache.bins.iter().map(|bin| bin.len() as u64).sum(), cache.bytes)
    }

    /// Ends the cache, gives everything back and answers what was still live, with where it was
    /// allocated if that was tracked.
    pub(crate) fn close(&self, remote: &AnyDevice) -> Vec<(Arc<Block>, Option<CallStack>)> {
        let mut cache = self.cache.lock();
        cache.closed = true;
        drop(cache.drain());
        let pending: Vec<_> = cache.pending.drain().collect();
        drop(cache);
        // The device's own queues are done; those of others may copy from and to its memory.
        for point in pending.iter().flat_map(|pending| &pending.points) {
            point.wait();
        }
        let blocks = self.table.remove_device(self.device);
        for block in &blocks {
            free(block, remote);
        }
        let leaked = blocks.into_iter().filter(|block| block.retire());
        let mut stacks = self.tracker.as_ref().map(DeviceTracker::close).unwrap_or_default();
        leaked.map(|block| (Arc::clone(&block), stacks.remove(&block.address))).collect()
    }

    /// Gives a block that is not live back to the plugin.
    ///
    /// # Errors
    /// Those of the driver; the block is gone all the same.
    pub(crate) fn give_back(&self, block: &Block, remote: &AnyDevice) -> Result<()> {
        // Out of the table first: the plugin may hand the address out again at once.
        self.table.remove(block.address);
        remote.free(block.kind, block.address).map_err(|error| {
            error.context(format_args!("freeing {} bytes at {:#x}", block.capacity, block.address))
        })
    }
}

impl Cache {
    /// Keeps a freed block, if it fits, or in place of a larger one; answers what must be given back.
    fn take_back(&mut self, block: Arc<Block>, limit: u64) -> Option<Arc<Block>> {
        let Some(class) = block.class else { return Some(block) };
        if self.bytes + block.capacity <= limit {
            self.keep(block, class);
            return None;
        }
        // Few large blocks must not keep many small ones out.
        let Some(larger) = self.take_larger_than(block.capacity) else { return Some(block) };
        self.keep(block, class);
        Some(larger)
    }

    fn keep(&mut self, block: Arc<Block>, class: usize) {
        self.bytes += block.capacity;
        self.bins[bin(block.kind, class)].push(block);
    }

    /// Takes one of the largest blocks out, if it is larger than this.
    fn take_larger_than(&mut self, capacity: u64) -> Option<Arc<Block>> {
        let capacity_in = |bin: &Vec<Arc<Block>>| bin.last().map_or(0, |block| block.capacity);
        let largest = self.bins.iter_mut().max_by_key(|bin| capacity_in(bin))?;
        let block = largest.pop_if(|block| block.capacity > capacity)?;
        self.bytes -= block.capacity;
        Some(block)
    }

    fn drain(&mut self) -> Vec<Arc<Block>> {
        self.bytes = 0;
        self.bins.iter_mut().flat_map(std::mem::take).collect()
    }
}

fn bin(kind: MemoryKind, class: usize) -> usize {
    kind as usize * CLASSES + class
}

fn free(block: &Block, remote: &AnyDevice) {
    if let Err(error) = remote.free(block.kind, block.address) {
        log::error!("freeing {} bytes at {:#x}: {error}", block.capacity, block.address);
    }
}

#[cold]
fn no_free_address(plugin: &str, known: &Block) -> Error {
    let message = format!(
        "the {MOST_MOVES} addresses that plugin '{plugin}' offers are those of other devices' memory, as the {} bytes at {:#x}",
        known.capacity, known.address
    );
    Error::new(ErrorCode::OutOfResources, message)
}

/// Returns the error for memory that is in use.
#[cold]
fn overlap(plugin: &str, block: &Block, other: &Block) -> Error {
    let found = format_args!("{} bytes at {:#x}", block.capacity, block.address);
    let place = "longshore.device, allocate";
    bounds::breach(
        plugin,
        place,
        found,
        format_args!(
            "none of the {} bytes at {:#x} that are in use",
            other.capacity, other.address
        ),
    )
}
