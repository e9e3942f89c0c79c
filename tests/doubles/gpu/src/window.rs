//! Where memory lies: ranges of addresses that the program's process and those of the GPUs agree on.
//!
//! A [`Window`] is a sparse file in memory. The program's process has it twice: at its own addresses, where only
//! what the program may use can be accessed, and as an alias, which is the driver's. GPU processes have it
//! at its own addresses, where only what is allocated can be accessed. No address is used twice until all of a
//! window's were, so that what was freed faults.

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of each window.
pub const WINDOW_BYTES: u64 = 1 << 40;
/// Most devices.
pub const MOST_DEVICES: usize = 8;
/// Most GPU processes at a time.
pub const MOST_SLOTS: usize = 32;
/// The first address of the first double of a process.
const START: u64 = 0x0200_0000_0000;
/// The addresses of a double: windows of code, of devices, and one of host memory. Two have room below where programs are.
const BYTES: u64 = (MOST_SLOTS + MOST_DEVICES + 1) as u64 * WINDOW_BYTES;
/// Where this double's first device has its window; the others follow, and behind them the one of host memory.
static BASE: AtomicU64 = AtomicU64::new(base_of(0));

const fn base_of(place: u64) -> u64 {
    START + place * BYTES + MOST_SLOTS as u64 * WINDOW_BYTES
}

/// Chooses the addresses of this double, of which a process may have several: `place` is 0 or 1. To be called before
/// anything else here.
pub fn take_place(place: u64) {
    BASE.store(base_of(place), Ordering::Relaxed);
}

fn base() -> u64 {
    BASE.load(Ordering::Relaxed)
}

/// Where windows have their aliases, if there is room: behind where programs are.
const ALIASES: u64 = 0x6000_0000_0000;
/// Pages are the unit of protection.
const PAGE: u64 = 4096;
/// What fresh memory is filled with.
const POISON: u8 = 0xa5;
/// How much of a fresh allocation is filled, at the most: pages that are written are present.
const MOST_POISON: u64 = 16 << 20;

/// The first address of a device's window.
pub fn device_base(device: usize) -> u64 {
    base() + device as u64 * WINDOW_BYTES
}

/// The first address of the window of host memory that devices reach.
pub fn shared_base() -> u64 {
    device_base(MOST_DEVICES)
}

/// The addresses below which the GPU process in `slot` maps code and all else that it is not told where to map: those of
/// different slots do not overlap, so that an address of a variable tells whose it is.
pub fn code_end(slot: usize) -> u64 {
    base() - slot as u64 * WINDOW_BYTES
}

/// Keeps the addresses of all code windows free of anything else in this process.
///
/// # Errors
/// If something is there.
pub fn reserve_code_windows() -> io::Result<()> {
    let bytes = MOST_SLOTS as u64 * WINDOW_BYTES;
    reserve(base() - bytes, bytes)
}

/// Makes a range of this process's addresses inaccessible that nothing is mapped to.
///
/// # Errors
/// If something is there.
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

/// How much of a window is in use.
#[derive(Default)]
struct State {
    /// Where the next allocation's pages begin, from the base.
    next: u64,
    used: u64,
}

impl Window {
    /// An empty window at `base`, of which `limit` bytes can be in use at a time.
    ///
    /// # Errors
    /// If the addresses are in use, or the system has no memory files.
    pub fn new(base: u64, limit: u64) -> io::Result<Window> {
        let file = rustix::fs::memfd_create("longshore-double", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, WINDOW_BYTES)?;
        map_inaccessible(&file, base)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // Left to itself, valgrind finds no room of this size.
        let hint = without_provenance_mut((ALIASES + base % (32 * WINDOW_BYTES)) as usize);
        // SAFETY: without a fixed address, nothing that is mapped is replaced.
        let alias = unsafe {
            let alias = rustix::mm::mmap(hint, WINDOW_BYTES as usize, access, flags, &file, 0)?;
            rustix::mm::madvise(alias, WINDOW_BYTES as usize, Advice::LinuxDontDump)?;
            alias.expose_provenance()
        };
        Ok(Window { base, alias, file, limit, state: Mutex::default() })
    }

    /// First address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The file, by its number in this process.
    pub fn file(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// How many bytes can be in use, and how many are.
    pub fn usage(&self) -> (u64, u64) {
        (self.limit, self.state.lock().used)
    }

    /// Whether the address is in the window.
    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.base + WINDOW_BYTES).contains(&address)
    }

    /// Where this process has what is at an address of the window.
    pub fn alias_of(&self, address: u64) -> usize {
        debug_assert!(self.contains(address));
        self.alias + (address - self.base) as usize
    }

    /// Takes room for `bytes`, poisoned, whose end is as near to an inaccessible page as a multiple of 512 can be.
    /// `offset` is where in a page it begins instead, if that matters. `None` if there is no room.
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
        // One page behind it stays inaccessible.
        state.next += pages + PAGE;
        state.used += bytes;
        drop(state);
        let address = start + offset.unwrap_or((pages - bytes) / 512 * 512);
        self.poison(address, bytes);
        Some(address)
    }

    /// Takes addresses that nothing is ever behind, at a multiple of a page. `None` if there are none left.
    pub fn take_addresses(&self, bytes: u64) -> Option<u64> {
        let pages = pages_for(bytes, None)?;
        let mut state = self.state.lock();
        let start = state.next;
        state.next = start.checked_add(pages + PAGE).filter(|next| *next <= WINDOW_BYTES)?;
        Some(self.base + start)
    }

    /// Gives back what [`Window::allocate`] gave.
    pub fn free(&self, address: u64, bytes: u64) {
        let (start, pages) = pages_of(address, bytes);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Without it, the memory stays in use until the window is gone.
        let _ = rustix::fs::fallocate(&self.file, flags, start - self.base, pages);
        self.state.lock().used -= bytes;
    }

    /// Lets the program access pages at their own addresses, or stops that.
    ///
    /// # Errors
    /// Those of the system.
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
            // SAFETY: both mappings are the window's; what was handed out ends with it.
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
/// If something is there.
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
/// Those of the system.
pub fn protect(address: u64, bytes: u64, accessible: bool) -> io::Result<()> {
    let (start, pages) = pages_of(address, bytes);
    let access = match accessible {
        true => MprotectFlags::READ | MprotectFlags::WRITE,
        false => MprotectFlags::empty(),
    };
    // SAFETY: pages of a window, which only what was allocated there uses.
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
