//! Kernels and globals of a program.

use super::{Program, unloaded};
use crate::gated::Pass;
use crate::memory::{DevicePointer, Element};
use crate::queue::Queue;
use longshore_plugin_api::remote::{RemoteKernel, RemoteModule};
use longshore_plugin_api::{
    Error, ErrorCode, GlobalAddress, KernelAttributes, Module as _, Result,
};
use std::sync::Arc;

/// A kernel of a program, which it keeps loaded. Cloning is cheap. LLVM: `ol_symbol_handle_t` of
/// kind `OL_SYMBOL_KIND_KERNEL`.
#[derive(Clone)]
pub struct Kernel {
    program: Program,
    facts: Arc<Facts>,
}

struct Facts {
    name: String,
    remote: Arc<RemoteKernel>,
    attributes: KernelAttributes,
}

impl Kernel {
    pub(super) fn find(program: &Program, name: &str) -> Result<Kernel> {
        let module = program.core().module.enter(0).ok_or_else(unloaded)?;
        let (remote, attributes) = module.kernel(name)?;
        let facts = Facts { name: name.to_owned(), remote, attributes };
        Ok(Kernel { program: program.clone(), facts: Arc::new(facts) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The program that it belongs to.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What the image and the device say of it.
    pub fn attributes(&self) -> &KernelAttributes {
        &self.facts.attributes
    }

    /// The plugin's kernel; valid while the module is entered.
    pub(crate) fn remote(&self) -> &RemoteKernel {
        &self.facts.remote
    }

    /// Keeps the module from being unloaded until the answer is dropped.
    ///
    /// # Errors
    /// `Uninitialized` if it was unloaded.
    pub(crate) fn enter(&self) -> Result<Pass<'_, RemoteModule, 8>> {
        self.program.core().module.enter(0).ok_or_else(unloaded)
    }

    /// Holds the arguments' sizes against the image's description, if it has one.
    ///
    /// # Errors
    /// `InvalidArgument` for a wrong number, `InvalidSize` for a wrong size.
    #[inline]
    pub(crate) fn check_arguments(&self, sizes: &[usize]) -> Result<()> {
        let Some(described) = &self.facts.attributes.argument_sizes else {
            return Ok(());
        };
        let equal = described.len() == sizes.len()
            && described.iter().zip(sizes).all(|(described, given)| *described as usize == *given);
        if equal { Ok(()) } else { Err(self.misfit(described, sizes)) }
    }

    #[cold]
    fn misfit(&self, described: &[u32], sizes: &[usize]) -> Error {
        let name = self.name();
        if described.len() != sizes.len() {
            let (expected, given) = (described.len(), sizes.len());
            let message = format!("kernel '{name}' takes {expected} arguments, {given} were given");
            return Error::new(ErrorCode::InvalidArgument, message);
        }
        let message =
            format!("kernel '{name}' takes arguments of {described:?} bytes, {sizes:?} were given");
        Error::new(ErrorCode::InvalidSize, message)
    }
}

/// A global variable of a program, which it keeps loaded. LLVM: `ol_symbol_handle_t` of kind
/// `OL_SYMBOL_KIND_GLOBAL_VARIABLE`.
#[derive(Clone)]
pub struct Global {
    program: Program,
    address: GlobalAddress,
}

impl Global {
    pub(super) fn find(program: &Program, name: &str) -> Result<Global> {
        let core = program.core();
        let module = core.module.enter(0).ok_or_else(unloaded)?;
        let address = module.global(name)?;
        let device = program.device();
        device.table().insert_global(device.id(), core.id, address.address, address.bytes);
        Ok(Global { program: program.clone(), address })
    }

    /// The program that it belongs to.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its address on the device.
    pub fn pointer(&self) -> DevicePointer {
        DevicePointer(self.address.address)
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.address.bytes
    }

    /// Its value, after all that is in `queue`. Blocks until it is read.
    ///
    /// # Errors
    /// `InvalidSize` if it is not as large as a `T`; those of
    /// [`Queue::synchronize`](crate::Queue::synchronize).
    pub fn read<T: Element>(&self, queue: &Queue) -> Result<T> {
        self.fits::<T>()?;
        let mut value = T::zeroed();
        // SAFETY: any bytes are a `T`, and `value` is borrowed exclusively here.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut value).cast::<u8>(), size_of::<T>())
        };
        let _loaded = self.program.core().module.enter(0).ok_or_else(unloaded)?;
        queue.read_from(self.pointer(), self.program.device(), bytes)?;
        Ok(value)
    }

    /// Sets its value, after all that is in `queue`. Blocks until it is written.
    ///
    /// # Errors
    /// As for [`Global::read`].
    pub fn write<T: Element>(&self, queue: &Queue, value: T) -> Result<()> {
        self.fits::<T>()?;
        let _loaded = self.program.core().module.enter(0).ok_or_else(unloaded)?;
        queue.write_to(self.pointer(), self.program.device(), bytemuck::bytes_of(&value))
    }

    fn fits<T>(&self) -> Result<()> {
        if self.bytes() == size_of::<T>() as u64 {
            return Ok(());
        }
        let message =
            format!("the global has {} bytes, the value {}", self.bytes(), size_of::<T>());
        Err(Error::new(ErrorCode::InvalidSize, message))
    }
}
