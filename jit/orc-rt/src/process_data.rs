//! Data of the libraries of this process.

use std::ffi::{c_int, c_void};
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
pub unsafe fn data_at(address: u64) -> Option<Vec<u8>> {
    let size = size_of_data(address)?;
    // SAFETY: promised by the caller; the library says that the object has this size.
    Some(unsafe { std::slice::from_raw_parts(address as *const u8, size) }.to_vec())
}

/// The size of the data object at an address, as [`data_at`] finds it.
pub fn size_of_data(address: u64) -> Option<usize> {
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
    let is_data = symbol.st_type() == elf::STT_OBJECT && info.dli_saddr as u64 == address;
    is_data.then(|| symbol.st_size.get(LittleEndian) as usize)
}
