//! The layout of memory: ranges of addresses on which the program's process and the GPU processes
//! agree.
//!
//! A [`Window`] is a sparse file in memory. The program's process maps it twice. At the window's
//! own addresses only memory that the program may use is accessible; the alias is for the driver.
//! GPU processes map the window at its own addresses, where only allocations are accessible. No
//! address is used twice until all addresses of a window were used, so that accesses to freed
//! memory fault.

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of each window in bytes.
pub const WINDOW_BYTES: u64 = 1 << 40;
/// Maximum number of devices.
pub const MOST_DEVICES: usize = 8;
/// Maximum number of GPU processes at a time.
pub const MOST_SLOTS: usize = 32;
/// The first address of the first double of a process.
const START: u64 = 0x0200_0000_0000;
/// Size of a double's addresses: windows of code, of devices, and one of host memory. Two doubles
/// fit below the addresses of programs.
const BYTES: u64 = (MOST_SLOTS + MOST_DEVICES + 1) as u64 * WINDOW_BYTES;
/// First address of the first device's window of this double. The other devices' windows follow,
/// then the window of host memory.
static BASE: AtomicU64 = AtomicU64::new(base_of(0));

const fn base_of(place: u64) -> u64 {
    START + place * BYTES + MOST_SLOTS as u64 * WINDOW_BYTES
}

/// Sets the addresses of this double. A process may have doubles at the places 0 and 1. Must be
/// called before any other function here.
pub fn take_place(place: u64) {
    BASE.store(base_of(place), Ordering::Relaxed);
}

fn base() -> u64 {
    BASE.load(Ordering::Relaxed)
}

/// Preferred addresses of the windows' aliases, above the addresses of programs.
const ALIASES: u64 = 0x6000_0000_0000;
/// Size of a page in bytes, the unit of protection.
const PAGE: u64 = 4096;
/// Byte that fills fresh memory.
const POISON: u8 = 0xa5;
/// Maximum number of bytes to fill in a fresh allocation, as written pages occupy memory.
const MOST_POISON: u64 = 16 << 20;

/// Returns the first address of a device's window.
pub fn device_base(device: usize) -> u64 {
    base() + device as u64 * WINDOW_BYTES
}

/// Returns the first address of the window of host memory that devices reach.
pub fn shared_base() -> u64 {
    device_base(MOST_DEVICES)
}

/// Returns the addresses below which the GPU process in `slot` maps code and other memory without a
/// fixed address. Slots do not overlap, so that a variable's address identifies its process.
pub fn code_end(slot: usize) -> u64 {
    base() - slot as u64 * WINDOW_BYTES
}

/// Reserves the addresses of all code windows in this process.
///
/// # Errors
/// Addresses that are in use.
pub fn reserve_code_windows() -> io::Result<()> {
    let bytes = MOST_SLOTS as u64 * WINDOW_BYTES;
    reserve(base() - bytes, bytes)
}

/// Makes an unmapped range of this process's addresses inaccessible.
///
/// # Errors
/// Addresses that are in use.
pub fn reserve(address: u64, bytes: u64) -> io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: with this flag nothing that is mapped is replaced.
    unsafe {
        let hint = without_provenance_mut(address as usize);
        rustix::mm::mmap_anonymous(hint, bytes as usize, ProtFlags::empty(), flags)?;
    }
    Ok(())
}

/// A range of addresses, and the memory behind it.
pub struct Window {
    base: u64,
    alias: usize,
    file: OwnedFd,
    limit: u64,
    state: Mutex<State>,
}

/// The use of a window.
#[derive(Default)]
struct State {
    /// Offset of the next allocation's pages from the base, in bytes.
    next: u64,
    used: u64,
}

impl Window {
    /// Creates an empty window at `base`, of which `limit` bytes can be in use at a time.
    ///
    /// # Errors
    /// Addresses that are in use, or a system without memory files.
    pub fn new(base: u64, limit: u64) -> io::Result<Window> {
        let file = rustix::fs::memfd_create("longshore-double", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, WINDOW_BYTES)?;
        map_inaccessible(&file, base)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // Without a hint, valgrind finds no room of this size.
        let hint = without_provenance_mut((ALIASES + base % (32 * WINDOW_BYTES)) as usize);
        // SAFETY: without a fixed address, nothing that is mapped is replaced.
        let alias = unsafe {
            let alias = rustix::mm::mmap(hint, WINDOW_BYTES as usize, access, flags, &file, 0)?;
            rustix::mm::madvise(alias, WINDOW_BYTES as usize, Advice::LinuxDontDump)?;
            alias.expose_provenance()
        };
        Ok(Window { base, alias, file, limit, state: Mutex::default() })
    }

