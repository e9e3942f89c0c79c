//! The list of groups whose items wait for each other, for debuggers. `longshore-gdb.py` finds it
//! by the name `longshore_waiting_groups`.
//!
//! Groups are listed once [`enable`] has been called. A lock guards changes of the list; a debugger
//! reads it while the process is stopped, perhaps in the middle of a change.

use super::fibers::Item;
use parking_lot::Mutex;
use std::arch::global_asm;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

// The name must neither be mangled nor exported, which Rust cannot express.
global_asm!(
    ".pushsection .data.longshore_waiting_groups, \"aw\", @progbits",
    ".hidden longshore_waiting_groups",
    ".globl longshore_waiting_groups",
    ".type longshore_waiting_groups, @object",
    ".p2align 3",
    "longshore_waiting_groups:",
    ".8byte 0, {item_bytes}, {wait}, {registers}",
    ".size longshore_waiting_groups, 32",
    ".popsection",
    item_bytes = const size_of::<Item>(),
    wait = const offset_of!(Item, wait),
    registers = const offset_of!(Item, registers),
);

unsafe extern "C" {
    static mut longshore_waiting_groups: List;
}

static IS_ENABLED: AtomicBool = AtomicBool::new(false);
static CHANGES: Mutex<()> = Mutex::new(());

/// The list, and the layout of items.
#[repr(C)]
struct List {
    first: *mut Entry,
    /// Bytes of an item, and the places in it of its wait and of its registers.
    item_bytes: u64,
    wait: u64,
    registers: u64,
}

/// A listed group.
#[repr(C)]
struct Entry {
    next: *mut Entry,
    previous: *mut Entry,
    items: *const Item,
    count: u64,
}

/// A group's place in the list. Dropping it removes the group.
pub(super) struct Listed {
    entry: *mut Entry,
}

// SAFETY: every thread uses the entry only with the lock held.
unsafe impl Send for Listed {}

/// Lists the groups that are created from now on.
pub(crate) fn enable() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

impl Listed {
    /// Lists a group, if groups are listed at all. The items must stay in place until the result is
    /// dropped.
    pub(super) fn new(items: &[Item]) -> Option<Listed> {
        IS_ENABLED.load(Ordering::Relaxed).then(|| Listed::insert(items))
    }

    #[cold]
    fn insert(items: &[Item]) -> Listed {
        let (items, count) = (items.as_ptr(), items.len() as u64);
        let _changes = CHANGES.lock();
        // SAFETY: the lock makes this the only user of the list, whose entries are alive.
        unsafe {
            let next = longshore_waiting_groups.first;
            let entry = Box::into_raw(Box::new(Entry { next, previous: null_mut(), items, count }));
            if let Some(next) = next.as_mut() {
                next.previous = entry;
            }
            longshore_waiting_groups.first = entry;
            Listed { entry }
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let _changes = CHANGES.lock();
        // SAFETY: as above; the entry is in the list, and only this function frees it.
        unsafe {
            let Entry { next, previous, .. } = *Box::from_raw(self.entry);
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => longshore_waiting_groups.first = next,
            }
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
        }
    }
}
