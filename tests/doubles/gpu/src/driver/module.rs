//! Modules: the load of an image, and look-ups in it.

use super::context::{Context, current, current_or_failed};
use super::image::{Contents, Image, Refusal, Variable};
use super::loader::{Loader, Variables};
use super::memory::release;
use super::object::{self, Object};
use super::{Code, DriverResult, Limits, Out, Scope, Text, broken, driver, machine, twin};
use crate::protocol::Request;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A loaded image.
pub struct Module {
    pub(crate) handle: usize,
    context: usize,
    /// Number of the module in the GPU process.
    pub number: u64,
    /// Contents of the image.
    pub contents: Contents,
    /// Limits of the module's device.
    pub(crate) limits: Limits,
    variables: Variables,
    /// Handles of the requested functions, by name.
    pub(crate) functions: Mutex<BTreeMap<String, usize>>,
}

impl Object for Module {
    const KIND: &'static str = "module";

    fn context_handle(&self) -> usize {
        self.context
    }
}

impl Module {
    /// Returns the program's handle of the module.
    pub fn handle(&self) -> usize {
        self.handle
    }

    /// Returns the address of a variable, even of one that programs cannot find.
    pub fn address_of(&self, variable: &str) -> Option<u64> {
        self.variables.real.get(variable).copied()
    }
}

/// Loads an image into the current context. Blocks.
///
/// # Errors
/// The context's failure, or the reason why `image` cannot be loaded.
pub fn load(
    module: Out<usize>,
    image: impl FnOnce() -> Result<Image, Refusal>,
) -> Result<Arc<Module>, Refusal> {
    let context = current()?;
    if module.is_null() {
        return Err(
            broken(Code::INVALID_VALUE, "the module is to be written to a null pointer").into()
        );
    }
    let loaded = image().and_then(|image| load_image(&context, image));
    let made = loaded.inspect_err(|refusal| driver().vendor.refused(refusal))?;
    module.put(made.handle)?;
    Ok(made)
}

/// Unloads a module. Waits for its context.
pub fn unload(module: usize) -> DriverResult {
    let current = current_or_failed()?;
    let module = object::remove::<Module>(module)?;
    if module.context != current.handle && driver().vendor.scope() == Scope::Context {
        return Err(broken(Code::INVALID_CONTEXT, "a module of another context is unloaded"));
    }
    let context = object::get::<Context>(module.context)?;
    context.wait();
    for function in module.functions.lock().values() {
        object::end(*function);
    }
    release_variables(&module.variables);
    let unloaded = context.ask(&Request::Unload { module: module.number });
    if let Err(fault) = unloaded {
        context.fail(&fault);
    }
    context.check()
}

/// Stores the address and the size of a variable.
pub fn global(address: Out<u64>, bytes: Out<usize>, module: usize, name: Text) -> DriverResult {
    current()?;
    let module = object::get::<Module>(module)?;
    let name = name.get()?;
    let is_it = |variable: &&Variable| variable.name == name && variable.is_seen;
    let variable = module.contents.variables.iter().find(is_it).ok_or(Code::NOT_FOUND)?;
    address.put_if_wanted(module.variables.seen[&name]);
    bytes.put_if_wanted(variable.bytes as usize);
    Ok(())
}

fn load_image(context: &Arc<Context>, image: Image) -> Result<Arc<Module>, Refusal> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let object = twin::as_object(twin::for_image(&image)?);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let loader = Loader { context, module: number, contents: &image.contents };
    context.ask(&Request::Load { module: number, object }).map_err(|fault| {
        let log = format!("the double's twin of this image cannot be loaded: {}\n", fault.message);
        Refusal::new(image.refused, log)
    })?;
    let mut variables = Variables::default();
    if let Err(refusal) = loader.place(&mut variables) {
        release_variables(&variables);
        let _ = context.ask(&Request::Unload { module: number });
        return Err(refusal);
    }
    let limits = machine()?.devices[context.device].limits;
    Ok(object::add(|handle| Module {
        handle,
        context: context.handle,
        number,
        contents: image.contents,
        limits,
        variables,
        functions: Mutex::default(),
    }))
}

fn release_variables(variables: &Variables) {
    let Ok(machine) = machine() else { return };
    for address in variables.seen.values().chain(variables.real.values()) {
        if let Some(block) = machine.blocks.find(*address) {
            release(machine, &block);
        }
    }
}
