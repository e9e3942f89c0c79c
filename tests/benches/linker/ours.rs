//! The linker under test, as a call in this process.
//!
//! The objects are mapped anew before each run, from the page cache; the faults that reading them takes are part of the
//! time, as they are for the peers.

use crate::memory;
use crate::workloads::Workload;
use anyhow::{Result, bail};
use bytes::Bytes;
use std::time::Duration;

/// What a link holds while it runs, beyond the objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPeak {
    /// Most bytes on the heap at one time.
    pub(crate) heap: u64,
    /// Bytes that the memory manager has mapped, working memory included.
    pub(crate) mapped: u64,
}

/// Links a workload once.
///
/// # Errors
/// Objects that cannot be read or linked.
pub(crate) fn run(workload: &Workload, threads: usize) -> Result<Duration> {
    Ok(link(&workload.map()?, threads)?.0)
}

/// Links a workload once more, on one thread, and watches the memory. `None` if it cannot be linked.
///
/// # Errors
/// Objects that cannot be read.
pub(crate) fn peak(workload: &Workload) -> Result<Option<MemoryPeak>> {
    let objects = workload.map()?;
    let (linked, heap) = memory::watch(|| link(&objects, 1));
    Ok(linked.ok().map(|(_, mapped)| MemoryPeak { heap, mapped }))
}

/// Links the objects, all of their definitions, with every undefined symbol at some absolute address. Returns the time
/// from here until the code could be called, and the bytes that the memory manager has mapped for it.
fn link(_objects: &[Bytes], _threads: usize) -> Result<(Duration, u64)> {
    bail!("there is no session yet")
}
