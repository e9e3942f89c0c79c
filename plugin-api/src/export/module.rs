//! "longshore.module", "longshore.arguments" and "longshore.instrumentation".

use super::{guard, lent, take_back};
use crate::abi::{self, ErrorObject, ModuleHandle};
use crate::backend::{Module, Plugin};
use crate::error::{Error, ErrorCode, Result};
use crate::raw::{bytes, read_bytes, text, write_sink};
use crate::request::KernelAttributes;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// A module and the kernels of it that were handed out: their handles live as long as it does.
pub(super) struct ModuleObject<P: Plugin> {
    module: P::Module,
    kernels: Mutex<HashMap<String, HeldKernel<P>>>,
}

struct HeldKernel<P: Plugin> {
    kernel: Arc<P::Kernel>,
    attributes: KernelAttributes,
}

impl<P: Plugin> ModuleObject<P> {
    pub(super) fn new(module: P::Module) -> Self {
        ModuleObject { module, kernels: Mutex::default() }
    }

    /// Calls `body` with a kernel, which is looked up the first time.
    fn with_kernel<T>(&self, name: &str, body: impl FnOnce(&HeldKernel<P>) -> T) -> Result<T> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        match kernels.entry(name.to_owned()) {
            Entry::Occupied(held) => Ok(body(held.get())),
            Entry::Vacant(place) => {
                let (kernel, attributes) = self.module.kernel(name)?;
                Ok(body(place.insert(HeldKernel { kernel, attributes })))
            }
        }
    }
}

impl<P: Plugin> HeldKernel<P> {
    fn info(&self) -> abi::KernelInfo {
        let attributes = &self.attributes;
        let sizes = attributes.argument_sizes.as_deref();
        abi::KernelInfo {
            handle: Arc::as_ptr(&self.kernel).cast_mut().cast(),
            address: attributes.address,
            code_bytes: attributes.code_bytes,
            argument_sizes: sizes.map_or(std::ptr::null(), <[u32]>::as_ptr),
            argument_count: sizes.map_or(0, |sizes| sizes.len() as u32),
            max_group_items: attributes.max_group_items,
            static_shared_bytes: attributes.static_shared_bytes,
            private_bytes: attributes.private_bytes,
            registers: attributes.registers,
            required_group: attributes.required_group,
        }
    }
}

pub(super) const fn table<P: Plugin>() -> &'static abi::ModuleTable {
    &abi::ModuleTable {
        kernel: kernel::<P>,
        global: global::<P>,
        symbols: symbols::<P>,
        run_constructors: run_constructors::<P>,
        run_destructors: run_destructors::<P>,
        unload: unload::<P>,
    }
}

pub(super) const fn arguments_table<P: Plugin>() -> &'static abi::ArgumentsTable {
    &abi::ArgumentsTable { describe: describe_arguments::<P> }
}

pub(super) const fn instrumentation_table<P: Plugin>() -> &'static abi::InstrumentationTable {
    &abi::InstrumentationTable { pool_tracker: pool_tracker::<P>, profile: profile::<P> }
}

/// The module behind a handle.
///
/// # Safety
/// `module` is a module of ours that is still loaded.
unsafe fn of<'a, P: Plugin>(module: *mut ModuleHandle) -> &'a ModuleObject<P> {
    // SAFETY: promised by the caller.
    unsafe { lent(module) }
}

fn name_of<'a>(name: abi::Text) -> Result<&'a str> {
    // SAFETY: the host passes a readable string.
    let name = unsafe { read_bytes(abi::Bytes { data: name.data, bytes: name.bytes }) };
    std::str::from_utf8(name)
        .map_err(|_| Error::new(ErrorCode::NotFound, "the symbol's name is not UTF-8"))
}

