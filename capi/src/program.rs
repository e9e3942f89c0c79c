//! Programs.

use crate::context::{self, current};
use crate::device;
use crate::given;
use crate::handle::{Kind, Table};
use crate::info;
use crate::structures::*;
use crate::symbol;
use longshore::{Program, Result, SymbolKind};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::c_void;

/// All programs.
pub(crate) static ALL: Table<OfProgram> = Table::new(Kind::Program);

/// A loaded image, and the symbols that were asked for.
pub(crate) struct OfProgram {
    pub(crate) program: Program,
    /// The handle of its device.
    pub(crate) device_handle: usize,
    /// By kind and name; none any more when it is destroyed.
    pub(crate) symbols: Mutex<Option<HashMap<(SymbolKind, String), usize>>>,
}

pub(crate) unsafe fn create(
    device: ol_device_handle_t,
    data: *const c_void,
    size: usize,
    program: *mut ol_program_handle_t,
) -> Result<()> {
    let context = current()?;
    given::check_pointer(program)?;
    let of_device = device::of_handle(&context, device)?.get(&context)?;
    let made = OfProgram {
        // SAFETY: promised by the caller, for the bytes and for what loading them runs.
        program: unsafe { of_device.load(given::list(data.cast(), size)?) }?,
        device_handle: device as usize,
        symbols: Mutex::new(Some(HashMap::new())),
    };
    // SAFETY: promised by the caller.
    unsafe { info::write(program, context::keep(&ALL, made, context.cycle)?) }
}

pub(crate) unsafe fn destroy(handle: ol_program_handle_t) -> Result<()> {
    let found = ALL.get(handle)?;
    // A failure before anything was undone leaves the program as it is.
    if let Err(error) = found.program.synchronize() {
        // Another call may have destroyed it in the meantime: the handle is none then.
        return ALL.get(handle).and(Err(error));
    }
    // Of several calls one goes on.
    ALL.remove(handle)?;
    for symbol in found.symbols.lock().take().into_iter().flat_map(HashMap::into_values) {
        let _ = symbol::ALL.remove(symbol as ol_symbol_handle_t);
    }
    found.program.clone().unload().map(drop)
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
    let accepted = device.suits(unsafe { given::list::<u8>(data.cast(), size) }?)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(valid, accepted.is_accepted()) }
}
