//! The addresses of the GPU process.

use longshore_double_gpu::window;
use rustix::mm::MprotectFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Error};
use std::os::fd::OwnedFd;
use std::ptr::with_exposed_provenance_mut;

/// Takes all free addresses from `limit` up to the stack. The system gives out the highest ones that are free, so what
/// is mapped from now on, twins above all, lies below the limit, where no address is one of the driver's process.
///
/// # Errors
/// If the system does not say what is mapped.
pub(super) fn take_all_above(limit: u64) -> io::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut free = limit;
    for line in maps.lines() {
        let (start, end) = range_of(line).ok_or_else(|| Error::other("/proc/self/maps"))?;
        // The stack grows down into what is free below it.
        if line.ends_with("[stack]") {
            break;
        }
        if start > free {
            // What was mapped in the meantime stays where it is.
            let _ = window::reserve(free, start - free);
        }
        free = free.max(end);
    }
    Ok(())
}

/// Maps a window of the driver's process: its first address and the number of its file, separated by a colon. It takes
/// the place of addresses that were taken.
///
/// # Errors
/// If the file cannot be opened or mapped.
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

/// The bytes of a variable.
pub(super) fn read(address: u64, bytes: u64) -> Vec<u8> {
    let start = with_exposed_provenance_mut::<u8>(address as usize);
    let mut contents = vec![0; bytes as usize];
    // SAFETY: the driver asks for variables of loaded modules alone. Kernels may change them meanwhile, as on a GPU.
    unsafe { std::ptr::copy_nonoverlapping(start, contents.as_mut_ptr(), contents.len()) };
    contents
}

/// Writes a variable, which the twin may have as a constant.
///
/// # Errors
/// Those of the system.
pub(super) fn write(address: u64, contents: &[u8]) -> io::Result<()> {
    let page = rustix::param::page_size();
    let start = address as usize / page * page;
    let end = (address as usize + contents.len()).next_multiple_of(page);
    let access = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: pages with variables of a loaded module, which are never code; the driver writes to variables alone.
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
