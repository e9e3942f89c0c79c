//! Memory pools.

use super::blocks::{Block, Kind};
use super::location::{LOCATION_DEVICE, Location};
use super::object::{self, Object};
use super::{Code, DriverResult, In, Out, Untyped, broken, machine};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;

const ALLOCATION_PINNED: u32 = 1;
const ACCESS_READ_WRITE: u32 = 3;

/// A pool of a device's memory.
pub struct Pool {
    pub(crate) handle: usize,
    pub(crate) device: usize,
    is_default: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Values of the reuse attributes 1 to 3.
    reuse: [i32; 3],
    threshold: u64,
    reserved: u64,
    reserved_high: u64,
    used: u64,
    used_high: u64,
    /// Further devices with access to the pool's memory.
    devices: BTreeSet<usize>,
}

/// Properties of a new pool, in the drivers' format.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    allocation: u32,
    handles: u32,
    location: Location,
    security: *mut c_void,
    most_bytes: usize,
    reserved: [u8; 56],
}

/// A device's access to a pool's memory, in the drivers' format.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    location: Location,
    flags: u32,
}

impl Object for Pool {
    const KIND: &'static str = "pool";
    const WRONG: Code = Code::INVALID_VALUE;

    /// Returns 0, as a pool belongs to no context.
    fn context_handle(&self) -> usize {
        0
    }

    fn is_of_program(&self) -> bool {
        !self.is_default
    }
}

impl Pool {
    fn new(handle: usize, device: usize, is_default: bool) -> Pool {
        let state = State { reuse: [1; 3], ..State::default() };
        Pool { handle, device, is_default, state: Mutex::new(state) }
    }

    /// Counts `bytes` more bytes of the pool as used.
    pub(crate) fn take(&self, bytes: u64) {
        self.state.lock().take(bytes);
    }
}

impl State {
    fn take(&mut self, bytes: u64) {
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
        self.reserved = self.reserved.max(self.used);
        self.reserved_high = self.reserved_high.max(self.reserved);
    }

    /// Releases unused memory beyond `keep` bytes.
    fn trim(&mut self, keep: u64) {
        self.reserved = self.used.max(self.reserved.min(keep));
    }
}

/// Creates a pool.
pub fn create(pool: Out<usize>, properties: In<Properties>) -> DriverResult {
    let machine = machine()?;
    let properties = properties.get()?;
    if !machine.has_pools {
        return Err(Code::NOT_SUPPORTED);
    }
    let is_device = properties.location.kind == LOCATION_DEVICE;
    let is_clean = properties.reserved[3..].iter().all(|byte| *byte == 0);
    if properties.allocation != ALLOCATION_PINNED
        || !is_device
        || !is_clean
        || properties.handles != 0
        || !properties.security.is_null()
    {
        return Err(broken(Code::INVALID_VALUE, "invalid properties of a pool"));
    }
    let _any_is_enough = properties.most_bytes;
    machine.device(properties.location.id)?;
    let device = properties.location.id as usize;
    let made = object::add(|handle| Pool::new(handle, device, false));
    pool.put(made.handle)
}

/// Destroys a pool. Allocations from it stay.
pub fn destroy(pool: usize) -> DriverResult {
    if object::get::<Pool>(pool)?.is_default {
        return Err(broken(Code::INVALID_VALUE, "a device's default pool is destroyed"));
    }
    object::remove::<Pool>(pool)?;
    Ok(())
}

/// Stores the handle of a device's default pool.
pub fn default_of(pool: Out<usize>, device: i32) -> DriverResult {
    pool.put(default_pool(device)?)
}

/// Sets the attribute with the number `which`.
pub fn set_attribute(pool: usize, which: u32, value: Untyped) -> DriverResult {
    let pool = object::get::<Pool>(pool)?;
    let mut state = pool.state.lock();
    match which {
        1..=3 => state.reuse[which as usize - 1] = value.get::<i32>()?,
        4 => state.threshold = value.get::<u64>()?,
        // High-water marks can only be reset to zero.
        6 | 8 if value.get::<u64>()? == 0 => {
            state.reserved_high = state.reserved;
            state.used_high = state.used;
        }
        _ => {
            return Err(broken(
                Code::INVALID_VALUE,
                format!("attribute {which} of a pool is unknown, or cannot have this value"),
            ));
        }
    }
    Ok(())
}

