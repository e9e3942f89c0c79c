//! Symbols of programs.

use super::kind;
use crate::registry::handle::{Kind, Object};
use crate::registry::table::{ObjectGuard, Table};
use crate::types::structures::{ol_device_handle_t, ol_symbol_handle_t, ol_symbol_impl_t};
use longshore::{Device, Error, ErrorCode, Global, Kernel, Result};

/// All symbols.
pub(crate) static ALL: Table<SymbolObject> = Table::new();

/// A kernel or a global variable.
pub(crate) enum SymbolObject {
    Kernel(KernelObject),
    Global(Global),
}

/// A kernel, and the device of its program.
pub(crate) struct KernelObject {
    pub(crate) kernel: Kernel,
    pub(crate) device: Device,
    /// Handle of the device.
    pub(crate) device_handle: usize,
}

impl KernelObject {
    /// Returns whether the kernel's program is on the device of a handle.
    #[inline]
    pub(crate) fn is_on(&self, device: ol_device_handle_t) -> bool {
        self.device_handle == device as usize
    }
}

impl Object for SymbolObject {
    type Pointee = ol_symbol_impl_t;
    const KIND: Kind = kind::SYMBOL;
}

impl SymbolObject {
    /// Returns the kernel.
    ///
    /// # Errors
    /// `SymbolKind` if the symbol is a variable.
    #[inline]
    pub(crate) fn kernel(&self) -> Result<&Kernel> {
        self.kernel_object().map(|kernel_object| &kernel_object.kernel)
    }

    /// Returns the kernel, with its device.
    ///
    /// # Errors
    /// `SymbolKind` if the symbol is a variable.
    #[inline]
    pub(crate) fn kernel_object(&self) -> Result<&KernelObject> {
        match self {
            SymbolObject::Kernel(kernel) => Ok(kernel),
            SymbolObject::Global(_) => Err(Error::new(
                ErrorCode::SymbolKind,
                "the symbol is a variable, expected a kernel",
            )),
        }
    }

    /// Returns the variable.
    ///
    /// # Errors
    /// `SymbolKind` if the symbol is a kernel.
    pub(crate) fn global(&self) -> Result<&Global> {
        match self {
            SymbolObject::Global(global) => Ok(global),
            SymbolObject::Kernel(KernelObject { kernel, .. }) => {
                let message = format!("'{}' is a kernel, expected a variable", kernel.name());
                Err(Error::new(ErrorCode::SymbolKind, message))
            }
        }
    }
}

/// Returns the symbol of a handle.
///
/// # Errors
/// `InvalidArgument` for a number that is not a handle of a symbol.
#[inline]
pub(crate) fn from_handle(
    handle: ol_symbol_handle_t,
) -> Result<ObjectGuard<'static, SymbolObject>> {
    ALL.get(handle)
}
