//! The functions of symbols.

use crate::context::{self, current};
use crate::info::{self, InfoReply};
use crate::objects::program::{self, ProgramObject};
use crate::objects::symbol::{self, KernelObject, SymbolObject};
use crate::registry::handle;
use crate::types::enumerations::*;
use crate::types::structures::*;
use longshore::{Error, ErrorCode, Result, SymbolKind};
use std::ffi::{CStr, c_char};

pub(crate) unsafe fn get(
    program: ol_program_handle_t,
    name: *const c_char,
    kind: ol_symbol_kind_t,
    found: *mut ol_symbol_handle_t,
) -> Result<()> {
    let context = current()?;
    let owner = program::ALL.get(program)?;
    let kind = match kind {
        OL_SYMBOL_KIND_KERNEL => SymbolKind::Kernel,
        OL_SYMBOL_KIND_GLOBAL_VARIABLE => SymbolKind::Global,
        ol_symbol_kind_t(unknown) => {
            let message = format!("{unknown} is not an ol_symbol_kind_t");
            return Err(Error::new(ErrorCode::InvalidEnumeration, message));
        }
    };
    // SAFETY: promised by the caller.
    let name = unsafe { text(name) }?;
    // Held until the symbol is in the list: calls for the same symbol return the same handle.
    let mut known = owner.symbols.lock();
    let Some(known) = known.as_mut() else {
        return Err(handle::refused::<ProgramObject>(program));
    };
    let key = (kind, name);
    if let Some(handle) = known.get(&key) {
        // SAFETY: promised by the caller.
        return unsafe { info::write(found, *handle as ol_symbol_handle_t) };
    }
    let made = match kind {
        SymbolKind::Kernel => SymbolObject::Kernel(KernelObject {
            kernel: owner.program.kernel(&key.1)?,
            device: owner.program.device().clone(),
            device_handle: owner.device_handle,
        }),
        SymbolKind::Global => SymbolObject::Global(owner.program.global(&key.1)?),
        kind => {
            let message = format!("olGetSymbol finds no symbols of kind {kind:?}");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
    };
    let handle = context::keep(&symbol::ALL, made, context.cycle)?;
    known.insert(key, handle as usize);
    // SAFETY: promised by the caller.
    unsafe { info::write(found, handle) }
}

/// # Safety
/// The text ends with a NUL, unless the pointer is null.
unsafe fn text(name: *const c_char) -> Result<String> {
    if name.is_null() {
        return Err(Error::new(ErrorCode::InvalidNullPointer, "no name"));
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

fn reply(handle: ol_symbol_handle_t, query: ol_symbol_info_t) -> Result<InfoReply> {
    let symbol = symbol::from_handle(handle)?;
    match query {
        OL_SYMBOL_INFO_KIND => Ok(InfoReply::U32(match &*symbol {
            SymbolObject::Kernel(_) => OL_SYMBOL_KIND_KERNEL.0,
            SymbolObject::Global(_) => OL_SYMBOL_KIND_GLOBAL_VARIABLE.0,
        })),
        OL_SYMBOL_INFO_GLOBAL_VARIABLE_ADDRESS => {
            symbol.global().map(|global| InfoReply::Word(global.pointer().address() as usize))
        }
        OL_SYMBOL_INFO_GLOBAL_VARIABLE_SIZE => {
            symbol.global().map(|global| InfoReply::Word(global.bytes() as usize))
        }
        _ => Err(info::unknown("symbol", query.0)),
    }
}

info::queries!(ol_symbol_handle_t, ol_symbol_info_t);
