//! The symbol that a plugin exports, and the structures behind it.

use super::values::{ErrorObject, PlatformHandle, Sink, Text};
use abi_stable::StableAbi;
use std::ffi::c_void;

/// Major version of the interface. Host and plugin must agree on it.
pub const INTERFACE_MAJOR: u32 = 1;
/// Minor version of the interface: indicates the tables that a side may know. The host never
/// decides by this number.
pub const INTERFACE_MINOR: u32 = 0;
/// First field of the entry: "LONGSHOR" read as a little-endian number.
pub const ENTRY_MAGIC: u64 = 0x524f_4853_474e_4f4c;
/// Name of the exported symbol, with its terminating NUL.
pub const ENTRY_SYMBOL: &[u8] = b"longshore_plugin\0";

/// A function table and, from a plugin in Rust, its layout.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct TableRef {
    /// The table; null if the other side does not know its name or version. Valid until the library
    /// is closed.
    pub table: *const c_void,
    /// Layout of the table, described by `abi_stable`; null from other languages.
    pub layout: *const c_void,
}

/// Facts about a plugin. All strings live until the library is closed.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Description {
    /// Name of the backend: "cuda", "host". Lower-case letters, digits, `-` and `_`.
    pub backend: Text,
    /// Name of the plugin, for people.
    pub name: Text,
    /// Version of the plugin itself.
    pub version: Text,
    /// Vendor of the plugin.
    pub vendor: Text,
    /// Accepted image formats, separated by commas: "elf-so", "ptx,cubin".
    pub image_formats: Text,
    /// File name of the required driver library, empty if none: "libcuda.so.1".
    pub driver: Text,
    /// 1 if the library may be closed after its platform was destroyed, as no threads and no
    /// thread-local destructors are left then. Else 0.
    pub unloadable: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// The outcome of `connect`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A platform with at least one device, passed to the host.
    Connected = 0,
    /// The vendor's driver is not installed. An ordinary answer.
    NoDriver = 1,
    /// The driver is installed, but has no device. An ordinary answer.
    NoDevice = 2,
}

/// Functions of the host for a plugin. Valid from `connect` until the library is closed, on any
/// thread. No function blocks for long. `describe` must not call them.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Services {
    /// Pointer of the host, which the plugin passes to each function.
    pub context: *mut c_void,
    /// Major version of the host's interface.
    pub interface_major: u32,
    /// Minor version of the host's interface.
    pub interface_minor: u32,
    /// Function that returns the most verbose `log_level` that the host records; 0 for none.
    pub log_level: unsafe extern "C" fn(context: *mut c_void) -> u32,
    /// Function that logs a message. `target` names the part of the plugin that logs it.
    pub log: unsafe extern "C" fn(context: *mut c_void, level: u32, target: Text, message: Text),
    /// Function that writes the user's setting `name` for this backend
    /// (`LONGSHORE_<BACKEND>_<NAME>`) to `value` and returns 1; returns 0 for an unset one. Plugins
    /// do not read the environment themselves.
    pub setting: unsafe extern "C" fn(context: *mut c_void, name: Text, value: Sink) -> u32,
    /// Function that returns a further table of the host, as the plugin's `table` does.
    pub table: unsafe extern "C" fn(context: *mut c_void, name: Text, version: u32) -> TableRef,
}

/// The constant that a plugin exports as the symbol `longshore_plugin`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Entry {
    /// `ENTRY_MAGIC`.
    pub magic: u64,
    /// `INTERFACE_MAJOR` that the plugin was built with.
    pub interface_major: u32,
    /// `INTERFACE_MINOR` that the plugin was built with.
    pub interface_minor: u32,
    /// Layout of this structure from a plugin in Rust, else null.
    pub layout: *const c_void,
    /// Function that writes the description of the plugin. Touches no driver, has no side effect,
    /// does not block.
    pub describe: unsafe extern "C" fn(description: *mut Description),
    /// Function that looks for the driver and its devices. May block while the driver starts.
    /// `outcome` receives a `connection`. If that is `CONNECTED`, `platform` receives a handle;
    /// otherwise `reason` receives the reason. A missing driver or device is not an error.
    pub connect: unsafe extern "C" fn(
        services: *const Services,
        outcome: *mut u32,
        platform: *mut *mut PlatformHandle,
        reason: Sink,
    ) -> *mut ErrorObject,
    /// Function that returns the table `name` in `version`; nulls for an unknown one. The plugin
    /// must know version 1 of "longshore.platform", "longshore.device", "longshore.module",
    /// "longshore.queue" and "longshore.event"; all other tables are optional. May be called before
    /// `connect`.
    pub table: unsafe extern "C" fn(name: Text, version: u32) -> TableRef,
}

// SAFETY: an `Entry` is constant data and function pointers; `layout` points at constant data.
unsafe impl Sync for Entry {}
// SAFETY: as above.
unsafe impl Send for Entry {}
