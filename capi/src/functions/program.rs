//! The functions of programs.

use crate::context::{self, current};
use crate::given;
use crate::info;
use crate::objects::program::{self, ProgramObject};
use crate::objects::symbol;
use crate::types::structures::*;
use longshore::Result;
use std::collections::HashMap;
use std::ffi::c_void;

pub(crate) unsafe fn create(
    device: ol_device_handle_t,
    data: *const c_void,
    size: usize,
    created: *mut ol_program_handle_t,
) -> Result<()> {
    let context = current()?;
    given::check_pointer(created)?;
    let open_device = context.device(device)?.get()?;
    // SAFETY: promised by the caller, for the bytes and for the constructors in them.
    let loaded = unsafe { open_device.load(given::list(data.cast(), size)?) }?;
    let made = ProgramObject::new(loaded, device);
    // SAFETY: promised by the caller.
    unsafe { info::write(created, context::keep(&program::ALL, made, context.cycle)?) }
}

pub(crate) unsafe fn destroy(handle: ol_program_handle_t) -> Result<()> {
    let found = program::ALL.get(handle)?;
    // A failure here leaves the program as it is.
    if let Err(error) = found.program.synchronize() {
        // Another call may have destroyed the program in the meantime: its handle is invalid then.
        return program::ALL.get(handle).and(Err(error));
    }
    // If several calls arrive here, one of them continues.
    program::ALL.remove(handle)?;
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
    let device = context.device(device)?.get()?;
    // SAFETY: promised by the caller.
    let accepted = device.suits(unsafe { given::list::<u8>(data.cast(), size) }?)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(valid, accepted.is_accepted()) }
}
