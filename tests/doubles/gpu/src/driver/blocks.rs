//! All ranges of addresses that the driver knows.

use super::context::Context;
use super::registration::Registration;
use super::{Code, DriverResult, broken};
use crate::window;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flag of blocks that are variables of a module and end with the module. Drivers have no such
/// flag.
pub(crate) const OF_MODULE: u64 = 1 << 32;

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
    /// Context whose end ends the block.
    pub(crate) context: Arc<Context>,
    /// Flags of the allocation.
    pub(crate) flags: u64,
    /// Number that no other block ever has.
    pub(crate) id: u64,
    /// Whether a stream frees the block once it reaches the free.
    is_ending: AtomicBool,
}

/// The kind of a range of addresses.
#[derive(Clone)]
pub(crate) enum Kind {
    /// Memory of a device.
    Device,
    /// Memory of a device, from the pool with this handle.
    Pooled(usize),
    /// Page-locked host memory.
    Pinned,
    /// Memory of host and devices.
    Managed,
    /// Registered host memory, at the program's address.
    Registered(Arc<Registration>),
    /// Registered host memory, at the devices' address.
    Shadow(Arc<Registration>),
    /// A variable inside its module's twin.
    Variable,
    /// A further address of the variable at the contained address.
    Alias(u64),
}

impl Blocks {
    /// Inserts a block.
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

    /// Removes the block that begins at `address`.
    pub(crate) fn remove(&self, address: u64) -> Option<Arc<Block>> {
        self.table.lock().remove(&address)
    }

    /// Returns the block that contains an address.
    pub(crate) fn find(&self, address: u64) -> Option<Arc<Block>> {
        let table = self.table.lock();
        let (_, block) = table.range(..=address).next_back()?;
        (address - block.address < block.bytes).then(|| Arc::clone(block))
    }

    /// Returns a block that overlaps a range.
    pub(crate) fn overlapping(&self, address: u64, bytes: u64) -> Option<Arc<Block>> {
        let table = self.table.lock();
        let (_, block) = table.range(..address.saturating_add(bytes)).next_back()?;
        (address < block.address + block.bytes).then(|| Arc::clone(block))
    }

    /// Returns the blocks that satisfy a condition.
    pub(crate) fn select(&self, condition: impl Fn(&Block) -> bool) -> Vec<Arc<Block>> {
        self.table.lock().values().filter(|block| condition(block)).cloned().collect()
    }

    /// Returns all registrations of host memory, of any context.
    pub(crate) fn registrations(&self) -> Vec<Arc<Registration>> {
        let table = self.table.lock();
        let registration = |block: &Arc<Block>| match &block.kind {
            Kind::Shadow(registration) => Some(Arc::clone(registration)),
            _ => None,
        };
        table.values().filter_map(registration).collect()
    }

    /// Returns the block that begins at `address`, for a call that frees it.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, if no block of these kinds begins there or if the block is
    /// already being freed.
    pub(crate) fn to_free(
        &self,
        address: u64,
        fits: fn(&Kind) -> bool,
    ) -> DriverResult<Arc<Block>> {
        let found = self.find(address);
        match found.filter(|block| block.address == address && fits(&block.kind)) {
            Some(block) if !block.is_ending() => Ok(block),
            Some(block) => {
                Err(broken(Code::INVALID_VALUE, format!("{} is freed twice", block.describe())))
            }
            None => {
                let what = format!("{} is freed", self.describe(address));
                Err(broken(Code::INVALID_VALUE, what))
            }
        }
    }

    /// Describes an address for messages.
    pub(crate) fn describe(&self, address: u64) -> String {
        match self.find(address) {
            Some(block) => format!("{address:#x}, in {},", block.describe()),
            None if is_in_window(address) => {
                format!("{address:#x}, unallocated device memory,")
            }
            None => format!("{address:#x}, unknown to the driver,"),
        }
    }
}

impl Block {
    /// Marks the block as being freed.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Grants a context's kernels access to the block, or revokes it.
    pub(crate) fn show_to(&self, context: &Context, accessible: bool) {
        context.show(self.address, self.bytes, accessible);
    }

    /// Returns whether the GPU processes of all devices map the block.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Pinned | Kind::Managed | Kind::Shadow(_))
    }

    /// Returns whether the program has to free the block, rather than a module or another block.
    pub(crate) fn is_of_program(&self) -> bool {
        !matches!(self.kind, Kind::Shadow(_)) && self.flags & OF_MODULE == 0
    }

    /// Describes the block for messages.
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
}

/// Returns whether an address is in the driver's range of memory.
pub(crate) fn is_in_window(address: u64) -> bool {
    let first = window::code_end(window::MOST_SLOTS);
    (first..window::shared_base() + window::WINDOW_BYTES).contains(&address)
}
