//! The current device, and the targets of devices.

use longshore_double_gpu::Settings;
use longshore_double_gpu::driver::context::{self, Context};
use longshore_double_gpu::driver::{DriverResult, Out, contexts, machine};
use longshore_format_amdgpu::Target;
use std::cell::Cell;
use std::sync::Arc;

/// Limits and their maximums. A stack has the hardware's maximum; a heap has none.
const LIMITS: [(u32, usize); 2] = [(0, (128 << 10) - 16), (2, usize::MAX)];

thread_local! {
    static CURRENT: Cell<i32> = const { Cell::new(0) };
}

/// Returns the context of the current device.
///
/// # Errors
/// `OPERATING_SYSTEM` if its GPU process does not start.
pub(crate) fn context() -> DriverResult<Arc<Context>> {
    context_of(CURRENT.get())
}

/// Returns the only context of a device. Blocks while the context is created.
///
/// # Errors
/// `INVALID_DEVICE`; `OPERATING_SYSTEM` if its GPU process does not start.
pub(crate) fn context_of(device: i32) -> DriverResult<Arc<Context>> {
    let mut primary = machine()?.device(device)?.primary.lock();
    if let Some(context) = &primary.context {
        return Ok(Arc::clone(context));
    }
    let made = contexts::create(device as usize)?;
    primary.context = Some(Arc::clone(&made));
    Ok(made)
}

pub(crate) fn get(device: Out<i32>) -> DriverResult {
    device.put(CURRENT.get())
}

pub(crate) fn set(device: i32) -> DriverResult {
    machine()?.device(device)?;
    CURRENT.set(device);
    Ok(())
}

pub(crate) fn set_limit(limit: u32, value: usize) -> DriverResult {
    context::set_limit(&LIMITS, limit, value)
}

/// Returns the target of a device.
///
/// # Panics
/// If the setting is not a target, as a test relies on its settings.
pub(crate) fn target_of(settings: &Settings, device: usize) -> Target {
    let targets: Vec<&str> = settings.list("target").collect();
    let last = targets.last().copied().unwrap_or("gfx90a:sramecc+:xnack-");
    let text = targets.get(device).copied().unwrap_or(last);
    Target::parse(text).unwrap_or_else(|error| panic!("'target={text}': {error}"))
}
