//! Memory of pools, allocated and freed in the order of streams.

use super::blocks::{Block, Kind};
use super::context::{Context, current, current_or_failed};
use super::memory::{allocate_block, release};
use super::pool::{Pool, default_pool};
use super::{Code, DriverResult, Out, broken, machine, object, stream};
use std::sync::Arc;

/// Allocates from the default pool of the current device.
pub fn allocate_default(address: Out<u64>, bytes: usize, stream: usize) -> DriverResult {
    let device = current()?.device as i32;
    allocate(address, bytes, default_pool(device)?, stream)
}

/// Allocates from a pool. The memory is usable at once, which no program may rely on.
pub fn allocate(address: Out<u64>, bytes: usize, pool: usize, stream: usize) -> DriverResult {
    let (context, stream) = stream::for_work(stream)?;
    let pool = object::get::<Pool>(pool)?;
    if !machine()?.has_pools {
        return Err(Code::NOT_SUPPORTED);
    }
    if bytes == 0 || address.is_null() {
        return Err(broken(Code::INVALID_VALUE, "an allocation of 0 bytes, or to a null pointer"));
    }
    if pool.device != context.device {
        let what = "the double cannot allocate from another device's pool";
        return Err(broken(Code::INVALID_VALUE, what));
    }
    let kind = Kind::Pooled(pool.handle);
    let block = allocate_block(&context, kind, bytes as u64, 0)?;
    pool.take(bytes as u64);
    stream.push(|_| ())?;
    address.put(block.address)
}

/// Frees memory when the stream reaches that point.
pub fn free(address: u64, stream: usize) -> DriverResult {
    let context = current_or_failed()?;
    if context.check().is_err() {
        return free_at_once(&context, address);
    }
    let (_, stream) = stream::for_work(stream)?;
    let block = to_free(address)?;
    block.end();
    stream.push(move |_| {
        if let Ok(machine) = machine() {
            release(machine, &block);
        }
    })?;
    Ok(())
}

fn to_free(address: u64) -> DriverResult<Arc<Block>> {
    let is_pooled = |kind: &Kind| matches!(kind, Kind::Device | Kind::Pooled(_));
    machine()?.blocks.to_free(address, is_pooled)
}

fn free_at_once(context: &Context, address: u64) -> DriverResult {
    release(machine()?, &*to_free(address)?);
    context.check()
}
