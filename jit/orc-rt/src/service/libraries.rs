//! Libraries of this process, their symbols and their data.

use std::ffi::{CStr, CString, c_int, c_void};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::services;
use crate::late_static_tls;
use crate::process_data::{data_at, size_of_data};
use crate::{Error, ProcessTls, Result};

services! {
    /// The service that opens a library by path, or by a name that the dynamic linker finds, and
    /// runs its constructors. The result is its handle.
    OPEN_LIBRARY = "__longshore_open_library", fn(ByteBuf) -> Result<u64>, open;
    /// The service that opens a library permanently. Its symbols are available to all libraries and
    /// code that are opened or linked later. Its thread-local variables get fixed offsets from the
    /// thread pointer, if there is room.
    OPEN_GLOBALLY = "__longshore_open_globally", fn(ByteBuf) -> Result<()>, open_globally;
    /// The service that closes a library by its handle.
    CLOSE_LIBRARY = "__longshore_close_library", fn(u64) -> (), close;
    /// The service that looks up symbols. The result has an entry for each name of each request:
    /// `None` for a name that the library does not have.
    LOOK_UP = "__longshore_look_up", fn(Vec<LookUp>) -> Result<Vec<Vec<Option<Symbol>>>>, look_up;
    /// The service that returns the sizes in bytes of the data objects at these addresses; `None`
    /// for a function or an unknown address.
    DATA_SIZES = "__longshore_data_sizes", fn(Vec<u64>) -> Vec<Option<u64>>, data_sizes;
    /// The service that returns the current contents of the data objects at these addresses.
    DATA_AT = "__longshore_data_at", fn(Vec<u64>) -> Vec<Option<ByteBuf>>, data;
}

/// A request to look up names in a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookUp {
    /// The library's handle; 0 for the scope of the process itself: the program, and the libraries
    /// that it was linked with or has opened globally.
    pub library: u64,
    /// The names. A version may follow after an at sign.
    pub names: Vec<Name>,
}

/// A name to look up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The name.
    pub name: String,
    /// Whether the name is that of a thread-local variable.
    pub thread_local: bool,
}

/// A symbol found by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Symbol {
    /// The address of a function or of data.
    Address(u64),
    /// A thread-local variable.
    ThreadLocal(ProcessTls),
}

/// # Safety
/// The library's constructors must be sound to run.
unsafe fn open(path: ByteBuf) -> Result<u64> {
    // SAFETY: guaranteed by the caller.
    unsafe { open_with(&path, libc::RTLD_LOCAL) }.map(|handle| handle as u64)
}

/// # Safety
/// As for [`open`].
unsafe fn open_globally(path: ByteBuf) -> Result<()> {
    // SAFETY: guaranteed by the caller. The handle stays open, since nothing owns it.
    unsafe {
        let library = open_with(&path, libc::RTLD_GLOBAL)?;
        late_static_tls::make_static(library);
    }
    Ok(())
}

/// # Safety
/// As for [`open`].
unsafe fn open_with(path: &[u8], flags: c_int) -> Result<*mut c_void> {
    let failed =
        |problem: String| Error::Open { path: String::from_utf8_lossy(path).into_owned(), problem };
    let name = CString::new(path).map_err(|error| failed(error.to_string()))?;
    // SAFETY: guaranteed by the caller.
    unsafe { late_static_tls::open(&name, flags) }.map_err(failed)
}

/// # Safety
/// `handle` must be a handle of [`open`] that was not closed, and nothing may use the library any
/// more.
unsafe fn close(handle: u64) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::dlclose(handle as *mut c_void) };
}

/// # Safety
/// Libraries must be 0 or handles of [`open`] that are not closed meanwhile.
unsafe fn look_up(requests: Vec<LookUp>) -> Result<Vec<Vec<Option<Symbol>>>> {
    let answer = |request: LookUp| {
        let library = match request.library {
            0 => libc::RTLD_DEFAULT,
            handle => handle as *mut c_void,
        };
        // SAFETY: guaranteed by the caller.
        request.names.into_iter().map(|name| unsafe { symbol(library, name) }).collect()
    };
    requests.into_iter().map(answer).collect()
}

/// # Safety
/// `library` must be an open handle, or `RTLD_DEFAULT`.
unsafe fn symbol(library: *mut c_void, wanted: Name) -> Result<Option<Symbol>> {
    let Ok(name) = CString::new(wanted.name) else { return Ok(None) };
    if wanted.thread_local {
        // SAFETY: guaranteed by the caller.
        return Ok(unsafe { ProcessTls::find(library, &name) }?.map(Symbol::ThreadLocal));
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { address_of(library, &name) }.map(Symbol::Address))
}

/// # Safety
/// `library` must be an open handle, or `RTLD_DEFAULT`.
unsafe fn address_of(library: *mut c_void, name: &CStr) -> Option<u64> {
    // A version follows the name after one or two at signs.
    let bytes = name.to_bytes();
    let address = match memchr::memchr(b'@', bytes) {
        Some(at) => {
            let symbol = CString::new(&bytes[..at]).ok()?;
            let version = bytes[at..].iter().copied().skip_while(|byte| *byte == b'@');
            let version = CString::new(version.collect::<Vec<u8>>()).ok()?;
            // SAFETY: guaranteed by the caller.
            unsafe { libc::dlvsym(library, symbol.as_ptr(), version.as_ptr()) }
        }
        // SAFETY: guaranteed by the caller.
        None => unsafe { libc::dlsym(library, name.as_ptr()) },
    };
    (!address.is_null()).then_some(address as u64)
}

fn data_sizes(addresses: Vec<u64>) -> Vec<Option<u64>> {
    addresses.into_iter().map(|address| size_of_data(address).map(|size| size as u64)).collect()
}

/// # Safety
/// As for [`data_at`], for each address.
unsafe fn data(addresses: Vec<u64>) -> Vec<Option<ByteBuf>> {
    // SAFETY: guaranteed by the caller.
    addresses.into_iter().map(|address| unsafe { data_at(address) }.map(ByteBuf::from)).collect()
}
