//! Modules, and their kernels for which the host has handles.

use super::{guard, lent, take_back};
use crate::abi::{self, ErrorObject, ModuleHandle};
use crate::backend::{Module, Plugin};
use crate::error::Result;
use crate::raw::{read_name, text};
use crate::request::KernelAttributes;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// A module and its kernels for which the host has handles: the handles live as long as the module.
pub(super) struct ModuleObject<P: Plugin> {
    pub(super) module: P::Module,
    kernels: Mutex<HashMap<String, KernelObject<P>>>,
}

struct KernelObject<P: Plugin> {
    kernel: Arc<P::Kernel>,
    attributes: KernelAttributes,
    /// The words of the arguments' types.
    types: Vec<u32>,
}

impl<P: Plugin> ModuleObject<P> {
    pub(super) fn new(module: P::Module) -> Self {
        ModuleObject { module, kernels: Mutex::default() }
    }

    /// Takes a module back, without its kernels.
    ///
    /// # Safety
    /// As for [`take_back`].
    pub(super) unsafe fn take_module(handle: *mut ModuleHandle) -> P::Module {
        // SAFETY: promised by the caller.
        let object = unsafe { take_back::<Self, _>(handle) };
        drop(object.kernels);
        object.module
    }

    /// Returns the attributes of a kernel, which the first call looks up.
    fn kernel(&self, name: &str) -> Result<abi::KernelInfo> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        match kernels.entry(name.to_owned()) {
            Entry::Occupied(held) => Ok(held.get().info()),
            Entry::Vacant(place) => {
                let (kernel, attributes) = self.module.kernel(name)?;
                let types = attributes.argument_types.iter().map(|one| one.word()).collect();
                Ok(place.insert(KernelObject { kernel, attributes, types }).info())
            }
        }
    }
}

impl<P: Plugin> KernelObject<P> {
    fn info(&self) -> abi::KernelInfo {
        let attributes = &self.attributes;
        let sizes = attributes.argument_sizes.as_deref();
        abi::KernelInfo {
            handle: Arc::as_ptr(&self.kernel).cast_mut().cast(),
            address: attributes.address,
            code_bytes: attributes.code_bytes,
            argument_sizes: sizes.map_or(std::ptr::null(), <[u32]>::as_ptr),
            argument_types: match self.types.is_empty() {
                true => std::ptr::null(),
                false => self.types.as_ptr(),
            },
            declaration: text(&attributes.declaration),
            argument_count: sizes.map_or(0, |sizes| sizes.len() as u32),
            max_group_items: attributes.max_group_items,
            static_shared_bytes: attributes.static_shared_bytes,
            private_bytes: attributes.private_bytes,
            registers: attributes.registers,
            required_group: attributes.required_group,
        }
    }
}

/// Implements `kernel` of the table: a handle lives as long as the module, so the module's object
/// keeps the kernel.
pub(crate) unsafe extern "C" fn kernel<P: Plugin>(
    module: *mut ModuleHandle,
    name: abi::Text,
    kernel: *mut abi::KernelInfo,
) -> *mut ErrorObject {
    // SAFETY: a loaded module, a readable name and a place to write to.
    guard::<P>("module.kernel", || unsafe {
        kernel.write(lent::<ModuleObject<P>, _>(module).kernel(read_name(name)?)?);
        Ok(())
    })
}
