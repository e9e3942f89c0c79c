//! The binary interface: every type that crosses the `.so` boundary.
//!
//! All of it is `#[repr(C)]` and derives `StableAbi`, so the compiler proves that it is FFI-safe.
//! `include/longshore_plugin.h` is generated from this folder and from the declaration of the tables, so that their
//! comments are written for readers of C as well. `docs/plugin-interface.md` numbers what both sides promise.
//!
//! **Frozen.** A published table or structure never changes. New abilities come as further tables
//! under new names or versions; see [`Entry::table`].

mod entry;
pub mod tables;
mod values;

pub use entry::{
    Connection, Description, ENTRY_MAGIC, ENTRY_SYMBOL, Entry, INTERFACE_MAJOR, INTERFACE_MINOR,
    Services, TableRef,
};
pub use tables::*;
pub use values::{
    Bytes, COPY_WAIT, Copy as CopyRequest, DeviceHandle, ErrorObject, EventHandle, FILL_WAIT, Fill,
    GlobalInfo, HostFunction, KernelHandle, KernelInfo, LAUNCH_COOPERATIVE, LAUNCH_WAIT, Launch,
    ModuleHandle, PlatformHandle, PoolTracker, ProfileVisitor, QueueHandle, Sink, SymbolVisitor,
    Text,
};
