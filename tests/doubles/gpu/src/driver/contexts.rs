//! Creation and end of contexts.

use super::blocks::Block;
use super::context::Context;
use super::memory::release;
use super::state::print_error;
use super::{Code, DriverResult, driver, machine, object};
use crate::{Gpu, HasKind as _};
use std::sync::Arc;

/// Creates a context and its GPU process. Blocks until the process runs.
///
/// # Errors
/// `OPERATING_SYSTEM` if the process does not start.
pub fn create(device: usize) -> DriverResult<Arc<Context>> {
    let machine = machine()?;
    let gpu = Gpu::start(machine.program(), machine.windows()).map_err(|error| {
        print_error(&error);
        Code::OPERATING_SYSTEM
    })?;
    let context = object::add(|handle| Context::new(handle, device, gpu));
    machine.contexts.lock().push(Arc::clone(&context));
    for block in machine.blocks.select(Block::is_shared) {
        block.show_to(&context, true);
    }
    Ok(context)
}

/// Ends a context and all objects in it. Running work is stopped.
pub fn destroy(context: &Context) {
    let Ok(machine) = machine() else { return };
    object::end(context.handle);
    machine.contexts.lock().retain(|other| other.handle != context.handle);
    context.stop();
    lose_objects(context);
    lose_blocks(context);
}

fn lose_objects(context: &Context) {
    for (handle, object) in object::live() {
        if object.context == context.handle {
            object::end(handle);
            if object.is_of_program {
                lose(context, format!("{} {handle:#x}", object.kind()));
            }
        }
    }
}

fn lose_blocks(context: &Context) {
    let Ok(machine) = machine() else { return };
    for block in machine.blocks.select(|block| block.context.handle == context.handle) {
        if block.is_of_program() && !block.is_ending() {
            lose(context, block.describe());
        }
        release(machine, &block);
    }
}

/// Records an object as lost, unless a kernel failed before: the program cannot free objects then.
fn lose(context: &Context, what: String) {
    if context.check().is_ok() {
        driver().lost.lock().push(what);
    }
}
