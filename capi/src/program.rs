//! Programs.

use crate::context::current;
use crate::device;
use crate::given;
use crate::info;
use crate::structures::*;
use longshore::{Acceptance, Program, Result, SymbolKind};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::c_void;

/// A loaded image, and the symbols that were asked for.
pub(crate) struct OfProgram {
    pub(crate) program: Program,
    /// By kind and name.
    pub(crate) symbols: Mutex<HashMap<(SymbolKind, String), usize>>,
}

pub(crate) unsafe fn create(
    device: ol_device_handle_t,
    data: *const c_void,
    size: usize,
    program: *mut ol_program_handle_t,
) -> Result<()> {
    let context = current()?;
    given::check_pointer(program)?;
    let device = device::of_handle(&context, device)?.get(&context)?;
    // SAFETY: promised by the caller.
    let loaded = device.load(unsafe { given::list(data.cast(), size) }?)?;
    let made = OfProgram { program: loaded, symbols: Mutex::default() };
    // SAFETY: promised by the caller.
    unsafe { info::write(program, context.programs.insert(made)?) }
}

pub(crate) unsafe fn destroy(handle: ol_program_handle_t) -> Result<()> {
    let context = current()?;
    let (program, symbols) = {
        let found = context.programs.get(handle)?;
        (found.program.clone(), std::mem::take(&mut *found.symbols.lock()))
    };
    context.programs.remove(handle)?;
    for symbol in symbols.into_values() {
        let _ = context.symbols.remove(symbol as ol_symbol_handle_t);
    }
    program.unload().map(drop)
}

pub(crate) unsafe fn is_valid(
    device: ol_device_handle_t,
    data: *const c_void,
    size: usize,
    valid: *mut bool,
) -> Result<()> {
    let context = current()?;
    let device = device::of_handle(&context, device)?.get(&context)?;
    // SAFETY: promised by the caller.
    let accepted = device.accepts(unsafe { given::list(data.cast(), size) }?)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(valid, accepted == Acceptance::Accepted) }
}
