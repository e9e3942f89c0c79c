//! The one symbol that a plugin exports, and what is reached through it.

use super::values::{ErrorObject, PlatformHandle, Sink, Text};
use abi_stable::StableAbi;
use std::ffi::c_void;

/// Major version of the interface. Host and plugin must agree on it.
pub const INTERFACE_MAJOR: u32 = 1;
/// Minor version of the interface: tells which tables a side may know. It never decides.
pub const INTERFACE_MINOR: u32 = 0;
/// First field of the entry: "LONGSHOR" read as a little-endian number.
pub const ENTRY_MAGIC: u64 = 0x524f_4853_474e_4f4c;
/// Name of the exported symbol, with its terminating NUL.
pub const ENTRY_SYMBOL: &[u8] = b"longshore_plugin\0";

/// A function table and, from a plugin in Rust, its layout.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct TableRef {
    /// The table, or null if the asked one does not know it. Lives as long as the library.
    pub table: *const c_void,
    /// `abi_stable`'s description of the table's layout; null from other languages.
    pub layout: *const c_void,
}

/// What a plugin says of itself. All strings live as long as the library.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Description {
    /// The backend that it provides: "cuda", "host". Lower case, no spaces.
    pub backend: Text,
    /// What it is, for people.
    pub name: Text,
    /// The plugin's own version.
    pub version: Text,
    /// Who made it.
    pub vendor: Text,
    /// The image formats that it takes, separated by commas: "elf-so", "ptx,cubin".
    pub image_formats: Text,
    /// The driver library that it wants, empty if none: "libcuda.so.1".
    pub driver: Text,
    /// 1 if the library may be closed after its platform was destroyed: no threads and no
    /// thread-local destructors are left then. Else 0.
    pub unloadable: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// How `connect` ended.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A platform with at least one device was handed out.
    Connected = 0,
    /// The vendor's driver is not installed. An ordinary answer.
    NoDriver = 1,
    /// The driver is there, a device is not. An ordinary answer.
    NoDevice = 2,
}

/// What the host offers to a plugin. Valid from `connect` until the library is closed, from any
/// thread. No function of it blocks for long, and none may be called from `describe`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Services {
    /// Passed back to the functions.
    pub context: *mut c_void,
    /// Major and minor version of the host's interface.
    pub interface_major: u32,
    /// See `interface_major`.
    pub interface_minor: u32,
    /// The most verbose `log_level` that anyone listens to; 0 for none.
    pub log_level: unsafe extern "C" fn(context: *mut c_void) -> u32,
    /// Logs a message. `target` says which part of the plugin speaks.
    pub log: unsafe extern "C" fn(context: *mut c_void, level: u32, target: Text, message: Text),
    /// Writes the user's setting `name` for this backend (`LONGSHORE_<BACKEND>_<NAME>`) to `value`
    /// and returns 1; returns 0 if there is none. Plugins do not read the environment themselves.
    pub setting: unsafe extern "C" fn(context: *mut c_void, name: Text, value: Sink) -> u32,
    /// A further table of the host, asked for by name and version, like the plugin's.
    pub table: unsafe extern "C" fn(context: *mut c_void, name: Text, version: u32) -> TableRef,
}

/// The exported symbol `longshore_plugin` is one of these, constant.
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
    /// Describes the plugin. Touches no driver, has no side effect, does not block.
    pub describe: unsafe extern "C" fn(description: *mut Description),
    /// Looks for the driver and its devices. May block while the driver starts. `outcome`
    /// receives a `connection`, `platform` a handle if that is `CONNECTED`, and `reason` is
    /// written to otherwise. Having no driver or no device is not an error.
    pub connect: unsafe extern "C" fn(
        services: *const Services,
        outcome: *mut u32,
        platform: *mut *mut PlatformHandle,
        reason: Sink,
    ) -> *mut ErrorObject,
    /// The table `name` in `version`, or nulls. The plugin must know version 1 of
    /// "longshore.platform", "longshore.device", "longshore.module", "longshore.queue" and
    /// "longshore.event"; all others are optional. May be called before `connect`.
    pub table: unsafe extern "C" fn(name: Text, version: u32) -> TableRef,
}

// SAFETY: an `Entry` is constant data and function pointers; `layout` points at constant data.
unsafe impl Sync for Entry {}
// SAFETY: as above.
unsafe impl Send for Entry {}
