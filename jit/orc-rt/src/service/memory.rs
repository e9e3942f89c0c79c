//! Memory of this process that the controller reads, writes, allocates and frees: data, not code.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_bytes::ByteBuf;

use super::services;
use crate::{Error, Result};

services! {
    /// The service that allocates a number of zeroed bytes at an alignment, which is a power of
    /// two, and returns the address.
    ALLOCATE = "__longshore_allocate", fn((u64, u64)) -> Result<u64>, allocate;
    /// The service that frees memory of [`ALLOCATE`].
    FREE = "__longshore_free", fn(u64) -> (), free;
    /// The service that writes bytes at addresses, in order.
    WRITE = "__longshore_write", fn(Vec<(u64, ByteBuf)>) -> (), write;
    /// The service that writes words at aligned addresses, each by one store. A thread that reads a
    /// word meanwhile sees the old or the new value.
    WRITE_POINTERS = "__longshore_write_pointers", fn(Vec<(u64, u64)>) -> (), write_pointers;
    /// The service that reads a number of bytes at each address.
    READ = "__longshore_read", fn(Vec<(u64, u64)>) -> Result<Vec<ByteBuf>>, read;
}

fn allocate((size, alignment): (u64, u64)) -> Result<u64> {
    let failed = |problem: String| Error::Memory {
        name: format!("{size:#x} bytes aligned to {alignment:#x}"),
        problem,
    };
    let alignment = alignment.max(size_of::<usize>() as u64);
    let mut address = std::ptr::null_mut();
    // SAFETY: the pointer to the address is writable.
    let code =
        unsafe { libc::posix_memalign(&mut address, alignment as usize, size.max(1) as usize) };
    if code != 0 {
        return Err(failed(std::io::Error::from_raw_os_error(code).to_string()));
    }
    // SAFETY: `size` bytes were allocated.
    unsafe { address.cast::<u8>().write_bytes(0, size as usize) };
    Ok(address as u64)
}

/// # Safety
/// The address must be one of [`allocate`], not yet freed, and not used any more.
unsafe fn free(address: u64) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::free(address as *mut std::ffi::c_void) };
}

/// # Safety
/// The bytes must exist and be writable, and no other code may use them meanwhile.
unsafe fn write(writes: Vec<(u64, ByteBuf)>) {
    for (address, bytes) in writes {
        // SAFETY: guaranteed by the caller.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }
}

/// # Safety
/// The words must exist, aligned and writable, and other code may use them meanwhile only
/// atomically.
unsafe fn write_pointers(writes: Vec<(u64, u64)>) {
    for (address, value) in writes {
        // SAFETY: guaranteed by the caller.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value, Ordering::Release);
    }
}

/// # Safety
/// The bytes must exist and be readable, and no other code may write them meanwhile.
unsafe fn read(ranges: Vec<(u64, u64)>) -> Result<Vec<ByteBuf>> {
    let copy = |(address, size): (u64, u64)| {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size as usize).map_err(|error| Error::Memory {
            name: format!("{size:#x} bytes that are read"),
            problem: error.to_string(),
        })?;
        // SAFETY: guaranteed by the caller; the vector has room for `size` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), size as usize);
            bytes.set_len(size as usize);
        }
        Ok(ByteBuf::from(bytes))
    };
    ranges.into_iter().map(copy).collect()
}
