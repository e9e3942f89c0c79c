//! Memory: device, host, managed and pinned.

mod pinned;

use crate::call::{Call, Code, Failure};
use crate::driver::Driver;
use crate::facts::Facts;
use crate::handle::{DevicePtr, Pool, Stream};
use crate::raw_device::{RawDevice, create_stream};
use crossbeam_skiplist::SkipMap;
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result};
use parking_lot::Mutex;
use pinned::Pinned;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub(crate) use pinned::{Locked, PinnedRange, locked_by_others};

/// Least alignment in bytes of all memory from the driver.
const DRIVER_ALIGNMENT: u64 = 256;
/// Greatest alignment of an allocation, in bytes.
const GREATEST_ALIGNMENT: u64 = 1 << 30;

/// The memory of a device. Looking an address up takes no lock.
pub(crate) struct Memory {
    /// Live allocations, by address.
    live: SkipMap<u64, Block>,
    /// Number of live allocations of host or managed memory.
    of_host: AtomicUsize,
    /// Pinned memory, by its host address.
    pinned: SkipMap<u64, Pinned>,
    /// Held while memory is pinned or unpinned.
    pinning: Mutex<()>,
    /// Number of times that host memory was freed or unpinned.
    gone: AtomicU64,
    /// The pool of device memory, if the device has pools.
    pool: Option<Pool>,
    /// The stream on which device memory is allocated and freed.
    stream: Stream,
    /// Whether the stream has a free that no call has waited for.
    has_unsynchronized: AtomicBool,
    managed: bool,
}

/// An allocation.
#[derive(Clone, Copy)]
struct Block {
    kind: MemoryKind,
    bytes: u64,
    /// The driver's address, which is below the program's if the program requires a greater
    /// alignment.
    base: u64,
}

