//! Data of a process: memory that the controller allocates, writes and reads. Memory shared by both
//! processes is copied here; all other memory is reached by messages.

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::sync::Arc;

use longshore_jitlink::memory::{
    AllocationRequest, FinalizedAllocation, Lifetime, MemoryManager, ObjectRequest, Pending,
    Placement, ProcessMemory, Protection, SegmentRequest,
};
use longshore_jitlink::process::{ProcessCalls, call_service};
use longshore_jitlink::{Error, Result, wait};
use longshore_orc_rt::service::memory::{READ, WRITE};
use parking_lot::Mutex;
use serde_bytes::ByteBuf;

/// Allocations by address; each has its own pages.
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

/// Greatest number of messages under way for one request; the connection has a limit for all
/// requests together.
const AT_ONCE: usize = 16;

/// Greatest number of bytes that one message writes or reads.
const PIECE: usize = 1 << 20;

/// Writes as [`TargetProcess::write`](longshore_jitlink::process::TargetProcess::write) does.
/// Blocks while [`AT_ONCE`] messages are under way.
///
/// # Safety
/// As for `TargetProcess::write`.
pub(super) unsafe fn write(
    memory: &ProcessMemory,
    calls: &dyn ProcessCalls,
    writes: &[(u64, &[u8])],
) -> Pending<()> {
    // SAFETY: guaranteed by the caller.
    let far = |(address, bytes): &&(u64, &[u8])| unsafe { !memory.write(*address, bytes) };
    let pieces = writes.iter().filter(far).flat_map(|(address, bytes)| {
        let piece = move |(index, piece)| (address + (index * PIECE) as u64, ByteBuf::from(piece));
        bytes.chunks(PIECE).enumerate().map(piece)
    });
    let mut under_way = PendingMessages::default();
    for message in messages(pieces, |(_, bytes)| bytes.len()) {
        // SAFETY: guaranteed by the caller.
        under_way.add(unsafe { call_service(calls, WRITE, &message) });
    }
    Box::pin(async move { under_way.finish().await.map(drop) })
}

/// Reads as [`TargetProcess::read`](longshore_jitlink::process::TargetProcess::read) does. Blocks
/// while [`AT_ONCE`] messages are under way.
///
/// # Safety
/// As for `TargetProcess::read`.
pub(super) unsafe fn read(
    memory: &ProcessMemory,
    calls: &dyn ProcessCalls,
    ranges: &[(u64, usize)],
) -> Pending<Vec<Vec<u8>>> {
    let near = |(address, size): &(u64, usize)| {
        // SAFETY: guaranteed by the caller.
        unsafe { memory.read(*address, *size) }
    };
    let mut all: Vec<Option<Vec<u8>>> = ranges.iter().map(near).collect();
    let far = ranges.iter().zip(&all).filter(|(_, near)| near.is_none());
    let far: Vec<(u64, usize)> = far.map(|(range, _)| *range).collect();
    let pieces = far.iter().flat_map(|(address, size)| {
        let starts = (0..*size).step_by(PIECE);
        starts.map(move |start| (address + start as u64, PIECE.min(size - start) as u64))
    });
    let mut under_way = PendingMessages::default();
    for message in messages(pieces, |(_, size)| *size as usize) {
        // SAFETY: guaranteed by the caller.
        under_way.add(unsafe { call_service(calls, READ, &message) });
    }
    Box::pin(async move {
        let mut replies = Vec::new();
        for reply in under_way.finish().await? {
            replies.extend(reply?);
        }
        let mut replies = replies.into_iter();
        for ((_, size), bytes) in far.iter().zip(all.iter_mut().filter(|near| near.is_none())) {
            let pieces = replies.by_ref().take(size.div_ceil(PIECE));
            *bytes = Some(pieces.flat_map(ByteBuf::into_vec).collect());
        }
        Ok(all.into_iter().flatten().collect())
    })
}

/// Groups pieces into messages.
fn messages<T>(pieces: impl Iterator<Item = T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for piece in pieces {
        // The description of a piece takes about 16 bytes too.
        bytes += size(&piece) + 16;
        if bytes > PIECE || messages.is_empty() {
            bytes = size(&piece) + 16;
            messages.push(Vec::new());
        }
        messages.last_mut().expect("one was just added").push(piece);
    }
    messages
}

/// Messages under way, in order. At [`AT_ONCE`] messages, adding one waits for the reply of the
/// oldest.
struct PendingMessages<T> {
    waiting: VecDeque<Pending<T>>,
    done: Vec<Result<T>>,
}

impl<T> Default for PendingMessages<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), done: Vec::new() }
    }
}

impl<T> PendingMessages<T> {
    fn add(&mut self, message: Pending<T>) {
        if self.waiting.len() == AT_ONCE {
            self.done.extend(self.waiting.pop_front().map(wait));
        }
        self.waiting.push_back(message);
    }

    async fn finish(mut self) -> Result<Vec<T>> {
        for message in self.waiting {
            self.done.push(message.await);
        }
        self.done.into_iter().collect()
    }
}
