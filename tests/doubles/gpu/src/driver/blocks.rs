//! What every address is.

use super::context::Context;
use super::memory::OF_MODULE;
use super::registration::Registration;
use super::{Answer, Code, broken, machine};
use crate::window;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// All live ranges of addresses that the driver knows, by their first address. They do not overlap.
#[derive(Default)]
pub(crate) struct Blocks {
    table: Mutex<BTreeMap<u64, Arc<Block>>>,
}

/// A range of addresses.
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    /// Of the context that it ends with.
    pub(crate) context: Arc<Context>,
    /// With which it was allocated.
    pub(crate) flags: u64,
    /// No other block ever has it.
    pub(crate) id: u64,
    /// It is freed once a stream comes to that.
    is_ending: AtomicBool,
}

/// What a range of addresses is.
#[derive(Clone)]
pub(crate) enum Kind {
    /// Memory of a device.
    Device,
    /// The same, of the pool with this handle.
    Pooled(usize),
    /// Page-locked host memory.
    Pinned,
    /// Memory of host and devices.
    Managed,
    /// Host memory that was registered, at the program's address.
    Registered(Arc<Registration>),
    /// The same, at the devices' address.
    Shadow(Arc<Registration>),
    /// A variable that is in its module's twin.
    Variable,
    /// Another address of the variable that is at this one.
    Alias(u64),
}

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

impl Blocks {
    /// Enters a block.
    pub(crate) fn add(
        &self,
        context: &Arc<Context>,
        kind: Kind,
        address: u64,
        bytes: u64,
        flags: u64,
    ) -> Arc<Block> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let block = Arc::new(Block {
            address,
            bytes,
            kind,
            context: Arc::clone(context),
            flags,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            is_ending: AtomicBool::new(false),
        });
        self.table.lock().insert(address, Arc::clone(&block));
        block
    }

    /// Removes the block that begins there.
    pub(crate) fn remove(&self, address: u64) -> Option<Arc<Block>> {
        self.table.lock().remove(&address)
    }

    /// The block that an address is in.
    pub(crate) fn find(&self, address: u64) -> Option<Arc<Block>> {
        let table = self.table.lock();
        let (_, block) = table.range(..=address).next_back()?;
        (address - block.address < block.bytes).then(|| Arc::clone(block))
    }

    /// A block that has bytes in a range.
    pub(crate) fn overlapping(&self, address: u64, bytes: u64) -> Option<Arc<Block>> {
        let table = self.table.lock();
        let (_, block) = table.range(..address.saturating_add(bytes)).next_back()?;
        (address < block.address + block.bytes).then(|| Arc::clone(block))
    }

    /// Those that satisfy a condition.
    pub(crate) fn select(&self, condition: impl Fn(&Block) -> bool) -> Vec<Arc<Block>> {
        self.table.lock().values().filter(|block| condition(block)).cloned().collect()
    }

    /// The block that begins at an address that is to be freed.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if it begins no block of these kinds, or that is being freed.
    pub(crate) fn to_free(&self, address: u64, fits: fn(&Kind) -> bool) -> Answer<Arc<Block>> {
        let found = self.find(address);
        match found.filter(|block| block.address == address && fits(&block.kind)) {
            Some(block) if !block.is_ending() => Ok(block),
            Some(block) => Err(broken(
                Code::INVALID_VALUE,
                format!("{} is freed, which is being freed already", block.describe()),
            )),
            None => {
                let what = format!("{} is freed", self.describe(address));
                Err(broken(Code::INVALID_VALUE, what))
            }
        }
    }

    /// What an address is, in words.
    pub(crate) fn describe(&self, address: u64) -> String {
        match self.find(address) {
            Some(block) => format!("{address:#x}, in {},", block.describe()),
            None if is_in_window(address) => {
                format!("{address:#x}, device memory that is not or no longer allocated,")
            }
            None => format!("{address:#x}, which the driver does not know,"),
        }
    }
}

impl Block {
    /// Says that it is going to be freed.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Whether GPU processes of all devices have it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Pinned | Kind::Managed | Kind::Shadow(_))
    }

    /// Whether a program has to give it back, not a module or another block.
    pub(crate) fn is_of_program(&self) -> bool {
        !matches!(self.kind, Kind::Shadow(_)) && self.flags & OF_MODULE == 0
    }

    /// What it is, in words.
    pub(crate) fn describe(&self) -> String {
        let kind = match &self.kind {
            Kind::Device => "device memory",
            Kind::Pooled(_) => "device memory of a pool",
            Kind::Pinned => "page-locked host memory",
            Kind::Managed => "managed memory",
            Kind::Registered(_) => "registered host memory",
            Kind::Shadow(_) => "the device's side of registered host memory",
            Kind::Variable | Kind::Alias(_) => "a variable",
        };
        format!("{kind} of {} bytes at {:#x}", self.bytes, self.address)
    }

    fn at(&self, address: u64) -> Answer<At> {
        let machine = machine()?;
        let window = &machine.devices[self.context.device].window;
        let address = match self.kind {
            Kind::Alias(target) => target + (address - self.address),
            _ => address,
        };
        Ok(match &self.kind {
            Kind::Registered(_) => At::Here(address as usize),
            _ if window.contains(address) => At::Here(window.alias_of(address)),
            _ if machine.shared.contains(address) => At::Here(machine.shared.alias_of(address)),
            _ => At::Process(Arc::clone(&self.context), address),
        })
    }
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
    Ok(Range { at: block.at(address)?, bytes, is_pageable: false, registration })
}

fn pageable(address: usize, bytes: u64) -> Range {
    Range { at: At::Here(address), bytes, is_pageable: true, registration: None }
}

fn is_in_window(address: u64) -> bool {
    let first = window::code_end(window::MOST_SLOTS);
    (first..window::shared_base() + window::WINDOW_BYTES).contains(&address)
}
