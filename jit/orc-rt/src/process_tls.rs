//! Thread-local variables of the libraries of this process, which linked code uses by name.

use std::ffi::{CStr, c_void};

use serde::{Deserialize, Serialize};

use crate::images::Image;
use crate::thread_pointer;
use crate::{Error, Result};

/// The location of a thread-local variable of a library of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTls {
    /// The dynamic linker's number of the library.
    pub module: u64,
    /// The variable's offset in bytes in the library's block. Together with `module` it is a
    /// general-dynamic pair.
    pub offset: u64,
    /// The variable's offset in bytes from the thread pointer, if it is the same in every thread
    /// (static TLS).
    pub offset_from_thread_pointer: Option<i64>,
}

impl ProcessTls {
    /// Finds the variable `symbol` as `dlsym` does. Returns `Ok(None)` if there is no such symbol,
    /// or it is not thread-local. The result is valid until the library that defines it is closed.
    /// Blocks while a second thread starts, computes its offset and ends; fails if no thread can be
    /// started.
    ///
    /// # Safety
    ///
    /// `library` must be a handle from `dlopen` that is not closed meanwhile, or `RTLD_DEFAULT`.
    pub unsafe fn find(library: *mut c_void, symbol: &CStr) -> Result<Option<Self>> {
        // SAFETY: guaranteed by the caller. For a thread-local symbol the result is the address in
        // the calling thread.
        let address = unsafe { libc::dlsym(library, symbol.as_ptr()) } as u64;
        let Some(image) = Image::with_thread_local(address) else { return Ok(None) };
        let (module, offset) = (image.module, address - image.block);
        let here = address.wrapping_sub(thread_pointer());
        let there =
            std::thread::Builder::new().spawn(move || distance_in_this_thread(module, offset));
        let there = there.map_err(|error| failure(symbol, &error.to_string()))?.join();
        let there = there.map_err(|_| failure(symbol, "the second thread panicked"))?;
        Ok(Some(Self {
            module,
            offset,
            offset_from_thread_pointer: (there == Some(here)).then_some(here as i64),
        }))
    }
}

/// Returns the variable's distance from the thread pointer, if it lies in the memory in which the C
/// library made this thread. That memory holds its stack, the thread-local storage of the libraries
/// loaded before, and the thread's control block.
fn distance_in_this_thread(module: u64, offset: u64) -> Option<u64> {
    unsafe extern "C" {
        fn __tls_get_addr(pair: *const [u64; 2]) -> *mut c_void;
    }
    // SAFETY: the library is not closed meanwhile, and its block has this offset.
    let address = unsafe { __tls_get_addr(&[module, offset]) } as u64;
    memory_of_this_thread()?.contains(&address).then(|| address.wrapping_sub(thread_pointer()))
}

/// Returns the memory in which the C library made this thread, which must not be the first.
fn memory_of_this_thread() -> Option<std::ops::Range<u64>> {
    let (mut start, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: zeroed attributes are valid, and the first call overwrites them. The last call frees
    // the attributes that the first has made.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        libc::pthread_attr_getstack(&attributes, &mut start, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
    }
    Some(start as u64..start as u64 + size as u64)
}

fn failure(symbol: &CStr, problem: &str) -> Error {
    Error::Memory {
        name: format!("thread-local storage of {}", symbol.to_string_lossy()),
        problem: format!("no thread to compare offsets with: {problem}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn find(library: *mut c_void, symbol: &CStr) -> Option<ProcessTls> {
        // SAFETY: the tests close no library.
        unsafe { ProcessTls::find(library, symbol) }.unwrap()
    }

    /// Returns the location of the C library's `errno`.
    pub(in super::super) fn errno() -> ProcessTls {
        find(libc::RTLD_DEFAULT, c"errno").unwrap()
    }

    #[test]
    fn a_variable_in_static_storage_has_one_offset_in_all_threads() {
        let offset = errno().offset_from_thread_pointer.unwrap();
        let check = move || {
            // SAFETY: any thread may take the address of its `errno`.
            let address = unsafe { libc::__errno_location() } as u64;
            assert_eq!(address, thread_pointer().wrapping_add_signed(offset));
        };
        check();
        std::thread::spawn(check).join().unwrap();
    }

    #[test]
    fn a_variable_of_a_library_that_was_opened_later_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("late.c"), folder.path().join("late.so"));
        std::fs::write(&source, "__thread long padding[64]; __thread int late = 42;").unwrap();
        let compiler = std::env::var("CC").unwrap_or("cc".into());
        let mut compiler = std::process::Command::new(compiler);
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(compiler.status().unwrap().success());
        let path = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: the library has no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null());
        let late = find(handle, c"late").unwrap();
        assert_eq!(late.offset_from_thread_pointer, None);
        let read = move || {
            // SAFETY: the library stays open.
            unsafe {
                *super::super::tls::tls_get_address(&[late.module, late.offset]).cast::<i32>()
            }
        };
        assert_eq!(read(), 42);
        assert_eq!(std::thread::spawn(read).join().unwrap(), 42);
    }

    #[test]
    fn missing_and_other_than_thread_local_symbols_are_not_found() {
        assert_eq!(find(libc::RTLD_DEFAULT, c"malloc"), None);
        assert_eq!(find(libc::RTLD_DEFAULT, c"environ"), None);
        assert_eq!(find(libc::RTLD_DEFAULT, c"longshore_no_such_symbol"), None);
    }
}
