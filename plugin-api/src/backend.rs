//! The traits that a plugin implements and the host sees.
//!
//! One type family per backend, like wgpu-hal's `Api`: [`Backend`] names the types, the other
//! traits say what they do. Methods with a default body are optional; the default answers
//! `Unsupported`, which the host passes on.
//!
//! Everything is `Send + Sync`: any method may be called from any thread, at the same time as any
//! other. Methods do not block unless their doc says so.

use crate::description::Description;
use crate::error::Result;
use crate::services::Services;

pub use crate::image::{Acceptance, ImageBytes, ImageEntry};
pub use crate::interface::{Backend, Device, Event, Module, Platform, Queue};

/// A backend that a library exports with [`export_plugin!`](crate::export_plugin).
pub trait Plugin: Backend {
    /// What the plugin says of itself: constant, so that it touches no driver, and also put into
    /// the library's ELF note.
    const DESCRIPTION: Description;

    /// Looks for the driver and its devices. Having none is an ordinary answer. May block.
    ///
    /// # Errors
    /// Only for what should not happen: a driver that is there but broken.
    fn connect(services: Services) -> Result<Connected<Self::Platform>>;
}

/// How [`Plugin::connect`] ended.
pub enum Connected<P> {
    /// A platform with at least one device.
    Platform(P),
    /// The vendor's driver is not installed; the reason is for people.
    NoDriver(String),
    /// The driver has no device; the reason is for people.
    NoDevice(String),
}
