//! Data of a process: memory that the controller allocates, writes and reads. What both processes have is copied here; the rest goes
//! by messages.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use longshore_jitlink::memory::{
    AllocationRequest, FinalizedAllocation, Lifetime, MemoryManager, ObjectRequest, Pending,
    Placement, ProcessMemory, Protection, SegmentRequest,
};
use longshore_jitlink::process::{ProcessCalls, call_service};
use longshore_jitlink::{Error, Result};
use longshore_runtime::service::memory::{READ, WRITE};
use parking_lot::Mutex;
use serde_bytes::ByteBuf;

/// What was allocated, by address: pages each.
pub(super) struct Data {
    memory: Arc<ProcessMemory>,
    allocated: Arc<Mutex<BTreeMap<u64, FinalizedAllocation>>>,
}

impl Data {
    pub(super) fn new(memory: Arc<ProcessMemory>) -> Self {
        Self { memory, allocated: Arc::default() }
    }

    pub(super) fn allocate(&self, size: u64, alignment: u64) -> Pending<u64> {
        let segments = [SegmentRequest {
            protection: Protection::ReadWrite,
            lifetime: Lifetime::Standard,
            alignment,
            content_size: 0,
            zero_fill_size: size.max(1),
            group: 0,
        }];
        let objects = [ObjectRequest { name: "data of a program", segments: &segments }];
        let request = AllocationRequest { objects: &objects, placement: Placement::Anywhere };
        let reserved = self.memory.allocate(request);
        let allocated = Arc::clone(&self.allocated);
        Box::pin(async move {
            let reserved = reserved.await?;
            let address = reserved.addresses()[0];
            let finalized = reserved.finalize(Vec::new()).await?;
            allocated.lock().extend(finalized.into_iter().map(|finalized| (address, finalized)));
            Ok(address)
        })
    }

    pub(super) fn free(&self, address: u64) -> Pending<()> {
        match self.allocated.lock().remove(&address) {
            Some(finalized) => self.memory.deallocate(vec![finalized]),
            None => Box::pin(ready(Err(Error::Memory {
                name: format!("data at {address:#x}"),
                problem: "nothing was allocated there".to_owned(),
            }))),
        }
    }
}

/// The most bytes of a message.
const PIECE: usize = 1 << 20;

/// As [`TargetProcess::write`](longshore_jitlink::process::TargetProcess::write).
///
/// # Safety
/// As there.
pub(super) unsafe fn write(
    memory: &ProcessMemory,
    calls: &dyn ProcessCalls,
    writes: &[(u64, &[u8])],
) -> Pending<()> {
    let mut sent: Vec<Pending<()>> = Vec::new();
    for (address, bytes) in writes {
        // SAFETY: promised by the caller.
        if unsafe { memory.write(*address, bytes) } {
            continue;
        }
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            let write = (address + (index * PIECE) as u64, ByteBuf::from(piece));
            // SAFETY: promised by the caller.
            sent.push(unsafe { call_service(calls, WRITE, &vec![write]) });
        }
    }
    Box::pin(async move {
        for piece in sent {
            piece.await?;
        }
        Ok(())
    })
}

/// As [`TargetProcess::read`](longshore_jitlink::process::TargetProcess::read).
///
/// # Safety
/// As there.
pub(super) unsafe fn read(
    memory: &ProcessMemory,
    calls: &dyn ProcessCalls,
    ranges: &[(u64, usize)],
) -> Pending<Vec<Vec<u8>>> {
    let read = |(address, size): &(u64, usize)| {
        // SAFETY: promised by the caller.
        match unsafe { memory.read(*address, *size) } {
            Some(bytes) => Part::Here(bytes),
            // SAFETY: as above.
            None => Part::There(unsafe { ask(calls, *address, *size) }),
        }
    };
    let parts: Vec<Part> = ranges.iter().map(read).collect();
    Box::pin(async move {
        let mut all = Vec::with_capacity(parts.len());
        for part in parts {
            all.push(part.bytes().await?);
        }
        Ok(all)
    })
}

enum Part {
    Here(Vec<u8>),
    There(Vec<Pending<longshore_runtime::Result<Vec<ByteBuf>>>>),
}

impl Part {
    async fn bytes(self) -> Result<Vec<u8>> {
        let pieces = match self {
            Self::Here(bytes) => return Ok(bytes),
            Self::There(pieces) => pieces,
        };
        let mut bytes = Vec::new();
        for piece in pieces {
            piece.await??.iter().for_each(|piece| bytes.extend_from_slice(piece));
        }
        Ok(bytes)
    }
}

/// # Safety
/// As for [`read`].
unsafe fn ask(
    calls: &dyn ProcessCalls,
    address: u64,
    size: usize,
) -> Vec<Pending<longshore_runtime::Result<Vec<ByteBuf>>>> {
    let starts = (0..size).step_by(PIECE);
    let piece = |start: usize| {
        let range = (address + start as u64, PIECE.min(size - start) as u64);
        // SAFETY: promised by the caller.
        unsafe { call_service(calls, READ, &vec![range]) }
    };
    starts.map(piece).collect()
}