unsafe extern "C" fn kernel<P: Plugin>(
    module: *mut ModuleHandle,
    name: abi::Text,
    kernel: *mut abi::KernelInfo,
) -> *mut ErrorObject {
    // SAFETY: a loaded module and a place to write to.
    guard::<P>("module.kernel", || unsafe {
        kernel.write(of::<P>(module).with_kernel(name_of(name)?, HeldKernel::info)?);
        Ok(())
    })
}

unsafe extern "C" fn global<P: Plugin>(
    module: *mut ModuleHandle,
    name: abi::Text,
    global: *mut abi::GlobalInfo,
) -> *mut ErrorObject {
    // SAFETY: a loaded module and a place to write to.
    guard::<P>("module.global", || unsafe {
        let found = of::<P>(module).module.global(name_of(name)?)?;
        global.write(abi::GlobalInfo { address: found.address, bytes: found.bytes });
        Ok(())
    })
}

unsafe extern "C" fn symbols<P: Plugin>(
    module: *mut ModuleHandle,
    visitor: abi::SymbolVisitor,
) -> *mut ErrorObject {
    // SAFETY: a loaded module, and the visitor of this call.
    guard::<P>("module.symbols", || unsafe {
        for (name, kind) in of::<P>(module).module.symbols()? {
            (visitor.visit)(visitor.context, text(&name), kind as u32);
        }
        Ok(())
    })
}

unsafe extern "C" fn run_constructors<P: Plugin>(module: *mut ModuleHandle) -> *mut ErrorObject {
    guard::<P>("module.run_constructors", || {
        // SAFETY: a loaded module.
        unsafe { of::<P>(module) }.module.run_constructors()
    })
}

unsafe extern "C" fn run_destructors<P: Plugin>(module: *mut ModuleHandle) -> *mut ErrorObject {
    guard::<P>("module.run_destructors", || {
        // SAFETY: a loaded module.
        unsafe { of::<P>(module) }.module.run_destructors()
    })
}

unsafe extern "C" fn unload<P: Plugin>(module: *mut ModuleHandle) -> *mut ErrorObject {
    guard::<P>("module.unload", || {
        // SAFETY: a loaded module, used no more.
        let object = unsafe { take_back::<ModuleObject<P>, _>(module) };
        drop(object.kernels);
        object.module.unload()
    })
}

unsafe extern "C" fn describe_arguments<P: Plugin>(
    module: *mut ModuleHandle,
    kernel: abi::Text,
    types: abi::Sink,
    declaration: abi::Sink,
) -> *mut ErrorObject {
    // SAFETY: a loaded module, and the sinks of this call.
    guard::<P>("arguments.describe", || unsafe {
        of::<P>(module).with_kernel(name_of(kernel)?, |held| {
            let words = held.attributes.argument_types.iter();
            let words: Vec<u8> = words.flat_map(|one| one.word().to_le_bytes()).collect();
            write_sink(types, &words);
            write_sink(declaration, held.attributes.declaration.as_bytes());
        })
    })
}

unsafe extern "C" fn pool_tracker<P: Plugin>(
    module: *mut ModuleHandle,
    tracker: *mut abi::PoolTracker,
    present: *mut u32,
) -> *mut ErrorObject {
    // SAFETY: a loaded module and places to write to.
    guard::<P>("module.pool_tracker", || unsafe {
        let found = of::<P>(module).module.pool_tracker()?;
        present.write(u32::from(found.is_some()));
        if let Some(found) = found {
            tracker.write(found);
        }
        Ok(())
    })
}

unsafe extern "C" fn profile<P: Plugin>(
    module: *mut ModuleHandle,
    visitor: abi::ProfileVisitor,
) -> *mut ErrorObject {
    // SAFETY: a loaded module, and the visitor of this call.
    guard::<P>("module.profile", || unsafe {
        for section in of::<P>(module).module.profile()? {
            let contents = bytes(&section.contents);
            (visitor.visit)(visitor.context, section.kind as u32, section.address, contents);
        }
        Ok(())
    })
}
