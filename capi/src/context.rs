//! What olInit makes and the last olShutDown ends.

use crate::device::OfDevice;
use crate::enumerations::*;
use crate::handle::Table;
use crate::platform::{self, OfPlatform};
use crate::structures::*;
use crate::{event, program, queue, symbol};
use arc_swap::{ArcSwapOption, Guard};
use longshore::{Error, ErrorCode, Host, Result};
use parking_lot::Mutex;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What there is between olInit and olShutDown, but for what is made and destroyed, which is in tables.
pub(crate) struct Context {
    pub(crate) host: Host,
    pub(crate) platforms: Vec<OfPlatform>,
    pub(crate) devices: Vec<OfDevice>,
    /// How many there were before, for handles not to be those of an earlier one.
    pub(crate) cycle: u32,
}

static CONTEXT: ArcSwapOption<Context> = ArcSwapOption::const_empty();
static STATE: AtomicU64 = AtomicU64::new(0);
static COUNT: Mutex<Count> = Mutex::new(Count { users: 0, cycles: 0 });

struct Count {
    users: usize,
    cycles: u32,
}

/// How the library is used now: flags, and above them the cycle.
#[derive(Clone, Copy)]
pub(crate) struct State(u64);

impl State {
    const INITIALIZED: u64 = 1;
    const TRACED: u64 = 2;
    const SKIPS_CHECKS: u64 = 4;
    const CYCLE_SHIFT: u32 = 8;

    #[inline]
    pub(crate) fn is_initialized(self) -> bool {
        self.0 & State::INITIALIZED != 0
    }

    #[inline]
    pub(crate) fn is_traced(self) -> bool {
        self.0 & State::TRACED != 0
    }

    #[inline]
    pub(crate) fn skips_checks(self) -> bool {
        self.0 & State::SKIPS_CHECKS != 0
    }

    fn of_environment() -> u64 {
        // The caller of a program with more rights must not choose what is checked.
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

/// How the library is used now.
#[inline]
pub(crate) fn state() -> State {
    State(STATE.load(Ordering::Relaxed))
}

/// A context that lives until this is dropped.
pub(crate) struct Current(Guard<Option<Arc<Context>>>);

impl std::ops::Deref for Current {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        self.0.as_ref().expect("`current` has looked")
    }
}

/// The context.
///
/// # Errors
/// `Uninitialized` if there is none.
#[inline]
pub(crate) fn current() -> Result<Current> {
    let context = CONTEXT.load();
    match context.is_some() {
        true => Ok(Current(context)),
        false => Err(ended()),
    }
}

/// Puts an object that was made in a cycle into a table.
///
/// # Errors
/// Those of [`Table::insert`]; `Uninitialized` if the cycle has ended.
pub(crate) fn keep<T, H>(table: &Table<T>, object: T, cycle: u32) -> Result<*mut H> {
    let handle = table.insert(object)?;
    // The last olShutDown ends the cycle and then clears the tables, so one of both sees what the other has done.
    if STATE.load(Ordering::SeqCst) >> State::CYCLE_SHIFT == u64::from(cycle) {
        return Ok(handle);
    }
    let _ = table.remove(handle);
    Err(ended())
}

/// `olInit`.
///
/// # Errors
/// Those of [`Host::new`]; `InvalidSize`, `InvalidNullPointer` and `InvalidEnumeration` for arguments.
///
/// # Safety
/// The pointer is null or points to arguments, and to as many platforms as they say.
pub(crate) unsafe fn initialize(arguments: *const ol_init_args_t) -> Result<()> {
    let mut count = COUNT.lock();
    if count.users == 0 {
        let state = State::of_environment();
        // SAFETY: promised by the caller.
        let backends = unsafe { wanted_backends(arguments) }?;
        let mut builder = Host::builder();
        if let Some(backends) = backends {
            builder = builder.backends_if_there(backends);
        }
        let context = Context::new(builder.build()?, count.cycles);
        CONTEXT.store(Some(Arc::new(context)));
        STATE.store(state | u64::from(count.cycles) << State::CYCLE_SHIFT, Ordering::Release);
    }
    count.users += 1;
    Ok(())
}

/// `olShutDown`.
///
/// # Errors
/// The first of closing the devices; all are closed.
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
    let closed = context.devices.iter().map(OfDevice::close).fold(Ok(()), Result::and);
    event::ALL.clear();
    symbol::ALL.clear();
    program::ALL.clear();
    queue::ALL.clear();
    closed
}

impl Context {
    fn new(host: Host, cycle: u32) -> Context {
        let (platforms, devices) = platform::all(&host);
        Context { host, platforms, devices, cycle }
    }
}

/// Which backends may be used; all, if none is named.
///
/// # Safety
/// As for [`initialize`].
unsafe fn wanted_backends(arguments: *const ol_init_args_t) -> Result<Option<String>> {
    // SAFETY: promised by the caller; an older structure begins with its size too.
    let Some(size) = (unsafe { arguments.cast::<usize>().as_ref() }) else { return Ok(None) };
    if *size < size_of::<ol_init_args_t>() {
        let message = format!(
            "ol_init_args_t says that its size is {size}, expected at least {}",
            size_of::<ol_init_args_t>()
        );
        return Err(Error::new(ErrorCode::InvalidSize, message));
    }
    // SAFETY: it has that size.
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
            let message = format!("{} is no ol_platform_backend_t", platform.0);
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
