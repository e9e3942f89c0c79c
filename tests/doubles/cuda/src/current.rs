//! The stack of current contexts, and the functions for contexts.

use longshore_double_gpu::driver::context::{Context, current, current_or_failed};
use longshore_double_gpu::driver::{
    Code, DriverResult, Out, broken, context, contexts, machine, object,
};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Limits and their maximums. A stack has the hardware's maximum; a printf buffer and a heap have
/// none.
const MOST: [(u32, usize); 5] =
    [(0, 512 << 10), (1, usize::MAX), (2, usize::MAX), (5, usize::MAX), (6, usize::MAX)];
/// Limits and their defaults.
const DEFAULTS: [(u32, usize); 5] = [(0, 1024), (1, 1 << 20), (2, 8 << 20), (5, 64), (6, 0)];

thread_local! {
    /// Handles of this thread's contexts, the current one last. Never dropped, as static
    /// destructors call the driver after the end of this thread.
    static STACK: RefCell<ManuallyDrop<Vec<usize>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Returns the current context.
///
/// # Errors
/// `INVALID_CONTEXT`, a violation, if no context is current.
pub(crate) fn context() -> DriverResult<Arc<Context>> {
    match top() {
        0 => Err(broken(Code::INVALID_CONTEXT, "no context is current")),
        handle => object::get::<Context>(handle).map_err(|_| Code::CONTEXT_IS_DESTROYED),
    }
}

pub(crate) fn retain(context: Out<usize>, device: i32) -> DriverResult {
    let device_index = device;
    let device = machine()?.device(device)?;
    if context.is_null() {
        return context.put(0);
    }
    let mut primary = device.primary.lock();
    let live = match &primary.context {
        Some(live) => Arc::clone(live),
        None => contexts::create(device_index as usize)?,
    };
    primary.context = Some(Arc::clone(&live));
    primary.retained += 1;
    context.put(live.handle)
}

/// Releases the primary context. The last release ends the context.
pub(crate) fn release(device: i32) -> DriverResult {
    let mut primary = machine()?.device(device)?.primary.lock();
    if primary.retained == 0 {
        return Err(broken(
            Code::INVALID_CONTEXT,
            format!("the primary context of device {device} is released more often than retained"),
        ));
    }
    primary.retained -= 1;
    if primary.retained == 0
        && let Some(context) = primary.context.take()
    {
        drop(primary);
        contexts::destroy(&context);
    }
    Ok(())
}

/// Ends all objects of the primary context. Programs that retained it must still release it, and
/// get a new context.
pub(crate) fn reset(device: i32) -> DriverResult {
    let mut primary = machine()?.device(device)?.primary.lock();
    let Some(context) = primary.context.take() else { return Ok(()) };
    contexts::destroy(&context);
    if primary.retained > 0 {
        primary.context = Some(contexts::create(device as usize)?);
    }
    Ok(())
}

pub(crate) fn state(device: i32, flags: Out<u32>, active: Out<i32>) -> DriverResult {
    let primary = machine()?.device(device)?.primary.lock();
    flags.put(0)?;
    active.put(i32::from(primary.context.is_some()))
}

pub(crate) fn get(context: Out<usize>) -> DriverResult {
    context.put(top())
}

/// Replaces the top context of the stack; null only removes the top.
pub(crate) fn set(context: usize) -> DriverResult {
    if context != 0 {
        object::get::<Context>(context)?;
    }
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
    Ok(())
}

pub(crate) fn push(context: usize) -> DriverResult {
    object::get::<Context>(context)?;
    STACK.with_borrow_mut(|stack| stack.push(context));
    Ok(())
}

pub(crate) fn pop(context: Out<usize>) -> DriverResult {
    match STACK.with_borrow_mut(|stack| stack.pop()) {
        Some(handle) => {
            context.put_if_wanted(handle);
            Ok(())
        }
        None => {
            Err(broken(Code::INVALID_CONTEXT, "a context is popped while no context is current"))
        }
    }
}

pub(crate) fn device_of(device: Out<i32>) -> DriverResult {
    device.put(current_or_failed()?.device as i32)
}

pub(crate) fn set_limit(limit: u32, value: usize) -> DriverResult {
    context::set_limit(&MOST, limit, value)
}

pub(crate) fn limit(value: Out<usize>, limit: u32) -> DriverResult {
    context::limit(&DEFAULTS, value, limit)
}

/// Stores a context's unique number; null stands for the current context.
pub(crate) fn id(context: usize, id: Out<u64>) -> DriverResult {
    let context =
        if context == 0 { current_or_failed()? } else { object::get::<Context>(context)? };
    id.put(context.handle as u64 / 0x100)
}

/// Creates a context beside the primary one, and makes it current.
pub(crate) fn create(context: Out<usize>, flags: u32, device: i32) -> DriverResult {
    machine()?.device(device)?;
    if flags & !0xff != 0 {
        return Err(broken(Code::INVALID_VALUE, format!("invalid flags of a context: {flags:#x}")));
    }
    let made = contexts::create(device as usize)?;
    context.put(made.handle)?;
    STACK.with_borrow_mut(|stack| stack.push(made.handle));
    Ok(())
}

pub(crate) fn destroy(context: usize) -> DriverResult {
    let found = object::get::<Context>(context)?;
    let is_primary = machine()?.devices.iter().any(|device| {
        let primary = device.primary.lock();
        primary.context.as_ref().is_some_and(|primary| primary.handle == context)
    });
    if is_primary {
        return Err(broken(Code::INVALID_CONTEXT, "a primary context is destroyed, not released"));
    }
    STACK.with_borrow_mut(|stack| {
        if stack.last() == Some(&context) {
            stack.pop();
        }
    });
    contexts::destroy(&found);
    Ok(())
}

/// Does nothing but check the current context, as profiling has no effect.
pub(crate) fn profile() -> DriverResult {
    current().map(|_| ())
}

/// Returns the top of this thread's stack; 0 for an empty stack.
fn top() -> usize {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// Describes the primary contexts that are not yet released at the end.
pub(crate) fn retained() -> Vec<String> {
    let Ok(machine) = machine() else { return Vec::new() };
    let devices = machine.devices.iter().enumerate();
    let retained = devices.filter_map(|(index, device)| {
        let count = device.primary.lock().retained;
        (count > 0).then(|| format!("primary context of device {index}, retained {count} times"))
    });
    retained.collect()
}
