//! Objects of a plugin: a handle, and the tables of functions that take it.

use super::receive::nothing;
use super::tables::Tables;
use crate::abi;
use crate::backend::Device;
use crate::error::Result;
use crate::request::MemoryKind;
use std::sync::Arc;

macro_rules! objects {
    ($(
        $(#[$doc:meta])*
        $name:ident: $handle:ident, $table:ident, $field:ident, $end:ident, $ending:literal;
    )*) => { $(
        $(#[$doc])*
        pub struct $name {
            handle: *mut abi::$handle,
            table: &'static abi::$table,
            tables: Arc<Tables>,
        }

        // SAFETY: the interface promises that any thread may use the object.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            pub(crate) fn new(handle: *mut abi::$handle, tables: &Arc<Tables>) -> $name {
                $name { handle, table: tables.$field, tables: Arc::clone(tables) }
            }

            #[inline]
            pub(crate) fn handle(&self) -> *mut abi::$handle {
                self.handle
            }

            #[inline]
            pub(crate) fn table(&self) -> &'static abi::$table {
                self.table
            }

            #[allow(dead_code, reason = "an event makes no other object")]
            pub(crate) fn tables(&self) -> &Arc<Tables> {
                &self.tables
            }

            /// Returns the name of the plugin, for errors.
            pub fn plugin(&self) -> &str {
                &self.tables.plugin
            }

            /// Ends the object.
            #[allow(dead_code, reason = "some kinds of objects end only by being dropped")]
            pub(crate) fn into_end(mut self) -> Result<()> {
                self.end()
            }

            /// Ends the object; later calls do nothing.
            fn end(&mut self) -> Result<()> {
                let handle = std::mem::replace(&mut self.handle, std::ptr::null_mut());
                if handle.is_null() {
                    return Ok(());
                }
                // SAFETY: a live handle, not used afterwards.
                nothing(|| unsafe { (self.table.$end)(handle) })
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Err(error) = self.end() {
                    log::warn!(concat!($ending, ": {}"), error);
                }
            }
        }
    )* };
}

objects! {
    /// An open device of a plugin. Dropping the value closes the device, which may block.
    RemoteDevice: DeviceHandle, DeviceTable, device, close, "closing a device";
    /// A loaded module of a plugin. Dropping the value unloads the module, which may block.
    RemoteModule: ModuleHandle, ModuleTable, module, unload, "unloading a module";
    /// A queue of a plugin. Dropping the value ends the queue without waiting: queued work still
    /// runs.
    RemoteQueue: QueueHandle, QueueTable, queue, destroy, "destroying a queue";
    /// An event of a plugin. Dropping the value ends the event without waiting.
    RemoteEvent: EventHandle, EventTable, event, destroy, "destroying an event";
}

impl RemoteDevice {
    /// Frees an unusable allocation, unless its address is 0.
    #[cold]
    pub(crate) fn give_back(&self, kind: MemoryKind, address: u64) {
        if address == 0 {
            return;
        }
        if let Err(error) = self.free(kind, address) {
            log::warn!("freeing memory at {address:#x}: {error}");
        }
    }
}
