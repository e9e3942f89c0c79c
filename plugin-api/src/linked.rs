//! Plugins that are part of a program, without a library of their own.

use crate::abi;
use crate::backend::Plugin;
use crate::export::entry;
use crate::remote::{Incompatible, RemotePlugin};

/// A plugin whose code the program contains. The host treats it as the plugin in a file, but opens
/// no library.
///
/// A crate that exports its plugin by [`export_plugin!`](crate::export_plugin) defines a symbol,
/// which a program can contain once. So a crate for programs implements [`Plugin`] alone, and a
/// second crate of type `cdylib` exports it.
#[derive(Clone, Copy, Debug)]
pub struct LinkedPlugin(*const abi::Entry);

// SAFETY: the entry is constant data, which `Entry` declares `Sync`.
unsafe impl Send for LinkedPlugin {}
// SAFETY: as above.
unsafe impl Sync for LinkedPlugin {}

impl LinkedPlugin {
    /// Returns the plugin that a type implements.
    pub const fn new<P: Plugin>() -> LinkedPlugin {
        LinkedPlugin(const { &entry::<P>() })
    }

    /// Returns the plugin of an entry, such as one in C.
    ///
    /// # Safety
    /// `entry` points at an [`abi::Entry`] that stays as it is until the process ends, and its
    /// functions keep the promises of the interface.
    pub const unsafe fn from_entry(entry: *const abi::Entry) -> LinkedPlugin {
        LinkedPlugin(entry)
    }

    /// Returns the address of the plugin's entry.
    pub const fn entry(self) -> *const abi::Entry {
        self.0
    }

    /// Checks the entry and its tables, as for the plugin in a library. Runs no driver.
    ///
    /// # Errors
    /// The first incompatibility.
    ///
    /// # Safety
    /// The caller uses the plugin's objects as the interface demands; see [`RemotePlugin::new`].
    pub unsafe fn check(self) -> Result<RemotePlugin, Incompatible> {
        // SAFETY: the entry is constant until the process ends; the rest is the caller's promise.
        unsafe { RemotePlugin::new(self.0) }
    }
}
