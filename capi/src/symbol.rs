//! Symbols of programs.

use crate::context::{self, current};
use crate::enumerations::*;
use crate::handle::{Held, Kind, Table};
use crate::info::{self, Answer};
use crate::program;
use crate::structures::*;
use longshore::{Device, Error, ErrorCode, Global, Kernel, Result, SymbolKind};
use std::ffi::{CStr, c_char};

/// All symbols.
pub(crate) static ALL: Table<OfSymbol> = Table::new(Kind::Symbol);

/// A kernel or a global variable.
pub(crate) enum OfSymbol {
    Kernel(OfKernel),
    Global(Global),
}

/// A kernel, and the device that its program is on.
pub(crate) struct OfKernel {
    pub(crate) kernel: Kernel,
    pub(crate) device: Device,
    device_handle: usize,
}

impl OfKernel {
    /// Whether its program is on the device of a handle.
    #[inline]
    pub(crate) fn is_on(&self, device: ol_device_handle_t) -> bool {
        self.device_handle == device as usize
    }
}

impl OfSymbol {
    /// # Errors
    /// `SymbolKind` if it is a variable.
    #[inline]
    pub(crate) fn kernel(&self) -> Result<&Kernel> {
        self.of_kernel().map(|of_kernel| &of_kernel.kernel)
    }

    /// # Errors
    /// The same.
    #[inline]
    pub(crate) fn of_kernel(&self) -> Result<&OfKernel> {
        match self {
            OfSymbol::Kernel(kernel) => Ok(kernel),
            OfSymbol::Global(_) => {
                Err(Error::new(ErrorCode::SymbolKind, "the symbol is a variable, no kernel"))
            }
        }
    }

    fn global(&self) -> Result<&Global> {
        match self {
            OfSymbol::Global(global) => Ok(global),
            OfSymbol::Kernel(OfKernel { kernel, .. }) => {
                let message = format!("'{}' is a kernel, no variable", kernel.name());
                Err(Error::new(ErrorCode::SymbolKind, message))
            }
        }
    }
}

/// The symbol of a handle.
///
/// # Errors
/// `InvalidArgument`.
#[inline]
pub(crate) fn of_handle(handle: ol_symbol_handle_t) -> Result<Held<'static, OfSymbol>> {
    ALL.get(handle)
}

pub(crate) unsafe fn get(
    program: ol_program_handle_t,
    name: *const c_char,
    kind: ol_symbol_kind_t,
    symbol: *mut ol_symbol_handle_t,
) -> Result<()> {
    let context = current()?;
    let owner = program::ALL.get(program)?;
    let kind = match kind {
        OL_SYMBOL_KIND_KERNEL => SymbolKind::Kernel,
        OL_SYMBOL_KIND_GLOBAL_VARIABLE => SymbolKind::Global,
        ol_symbol_kind_t(unknown) => {
            let message = format!("{unknown} is no kind of symbols");
            return Err(Error::new(ErrorCode::InvalidEnumeration, message));
        }
    };
    // SAFETY: promised by the caller.
    let name = unsafe { text(name) }?;
    // Until it is in the list, nobody else looks for it.
    let mut known = owner.symbols.lock();
    let Some(known) = known.as_mut() else { return Err(Kind::Program.refused(program)) };
    let key = (kind, name);
    if let Some(handle) = known.get(&key) {
        // SAFETY: promised by the caller.
        return unsafe { info::write(symbol, *handle as ol_symbol_handle_t) };
    }
    let found = match kind {
        SymbolKind::Kernel => OfSymbol::Kernel(OfKernel {
            kernel: owner.program.kernel(&key.1)?,
            device: owner.program.device().clone(),
            device_handle: owner.device_handle,
        }),
        SymbolKind::Global => OfSymbol::Global(owner.program.global(&key.1)?),
    };
    let handle: ol_symbol_handle_t = context::keep(&ALL, found, context.cycle)?;
    known.insert(key, handle as usize);
    // SAFETY: promised by the caller.
    unsafe { info::write(symbol, handle) }
}

/// # Safety
/// The text ends, if the pointer is not null.
unsafe fn text(name: *const c_char) -> Result<String> {
    if name.is_null() {
        return Err(Error::new(ErrorCode::InvalidNullPointer, "no name"));
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

fn answer(handle: ol_symbol_handle_t, query: ol_symbol_info_t) -> Result<Answer> {
    let symbol = of_handle(handle)?;
    match query {
        OL_SYMBOL_INFO_KIND => Ok(Answer::U32(match &*symbol {
            OfSymbol::Kernel(_) => OL_SYMBOL_KIND_KERNEL.0,
            OfSymbol::Global(_) => OL_SYMBOL_KIND_GLOBAL_VARIABLE.0,
        })),
        OL_SYMBOL_INFO_GLOBAL_VARIABLE_ADDRESS => {
            symbol.global().map(|global| Answer::Word(global.pointer().address() as usize))
        }
        OL_SYMBOL_INFO_GLOBAL_VARIABLE_SIZE => {
            symbol.global().map(|global| Answer::Word(global.bytes() as usize))
        }
        _ => Err(info::unknown("symbol", query.0)),
    }
}

info::queries!(ol_symbol_handle_t, ol_symbol_info_t);
