//! The variables of checked images.

use super::memory;
use super::region::{Kind, Region};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::Arc;

/// The variables of all loaded images, by address.
static VARIABLES: Mutex<BTreeMap<u64, Arc<Region>>> = Mutex::new(BTreeMap::new());

/// A variable of an image. Must match `jit/checks/src/globals.rs`.
#[repr(C)]
pub(crate) struct Variable {
    address: u64,
    bytes: u64,
    name: *const c_char,
}

/// Enters the variables of an image.
///
/// # Safety
/// The table has `count` entries, whose names end with NUL.
pub(crate) unsafe extern "C" fn register(table: *const Variable, count: u64) {
    let mut variables = VARIABLES.lock();
    for index in 0..count {
        // SAFETY: promised by the caller.
        let (variable, name) = unsafe {
            let variable = &*table.add(index as usize);
            (variable, CStr::from_ptr(variable.name).to_string_lossy().into_owned())
        };
        let kind = Kind::Variable(name);
        let region = Region::new(variable.address, variable.bytes, kind, false);
        variables.insert(variable.address, Arc::new(region));
    }
}

/// Removes the variables of an image.
///
/// # Safety
/// As for [`register`].
pub(crate) unsafe extern "C" fn unregister(table: *const Variable, count: u64) {
    let mut variables = VARIABLES.lock();
    for index in 0..count {
        // SAFETY: promised by the caller.
        let address = unsafe { (*table.add(index as usize)).address };
        variables.remove(&address).inspect(|region| region.hide());
    }
    drop(variables);
    memory::change_all();
}

/// Forgets all accesses of variables: their segments are used again.
pub(crate) fn forget_accesses() {
    VARIABLES.lock().values().for_each(|region| region.forget_accesses());
}

/// Returns the variable at an address.
pub(crate) fn variable_at(address: u64) -> Option<Arc<Region>> {
    let variables = VARIABLES.lock();
    let (_, region) = variables.range(..=address).next_back()?;
    region.contains(address, 1).then(|| Arc::clone(region))
}
