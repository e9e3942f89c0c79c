//! The table by which device code calls functions through pointers of the host.

use super::environment;
use crate::entries::{Entry, EntryKind};
use longshore::{Allocation, Device, Error, ErrorCode, Global, MemoryKind, Program, Queue, Result};

const POINTER: u64 = 8;

/// A table of indirect calls in device memory.
pub(super) struct IndirectCalls {
    memory: Option<Allocation>,
    pub(super) count: u64,
}

impl IndirectCalls {
    /// Makes the table for the entries of a library: pairs of a host's and a device's address, in
    /// the order of the host's. Blocks. LLVM: `setupIndirectCallTable`.
    ///
    /// # Errors
    /// Errors of the driver; a function that the image lacks.
    pub(super) fn new(
        device: &Device,
        queue: &Queue,
        program: &Program,
        entries: &[Entry],
    ) -> Result<IndirectCalls> {
        let mut pairs = Vec::new();
        for entry in entries {
            match entry.kind {
                EntryKind::IndirectFunction => {
                    let global = program.global(&entry.name)?;
                    pairs.push((entry.address, pointer(queue, &global, &entry.name)?));
                }
                EntryKind::IndirectTable => add_table(queue, program, entry, &mut pairs)?,
                _ => {}
            }
        }
        if pairs.is_empty() {
            return Ok(IndirectCalls { memory: None, count: 0 });
        }
        pairs.sort_unstable();
        let contents: Vec<u8> = pairs
            .iter()
            .flat_map(|(host, target)| [*host, *target])
            .flat_map(u64::to_le_bytes)
            .collect();
        let memory = device.allocate(MemoryKind::Device, contents.len() as u64, POINTER)?;
        environment::write_at(queue, memory.pointer().address(), &contents)?;
        Ok(IndirectCalls { memory: Some(memory), count: pairs.len() as u64 })
    }

    /// Returns the table's device address; 0 without functions.
    pub(super) fn address(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.pointer().address())
    }
}

/// Adds the functions of a virtual table. The device's variable holds the table's address there,
/// and the entry has the table of the host.
fn add_table(
    queue: &Queue,
    program: &Program,
    entry: &Entry,
    pairs: &mut Vec<(u64, u64)>,
) -> Result<()> {
    let table = pointer(queue, &program.global(&entry.name)?, &entry.name)?;
    let bytes = entry.bytes / POINTER * POINTER;
    // SAFETY: the entry describes a constant of the program with this size.
    let host = unsafe { std::slice::from_raw_parts(entry.address as *const u8, bytes as usize) };
    let target = environment::read_at(queue, table, bytes)?;
    let words = |bytes: &[u8]| {
        let words = bytes.chunks_exact(POINTER as usize);
        words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect::<Vec<_>>()
    };
    pairs.extend(words(host).into_iter().zip(words(&target)));
    Ok(())
}

/// Returns the value of a pointer variable of the image, which `name` names. Blocks.
///
/// # Errors
/// Errors of the driver; `InvalidBinary` for a variable that is too short.
pub(crate) fn pointer(queue: &Queue, global: &Global, name: &str) -> Result<u64> {
    let value = environment::read(queue, global)?;
    let word = value.first_chunk().ok_or_else(|| {
        let message = format!(
            "the variable '{name}' with a function's address has {} bytes, expected {POINTER}",
            value.len()
        );
        Error::new(ErrorCode::InvalidBinary, message)
    })?;
    Ok(u64::from_le_bytes(*word))
}
