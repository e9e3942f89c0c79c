//! What a pointer is.

use crate::blocks::{Block, Kind};
use crate::code::{Answer, Code};
use crate::driver::{broken, machine};
use crate::value::{In, Out};
use std::ffi::c_void;

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

const TYPE_HOST: u32 = 1;
const TYPE_DEVICE: u32 = 2;

/// One attribute. What the driver does not know is an ordinary answer.
pub(crate) fn attribute(value: *mut c_void, which: u32, pointer: u64) -> Answer {
    let block = machine()?.blocks.find(pointer).ok_or(Code::INVALID_VALUE)?;
    put(value, which, pointer, &block)
}

/// Several, with zeros for a pointer that the driver does not know.
pub(crate) fn attributes(
    count: u32,
    which: In<u32>,
    values: In<*mut c_void>,
    pointer: u64,
) -> Answer {
    let block = machine()?.blocks.find(pointer);
    let (which, values) = (which.list(count as usize)?, values.list(count as usize)?);
    for (which, value) in which.into_iter().zip(values) {
        match &block {
            // What an attribute cannot tell of a pointer is left as zero.
            Some(block) => match put(value, which, pointer, block) {
                Ok(()) => {}
                Err(_) => put_nothing(value, which)?,
            },
            None => put_nothing(value, which)?,
        }
    }
    Ok(())
}

fn put(value: *mut c_void, which: u32, pointer: u64, block: &Block) -> Answer {
    let is_host = matches!(block.kind, Kind::Pinned | Kind::Registered(_));
    let offset = pointer - block.address;
    match which {
        CONTEXT => put_as(value, block.context.handle),
        MEMORY_TYPE => put_as(value, if is_host { TYPE_HOST } else { TYPE_DEVICE }),
        DEVICE_POINTER => put_as(
            value,
            match &block.kind {
                Kind::Registered(registration) => registration.address + offset,
                _ => pointer,
            },
        ),
        HOST_POINTER => match &block.kind {
            Kind::Pinned | Kind::Managed | Kind::Registered(_) => put_as(value, pointer),
            _ => Err(Code::INVALID_VALUE),
        },
        BUFFER_ID => put_as(value, block.id),
        SYNC_MEMOPS => put_as(value, 0u8),
        IS_MANAGED => put_as(value, u8::from(matches!(block.kind, Kind::Managed))),
        DEVICE_ORDINAL => put_as(value, block.context.device as i32),
        RANGE_START => put_as(value, block.address),
        RANGE_BYTES => put_as(value, block.bytes as usize),
        MAPPED => put_as(value, 1u8),
        POOL => put_as(
            value,
            match block.kind {
                Kind::Pooled(pool) => pool,
                _ => 0,
            },
        ),
        _ => Err(broken(Code::INVALID_VALUE, format!("{which} is no attribute of pointers"))),
    }
}

fn put_nothing(value: *mut c_void, which: u32) -> Answer {
    match which {
        MEMORY_TYPE => put_as(value, 0u32),
        DEVICE_ORDINAL => put_as(value, -2i32),
        SYNC_MEMOPS | IS_MANAGED | MAPPED => put_as(value, 0u8),
        _ => put_as(value, 0u64),
    }
}

fn put_as<T>(value: *mut c_void, number: T) -> Answer {
    // SAFETY: the program passed a place for a value of the attribute's type.
    unsafe { Out::<T>::new(value) }.put(number)
}
