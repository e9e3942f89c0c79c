//! Host memory that a program registered.
//!
//! The GPU process cannot have the program's own pages, so it has a shadow of them, at another address. The two are
//! brought into agreement before and after whatever uses the shadow: what either side has changed since goes to the other.

use parking_lot::Mutex;

/// The largest piece that is compared at a time.
const PIECE: usize = 64;

/// Registered host memory and its shadow.
pub(crate) struct Registration {
    /// The program's pages.
    host: usize,
    /// The shadow, in this process.
    shadow: usize,
    /// The devices' address of the shadow.
    pub(crate) address: u64,
    /// What both sides were when they agreed.
    agreed: Mutex<Vec<u8>>,
}

impl Registration {
    /// Enters memory that the program keeps in place until it is unregistered.
    pub(crate) fn new(host: usize, bytes: usize, shadow: usize, address: u64) -> Registration {
        let registration = Registration { host, shadow, address, agreed: Mutex::default() };
        let mut agreed = vec![0; bytes];
        // SAFETY: the program promises that the memory is its own; the shadow was just allocated as large.
        unsafe {
            std::ptr::copy(bytes_at(host), agreed.as_mut_ptr(), bytes);
            std::ptr::copy(bytes_at(host), bytes_at(shadow), bytes);
        }
        *registration.agreed.lock() = agreed;
        registration
    }

    /// Gives the shadow what the program has changed.
    pub(crate) fn to_device(&self) {
        self.transfer(self.host, self.shadow);
    }

    /// Gives the program what devices have changed.
    pub(crate) fn to_host(&self) {
        self.transfer(self.shadow, self.host);
    }

    fn transfer(&self, from: usize, to: usize) {
        let mut agreed = self.agreed.lock();
        for (index, piece) in agreed.chunks_mut(PIECE).enumerate() {
            let offset = index * PIECE;
            let mut now = [0; PIECE];
            // SAFETY: both sides are as long as what they agreed on and stay in place while they are registered. What the
            // other process or the program writes at the same time is seen now or later.
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
