//! Load of the library, and the end of the process.

use super::{Vendor, driver, machine, object, state};
use crate::HasKind as _;
use std::ffi::c_void;
use std::io::Write;

/// Request to `dladdr1` for the symbol of a function.
const RTLD_DL_SYMENT: libc::c_int = 1;

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: libc::c_int,
    ) -> libc::c_int;
}

/// Removes functions that the driver has to lack from the library's symbols.
pub(crate) fn at_start(vendor: &'static dyn Vendor) {
    state::start(vendor);
    for function in vendor.functions().iter().filter(|function| vendor.lacks(function)) {
        hide(function.address.0);
    }
}

/// Reports violations and live objects, on standard error or at the end of the file from the
/// setting `report`. With the setting `quiet`, reports nothing.
pub(crate) fn at_end() {
    let driver = driver();
    let (scope, name) = (driver.vendor.scope(), driver.vendor.name());
    let mut lines: Vec<String> = Vec::new();
    lines.extend(driver.report.violations().iter().map(|what| format!("violation: {what}")));
    lines.extend(driver.lost.lock().iter().map(|what| format!("lost with its {scope}: {what}")));
    lines.extend(live().iter().map(|what| format!("not given back: {what}")));
    if lines.is_empty() || driver.settings.get("quiet").is_some() {
        return;
    }
    let text: String =
        lines.iter().map(|line| format!("longshore double of {name}: {line}\n")).collect();
    let file = driver
        .settings
        .get("report")
        .map(|path| std::fs::OpenOptions::new().create(true).append(true).open(path));
    // A failed write is ignored: nothing could read a report of it.
    let _ = match file {
        Some(Ok(mut file)) => file.write_all(text.as_bytes()),
        _ => std::io::stderr().write_all(text.as_bytes()),
    };
}

/// Describes the live objects: handles that do not end with another object, memory, and the
/// vendor's further objects.
pub(crate) fn live() -> Vec<String> {
    let objects = object::live().into_iter().filter(|(_, object)| object.is_of_program);
    let mut live: Vec<String> =
        objects.map(|(handle, object)| format!("{} {handle:#x}", object.kind())).collect();
    if let Ok(machine) = machine() {
        let blocks = machine.blocks.select(|block| block.is_of_program());
        live.extend(blocks.iter().map(|block| block.describe()));
    }
    live.extend(driver().vendor.held());
    live
}

/// Makes a symbol of this library undefined.
fn hide(function: *const c_void) {
    // SAFETY: plain data, for which zeros are a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let mut found: *mut c_void = std::ptr::null_mut();
    // SAFETY: an address of this library, and places for the results.
    let known = unsafe { dladdr1(function, &mut info, &mut found, RTLD_DL_SYMENT) };
    assert!(known != 0 && !found.is_null(), "the loader knows the functions of this library");
    let symbol = found.cast::<libc::Elf64_Sym>();
    let page = symbol.addr() / 4096 * 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the loader's table of this library's symbols, private pages without a reader so far,
    // as the library is being loaded. A symbol may reach into the next page.
    unsafe {
        let start = std::ptr::with_exposed_provenance_mut::<c_void>(page);
        assert_eq!(libc::mprotect(start, 2 * 4096, access), 0, "the table can be changed");
        (*symbol).st_shndx = 0;
        (*symbol).st_value = 0;
    }
}
