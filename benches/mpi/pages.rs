//! Memory that begins with a page, as the memory of devices and of OSU's benchmarks does. Copies
//! between processes are several times slower on some processors if the places in the pages differ.

use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;

/// Bytes of whole pages.
pub(crate) struct Pages {
    memory: Vec<u8>,
    at: usize,
    bytes: usize,
}

impl Pages {
    /// Creates memory of ones.
    pub(crate) fn new(bytes: usize) -> Self {
        let memory = vec![1; bytes + PAGE];
        let at = memory.as_ptr().align_offset(PAGE);
        Self { memory, at, bytes }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.at..self.at + self.bytes]
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.at..self.at + self.bytes]
    }
}
