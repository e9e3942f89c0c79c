//! Attributes of pointers.

use super::blocks::{Block, Kind};
use super::{Code, DriverResult, In, Out, Untyped, broken, driver, machine};

const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const SYNC_MEMOPS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;
const RANGE_START: u32 = 11;
const RANGE_BYTES: u32 = 12;
const MAPPED: u32 = 13;
const POOL: u32 = 17;

/// Stores one attribute. A pointer unknown to the driver is an ordinary failure, not a violation.
pub fn attribute(value: Untyped, which: u32, pointer: u64) -> DriverResult {
    let block = machine()?.blocks.find(pointer).ok_or(Code::INVALID_VALUE)?;
    put(value, which, pointer, &block)
}

/// Stores several attributes, zeros for a pointer unknown to the driver.
pub fn attributes(count: u32, which: In<u32>, values: In<Untyped>, pointer: u64) -> DriverResult {
    let block = machine()?.blocks.find(pointer);
    let (which, values) = (which.list(count as usize)?, values.list(count as usize)?);
    for (which, value) in which.into_iter().zip(values) {
        match &block {
            // An attribute that does not apply to the pointer is left as zero.
            Some(block) => match put(value, which, pointer, block) {
                Ok(()) => {}
                Err(_) => put_nothing(value, which)?,
            },
            None => put_nothing(value, which)?,
        }
    }
    Ok(())
}

/// Stores the bounds of the block that contains a pointer.
pub fn range(start: Out<u64>, bytes: Out<usize>, pointer: u64) -> DriverResult {
    let block = machine()?.blocks.find(pointer).ok_or(Code::NOT_FOUND)?;
    start.put_if_wanted(block.address);
    bytes.put_if_wanted(block.bytes as usize);
    Ok(())
}

fn put(value: Untyped, which: u32, pointer: u64, block: &Block) -> DriverResult {
    let is_host = matches!(block.kind, Kind::Pinned | Kind::Registered(_));
    let [type_of_host, type_of_device] = driver().vendor.memory_types();
    let offset = pointer - block.address;
    match which {
        CONTEXT => value.put(block.context.handle),
        MEMORY_TYPE => value.put(if is_host { type_of_host } else { type_of_device }),
        DEVICE_POINTER => value.put(match &block.kind {
            Kind::Registered(registration) => registration.address + offset,
            _ => pointer,
        }),
        HOST_POINTER => match &block.kind {
            Kind::Pinned | Kind::Managed | Kind::Registered(_) => value.put(pointer),
            _ => Err(Code::INVALID_VALUE),
        },
        BUFFER_ID => value.put(block.id),
        SYNC_MEMOPS => value.put(0u8),
        IS_MANAGED => value.put(u8::from(matches!(block.kind, Kind::Managed))),
        DEVICE_ORDINAL => value.put(block.context.device as i32),
        RANGE_START => value.put(block.address),
        RANGE_BYTES => match driver().vendor.reports_low_half_of_sizes() {
            true => value.put(block.bytes as u32),
            false => value.put(block.bytes as usize),
        },
        MAPPED => value.put(1u8),
        POOL => value.put(match block.kind {
            Kind::Pooled(pool) => pool,
            _ => 0,
        }),
        _ => Err(broken(Code::INVALID_VALUE, format!("unknown attribute of a pointer: {which}"))),
    }
}

fn put_nothing(value: Untyped, which: u32) -> DriverResult {
    match which {
        MEMORY_TYPE => value.put(0u32),
        DEVICE_ORDINAL => value.put(-2i32),
        SYNC_MEMOPS | IS_MANAGED | MAPPED => value.put(0u8),
        _ => value.put(0u64),
    }
}