/// Stores the value of the attribute with the number `which`.
pub fn attribute(pool: usize, which: u32, value: Untyped) -> DriverResult {
    let pool = object::get::<Pool>(pool)?;
    let state = pool.state.lock();
    let number = match which {
        1..=3 => return value.put(state.reuse[which as usize - 1]),
        4 => state.threshold,
        5 => state.reserved,
        6 => state.reserved_high,
        7 => state.used,
        8 => state.used_high,
        _ => {
            return Err(broken(
                Code::INVALID_VALUE,
                format!("unknown attribute of a pool: {which}"),
            ));
        }
    };
    value.put(number)
}

/// Grants further devices access to the pool's memory, or revokes it.
pub fn set_access(pool: usize, accesses: In<Access>, count: usize) -> DriverResult {
    let pool = object::get::<Pool>(pool)?;
    let machine = machine()?;
    for Access { location, flags } in accesses.list(count)? {
        let device = machine.device(location.id).map(|_| location.id as usize)?;
        let is_own = device == pool.device;
        if location.kind != LOCATION_DEVICE
            || !matches!(flags, 0 | ACCESS_READ_WRITE)
            || (is_own && flags == 0)
        {
            return Err(broken(Code::INVALID_VALUE, "invalid access to a pool"));
        }
        if !is_own && !machine.has_peers {
            return Err(Code::INVALID_DEVICE);
        }
        give_access(&pool, device, flags != 0);
    }
    Ok(())
}

/// Releases unused memory beyond `keep` bytes.
pub fn trim(pool: usize, keep: usize) -> DriverResult {
    object::get::<Pool>(pool)?.state.lock().trim(keep as u64);
    Ok(())
}

/// Returns the bytes of a device's memory that pools hold but do not use.
pub(crate) fn unused_bytes(device: usize) -> u64 {
    let is_of_device = |pool: &Arc<Pool>| pool.device == device;
    let unused = |pool: Arc<Pool>| {
        let state = pool.state.lock();
        state.reserved - state.used
    };
    object::all().into_iter().filter(is_of_device).map(unused).sum()
}

/// Releases the unused memory of a device's pools.
pub(crate) fn trim_all(device: usize) {
    for pool in object::all::<Pool>().into_iter().filter(|pool| pool.device == device) {
        pool.state.lock().trim(0);
    }
}

/// Records that memory of a pool is free again. The pool may be gone.
pub(crate) fn note_freed(pool: usize, bytes: u64) {
    if let Some(pool) = object::find::<Pool>(pool) {
        let mut state = pool.state.lock();
        state.used = state.used.saturating_sub(bytes);
        let threshold = state.threshold;
        state.trim(threshold);
    }
}

/// Returns whether a device has access to a pool's memory.
pub(crate) fn is_accessible(pool: usize, device: usize) -> bool {
    object::find::<Pool>(pool).is_some_and(|pool| pool.state.lock().devices.contains(&device))
}

fn give_access(pool: &Pool, device: usize, accessible: bool) {
    if device == pool.device {
        return;
    }
    let changed = {
        let devices = &mut pool.state.lock().devices;
        if accessible { devices.insert(device) } else { devices.remove(&device) }
    };
    let Ok(machine) = machine() else { return };
    if !changed {
        return;
    }
    let is_of_pool =
        |block: &Block| matches!(block.kind, Kind::Pooled(handle) if handle == pool.handle);
    for block in machine.blocks.select(is_of_pool) {
        let contexts = machine.contexts.lock().clone();
        for context in contexts.iter().filter(|context| context.device == device) {
            block.show_to(context, accessible);
        }
    }
}

/// Returns the handle of a device's default pool, which the first call creates.
///
/// # Errors
/// `INVALID_DEVICE`; `NOT_SUPPORTED` for devices without pools.
pub(crate) fn default_pool(device: i32) -> DriverResult<usize> {
    let machine = machine()?;
    let mut pool = machine.device(device)?.default_pool.lock();
    if !machine.has_pools {
        return Err(Code::NOT_SUPPORTED);
    }
    if *pool == 0 {
        *pool = object::add(|handle| Pool::new(handle, device as usize, true)).handle;
    }
    Ok(*pool)
}
