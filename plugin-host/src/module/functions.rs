//! Constructors and destructors, called in glibc's order and with its arguments.

use super::HostModule;
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

const CONSTRUCTOR_STATUS: &str = "__longshore_constructor_status";
const DESTRUCTOR_STATUS: &str = "__longshore_destructor_status";

type Constructor = unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char);
type Destructor = unsafe extern "C" fn();

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Runs `DT_INIT`, then `DT_INIT_ARRAY`; stops at an entry that is not code of the image.
pub(super) fn run_constructors(module: &HostModule) -> Result<()> {
    let functions = &module.image.functions;
    let first = functions.init.map(|init| (init, "DT_INIT".to_owned()));
    let array = functions.init_array.iter().enumerate().filter_map(|(index, &place)| {
        Some((entry_of(module, place)?, format!("DT_INIT_ARRAY[{index}]")))
    });
    let arguments = Arguments::get();
    for (relative, name) in first.into_iter().chain(array) {
        let address = code_at(module, relative, "constructor", &name)?;
        module.library.set_registered(true);
        // SAFETY: code of the checked image that its initialisation array names, called as the
        // loader would call it.
        unsafe {
            let constructor = std::mem::transmute::<usize, Constructor>(address);
            constructor(arguments.count, arguments.values, environ);
        }
    }
    status(module, CONSTRUCTOR_STATUS, "constructors")
}

/// Runs `DT_FINI_ARRAY` in reverse, then `DT_FINI`; all that are code of the image.
pub(super) fn run_destructors(module: &HostModule) -> Result<()> {
    let functions = &module.image.functions;
    let array = functions.fini_array.iter().enumerate().rev().filter_map(|(index, &place)| {
        Some((entry_of(module, place)?, format!("DT_FINI_ARRAY[{index}]")))
    });
    let last = functions.fini.map(|fini| (fini, "DT_FINI".to_owned()));
    let mut first_error = None;
    for (relative, name) in array.chain(last) {
        match code_at(module, relative, "destructor", &name) {
            // SAFETY: code of the checked image that its termination array names, called as the
            // loader would call it.
            Ok(address) => unsafe { std::mem::transmute::<usize, Destructor>(address)() },
            Err(error) => {
                log::error!("{error}");
                first_error.get_or_insert(error);
            }
        }
    }
    module.library.set_registered(false);
    let failed = status(module, DESTRUCTOR_STATUS, "destructors");
    first_error.map_or(failed, Err)
}

/// An array's entry, relative to the load base; `None` for 0 and -1, which stand for no function.
fn entry_of(module: &HostModule, place: u64) -> Option<u64> {
    // SAFETY: the checked image has the array in a segment, which is mapped and readable.
    let address = unsafe { module.library.pointer::<u64>(place).read_unaligned() };
    let relative = address.wrapping_sub(module.library.address(0));
    (address != 0 && address != u64::MAX).then_some(relative)
}

/// The address of a function, if it is code of the image.
fn code_at(module: &HostModule, relative: u64, kind: &str, name: &str) -> Result<usize> {
    let address = module.library.address(relative);
    if !module.image.segments.holds_code(relative, 1) {
        return Err(Error::new(
            ErrorCode::BackendFailure,
            format!("the {kind} {name} is at {address:#x}, expected code of the image"),
        ));
    }
    Ok(address as usize)
}

/// Reports what the device's code says of itself.
fn status(module: &HostModule, name: &str, what: &str) -> Result<()> {
    let found = module.symbol(name).filter(|symbol| {
        symbol.kind() == object::elf::STT_OBJECT && symbol.size == size_of::<c_int>() as u64
    });
    let Some(symbol) = found else {
        return Ok(());
    };
    // SAFETY: the checked image has the variable's bytes in a segment, mapped and readable.
    let status = unsafe { module.library.pointer::<c_int>(symbol.value).read_unaligned() };
    if status == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::BackendFailure,
        format!("the image's {what} failed: {name} is {status}, expected 0"),
    ))
}

/// The program's arguments, as `main` gets them; they live as long as the process.
struct Arguments {
    count: c_int,
    values: *const *const c_char,
}

// SAFETY: a pointer to an array that is never changed and never freed.
unsafe impl Send for Arguments {}
// SAFETY: as above.
unsafe impl Sync for Arguments {}

impl Arguments {
    fn get() -> &'static Arguments {
        static ARGUMENTS: OnceLock<Arguments> = OnceLock::new();
        ARGUMENTS.get_or_init(|| {
            let owned = std::env::args_os().filter_map(|value| CString::new(value.into_vec()).ok());
            let mut values: Vec<_> = owned.map(|value| value.into_raw().cast_const()).collect();
            let count = values.len() as c_int;
            values.push(std::ptr::null());
            Arguments { count, values: values.leak().as_ptr() }
        })
    }
}
