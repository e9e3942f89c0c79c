//! Memory that this process shares with the host, at the same addresses.

use std::os::fd::BorrowedFd;

use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

/// The address range reserved for shared memory.
#[derive(Default)]
pub(super) struct SharedMemory {
    reserved: Mutex<Option<(u64, u64)>>,
}

impl SharedMemory {
    /// Reserves a range of addresses. Returns false if a part of it is in use.
    ///
    /// # Errors
    /// `OutOfResources` if the system refuses.
    pub(super) fn reserve(&self, address: u64, bytes: u64) -> Result<bool> {
        let mut reserved = self.reserved.lock();
        if reserved.is_some() {
            return Err(wrong("addresses are reserved already".to_owned()));
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        let place = address as *mut std::ffi::c_void;
        // SAFETY: a new mapping, which replaces none.
        match unsafe { mmap_anonymous(place, bytes as usize, ProtFlags::empty(), flags) } {
            Ok(at) if at == place => {
                *reserved = Some((address, bytes));
                Ok(true)
            }
            Ok(at) => {
                // Linux before 4.17 does not know the flag.
                // SAFETY: the mapping was made above, and nothing uses it.
                let _ = unsafe { rustix::mm::munmap(at, bytes as usize) };
                Ok(false)
            }
            // The range is in use, or larger than this process may reserve: a smaller one may
            // succeed.
            Err(Errno::EXIST | Errno::NOMEM) => Ok(false),
            Err(error) => Err(failed("reserving", address, bytes, error)),
        }
    }

    /// Maps bytes of a file in the reserved range.
    ///
    /// # Errors
    /// `InvalidArgument` outside the range, `OutOfResources` if the system refuses.
    pub(super) fn map(
        &self,
        file: BorrowedFd<'_>,
        address: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<()> {
        self.check(address, bytes)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let place = address as *mut std::ffi::c_void;
        // SAFETY: the addresses are in the reserved range, which nothing else uses.
        let mapped = unsafe { mmap(place, bytes as usize, access, flags, file, offset) };
        mapped.map(drop).map_err(|error| failed("mapping", address, bytes, error))
    }

    /// Unmaps bytes of the reserved range and keeps the addresses reserved.
    ///
    /// # Errors
    /// As for [`SharedMemory::map`].
    pub(super) fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        self.check(address, bytes)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let place = address as *mut std::ffi::c_void;
        // SAFETY: the addresses are in the reserved range, and the host guarantees that nothing
        // uses the memory any more.
        let kept = unsafe { mmap_anonymous(place, bytes as usize, ProtFlags::empty(), flags) };
        kept.map(drop).map_err(|error| failed("unmapping", address, bytes, error))
    }

    /// Checks that a range lies in the reserved one and is not empty.
    pub(super) fn check(&self, address: u64, bytes: u64) -> Result<()> {
        let reserved = *self.reserved.lock();
        let fits = reserved.is_some_and(|(start, size)| {
            address >= start && bytes <= size && address - start <= size - bytes
        });
        if fits && bytes > 0 {
            return Ok(());
        }
        Err(wrong(format!("{bytes} bytes at {address:#x} are not in the range of shared memory")))
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

fn failed(doing: &str, address: u64, bytes: u64, error: Errno) -> Error {
    let message = format!("{doing} {bytes} bytes at {address:#x}: {error}");
    Error::new(ErrorCode::OutOfResources, message)
}
