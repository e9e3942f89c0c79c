//! Host memory that a program registered.
//!
//! The GPU process cannot map the program's own pages, so it has a shadow of them at another
//! address. Host memory and shadow are synchronised before and after each use of the shadow:
//! changes on either side since the last time go to the other side.

use parking_lot::Mutex;

/// Maximum number of bytes that are compared at a time.
const PIECE: usize = 64;

/// Registered host memory and its shadow.
pub(crate) struct Registration {
    /// The program's pages.
    host: usize,
    /// The shadow, in this process.
    shadow: usize,
    /// The devices' address of the shadow.
    pub(crate) address: u64,
    /// Contents of both sides at the last synchronisation.
    agreed: Mutex<Vec<u8>>,
}

impl Registration {
    /// Creates a registration of memory that the program keeps in place until it is unregistered.
    pub(crate) fn new(host: usize, bytes: usize, shadow: usize, address: u64) -> Registration {
        let registration = Registration { host, shadow, address, agreed: Mutex::default() };
        let mut agreed = vec![0; bytes];
        // SAFETY: the program promises that the memory is its own; the shadow was just allocated
        // with the same size.
        unsafe {
            std::ptr::copy(bytes_at(host), agreed.as_mut_ptr(), bytes);
            std::ptr::copy(bytes_at(host), bytes_at(shadow), bytes);
        }
        *registration.agreed.lock() = agreed;
        registration
    }

    /// Copies the program's changes to the shadow.
    pub(crate) fn to_device(&self) {
        self.transfer(self.host, self.shadow);
    }

    /// Copies the devices' changes to the program's memory.
    pub(crate) fn to_host(&self) {
        self.transfer(self.shadow, self.host);
    }

    fn transfer(&self, from: usize, to: usize) {
        let mut agreed = self.agreed.lock();
        for (index, piece) in agreed.chunks_mut(PIECE).enumerate() {
            let offset = index * PIECE;
            let mut now = [0; PIECE];
            // SAFETY: both sides have the length of `agreed` and stay in place while they are
            // registered. A concurrent write of the other process or of the program is seen now or
            // later.
            unsafe {
                std::ptr::copy(bytes_at(from + offset), now.as_mut_ptr(), piece.len());
            }
            if now[..piece.len()] == *piece {
                continue;
            }
            for (place, new) in piece.iter_mut().zip(now).enumerate() {
                if *new.0 != new.1 {
                    *new.0 = new.1;
                    // SAFETY: as above.
                    unsafe { bytes_at(to + offset + place).write_volatile(new.1) };
                }
            }
        }
    }
}

fn bytes_at(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}
