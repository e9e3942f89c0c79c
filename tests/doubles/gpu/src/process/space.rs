//! The addresses of the GPU process.

use longshore_double_gpu::window;
use rustix::mm::MprotectFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Error};
use std::os::fd::OwnedFd;
use std::ptr::with_exposed_provenance_mut;

/// Reserves all free addresses from `limit` up to the stack. The system maps at the highest free
/// addresses. So later mappings, twins above all, lie below the limit, where the driver's process
/// has no addresses.
///
/// # Errors
/// A failure to read the list of mappings.
pub(super) fn take_all_above(limit: u64) -> io::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut free = limit;
    for line in maps.lines() {
        let (start, end) = range_of(line).ok_or_else(|| Error::other("/proc/self/maps"))?;
        // The stack grows down into the free range below it.
        if line.ends_with("[stack]") {
            break;
        }
        if start > free {
            // A range that another mapping has taken meanwhile stays as it is.
            let _ = window::reserve(free, start - free);
        }
        free = free.max(end);
    }
    Ok(())
}

/// Maps a window of the driver's process: its first address and the number of its file, separated
/// by a colon. The window replaces reserved addresses.
///
/// # Errors
/// A file that cannot be opened or mapped.
pub(super) fn map_window(driver: &str, window: &str) -> io::Result<()> {
    let (base, file) = window.split_once(':').ok_or_else(|| Error::other("a window"))?;
    let base: u64 = base.parse().map_err(Error::other)?;
    let path = format!("/proc/{driver}/fd/{file}");
    let file: File = OpenOptions::new().read(true).write(true).open(path)?;
    let start = with_exposed_provenance_mut(base as usize);
    // SAFETY: these pages were reserved by `take_all_above`, and nothing uses them.
    unsafe { rustix::mm::munmap(start, window::WINDOW_BYTES as usize)? };
    window::map_inaccessible(&OwnedFd::from(file), base)
}

/// Returns the bytes of a variable.
pub(super) fn read(address: u64, bytes: u64) -> Vec<u8> {
    let start = with_exposed_provenance_mut::<u8>(address as usize);
    let mut contents = vec![0; bytes as usize];
    // SAFETY: the driver requests variables of loaded modules alone. Kernels may change them
    // meanwhile, as on a GPU.
    unsafe { std::ptr::copy_nonoverlapping(start, contents.as_mut_ptr(), contents.len()) };
    contents
}

/// Writes a variable, which may be a constant in the twin.
///
/// # Errors
/// The system's error.
pub(super) fn write(address: u64, contents: &[u8]) -> io::Result<()> {
    let page = rustix::param::page_size();
    let start = address as usize / page * page;
    let end = (address as usize + contents.len()).next_multiple_of(page);
    let access = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: pages with variables of a loaded module, which are never code; the driver writes to
    // variables alone.
    unsafe {
        rustix::mm::mprotect(with_exposed_provenance_mut(start), end - start, access)?;
        let to = with_exposed_provenance_mut::<u8>(address as usize);
        std::ptr::copy_nonoverlapping(contents.as_ptr(), to, contents.len());
    }
    Ok(())
}

fn range_of(line: &str) -> Option<(u64, u64)> {
    let (start, rest) = line.split_once('-')?;
    let end = rest.split(' ').next()?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
