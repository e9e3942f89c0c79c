//! Symbols of programs.

use super::kind;
use crate::registry::handle::{Kind, Object};
use crate::registry::table::{Held, Table};
use crate::types::structures::{ol_device_handle_t, ol_symbol_handle_t, ol_symbol_impl_t};
use longshore::{Device, Error, ErrorCode, Global, Kernel, Result};

/// All symbols.
pub(crate) static ALL: Table<OfSymbol> = Table::new();

/// A kernel or a global variable.
pub(crate) enum OfSymbol {
    Kernel(OfKernel),
    Global(Global),
}

/// A kernel, and the device that its program is on.
pub(crate) struct OfKernel {
    pub(crate) kernel: Kernel,
    pub(crate) device: Device,
    /// The handle of that device.
    pub(crate) device_handle: usize,
}

impl OfKernel {
    /// Returns whether its program is on the device of a handle.
    #[inline]
    pub(crate) fn is_on(&self, device: ol_device_handle_t) -> bool {
        self.device_handle == device as usize
    }
}

impl Object for OfSymbol {
    type Pointee = ol_symbol_impl_t;
    const KIND: Kind = kind::SYMBOL;
}

impl OfSymbol {
    /// Returns the kernel.
    ///
    /// # Errors
    /// `SymbolKind` if it is a variable.
    #[inline]
    pub(crate) fn kernel(&self) -> Result<&Kernel> {
        self.of_kernel().map(|of_kernel| &of_kernel.kernel)
    }

    /// Returns the kernel, with its device.
    ///
    /// # Errors
    /// `SymbolKind` if it is a variable.
    #[inline]
    pub(crate) fn of_kernel(&self) -> Result<&OfKernel> {
        match self {
            OfSymbol::Kernel(kernel) => Ok(kernel),
            OfSymbol::Global(_) => {
                Err(Error::new(ErrorCode::SymbolKind, "the symbol is a variable, no kernel"))
            }
        }
    }

    /// Returns the variable.
    ///
    /// # Errors
    /// `SymbolKind` if it is a kernel.
    pub(crate) fn global(&self) -> Result<&Global> {
        match self {
            OfSymbol::Global(global) => Ok(global),
            OfSymbol::Kernel(OfKernel { kernel, .. }) => {
                let message = format!("'{}' is a kernel, no variable", kernel.name());
                Err(Error::new(ErrorCode::SymbolKind, message))
            }
        }
    }
}

/// Returns the symbol of a handle.
///
/// # Errors
/// `InvalidArgument`.
#[inline]
pub(crate) fn of_handle(handle: ol_symbol_handle_t) -> Result<Held<'static, OfSymbol>> {
    ALL.get(handle)
}
