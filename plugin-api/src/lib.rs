//! # The plugin interface of Longshore
//!
//! Everything that crosses the boundary between a host program and a backend's shared library,
//! and the few helpers that a plugin's author needs.
//!
//! **To write a plugin in Rust**, implement the safe traits of [`backend`] ([`Platform`],
//! [`Device`], [`Module`], [`Queue`], [`Event`]) for your types, name them in a [`Backend`], say
//! how to find the driver in a [`Plugin`], and export it with one line:
//!
//! ```ignore
//! longshore_plugin_api::export_plugin!(MyBackend);
//! ```
//!
//! Build it as a `cdylib` called `liblongshore_plugin_<backend>.so`. Panics become errors at the
//! boundary. `log` records go to the host. A plugin that touches no foreign memory needs no
//! `unsafe`. A driver whose calls all block gets queues and events from [`software`].
//!
//! **To write one in C or C++**, include `longshore_plugin.h`, which is generated from [`abi`].
//!
//! **The host** reaches a plugin through [`remote`]: the same traits, implemented by calls through
//! the plugin's tables.
//!
//! The interface is a C ABI of frozen tables. Layers, from the outside in: [`abi`] (the tables and
//! values), `export` (traits to tables), [`remote`] (tables to traits). Start reading at
//! [`backend`], then [`abi::Entry`]. What both sides promise is numbered in
//! `docs/plugin-interface.md`.

// First, as the modules below use its macro `with_interface!`.
#[macro_use]
mod interface;

pub mod abi;
mod argument_type;
pub mod backend;
pub mod bounds;
mod crew;
mod description;
mod error;
mod export;
mod golden;
mod image;
mod info;
mod kernel_description;
mod layout;
pub mod profile;
mod raw;
pub mod remote;
mod request;
mod services;
pub mod software;
mod text;
mod workers;

pub use argument_type::{ArgumentKind, ArgumentType};
pub use backend::{
    Acceptance, Backend, Connected, Device, Event, ImageBytes, ImageEntry, Module, Platform,
    Plugin, Queue,
};
pub use crew::{Crew, Wake};
pub use description::{Description, NOTE_OWNER, NOTE_SECTION, NOTE_TYPE, Note};
pub use error::{Error, ErrorCode, Result, VendorError};
pub use golden::describe_layouts;
pub use info::{DeviceInfo, DeviceType, FpCapability, InfoType, InfoValue, PlatformInfo};
pub use kernel_description::{
    ArgumentDescription, KERNEL_BODY_PREFIX, KERNEL_DESCRIPTION_PREFIX, KERNEL_NOTE,
    KernelDescription, KernelForm, KernelNote, NoteOwner, note_owner,
};
pub use request::{
    Arguments, CopyRequest, GlobalAddress, HostFunction, KernelAttributes, LaunchShape, Loading,
    MemoryKind, Place, PoolTracker, PrefetchTarget, ProfileSection, ProfileSectionKind, Span,
    SymbolKind,
};
pub use services::{Services, level as log_level, level_filter as log_level_filter};
pub use text::printable;
pub use workers::{AtWork, Workers};

/// What [`export_plugin!`] expands to; not for direct use.
#[doc(hidden)]
pub mod macro_support {
    pub use crate::description::{AlignedNote, encode_note, note_bytes};
    pub use crate::export::entry;
}
