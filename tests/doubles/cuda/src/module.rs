//! Modules: loading an image, and what it has.

use crate::code::{Answer, Code};
use crate::context::Context;
use crate::current::{current, current_or_failed};
use crate::driver::{broken, driver, machine};
use crate::function::Function;
use crate::image::{Image, Refusal};
use crate::jit::Jit;
use crate::loader::{Loader, Variables};
use crate::memory::release;
use crate::object::{self, Object};
use crate::twin;
use crate::value::{In, Options, Out, Text};
use longshore_cuda_image::{Contents, Linkage, Variable};
use longshore_double_gpu::protocol::Request;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const LAZY_LOADING: u32 = 2;

/// A loaded image.
pub(crate) struct Module {
    pub(crate) handle: usize,
    context: usize,
    /// What the GPU process knows it as.
    pub(crate) number: u64,
    pub(crate) contents: Contents,
    variables: Variables,
    /// Handles by name, of the functions that were asked for.
    functions: Mutex<BTreeMap<String, usize>>,
}

impl Module {
    pub(crate) fn context_handle(&self) -> usize {
        self.context
    }

    /// The address of a variable, also of one that programs do not find.
    pub(crate) fn address_of(&self, variable: &str) -> Option<u64> {
        self.variables.real.get(variable).copied()
    }
}

pub(crate) fn load(module: Out<usize>, image: In<c_void>, options: Options) -> Answer {
    let context = current()?;
    let jit = Jit::new(options)?;
    if image.address() == 0 || module.is_null() {
        return Err(broken(Code::INVALID_VALUE, "no image, or nobody wants the module"));
    }
    let loaded = Image::at(image.address(), machine()?).and_then(|image| {
        let log = describe(&image);
        load_image(&context, image).map(|module| (module, log))
    });
    match loaded {
        Ok((made, log)) => {
            if jit.is_verbose {
                jit.inform(&log);
            }
            module.put(made.handle)
        }
        Err(refusal) => {
            jit.complain(&refusal.log);
            Err(refusal.code)
        }
    }
}

/// Waits for the context.
pub(crate) fn unload(module: usize) -> Answer {
    let context = current_or_failed()?;
    let module = object::remove_module(module)?;
    if module.context != context.handle {
        return Err(broken(Code::INVALID_CONTEXT, "a module of another context is unloaded"));
    }
    context.wait();
    for function in module.functions.lock().values() {
        driver().handles.remove(*function);
    }
    release_variables(&module.variables);
    let unloaded = context.ask(&Request::Unload { module: module.number });
    if let Err(fault) = unloaded {
        context.fail(&fault);
    }
    context.check()
}

pub(crate) fn function(function: Out<usize>, module: usize, name: Text) -> Answer {
    current()?;
    let module = object::module(module)?;
    let name = name.get()?;
    if !module.contents.kernels.iter().any(|kernel| kernel.name == name) {
        return Err(Code::NOT_FOUND);
    }
    function.put(handle_of(&module, &name))
}

pub(crate) fn global(address: Out<u64>, bytes: Out<usize>, module: usize, name: Text) -> Answer {
    current()?;
    let module = object::module(module)?;
    let name = name.get()?;
    let is_seen =
        |variable: &&Variable| variable.name == name && variable.linkage != Linkage::Internal;
    let variable = module.contents.variables.iter().find(is_seen).ok_or(Code::NOT_FOUND)?;
    address.put_if_wanted(module.variables.seen[&name]);
    bytes.put_if_wanted(variable.bytes as usize);
    Ok(())
}

pub(crate) fn loading_mode(mode: Out<u32>) -> Answer {
    mode.put(LAZY_LOADING)
}

pub(crate) fn function_count(count: Out<u32>, module: usize) -> Answer {
    current()?;
    count.put(object::module(module)?.contents.kernels.len() as u32)
}

pub(crate) fn enumerate(functions: *mut usize, count: u32, module: usize) -> Answer {
    current()?;
    let module = object::module(module)?;
    if functions.is_null() {
        return Err(broken(Code::INVALID_VALUE, "functions are to be written to a null pointer"));
    }
    for (index, kernel) in module.contents.kernels.iter().take(count as usize).enumerate() {
        let handle = handle_of(&module, &kernel.name);
        // SAFETY: the program passed room for so many.
        unsafe { functions.add(index).write_unaligned(handle) };
    }
    Ok(())
}

/// The same handle each time.
fn handle_of(module: &Arc<Module>, name: &str) -> usize {
    let mut functions = module.functions.lock();
    if let Some(handle) = functions.get(name) {
        return *handle;
    }
    let made = object::add(|handle| Function::new(handle, module, name));
    functions.insert(name.to_owned(), made.handle);
    made.handle
}

fn load_image(context: &Arc<Context>, image: Image) -> Result<Arc<Module>, Refusal> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    image.check_complete()?;
    let machine = machine().map_err(|code| Refusal::new(code, ""))?;
    let object = twin::as_object(twin::of(&image, machine)?);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let loader = Loader { context, module: number, contents: &image.contents };
    context.ask(&Request::Load { module: number, object }).map_err(|fault| {
        let log = format!("the double's twin of this image cannot be loaded: {}\n", fault.message);
        Refusal::new(if image.is_ptx { Code::INVALID_PTX } else { Code::INVALID_IMAGE }, log)
    })?;
    let mut variables = Variables::default();
    if let Err(refusal) = loader.place(&mut variables) {
        release_variables(&variables);
        let _ = context.ask(&Request::Unload { module: number });
        return Err(refusal);
    }
    Ok(object::add(|handle| Module {
        handle,
        context: context.handle,
        number,
        contents: image.contents,
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

/// What the assembler tells of an image that it took.
fn describe(image: &Image) -> String {
    let arch = image.contents.arch.map(|arch| arch.to_string()).unwrap_or_default();
    let lines = image.contents.kernels.iter().map(|kernel| {
        let (name, registers) = (&kernel.name, kernel.registers.unwrap_or(0));
        let shared = kernel.static_shared_bytes.unwrap_or(0);
        format!(
            "ptxas info    : Compiling entry function '{name}' for '{arch}'\n\
             ptxas info    : Used {registers} registers, {shared} bytes smem\n"
        )
    });
    lines.collect()
}

/// The module that a function is of.
///
/// # Errors
/// `INVALID_HANDLE` if it was unloaded.
pub(crate) fn of_function(handle: usize) -> Answer<Arc<Module>> {
    match driver().handles.get(handle) {
        Some(Object::Module(module)) => Ok(module),
        _ => Err(broken(Code::INVALID_HANDLE, "a function of a module that was unloaded")),
    }
}
