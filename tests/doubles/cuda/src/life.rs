//! What happens when the library is loaded, and at the end of the process.

use crate::control;
use crate::driver::driver;
use crate::functions::FUNCTIONS;
use std::ffi::c_void;
use std::io::Write;

/// The file's symbol of a function, from `dladdr1`.
const RTLD_DL_SYMENT: libc::c_int = 1;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: libc::c_int,
    ) -> libc::c_int;
}

/// Takes the functions that the driver is to lack out of what the loader finds.
extern "C" fn at_start() {
    for name in driver().settings.list("missing") {
        for function in FUNCTIONS.iter().filter(|function| function.exported == name) {
            hide(function.address.0);
        }
    }
}

/// Tells what was done wrong and what was not given back, on standard error or, as the setting `report` says, at the end of
/// a file. With `quiet`, tells nothing.
extern "C" fn at_end() {
    let driver = driver();
    let mut lines: Vec<String> = Vec::new();
    lines.extend(driver.report.violations().iter().map(|what| format!("violation: {what}")));
    lines.extend(driver.lost.lock().iter().map(|what| format!("lost with its context: {what}")));
    lines.extend(control::live().iter().map(|what| format!("not given back: {what}")));
    if lines.is_empty() || driver.settings.get("quiet").is_some() {
        return;
    }
    let text: String =
        lines.iter().map(|line| format!("longshore double of CUDA: {line}\n")).collect();
    let file = driver
        .settings
        .get("report")
        .map(|path| std::fs::OpenOptions::new().create(true).append(true).open(path));
    // Where nobody reads it, nobody is told.
    let _ = match file {
        Some(Ok(mut file)) => file.write_all(text.as_bytes()),
        _ => std::io::stderr().write_all(text.as_bytes()),
    };
}

/// Makes a symbol of this library undefined.
fn hide(function: *const c_void) {
    // SAFETY: plain data, for which zeros are a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let mut found: *mut c_void = std::ptr::null_mut();
    // SAFETY: an address of this library, and places for the answers.
    let known = unsafe { dladdr1(function, &mut info, &mut found, RTLD_DL_SYMENT) };
    assert!(known != 0 && !found.is_null(), "the loader knows the functions of this library");
    let symbol = found.cast::<libc::Elf64_Sym>();
    let page = symbol.addr() / 4096 * 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the loader's table of this library's symbols, private pages, which nobody reads yet: the library is being
    // loaded. A symbol may reach into the next page.
    unsafe {
        let start = std::ptr::with_exposed_provenance_mut::<c_void>(page);
        assert_eq!(libc::mprotect(start, 2 * 4096, access), 0, "the table can be changed");
        (*symbol).st_shndx = 0;
        (*symbol).st_value = 0;
    }
}
