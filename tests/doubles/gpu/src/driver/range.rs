//! Ranges of bytes: what a pointer and a size of a program stand for.

use super::blocks::{Block, Kind, is_in_window};
use super::context::Context;
use super::registration::Registration;
use super::{Answer, Code, broken, machine};
use std::sync::Arc;

/// Bytes that an operation reads or writes.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) at: At,
    pub(crate) bytes: u64,
    /// Ordinary memory of the program: copies of it hold the caller up.
    pub(crate) is_pageable: bool,
    /// Whose content is to be brought into agreement before and after.
    pub(crate) registration: Option<Arc<Registration>>,
}

/// Where bytes are.
#[derive(Clone)]
pub(crate) enum At {
    /// At this address of this process.
    Here(usize),
    /// In a GPU process.
    Process(Arc<Context>, u64),
}

/// What a device pointer and a size stand for.
///
/// # Errors
/// `INVALID_VALUE`, a violation, if it is none, or not all of it is in one block.
pub(crate) fn device_range(address: u64, bytes: u64) -> Answer<Range> {
    let blocks = &machine()?.blocks;
    let block = blocks.find(address);
    let block =
        block.filter(|block| !matches!(block.kind, Kind::Registered(_))).ok_or_else(|| {
            let what = format!("{} is used as a device pointer", blocks.describe(address));
            broken(Code::INVALID_VALUE, what)
        })?;
    range(&block, address, bytes)
}

/// What a pointer of the program and a size stand for.
///
/// # Errors
/// `INVALID_VALUE` if only part of it is in a block; a violation, if it is a device pointer or null, or reaches beyond an
/// allocation.
pub(crate) fn host_range(address: usize, bytes: u64) -> Answer<Range> {
    let blocks = &machine()?.blocks;
    if let Some(block) = blocks.overlapping(address as u64, bytes.max(1)) {
        match block.kind {
            Kind::Pinned | Kind::Managed => return range(&block, address as u64, bytes),
            Kind::Registered(_) => {
                let end = block.address + block.bytes;
                let is_inside = address as u64 >= block.address && address as u64 + bytes <= end;
                return match is_inside {
                    true => Ok(Range { is_pageable: false, ..pageable(address, bytes) }),
                    // Drivers refuse what is registered in part.
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

/// What any pointer and a size stand for: what the driver does not know is the program's.
///
/// # Errors
/// Those of the two others.
pub(crate) fn any_range(address: u64, bytes: u64) -> Answer<Range> {
    let block = machine()?.blocks.find(address);
    match block.filter(|block| !matches!(block.kind, Kind::Registered(_))) {
        Some(block) => range(&block, address, bytes),
        None => host_range(address as usize, bytes),
    }
}

fn range(block: &Arc<Block>, address: u64, bytes: u64) -> Answer<Range> {
    if bytes > block.bytes - (address - block.address) {
        let what = format!("{bytes} bytes at {address:#x} reach beyond {}", block.describe());
        return Err(broken(Code::INVALID_VALUE, what));
    }
    if block.is_ending() {
        let what = format!("{} is used, which was freed in a stream", block.describe());
        return Err(broken(Code::INVALID_VALUE, what));
    }
    let registration = match &block.kind {
        Kind::Shadow(registration) => Some(Arc::clone(registration)),
        _ => None,
    };
    Ok(Range { at: place(block, address)?, bytes, is_pageable: false, registration })
}

/// Where an address of a block is.
fn place(block: &Block, address: u64) -> Answer<At> {
    let machine = machine()?;
    let window = &machine.devices[block.context.device].window;
    let address = match block.kind {
        Kind::Alias(target) => target + (address - block.address),
        _ => address,
    };
    Ok(match &block.kind {
        Kind::Registered(_) => At::Here(address as usize),
        _ if window.contains(address) => At::Here(window.alias_of(address)),
        _ if machine.shared.contains(address) => At::Here(machine.shared.alias_of(address)),
        _ => At::Process(Arc::clone(&block.context), address),
    })
}

fn pageable(address: usize, bytes: u64) -> Range {
    Range { at: At::Here(address), bytes, is_pageable: true, registration: None }
}
