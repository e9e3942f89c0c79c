//! The context, which the first olInit creates and the last olShutDown ends.

use crate::objects::device::DeviceObject;
use crate::objects::platform::{self, PlatformObject};
use crate::objects::{event, program, queue, symbol};
use crate::registry::handle::{self, Object};
use crate::registry::table::Table;
use crate::types::enumerations::*;
use crate::types::structures::*;
use arc_swap::{ArcSwapOption, Guard};
use longshore::{Error, ErrorCode, Host, Result};
use parking_lot::Mutex;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The platforms and devices between olInit and the last olShutDown. Objects that callers create
/// and destroy are in tables.
pub(crate) struct Context {
    pub(crate) host: Arc<Host>,
    platforms: Vec<PlatformObject>,
    devices: Vec<DeviceObject>,
    /// Number of contexts before this one: the generation of its handles.
    pub(crate) cycle: u32,
}

static CONTEXT: ArcSwapOption<Context> = ArcSwapOption::const_empty();
static STATE: AtomicU64 = AtomicU64::new(0);
static COUNT: Mutex<Count> = Mutex::new(Count { users: 0, cycles: 0 });

struct Count {
    users: usize,
    cycles: u32,
}

/// The state of the library: flags, and above them the cycle.
#[derive(Clone, Copy)]
pub(crate) struct State(u64);

impl State {
    const INITIALIZED: u64 = 1;
    const TRACED: u64 = 2;
    const SKIPS_CHECKS: u64 = 4;
    const CYCLE_SHIFT: u32 = 8;

    /// Returns whether there is a context.
    #[inline]
    pub(crate) fn is_initialized(self) -> bool {
        self.0 & State::INITIALIZED != 0
    }

    /// Returns whether calls are traced.
    #[inline]
    pub(crate) fn is_traced(self) -> bool {
        self.0 & State::TRACED != 0
    }

    /// Returns whether functions skip the checks of their arguments.
    #[inline]
    pub(crate) fn skips_checks(self) -> bool {
        self.0 & State::SKIPS_CHECKS != 0
    }

    fn from_environment() -> u64 {
        // The user of a program with more rights than the user's must not choose the checks.
        let is_ignored = longshore::Environment::is_ignored();
        let flag = |name, flag| match std::env::var_os(name) {
            Some(_) if !is_ignored => flag,
            _ => 0,
        };
        State::INITIALIZED
            | flag("OFFLOAD_TRACE", State::TRACED)
            | flag("OFFLOAD_DISABLE_VALIDATION", State::SKIPS_CHECKS)
    }
}

/// Returns the state of the library.
#[inline]
pub(crate) fn state() -> State {
    State(STATE.load(Ordering::Relaxed))
}

/// The context, which lives until this value is dropped.
pub(crate) struct Current(Guard<Option<Arc<Context>>>);

impl std::ops::Deref for Current {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        self.0.as_ref().expect("`current` makes this only where there is a context")
    }
}

/// Returns the context.
///
/// # Errors
/// `Uninitialized` without a context.
#[inline]
pub(crate) fn current() -> Result<Current> {
    let context = CONTEXT.load();
    match context.is_some() {
        true => Ok(Current(context)),
        false => Err(ended()),
    }
}

/// Puts an object that was created in a cycle into a table.
///
/// # Errors
/// Errors of [`Table::insert`]; `Uninitialized` if the cycle has ended.
pub(crate) fn keep<T: Object>(table: &Table<T>, object: T, cycle: u32) -> Result<*mut T::Pointee> {
    let handle = table.insert(object)?;
    // The last olShutDown ends the cycle and then clears the tables: either this function sees the
    // end, or `clear` sees the object.
    if STATE.load(Ordering::SeqCst) >> State::CYCLE_SHIFT == u64::from(cycle) {
        return Ok(handle);
    }
    let _ = table.remove(handle);
    Err(ended())
}

/// Does the work of `olInit`.
///
/// # Errors
/// Errors of [`Host::new`]; `InvalidSize`, `InvalidNullPointer` and `InvalidEnumeration` for wrong
/// arguments.
///
/// # Safety
/// The pointer is null, or points to arguments and to as many platforms as they name.
pub(crate) unsafe fn initialize(arguments: *const ol_init_args_t) -> Result<()> {
    let mut count = COUNT.lock();
    if count.users == 0 {
        let state = State::from_environment();
        // SAFETY: promised by the caller.
        let backends = unsafe { wanted_backends(arguments) }?;
        let mut builder = Host::builder();
        if let Some(backends) = backends {
            builder = builder.with_optional_backends(backends);
        }
        let context = Context::new(builder.build()?, count.cycles);
        CONTEXT.store(Some(Arc::new(context)));
        STATE.store(state | u64::from(count.cycles) << State::CYCLE_SHIFT, Ordering::Release);
    }
    count.users += 1;
    Ok(())
}

/// Does the work of `olShutDown`.
///
/// # Errors
/// The first error of closing the devices; all devices are closed.
pub(crate) unsafe fn shut_down() -> Result<()> {
    let mut count = COUNT.lock();
    match count.users {
        0 => return Err(ended()),
        1 => {}
        _ => {
            count.users -= 1;
            return Ok(());
        }
    }
    (count.users, count.cycles) = (0, count.cycles.wrapping_add(1));
    let traced = STATE.load(Ordering::Relaxed) & State::TRACED;
    STATE.store(traced | u64::from(count.cycles) << State::CYCLE_SHIFT, Ordering::SeqCst);
    let Some(context) = CONTEXT.swap(None) else { return Ok(()) };
    let closed = context.devices.iter().map(DeviceObject::close).fold(Ok(()), Result::and);
    event::ALL.clear();
    symbol::ALL.clear();
    program::ALL.clear();
    queue::ALL.clear();
    closed
}

