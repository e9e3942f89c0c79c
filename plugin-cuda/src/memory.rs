//! Memory: of the device, of the host for the device, managed, and pinned.

mod pinned;
mod registrations;

use crate::device::{DeviceCore, create_stream};
use crate::driver::types::{
    Access, Device as RawDevice, DevicePtr, Location, Pool, PoolProperties, Stream, attach,
    host_memory, pointer_attribute, pool_attribute,
};
use crate::driver::{Call, CuResult, Driver, Failure};
use crate::physical::Physical;
use crossbeam_skiplist::SkipMap;
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result};
use parking_lot::Mutex;
use pinned::{Pinned, attribute};
use std::ffi::{c_uint, c_void};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// Where device memory comes from, if the device has pools.
    pool: Option<Pool>,
    /// On which it is allocated and freed.
    stream: Stream,
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
    /// Those of the driver.
    pub(crate) fn new(physical: &Arc<Physical>) -> std::result::Result<Memory, Failure> {
        let driver = &physical.driver;
        let pool = match physical.features.pools {
            true => create_pool(driver, physical.raw)?,
            false => None,
        };
        let stream = create_stream(driver).inspect_err(|_| {
            if let Some(pool) = pool {
                // SAFETY: nothing was allocated from it.
                let _ = unsafe { driver.cuMemPoolDestroy(pool) };
            }
        })?;
        Ok(Memory {
            live: SkipMap::new(),
            of_host: AtomicUsize::new(0),
            pinned: SkipMap::new(),
            pinning: Mutex::new(()),
            pool,
            stream,
            managed: physical.features.managed,
        })
    }

    /// Allocates for the program and answers the address. Blocks.
    ///
    /// # Errors
    /// `OutOfResources`; `Unsupported` for managed memory that the device lacks and for alignments
    /// above 1 GiB; those of the driver.
    pub(crate) fn allocate(
        &self,
        device: &DeviceCore,
        kind: MemoryKind,
        bytes: u64,
        alignment: u64,
    ) -> Result<u64> {
        if kind == MemoryKind::Managed && !self.managed {
            let message = format!("'{}' has no managed memory", device.physical.name);
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if alignment > GREATEST_ALIGNMENT {
            let message = format!(
                "an allocation at a multiple of {alignment} bytes, expected at most \
                 {GREATEST_ALIGNMENT}"
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if kind == MemoryKind::Device && bytes > device.physical.memory_bytes {
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
        allocated.map_err(|failure| match failure.is(CuResult::INVALID_VALUE) {
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
    pub(crate) fn free(&self, device: &DeviceCore, kind: MemoryKind, address: u64) -> Result<()> {
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
                unsafe { driver.cuStreamSynchronize(self.stream) }
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
        find(&self.live, address).is_some_and(|(base, block)| {
            block.kind != MemoryKind::Device && address - base < block.bytes
        })
    }

    /// Whether memory at this address can move: managed memory can, of whatever device. The context is
    /// current.
    pub(crate) fn is_managed(&self, driver: &Driver, address: u64) -> bool {
        let ours = find(&self.live, address).filter(|(base, block)| address - base < block.bytes);
        match ours {
            Some((_, block)) => block.kind == MemoryKind::Managed,
            None => attribute(driver, pointer_attribute::IS_MANAGED, address) == Some(1),
        }
    }

    /// Lets another device reach this one's memory. Blocks.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn allow(&self, device: &DeviceCore, peer: RawDevice) -> Result<()> {
        const READ_WRITE: c_uint = 3;
        let Some(pool) = self.pool else { return Ok(()) };
        let location = Location { kind: Location::DEVICE, id: peer };
        let access = Access { location, flags: READ_WRITE };
        device.call("allowing peer access to memory", |driver| {
            // SAFETY: the pool is live; the structure is valid during the call.
            unsafe { driver.cuMemPoolSetAccess(pool, &access, 1) }
        })
    }

    /// Gives back everything that is left. No work uses any of it. The context is current.
    pub(crate) fn destroy(&self, driver: &Driver) {
        let mut has_freed = false;
        for entry in self.live.iter() {
            has_freed |= self.free_raw(driver, entry.value()).is_ok();
        }
        if has_freed {
            // SAFETY: the stream is live.
            let _ = unsafe { driver.cuStreamSynchronize(self.stream) };
        }
        self.unregister_all(driver);
        // SAFETY: nobody uses it any more.
        let _ = unsafe { driver.cuStreamDestroy(self.stream) };
    }

    /// Gives the pool back, which is of no context.
    pub(crate) fn destroy_pool(&self, driver: &Driver) {
        if let Some(pool) = self.pool {
            // SAFETY: nothing is allocated from it any more by anybody.
            let _ = unsafe { driver.cuMemPoolDestroy(pool) };
        }
    }

    fn insert(&self, address: u64, block: Block) {
        if block.kind != MemoryKind::Device {
            self.of_host.fetch_add(1, Ordering::Relaxed);
        }
        self.live.insert(address, block);
    }

    fn allocate_raw(
        &self,
        driver: &Driver,
        kind: MemoryKind,
        bytes: usize,
    ) -> std::result::Result<u64, Failure> {
        let mut address: DevicePtr = 0;
        match (kind, self.pool) {
            (MemoryKind::Device, Some(pool)) => {
                // SAFETY: the output is ours, pool and stream are live. Other streams may use the memory
                // when the stream has come to it.
                unsafe {
                    driver.cuMemAllocFromPoolAsync(&mut address, bytes, pool, self.stream)?;
                    if let Err(failure) = driver.cuStreamSynchronize(self.stream) {
                        let _ = driver.cuMemFreeAsync(address, self.stream);
                        return Err(failure);
                    }
                }
            }
            // SAFETY: the output is ours.
            (MemoryKind::Device, None) => unsafe { driver.cuMemAlloc(&mut address, bytes) }?,
            (MemoryKind::Host, _) => {
                let flags = host_memory::PORTABLE | host_memory::DEVICEMAP;
                let mut host = std::ptr::null_mut();
                // SAFETY: the output is ours.
                unsafe { driver.cuMemHostAlloc(&mut host, bytes, flags) }?;
                address = host as u64;
            }
            (MemoryKind::Managed, _) => {
                // SAFETY: the output is ours.
                unsafe { driver.cuMemAllocManaged(&mut address, bytes, attach::GLOBAL) }?;
            }
        }
        Ok(address)
    }

    /// The program vouches that nothing uses it any more.
    fn free_raw(&self, driver: &Driver, block: &Block) -> Call {
        // SAFETY: it was allocated in this way, and was taken out of the list of what is live.
        unsafe {
            match block.kind {
                // A stream of a context that is lost takes nothing any more, and a pool outlives it.
                MemoryKind::Device if self.pool.is_some() => driver
                    .cuMemFreeAsync(block.base, self.stream)
                    .or_else(|failure| match failure.result.is_some_and(CuResult::is_sticky) {
                        true => driver.cuMemFree(block.base),
                        false => Err(failure),
                    }),
                MemoryKind::Device | MemoryKind::Managed => driver.cuMemFree(block.base),
                MemoryKind::Host => driver.cuMemFreeHost(block.base as *mut c_void),
            }
        }
    }
}

/// A pool that keeps nothing: the host keeps what is worth it. None if the driver has no such thing.
fn create_pool(driver: &Driver, device: RawDevice) -> std::result::Result<Option<Pool>, Failure> {
    const PINNED: c_uint = 1;
    let properties = PoolProperties {
        allocation: PINNED,
        handles: 0,
        location: Location { kind: Location::DEVICE, id: device },
        security: std::ptr::null_mut(),
        max_bytes: 0,
        reserved: [0; 56],
    };
    let mut pool = Pool::NULL;
    // SAFETY: the output is ours; the structure is valid during the call.
    match unsafe { driver.cuMemPoolCreate(&mut pool, &properties) } {
        Ok(()) => {}
        Err(failure) if failure.result.is_none() || failure.is(CuResult::NOT_SUPPORTED) => {
            return Ok(None);
        }
        Err(failure) => return Err(failure),
    }
    let mut kept_bytes = 0u64;
    let value = (&raw mut kept_bytes).cast();
    // SAFETY: the pool is live; this attribute is a number of 64 bits.
    let set =
        unsafe { driver.cuMemPoolSetAttribute(pool, pool_attribute::RELEASE_THRESHOLD, value) };
    if let Err(failure) = set {
        // SAFETY: nothing was allocated from it.
        let _ = unsafe { driver.cuMemPoolDestroy(pool) };
        return Err(failure);
    }
    Ok(Some(pool))
}

/// What begins at the address or last before it.
fn find<T: Copy + Send + Sync + 'static>(map: &SkipMap<u64, T>, address: u64) -> Option<(u64, T)> {
    map.upper_bound(Bound::Included(&address)).map(|entry| (*entry.key(), *entry.value()))
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
