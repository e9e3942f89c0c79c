//! Memory: of the device, of the host for the device, managed, and pinned.

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

pub(crate) use pinned::{Found, Locked, locked_by_others};

/// What the driver aligns all memory to, at the least.
const DRIVER_ALIGNMENT: u64 = 256;
/// Greatest alignment of an allocation.
const GREATEST_ALIGNMENT: u64 = 1 << 30;

/// The memory of a device. Looking an address up takes no lock.
pub(crate) struct Memory {
    /// What was handed out, by address.
    live: SkipMap<u64, Block>,
    /// How many of those are host or managed memory.
    of_host: AtomicUsize,
    /// Pinned memory of the host, by its address there.
    pinned: SkipMap<u64, Pinned>,
    /// Whoever pins or unpins.
    pinning: Mutex<()>,
    /// How many times memory of the host was freed or unpinned.
    gone: AtomicU64,
    /// Where device memory comes from, if the device has pools.
    pool: Option<Pool>,
    /// On which it is allocated and freed.
    stream: Stream,
    /// Something was freed there that nobody has waited for.
    has_unsettled: AtomicBool,
    managed: bool,
}

/// An allocation.
#[derive(Clone, Copy)]
struct Block {
    kind: MemoryKind,
    bytes: u64,
    /// The driver's address, which is less where the program wants a greater alignment.
    base: u64,
}

impl Memory {
    /// The context is current.
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
            has_unsettled: AtomicBool::new(false),
            managed: facts.features.managed,
        })
    }

    /// Allocates for the program and answers the address. Blocks.
    ///
    /// # Errors
    /// `OutOfResources`; `Unsupported` for managed memory that the device lacks and for alignments
    /// above 1 GiB; those of the driver.
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
            // Nothing but the size can be wrong.
            true => too_large(bytes),
            false => device.failed(doing, failure),
        })?;
        let address = if slack == 0 { base } else { base.next_multiple_of(alignment) };
        self.insert(address, Block { kind, bytes, base });
        Ok(address)
    }

    /// Frees what [`Memory::allocate`] answered. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` unless it is the start of a live allocation of this kind.
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
        // Whoever takes it out frees it.
        if !found.remove() {
            return Err(not_live(address));
        }
        if kind != MemoryKind::Device {
            self.of_host.fetch_sub(1, Ordering::Relaxed);
            self.gone.fetch_add(1, Ordering::Release);
        }
        let doing = format_args!("freeing {} bytes of {kind:?} memory", block.bytes);
        if let Err(error) = device.end(doing, |driver| self.free_raw(driver, &block)) {
            // The driver still has it. It is tried again when the device closes.
            self.insert(address, block);
            return Err(error);
        }
        match self.pool {
            // Then the pool gives it back to the device.
            Some(_) if kind == MemoryKind::Device => device.end(doing, |driver| {
                // SAFETY: the stream is live.
                unsafe { driver.synchronize_stream(self.stream) }
            }),
            _ => Ok(()),
        }
    }

    /// Whether memory at this address was allocated on the host, or may be there.
    #[inline]
    pub(crate) fn is_of_host(&self, address: u64) -> bool {
        // Copies ask it each time, and many programs have no such memory.
        self.of_host.load(Ordering::Relaxed) > 0 && self.finds_host(address)
    }

    fn finds_host(&self, address: u64) -> bool {
        find(&self.live, address)
            .is_some_and(|(base, block)| is_of_host(&block) && address - base < block.bytes)
    }

    /// Whether memory at this address can move: managed memory can, of whatever device. The context is
    /// current.
    pub(crate) fn is_managed<D: Driver>(&self, driver: &D, address: u64) -> bool {
        let ours = find(&self.live, address).filter(|(base, block)| address - base < block.bytes);
        match ours {
            Some((_, block)) => block.kind == MemoryKind::Managed,
            None => driver.is_managed(address),
        }
    }

    /// Lets another device reach this one's memory. Blocks.
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

    /// Gives back everything that is left. No work uses any of it. The context is current.
    pub(crate) fn destroy<D: Driver>(&self, driver: &D) {
        let mut has_freed = self.has_unsettled.load(Ordering::Relaxed);
        for entry in self.live.iter() {
            has_freed |= self.free_raw(driver, entry.value()).is_ok();
        }
        if has_freed {
            // SAFETY: the stream is live.
            let _ = unsafe { driver.synchronize_stream(self.stream) };
        }
        self.unregister_all(driver);
        // SAFETY: nobody uses it any more.
        let _ = unsafe { driver.destroy_stream(self.stream) };
    }

    /// Gives the pool back, which is of no context.
    pub(crate) fn destroy_pool<D: Driver>(&self, driver: &D) {
        if let Some(pool) = self.pool {
            // SAFETY: nothing is allocated from it any more by anybody.
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
        // SAFETY: the context is current; pool and stream are live. Other streams may use memory of the
        // pool when the stream has come to it.
        unsafe {
            match (kind, self.pool) {
                (MemoryKind::Device, Some(pool)) => {
                    driver.allocate_from(&mut address, bytes, pool, self.stream)?;
                    if let Err(failure) = driver.synchronize_stream(self.stream) {
                        self.has_unsettled.store(true, Ordering::Relaxed);
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

    /// The program vouches that nothing uses it any more.
    fn free_raw<D: Driver>(&self, driver: &D, block: &Block) -> Call {
        // SAFETY: it was allocated in this way, and was taken out of the list of what is live.
        unsafe {
            match block.kind {
                // A stream of a context that is lost takes nothing any more, and a pool outlives it.
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

/// A pool that keeps nothing: the host keeps what is worth it. None if the driver has no such thing.
fn create_pool<D: Driver>(driver: &D, ordinal: i32) -> std::result::Result<Option<Pool>, Failure> {
    let mut pool = Pool::NULL;
    // SAFETY: the driver knows the device.
    match unsafe { driver.create_pool(&mut pool, ordinal) } {
        Ok(()) => Ok(Some(pool)),
        Err(failure) if failure.result.is_none() || failure.is(Code::NOT_SUPPORTED) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What begins at the address or last before it.
fn find<T: Copy + Send + Sync + 'static>(map: &SkipMap<u64, T>, address: u64) -> Option<(u64, T)> {
    map.upper_bound(Bound::Included(&address)).map(|entry| (*entry.key(), *entry.value()))
}

/// Whether it is on the host, or may be there.
fn is_of_host(block: &Block) -> bool {
    block.kind != MemoryKind::Device
}

#[cold]
fn too_large(bytes: u64) -> Error {
    Error::new(
        ErrorCode::OutOfResources,
        format!("an allocation of {bytes} bytes is more than any memory has"),
    )
}

#[cold]
fn not_live(address: u64) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("{address:#x} is no address of a live allocation"),
    )
}
