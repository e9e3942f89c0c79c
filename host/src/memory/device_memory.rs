//! The memory of one device: allocation through the cache of freed blocks.

use super::block::{BLOCK_ALIGNMENT, Block, CLASSES, Use, class_of};
use super::origins::Origins;
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

/// The memory of one device, with a cache of freed blocks by size class. The cache is bounded, and
/// emptied when the device is short of memory. LLVM: `MemoryManagerTy`.
pub(crate) struct DeviceMemory {
    device: u64,
    table: Arc<AllocationTable>,
    limit: u64,
    cache: Mutex<Cache>,
    /// Number of freed blocks that wait for queued work.
    pending: AtomicUsize,
    /// The tracker; `None` without tracking.
    tracker: Option<DeviceTracker>,
    /// The origins of allocations; `Some` if the backend checks accesses of allocations. Freed
    /// blocks go back to the plugin then, and none is larger than requested.
    origins: Option<Origins>,
    /// Whether the host reports logical sizes of blocks: true until the plugin returns
    /// `Unsupported`.
    reports_logical_sizes: AtomicBool,
}

/// Most allocations that the host requests to get a block that overlaps no other block.
const MOST_MOVES: usize = 16;

struct Cache {
    bins: Vec<Vec<Arc<Block>>>,
    bytes: u64,
    pending: PendingBlocks,
    closed: bool,
}

/// The outcome of releasing a block.
pub(crate) enum Released {
    /// No further step: the block is cached, waits for queued work, or was freed with its device.
    Done,
    /// A block that the caller must return to the plugin.
    GiveBack(Arc<Block>),
    /// A block that was not live.
    NotLive,
}

/// A request for memory, checked by [`Request::new`].
pub(crate) struct Request {
    kind: MemoryKind,
    alignment: u64,
    user: Use,
}

