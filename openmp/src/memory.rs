//! Device memory for mapped data: a pool of small blocks, and allocations of their own above it.

use longshore::{Allocation, Device, MemoryKind, Result};

/// Size in bytes of the smallest block.
const SMALLEST: u64 = 64;
/// Size in bytes of the allocations that the pool cuts into blocks.
const CHUNK: u64 = 256 << 10;
/// Alignment of allocations that the pool does not serve, in bytes.
const ALIGNMENT: u64 = 256;

/// Device memory of one mapping.
pub(crate) enum Memory {
    /// A block of the pool: its address and its class.
    Block(u64, u8),
    /// An allocation of its own.
    Own(Allocation),
}

impl Memory {
    /// Returns the first address.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Memory::Block(address, _) => *address,
            Memory::Own(allocation) => allocation.pointer().address(),
        }
    }
}

/// A pool of small blocks of a device. Its owner serialises all calls. LLVM: `MemoryManagerTy`.
pub(crate) struct Pool {
    device: Device,
    /// Most bytes of a block.
    threshold: u64,
    chunks: Vec<Allocation>,
    free: Vec<Vec<u64>>,
    /// First unused address of the newest chunk, and its end.
    unused: (u64, u64),
}

impl Pool {
    /// Creates an empty pool for allocations up to `threshold` bytes.
    pub(crate) fn new(device: Device, threshold: u64) -> Pool {
        let threshold = threshold.min(CHUNK / 4);
        let classes = if threshold == 0 { 0 } else { class_of(threshold) + 1 };
        let free = (0..classes).map(|_| Vec::new()).collect();
        Pool { device, threshold, chunks: Vec::new(), free, unused: (0, 0) }
    }

    /// Allocates memory of this size, at least 1 byte, at a multiple of 64 bytes. May block.
    ///
    /// # Errors
    /// Errors of [`Device::allocate`].
    #[inline]
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<Memory> {
        if bytes > self.threshold {
            let kind = MemoryKind::Device;
            return Ok(Memory::Own(self.device.allocate(kind, bytes.max(1), ALIGNMENT)?));
        }
        let class = class_of(bytes);
        match self.free[class].pop() {
            Some(address) => Ok(Memory::Block(address, class as u8)),
            None => self.cut(class),
        }
    }

    /// Returns memory. The caller has waited for the work that uses it.
    #[inline]
    pub(crate) fn free(&mut self, memory: Memory) {
        match memory {
            Memory::Block(address, class) => self.free[usize::from(class)].push(address),
            Memory::Own(allocation) => drop(allocation),
        }
    }

    #[cold]
    fn cut(&mut self, class: usize) -> Result<Memory> {
        let bytes = SMALLEST << class;
        let (begin, end) = self.unused;
        // Blocks are aligned to their size, up to the alignment of other allocations.
        let begin = begin.next_multiple_of(bytes.min(ALIGNMENT));
        if begin + bytes <= end {
            self.unused.0 = begin + bytes;
            return Ok(Memory::Block(begin, class as u8));
        }
        let chunk = self.device.allocate(MemoryKind::Device, CHUNK, ALIGNMENT)?;
        let begin = chunk.pointer().address();
        self.unused = (begin + bytes, begin + CHUNK);
        self.chunks.push(chunk);
        Ok(Memory::Block(begin, class as u8))
    }
}

fn class_of(bytes: u64) -> usize {
    (bytes.max(SMALLEST).next_power_of_two() / SMALLEST).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::class_of;

    #[test]
    fn classes_are_powers_of_two_from_64_bytes_on() {
        assert_eq!([1, 64, 65, 128, 8192].map(class_of), [0, 0, 1, 1, 7]);
    }
}
