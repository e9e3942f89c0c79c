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

/// Returns the current contents of the data object at an address. `None` for a function, or for an
/// address unknown to any library's dynamic symbol table.
///
/// # Safety
/// The object at `address` must remain during the call. No thread may make a write meanwhile that
/// could not be read in two pieces.
pub unsafe fn data_at(address: u64) -> Option<Vec<u8>> {
    let size = size_of_data(address)?;
    // SAFETY: guaranteed by the caller; the library's symbol has this size.
    Some(unsafe { std::slice::from_raw_parts(address as *const u8, size) }.to_vec())
}

/// Returns the size of the data object at an address, as [`data_at`] finds it.
pub fn size_of_data(address: u64) -> Option<usize> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    let mut symbol: *mut c_void = null_mut();
    // SAFETY: both results are valid for writes; the function accepts any address.
    let found = unsafe {
        dladdr1(address as *const c_void, info.as_mut_ptr(), &mut symbol, RTLD_DL_SYMENT)
    };
    if found == 0 || symbol.is_null() {
        return None;
    }
    // SAFETY: the dynamic linker returned a symbol of a loaded library.
    let (info, symbol) =
        unsafe { (info.assume_init(), *symbol.cast::<elf::Sym64<LittleEndian>>()) };
    let is_data = symbol.st_type() == elf::STT_OBJECT && info.dli_saddr as u64 == address;
    is_data.then(|| symbol.st_size.get(LittleEndian) as usize)
}