impl Context {
    fn new(host: Host, cycle: u32) -> Context {
        let host = Arc::new(host);
        let (mut platforms, mut devices) = (Vec::<PlatformObject>::new(), Vec::new());
        for (place, entry) in host.devices().iter().enumerate() {
            let backend = &entry.facts().backend;
            let known = platforms.iter().position(|platform| platform.is_of(backend));
            let platform = known.unwrap_or_else(|| {
                platforms.push(PlatformObject::new(backend, place));
                platforms.len() - 1
            });
            devices.push(DeviceObject::new(&host, place, platform, platforms[platform].is_host()));
        }
        Context { host, platforms, devices, cycle }
    }

    /// Returns the platform of a handle.
    ///
    /// # Errors
    /// `InvalidPlatform` for a number that is not a handle of a platform.
    pub(crate) fn platform(&self, handle: ol_platform_handle_t) -> Result<&PlatformObject> {
        let place = handle::place::<PlatformObject>(self.cycle, handle);
        let found = place.and_then(|place| self.platforms.get(place));
        found.ok_or_else(|| handle::refused::<PlatformObject>(handle))
    }

    /// Returns the device of a handle.
    ///
    /// # Errors
    /// `InvalidDevice` for a number that is not a handle of a device.
    #[inline]
    pub(crate) fn device(&self, handle: ol_device_handle_t) -> Result<&DeviceObject> {
        let place = handle::place::<DeviceObject>(self.cycle, handle);
        let found = place.and_then(|place| self.devices.get(place));
        found.ok_or_else(|| handle::refused::<DeviceObject>(handle))
    }

    /// Returns an open device and its handle, by the host's number of the device.
    ///
    /// # Errors
    /// `NotFound` if no device of this context is open under that number.
    pub(crate) fn open_device(&self, id: u64) -> Result<(ol_device_handle_t, &DeviceObject)> {
        let found = self.devices.iter().position(|device| device.is_open_as(id));
        let place = found.ok_or_else(|| {
            Error::new(ErrorCode::NotFound, "the memory belongs to no open device")
        })?;
        Ok((self.device_handle(place), &self.devices[place]))
    }

    /// Returns the handle of a platform, by its place.
    pub(crate) fn platform_handle(&self, place: usize) -> ol_platform_handle_t {
        handle::handle::<PlatformObject>(self.cycle, place as u32)
    }

    /// Returns the handles of all platforms.
    pub(crate) fn platform_handles(&self) -> Vec<ol_platform_handle_t> {
        (0..self.platforms.len()).map(|place| self.platform_handle(place)).collect()
    }

    /// Returns the handles of all devices, in the host's order.
    pub(crate) fn device_handles(&self) -> impl Iterator<Item = ol_device_handle_t> {
        (0..self.devices.len()).map(|place| self.device_handle(place))
    }

    /// Returns the handles of a platform's devices.
    ///
    /// # Errors
    /// `InvalidPlatform` for a number that is not a handle of a platform.
    pub(crate) fn device_handles_of(
        &self,
        platform: ol_platform_handle_t,
    ) -> Result<Vec<ol_device_handle_t>> {
        self.platform(platform)?;
        let all = self.device_handles().zip(&self.devices);
        let its = all.filter(|(_, device)| self.platform_handle(device.platform()) == platform);
        Ok(its.map(|(handle, _)| handle).collect())
    }

    fn device_handle(&self, place: usize) -> ol_device_handle_t {
        handle::handle::<DeviceObject>(self.cycle, place as u32)
    }
}

/// Returns the requested backends, separated by commas; `None`, for all backends, if the arguments
/// name no platform.
///
/// # Safety
/// As for [`initialize`].
unsafe fn wanted_backends(arguments: *const ol_init_args_t) -> Result<Option<String>> {
    // SAFETY: promised by the caller; an older structure also begins with its size.
    let Some(size) = (unsafe { arguments.cast::<usize>().as_ref() }) else { return Ok(None) };
    if *size < size_of::<ol_init_args_t>() {
        let message = format!(
            "ol_init_args_t has the size {size}, expected at least {}",
            size_of::<ol_init_args_t>()
        );
        return Err(Error::new(ErrorCode::InvalidSize, message));
    }
    // SAFETY: the structure has that size.
    let arguments = unsafe { *arguments };
    if arguments.NumPlatforms == 0 {
        return Ok(None);
    }
    if arguments.Platforms.is_null() {
        let message = format!("ol_init_args_t names {} platforms at null", arguments.NumPlatforms);
        return Err(Error::new(ErrorCode::InvalidNullPointer, message));
    }
    // SAFETY: promised by the caller.
    let platforms =
        unsafe { slice::from_raw_parts(arguments.Platforms, arguments.NumPlatforms as usize) };
    let mut backends = Vec::new();
    for platform in platforms {
        if !ol_platform_backend_t::ALL.iter().any(|(_, known)| known == platform) {
            let message = format!("{} is not an ol_platform_backend_t", platform.0);
            return Err(Error::new(ErrorCode::InvalidEnumeration, message));
        }
        backends.extend(platform::backends_of(*platform));
    }
    backends.extend(platform::backends_of(OL_PLATFORM_BACKEND_HOST));
    backends.dedup();
    Ok(Some(backends.join(",")))
}

#[cold]
fn ended() -> Error {
    Error::new(ErrorCode::Uninitialized, "there was no olInit, or the last olShutDown was called")
}
