//! The binary interface: every type that crosses the `.so` boundary.
//!
//! All types are `#[repr(C)]` and derive `StableAbi`, so the compiler proves that they are
//! FFI-safe. `cargo xtask header` generates `include/longshore_plugin.h` from this folder and from
//! the declaration of the tables, so their comments address readers of C as well.
//! `docs/plugin-interface.md` numbers the promises of both sides.
//!
//! **Frozen.** A published table or structure never changes. New abilities are further tables under
//! new names or versions; see [`Entry::table`].

mod entry;
pub mod tables;
mod values;

pub use entry::{
    Connection, Description, ENTRY_MAGIC, ENTRY_SYMBOL, Entry, INTERFACE_MAJOR, INTERFACE_MINOR,
    Services, TableRef,
};
pub use tables::*;
pub use values::{
    Bytes, COLLECTIVE_ROOT_HOST, COLLECTIVE_ROOT_NONE, COPY_WAIT, Collective, CollectiveMember,
    Copy as CopyRequest, DeviceHandle, ErrorObject, EventHandle, FILL_WAIT, Fill, GlobalInfo,
    HostFunction, KernelHandle, KernelInfo, LAUNCH_COOPERATIVE, LAUNCH_WAIT, LAUNCH_WORDS, Launch,
    ModuleHandle, PlatformHandle, PoolTracker, ProfileVisitor, QueueHandle, Rect, RectEnd, Sink,
    SymbolVisitor, Text,
};
