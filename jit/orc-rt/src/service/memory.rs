//! Memory of this process that the controller reads, writes, allocates and frees: data, not code.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_bytes::ByteBuf;

use super::services;
use crate::{Error, Result};

services! {
    /// Allocates so many bytes of zeroes at an alignment, which is a power of two. The address is returned.
    ALLOCATE = "__longshore_allocate", fn((u64, u64)) -> Result<u64>, allocate;
    /// Frees what was allocated so.
    FREE = "__longshore_free", fn(u64) -> (), free;
    /// Writes bytes at addresses, in order.
    WRITE = "__longshore_write", fn(Vec<(u64, ByteBuf)>) -> (), write;
    /// Writes words at aligned addresses, each by one store: threads that read one meanwhile see the old or the new value.
    WRITE_POINTERS = "__longshore_write_pointers", fn(Vec<(u64, u64)>) -> (), write_pointers;
    /// Reads so many bytes at each address.
    READ = "__longshore_read", fn(Vec<(u64, u64)>) -> Result<Vec<ByteBuf>>, read;
}

fn allocate((size, alignment): (u64, u64)) -> Result<u64> {
    let failed = |problem: String| Error::Memory {
        name: format!("{size:#x} bytes aligned to {alignment:#x}"),
        problem,
    };
    let alignment = alignment.max(size_of::<usize>() as u64);
    let mut address = std::ptr::null_mut();
    // SAFETY: the address can be written.
    let code =
        unsafe { libc::posix_memalign(&mut address, alignment as usize, size.max(1) as usize) };
    if code != 0 {
        return Err(failed(std::io::Error::from_raw_os_error(code).to_string()));
    }
    // SAFETY: so many bytes were allocated.
    unsafe { address.cast::<u8>().write_bytes(0, size as usize) };
    Ok(address as u64)
}

/// # Safety
/// It must be of [`allocate`], not freed and not used any more.
unsafe fn free(address: u64) {
    // SAFETY: promised by the caller.
    unsafe { libc::free(address as *mut std::ffi::c_void) };
}

/// # Safety
/// The bytes must be there and writable, and used by nobody meanwhile.
unsafe fn write(writes: Vec<(u64, ByteBuf)>) {
    for (address, bytes) in writes {
        // SAFETY: promised by the caller.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }
}

/// # Safety
/// The words must be there, aligned and writable, and used by nobody meanwhile but atomically.
unsafe fn write_pointers(writes: Vec<(u64, u64)>) {
    for (address, value) in writes {
        // SAFETY: promised by the caller.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value, Ordering::Release);
    }
}

/// # Safety
/// The bytes must be there and readable, and written by nobody meanwhile.
unsafe fn read(ranges: Vec<(u64, u64)>) -> Result<Vec<ByteBuf>> {
    let copy = |(address, size): (u64, u64)| {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size as usize).map_err(|error| Error::Memory {
            name: format!("{size:#x} bytes that are read"),
            problem: error.to_string(),
        })?;
        // SAFETY: promised by the caller; there is room for so many.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), size as usize);
            bytes.set_len(size as usize);
        }
        Ok(ByteBuf::from(bytes))
    };
    ranges.into_iter().map(copy).collect()
}
