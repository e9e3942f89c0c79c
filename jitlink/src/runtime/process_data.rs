//! Data of the libraries of this process.

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use object::elf;
use object::endian::LittleEndian;

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}

const RTLD_DL_SYMENT: c_int = 1;

/// What the data object at an address holds now; `None` if there is a function, or nothing that a library's dynamic symbol table
/// knows.
///
/// # Safety
/// What lies at `address` must stay while this reads it, and nothing may write it meanwhile that could not be read in two pieces.
pub(crate) unsafe fn data_at(address: u64) -> Option<Vec<u8>> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    let mut symbol: *mut c_void = null_mut();
    // SAFETY: both results are valid for writes; any address may be asked about.
    let found = unsafe {
        dladdr1(address as *const c_void, info.as_mut_ptr(), &mut symbol, RTLD_DL_SYMENT)
    };
    if found == 0 || symbol.is_null() {
        return None;
    }
    // SAFETY: the dynamic linker returned a symbol of a library that is loaded.
    let (info, symbol) =
        unsafe { (info.assume_init(), *symbol.cast::<elf::Sym64<LittleEndian>>()) };
    if symbol.st_type() != elf::STT_OBJECT || info.dli_saddr as u64 != address {
        return None;
    }
    let size = symbol.st_size.get(LittleEndian) as usize;
    // SAFETY: promised by the caller; the library says that the object has this size.
    Some(unsafe { std::slice::from_raw_parts(address as *const u8, size) }.to_vec())
}

/// Has the C++ library that defines the symbol at an address construct its standard streams. It does so itself for the first
/// code that includes `<iostream>`; before that, their bytes say nothing.
///
/// # Safety
/// The library must stay open while this runs.
pub(crate) unsafe fn construct_streams(address: u64) {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the result is valid for writes; any address may be asked about.
    if unsafe { libc::dladdr(address as *const c_void, info.as_mut_ptr()) } == 0 {
        return;
    }
    // SAFETY: dladdr has filled it in; the name lives as long as the library, which is open.
    let library = unsafe {
        let name = CStr::from_ptr(info.assume_init().dli_fname);
        libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY)
    };
    if library.is_null() {
        return;
    }
    // `std::ios_base::Init`, whose first object constructs the streams, and whose last one flushes them.
    for function in [c"_ZNSt8ios_base4InitC1Ev", c"_ZNSt8ios_base4InitD1Ev"] {
        // SAFETY: these names are the constructor and the destructor of a class whose objects have no members.
        unsafe {
            let function = libc::dlsym(library, function.as_ptr());
            if !function.is_null() {
                let function: extern "C" fn(*mut u64) = std::mem::transmute(function);
                function(&mut 0);
            }
        }
    }
    // SAFETY: it was opened above.
    unsafe { libc::dlclose(library) };
}