impl Request {
    /// Creates a request after checking it.
    ///
    /// # Errors
    /// `InvalidSize` for 0 bytes, `InvalidArgument` for an alignment that is no power of two,
    /// `OutOfResources` for more than 2^63 - 1 bytes.
    pub(crate) fn new(kind: MemoryKind, alignment: u64, user: Use) -> Result<Request> {
        if user.bytes == 0 {
            return Err(Error::new(
                ErrorCode::InvalidSize,
                "an allocation of 0 bytes; expected at least 1",
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
        is_checked: bool,
    ) -> DeviceMemory {
        let bins = std::iter::repeat_with(Vec::new).take(CLASSES * 3).collect();
        let pending = PendingBlocks::default();
        let cache = Mutex::new(Cache { bins, bytes: 0, pending, closed: false });
        DeviceMemory {
            device,
            table,
            limit: if is_checked { 0 } else { limit },
            cache,
            pending: AtomicUsize::new(0),
            tracker,
            origins: is_checked.then(Origins::default),
            reports_logical_sizes: AtomicBool::new(true),
        }
    }

    /// Takes a block from the cache into use. Also returns whether the caller must report the
    /// block's logical size to the plugin. With `queue`, the block may be one that only queued work
    /// of `queue` still uses. The caller's first use of the block then comes behind that work, and
    /// uses on other queues behind the first use.
    pub(crate) fn reuse(
        &self,
        request: &Request,
        queue: Option<&Arc<QueueCore>>,
    ) -> Option<(Arc<Block>, bool)> {
        let (class, _) = request.class().filter(|_| self.origins.is_none())?;
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

    /// Reports the logical size of a block to the plugin.
    ///
    /// # Errors
    /// Errors of the plugin, except `Unsupported`, which ends all reports.
    pub(crate) fn report_logical_size(&self, block: &Block, remote: &AnyDevice) -> Result<()> {
        match remote.set_logical_size(block.address, block.current_use().bytes) {
            Err(error) if error.code() == ErrorCode::Unsupported => {
                self.reports_logical_sizes.store(false, Ordering::Relaxed);
                Ok(())
            }
            result => result,
        }
    }

    /// Allocates a block from the plugin. If the device is short of memory, waits for the work that
    /// uses freed blocks, returns all cached blocks and tries again, the last time without rounding
    /// up. May block.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub(crate) fn obtain(&self, request: &Request, remote: &AnyDevice) -> Result<Arc<Block>> {
        let class = request.class().filter(|_| self.origins.is_none());
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
        if let Some(origins) = &self.origins {
            origins.add(block.address, request.user.location);
        }
        Ok(block)
    }

    /// Returns whether the backend checks accesses of allocations.
    pub(crate) fn is_checked(&self) -> bool {
        self.origins.is_some()
    }

    /// Returns an error of work on the device, with the origins of the allocations that its message
    /// has, if the backend checks accesses.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match &self.origins {
            Some(origins) => origins.explain(error),
            None => error,
        }
    }

    /// Requests blocks by `ask` until one overlaps no block of any device, and enters that block
    /// into the table. Isolated plugins do not know each other's addresses, so their blocks may
    /// overlap.
    ///
    /// # Errors
    /// Errors of `ask`; a breach for a block that overlaps another block of this device;
    /// `OutOfResources` if all blocks overlap blocks of other devices.
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
            let own = moved.iter().find(|moved| moved.overlaps(&block));
            let own = own.or(Some(&known).filter(|known| known.device == self.device));
            if let Some(other) = own {
                let error = overlap(remote.plugin(), &block, other);
                // Freeing the new block by its address would free `other` if both begin there.
                if other.address != block.address {
                    moved.push(block);
                }
                break Err(error);
            }
            // Kept until the loop ends, so that the plugin does not return the same address again.
            moved.push(block);
            if moved.len() == MOST_MOVES {
                break Err(no_free_address(remote.plugin(), &known));
            }
        };
        moved.iter().for_each(|block| free(block, remote));
        found
    }

    /// Records a newly used block, with the call stack of this call, if memory is tracked.
    #[inline]
    pub(crate) fn track(&self, block: &Block) {
        if let Some(tracker) = &self.tracker {
            tracker.allocated(block);
        }
    }

    /// Ends the use of a block and caches it if it fits, or in place of a larger block. A block
    /// that queued work may use is cached after the queues have passed the points that `points`
    /// returns.
    #[must_use = "a block that is not cached must be returned to the plugin"]
    pub(crate) fn release(
        &self,
        block: Arc<Block>,
        points: impl FnOnce(MemoryKind) -> Vec<Point>,
    ) -> Released {
        if !block.retire() {
            return Released::NotLive;
        }
        // Before another allocation can have the address.
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

    /// Caches, or returns to the plugin, the freed blocks that no queued work uses any more.
    /// Returns whether there were such blocks. Does not wait for the work.
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

    /// Waits for the work that may use freed blocks, then returns all cached blocks to the plugin.
    pub(crate) fn reclaim(&self, remote: &AnyDevice) {
        loop {
            let Some(oldest) = self.cache.lock().pending.oldest() else { break };
            // A host function cannot wait for its own queue.
            if !oldest.points.iter().all(Point::wait) {
                break;
            }
            self.collect_freed(remote);
        }
        self.trim(remote);
    }

    /// Returns all cached blocks to the plugin.
    pub(crate) fn trim(&self, remote: &AnyDevice) {
        self.collect_freed(remote);
        // The lock is released before the driver frees, so other threads can use the cache.
        let blocks = self.cache.lock().drain();
        for block in blocks {
            self.give_back(&block, remote).unwrap_or_else(|error| log::error!("{error}"));
        }
    }

    /// Returns a report of the device's allocations, under the device's name.
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

    /// Returns the number of cached blocks, and their size in bytes.
    pub(crate) fn cached(&self) -> (u64, u64) {
        let cache = self.cache.lock();
        (cache.bins.iter().map(|bin| bin.len() as u64).sum(), cache.bytes)
    }

    /// Closes the cache and returns all blocks to the plugin. Returns the blocks that were still
    /// live, with the call stacks of their allocation if memory is tracked.
    pub(crate) fn close(&self, remote: &AnyDevice) -> Vec<(Arc<Block>, Option<CallStack>)> {
        let mut cache = self.cache.lock();
        cache.closed = true;
        drop(cache.drain());
        let pending: Vec<_> = cache.pending.drain().collect();
        drop(cache);
        // The device's own queues are done, but queues of other devices may still copy from and to
        // its memory.
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

    /// Returns a block that is not live to the plugin.
    ///
    /// # Errors
    /// Errors of the driver; the block is gone even then.
    pub(crate) fn give_back(&self, block: &Block, remote: &AnyDevice) -> Result<()> {
        // Removed from the table first: the plugin may reuse the address at once.
        self.table.remove(block.address);
        remote.free(block.kind, block.address).map_err(|error| {
            error.context(format_args!("freeing {} bytes at {:#x}", block.capacity, block.address))
        })
    }
}

impl Cache {
    /// Caches a freed block if it fits, or in place of a larger one. Returns the block that must go
    /// back to the plugin.
    fn take_back(&mut self, block: Arc<Block>, limit: u64) -> Option<Arc<Block>> {
        let Some(class) = block.class else { return Some(block) };
        if self.bytes + block.capacity <= limit {
            self.keep(block, class);
            return None;
        }
        // A few large blocks must not keep many small ones out of the cache.
        let Some(larger) = self.take_larger_than(block.capacity) else { return Some(block) };
        self.keep(block, class);
        Some(larger)
    }

    fn keep(&mut self, block: Arc<Block>, class: usize) {
        self.bytes += block.capacity;
        self.bins[bin(block.kind, class)].push(block);
    }

    /// Removes one of the largest blocks, if it is larger than `capacity` bytes.
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
        "all {MOST_MOVES} blocks that plugin '{plugin}' allocated overlap memory of other devices, \
         such as the {} bytes at {:#x}",
        known.capacity, known.address
    );
    Error::new(ErrorCode::OutOfResources, message)
}

/// Returns the breach for a block that overlaps another block of its device.
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
