//! Ranges of bytes, from a program's pointers and sizes.

use super::blocks::{Block, Kind, is_in_window};
use super::context::Context;
use super::registration::Registration;
use super::{Code, DriverResult, broken, machine};
use std::sync::Arc;

/// Bytes that an operation reads or writes.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) at: DataLocation,
    pub(crate) bytes: u64,
    /// Ordinary memory of the program: copies of such memory block the caller.
    pub(crate) is_pageable: bool,
    /// Registration to synchronise before and after the operation.
    pub(crate) registration: Option<Arc<Registration>>,
}

/// The place of bytes.
#[derive(Clone)]
pub(crate) enum DataLocation {
    /// Address in this process.
    Here(usize),
    /// Address in a context's GPU process.
    Process(Arc<Context>, u64),
}

impl Range {
    /// Returns the part of `bytes` bytes that begins `offset` bytes behind the start.
    pub(crate) fn part(&self, offset: u64, bytes: u64) -> Range {
        let at = match &self.at {
            DataLocation::Here(address) => DataLocation::Here(address + offset as usize),
            DataLocation::Process(context, address) => {
                DataLocation::Process(context.clone(), address + offset)
            }
        };
        Range { at, bytes, ..self.clone() }
    }
}

/// Returns the range of a device pointer and a size.
///
/// # Errors
/// `INVALID_VALUE`, a violation, if `address` is no device pointer or the range exceeds its block.
pub(crate) fn device_range(address: u64, bytes: u64) -> DriverResult<Range> {
    let blocks = &machine()?.blocks;
    let block = blocks.find(address);
    let block =
        block.filter(|block| !matches!(block.kind, Kind::Registered(_))).ok_or_else(|| {
            let what = format!("{} is used as a device pointer", blocks.describe(address));
            broken(Code::INVALID_VALUE, what)
        })?;
    range(&block, address, bytes)
}

/// Returns the range of a program's host pointer and a size.
///
/// # Errors
/// `INVALID_VALUE` if only part of the range is in a block. As a violation, the same code for a
/// null or device pointer, or a range beyond an allocation.
pub(crate) fn host_range(address: usize, bytes: u64) -> DriverResult<Range> {
    let blocks = &machine()?.blocks;
    if let Some(block) = blocks.overlapping(address as u64, bytes.max(1)) {
        match block.kind {
            Kind::Pinned | Kind::Managed => return range(&block, address as u64, bytes),
            Kind::Registered(_) => {
                let end = block.address + block.bytes;
                let is_inside = address as u64 >= block.address && address as u64 + bytes <= end;
                return match is_inside {
                    true => Ok(Range { is_pageable: false, ..pageable(address, bytes) }),
                    // Drivers refuse partly registered ranges.
                    false => Err(Code::INVALID_VALUE),
                };
            }
            Kind::Device | Kind::Pooled(_) | Kind::Shadow(_) | Kind::Variable | Kind::Alias(_) => {}
        }
    }
    if address == 0 || is_in_window(address as u64) {
        let what = format!("{} is used as a host pointer", blocks.describe(address as u64));
        return Err(broken(Code::INVALID_VALUE, what));
    }
    Ok(pageable(address, bytes))
}

/// Returns the range of a pointer of either kind and a size. Memory unknown to the driver is the
/// program's.
///
/// # Errors
/// The errors of `device_range` and `host_range`.
pub(crate) fn any_range(address: u64, bytes: u64) -> DriverResult<Range> {
    let block = machine()?.blocks.find(address);
    match block.filter(|block| !matches!(block.kind, Kind::Registered(_))) {
        Some(block) => range(&block, address, bytes),
        None => host_range(address as usize, bytes),
    }
}

fn range(block: &Arc<Block>, address: u64, bytes: u64) -> DriverResult<Range> {
    if bytes > block.bytes - (address - block.address) {
        let what = format!("{bytes} bytes at {address:#x} reach beyond {}", block.describe());
        return Err(broken(Code::INVALID_VALUE, what));
    }
    if block.is_ending() {
        let what = format!("{} is used after a stream has freed it", block.describe());
        return Err(broken(Code::INVALID_VALUE, what));
    }
    let registration = match &block.kind {
        Kind::Shadow(registration) => Some(Arc::clone(registration)),
        _ => None,
    };
    Ok(Range { at: place(block, address)?, bytes, is_pageable: false, registration })
}

/// Returns the place of an address in a block.
fn place(block: &Block, address: u64) -> DriverResult<DataLocation> {
    let machine = machine()?;
    let window = &machine.devices[block.context.device].window;
    let address = match block.kind {
        Kind::Alias(target) => target + (address - block.address),
        _ => address,
    };
    Ok(match &block.kind {
        Kind::Registered(_) => DataLocation::Here(address as usize),
        _ if window.contains(address) => DataLocation::Here(window.alias_of(address)),
        _ if machine.shared.contains(address) => {
            DataLocation::Here(machine.shared.alias_of(address))
        }
        _ => DataLocation::Process(Arc::clone(&block.context), address),
    })
}

fn pageable(address: usize, bytes: u64) -> Range {
    Range { at: DataLocation::Here(address), bytes, is_pageable: true, registration: None }
}