impl Memory {
    /// Creates the pool and the stream. The context is current.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn new<D: Driver>(
        driver: &D,
        facts: &Facts,
        ordinal: i32,
    ) -> std::result::Result<Memory, Failure> {
        let pool = match facts.features.pools {
            true => create_pool(driver, ordinal)?,
            false => None,
        };
        let stream = create_stream(driver).inspect_err(|_| {
            if let Some(pool) = pool {
                // SAFETY: nothing was allocated from it.
                let _ = unsafe { driver.destroy_pool(pool) };
            }
        })?;
        Ok(Memory {
            live: SkipMap::new(),
            of_host: AtomicUsize::new(0),
            pinned: SkipMap::new(),
            pinning: Mutex::new(()),
            gone: AtomicU64::new(0),
            pool,
            stream,
            has_unsynchronized: AtomicBool::new(false),
            managed: facts.features.managed,
        })
    }

    /// Allocates for the program and returns the address. Blocks.
    ///
    /// # Errors
    /// `OutOfResources`; `Unsupported` for managed memory that the device lacks and for alignments
    /// above 1 GiB; errors of the driver.
    pub(crate) fn allocate<D: Driver>(
        &self,
        device: &RawDevice<D>,
        kind: MemoryKind,
        bytes: u64,
        alignment: u64,
    ) -> Result<u64> {
        if !matches!(kind, MemoryKind::Device | MemoryKind::Host | MemoryKind::Managed) {
            return Err(kind.unsupported_by(&device.facts().name));
        }
        if kind == MemoryKind::Managed && !self.managed {
            let message = format!("'{}' has no managed memory", device.facts().name);
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if alignment > GREATEST_ALIGNMENT {
            let message = format!(
                "an allocation at a multiple of {alignment} bytes, expected at most \
                 {GREATEST_ALIGNMENT}"
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if kind == MemoryKind::Device && bytes > device.facts().memory_bytes {
            return Err(too_large(bytes));
        }
        let slack = if alignment <= DRIVER_ALIGNMENT { 0 } else { alignment };
        let size = bytes.checked_add(slack).filter(|size| *size <= i64::MAX as u64);
        let size = size.ok_or_else(|| too_large(bytes))?;
        let doing = format_args!("allocating {bytes} bytes of {kind:?} memory");
        let mut base = 0;
        device.refuse_if_lost()?;
        let allocated = device.try_call(|driver| {
            base = self.allocate_raw(driver, kind, size as usize)?;
            Ok(())
        });
        allocated.map_err(|failure| match failure.is(Code::INVALID_VALUE) {
            // The size is the only argument that can be wrong.
            true => too_large(bytes),
            false => device.failed(doing, failure),
        })?;
        let address = if slack == 0 { base } else { base.next_multiple_of(alignment) };
        self.insert(address, Block { kind, bytes, base });
        Ok(address)
    }

    /// Frees memory of [`Memory::allocate`]. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` unless `address` is the start of a live allocation of this kind.
    pub(crate) fn free<D: Driver>(
        &self,
        device: &RawDevice<D>,
        kind: MemoryKind,
        address: u64,
    ) -> Result<()> {
        let found = self.live.get(&address).ok_or_else(|| not_live(address))?;
        let block = *found.value();
        if block.kind != kind {
            let message = format!(
                "{address:#x} is an allocation of kind {:?}, freed as {kind:?}",
                block.kind
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        // The thread that removes the entry frees the memory.
        if !found.remove() {
            return Err(not_live(address));
        }
        if kind != MemoryKind::Device {
            self.of_host.fetch_sub(1, Ordering::Relaxed);
            self.gone.fetch_add(1, Ordering::Release);
        }
        let doing = format_args!("freeing {} bytes of {kind:?} memory", block.bytes);
        if let Err(error) = device.end(doing, |driver| self.free_raw(driver, &block)) {
            // The driver still has the memory. Closing the device tries again.
            self.insert(address, block);
            return Err(error);
        }
        match self.pool {
            // A pool returns the memory to the device at this wait.
            Some(_) if kind == MemoryKind::Device => device.end(doing, |driver| {
                // SAFETY: the stream is live.
                unsafe { driver.synchronize_stream(self.stream) }
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether memory at this address was allocated on the host, or may be there.
    #[inline]
    pub(crate) fn is_of_host(&self, address: u64) -> bool {
        // Every copy calls this function, and many programs have no host memory.
        self.of_host.load(Ordering::Relaxed) > 0 && self.finds_host(address)
    }

    fn finds_host(&self, address: u64) -> bool {
        find(&self.live, address)
            .is_some_and(|(base, block)| is_of_host(&block) && address - base < block.bytes)
    }

    /// Returns whether memory at this address can move, as managed memory of any device can. The
    /// context is current.
    pub(crate) fn is_managed<D: Driver>(&self, driver: &D, address: u64) -> bool {
        let ours = find(&self.live, address).filter(|(base, block)| address - base < block.bytes);
        match ours {
            Some((_, block)) => block.kind == MemoryKind::Managed,
            None => driver.is_managed(address),
        }
    }

    /// Gives another device access to this device's memory. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn allow<D: Driver>(&self, device: &RawDevice<D>, peer: i32) -> Result<()> {
        let Some(pool) = self.pool else { return Ok(()) };
        device.call("allowing peer access to memory", |driver| {
            // SAFETY: the pool is live.
            unsafe { driver.allow_pool(pool, peer) }
        })
    }

    /// Destroys all remaining memory and the stream. No work uses the memory. The context is
    /// current.
    pub(crate) fn destroy<D: Driver>(&self, driver: &D) {
        let mut has_freed = self.has_unsynchronized.load(Ordering::Relaxed);
        for entry in self.live.iter() {
            has_freed |= self.free_raw(driver, entry.value()).is_ok();
        }
        if has_freed {
            // SAFETY: the stream is live.
            let _ = unsafe { driver.synchronize_stream(self.stream) };
        }
        self.unregister_all(driver);
        // SAFETY: nothing uses the stream any more.
        let _ = unsafe { driver.destroy_stream(self.stream) };
    }

    /// Destroys the pool, which belongs to no context.
    pub(crate) fn destroy_pool<D: Driver>(&self, driver: &D) {
        if let Some(pool) = self.pool {
            // SAFETY: no allocation from the pool is left.
            let _ = unsafe { driver.destroy_pool(pool) };
        }
    }

    fn insert(&self, address: u64, block: Block) {
        if block.kind != MemoryKind::Device {
            self.of_host.fetch_add(1, Ordering::Relaxed);
        }
        self.live.insert(address, block);
    }

    fn allocate_raw<D: Driver>(
        &self,
        driver: &D,
        kind: MemoryKind,
        bytes: usize,
    ) -> std::result::Result<u64, Failure> {
        let mut address: DevicePtr = 0;
        // SAFETY: the context is current; pool and stream are live. The wait for the stream makes
        // memory of the pool usable on other streams.
        unsafe {
            match (kind, self.pool) {
                (MemoryKind::Device, Some(pool)) => {
                    driver.allocate_from(&mut address, bytes, pool, self.stream)?;
                    if let Err(failure) = driver.synchronize_stream(self.stream) {
                        self.has_unsynchronized.store(true, Ordering::Relaxed);
                        let _ = driver.free_on(address, self.stream);
                        return Err(failure);
                    }
                }
                (MemoryKind::Device, None) => driver.allocate(&mut address, bytes)?,
                (MemoryKind::Host, _) => driver.allocate_host(&mut address, bytes)?,
                // Managed: `allocate` refuses every other kind.
                (_, _) => driver.allocate_managed(&mut address, bytes)?,
            }
        }
        Ok(address)
    }

    /// Frees a block for the driver. The program vouches that nothing uses the block any more.
    fn free_raw<D: Driver>(&self, driver: &D, block: &Block) -> Call {
        // SAFETY: the block was allocated in this way, and was removed from the live allocations.
        unsafe {
            match block.kind {
                // A stream of a lost context accepts no work, and a pool outlives its context.
                MemoryKind::Device if self.pool.is_some() => driver
                    .free_on(block.base, self.stream)
                    .or_else(|failure| match failure.result.is_some_and(D::is_sticky) {
                        true => driver.free(block.base),
                        false => Err(failure),
                    }),
                MemoryKind::Host => driver.free_host(block.base),
                _ => driver.free(block.base),
            }
        }
    }
}

/// Creates a pool that keeps no freed memory, as the host has a cache. `None` if the driver has no
/// pools.
fn create_pool<D: Driver>(driver: &D, ordinal: i32) -> std::result::Result<Option<Pool>, Failure> {
    let mut pool = Pool::NULL;
    // SAFETY: the driver knows the device.
    match unsafe { driver.create_pool(&mut pool, ordinal) } {
        Ok(()) => Ok(Some(pool)),
        Err(failure) if failure.result.is_none() || failure.is(Code::NOT_SUPPORTED) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns the entry at the address, or else the last one before it.
fn find<T: Copy + Send + Sync + 'static>(map: &SkipMap<u64, T>, address: u64) -> Option<(u64, T)> {
    map.upper_bound(Bound::Included(&address)).map(|entry| (*entry.key(), *entry.value()))
}

/// Returns whether the block is on the host, or may be there.
fn is_of_host(block: &Block) -> bool {
    block.kind != MemoryKind::Device
}

#[cold]
fn too_large(bytes: u64) -> Error {
    Error::new(
        ErrorCode::OutOfResources,
        format!("an allocation of {bytes} bytes exceeds the size of any memory"),
    )
}

#[cold]
fn not_live(address: u64) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("{address:#x} is not the address of a live allocation"),
    )
}
