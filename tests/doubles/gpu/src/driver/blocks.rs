//! What every address is.

use super::context::Context;
use super::registration::Registration;
use super::{Answer, Code, broken};
use crate::window;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flag of blocks that are variables of a module, and end with it. Drivers have no such flag.
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

    /// Registered host memory, of any context.
    pub(crate) fn registrations(&self) -> Vec<Arc<Registration>> {
        let table = self.table.lock();
        let registration = |block: &Arc<Block>| match &block.kind {
            Kind::Shadow(registration) => Some(Arc::clone(registration)),
            _ => None,
        };
        table.values().filter_map(registration).collect()
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

    /// Lets kernels of a context access it, or stops that.
    pub(crate) fn show_to(&self, context: &Context, accessible: bool) {
        context.show(self.address, self.bytes, accessible);
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
}

/// Whether an address is one of memory that the driver gives out.
pub(crate) fn is_in_window(address: u64) -> bool {
    let first = window::code_end(window::MOST_SLOTS);
    (first..window::shared_base() + window::WINDOW_BYTES).contains(&address)
}