    /// Returns the first address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the descriptor of the file.
    pub fn file(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Returns the limit and the number of bytes in use.
    pub fn usage(&self) -> (u64, u64) {
        (self.limit, self.state.lock().used)
    }

    /// Returns whether the address is in the window.
    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.base + WINDOW_BYTES).contains(&address)
    }

    /// Returns the alias of an address, at which this process has the same memory.
    pub fn alias_of(&self, address: u64) -> usize {
        debug_assert!(self.contains(address));
        self.alias + (address - self.base) as usize
    }

    /// Allocates `bytes` poisoned bytes. Their end is as near to an inaccessible page as a start at
    /// a multiple of 512 bytes allows; `offset` sets the start's offset in its page instead.
    /// Returns `None` without room.
    pub fn allocate(&self, bytes: u64, offset: Option<u64>) -> Option<u64> {
        let pages = pages_for(bytes, offset)?;
        let mut state = self.state.lock();
        if state.used.checked_add(bytes)? > self.limit {
            return None;
        }
        if state.next + pages + PAGE > WINDOW_BYTES {
            state.next = 0;
        }
        if pages + PAGE > WINDOW_BYTES {
            return None;
        }
        let start = self.base + state.next;
        // One page after the allocation stays inaccessible.
        state.next += pages + PAGE;
        state.used += bytes;
        drop(state);
        let address = start + offset.unwrap_or((pages - bytes) / 512 * 512);
        self.poison(address, bytes);
        Some(address)
    }

    /// Reserves addresses without memory, at a multiple of a page. Returns `None` if no addresses
    /// are left.
    pub fn take_addresses(&self, bytes: u64) -> Option<u64> {
        let pages = pages_for(bytes, None)?;
        let mut state = self.state.lock();
        let start = state.next;
        state.next = start.checked_add(pages + PAGE).filter(|next| *next <= WINDOW_BYTES)?;
        Some(self.base + start)
    }

    /// Frees an allocation of [`Window::allocate`].
    pub fn free(&self, address: u64, bytes: u64) {
        let (start, pages) = pages_of(address, bytes);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Without the hole, the memory stays in use until the window is gone.
        let _ = rustix::fs::fallocate(&self.file, flags, start - self.base, pages);
        self.state.lock().used -= bytes;
    }

    /// Makes pages accessible or inaccessible to the program, at their own addresses.
    ///
    /// # Errors
    /// The system's error.
    pub fn show(&self, address: u64, bytes: u64, accessible: bool) -> io::Result<()> {
        protect(address, bytes, accessible)
    }

    fn poison(&self, address: u64, bytes: u64) {
        let start = without_provenance_mut::<u8>(self.alias_of(address));
        // SAFETY: the alias is mapped as long as the window, and the range was just taken.
        unsafe { exposed(start).write_bytes(POISON, bytes.min(MOST_POISON) as usize) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        for address in [self.alias as u64, self.base] {
            // SAFETY: both mappings are the window's; pointers handed out are invalid after its
            // end.
            let _ = unsafe {
                let start = without_provenance_mut(address as usize);
                rustix::mm::munmap(start, WINDOW_BYTES as usize)
            };
        }
    }
}

/// Maps a window's file at its address, inaccessible.
///
/// # Errors
/// Addresses that are in use.
pub fn map_inaccessible(file: &OwnedFd, base: u64) -> io::Result<()> {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    let hint = without_provenance_mut(base as usize);
    // SAFETY: with this flag nothing that is mapped is replaced.
    unsafe {
        let size = WINDOW_BYTES as usize;
        let start = rustix::mm::mmap(hint, size, ProtFlags::empty(), flags, file, 0)?;
        rustix::mm::madvise(start, size, Advice::LinuxDontDump)?;
    }
    Ok(())
}

/// Makes the pages of a range of a window accessible at their own addresses, or inaccessible.
///
/// # Errors
/// The system's error.
pub fn protect(address: u64, bytes: u64, accessible: bool) -> io::Result<()> {
    let (start, pages) = pages_of(address, bytes);
    let access = match accessible {
        true => MprotectFlags::READ | MprotectFlags::WRITE,
        false => MprotectFlags::empty(),
    };
    // SAFETY: pages of a window, which are only used through its allocations.
    unsafe {
        rustix::mm::mprotect(without_provenance_mut(start as usize), pages as usize, access)?
    };
    Ok(())
}

fn pages_for(bytes: u64, offset: Option<u64>) -> Option<u64> {
    bytes.checked_add(offset.unwrap_or(0))?.checked_next_multiple_of(PAGE)
}

fn pages_of(address: u64, bytes: u64) -> (u64, u64) {
    let start = address / PAGE * PAGE;
    (start, (address + bytes).next_multiple_of(PAGE) - start)
}

fn exposed(pointer: *mut u8) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(pointer.addr())
}
