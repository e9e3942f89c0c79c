//! The traits that a plugin implements and the host calls.
//!
//! One type family per backend, like wgpu-hal's `Api`: [`Backend`] names the types, and the other
//! traits define their operations. Methods with a default body are optional; the default returns
//! `Unsupported`, which the host passes on.
//!
//! All types are `Send + Sync`: any thread may call any method, at the same time as any other.
//! Methods do not block unless their documentation says so.

use crate::description::Description;
use crate::error::Result;
use crate::services::Services;

pub use crate::image::{Acceptance, CodeTarget, ImageBytes, ImageEntry, is_bitcode};
pub use crate::interface::{Backend, Device, Event, Module, Platform, Queue};

/// A backend that a library exports with [`export_plugin!`](crate::export_plugin).
pub trait Plugin: Backend {
    /// Facts about the plugin, which are also in the library's ELF note. Constant, so that reading
    /// them touches no driver.
    const DESCRIPTION: Description;

    /// Looks for the driver and its devices. A missing driver or device is an ordinary answer. May
    /// block while the driver starts.
    ///
    /// # Errors
    /// Only for a driver that is installed but broken, and similar unexpected states.
    fn connect(services: Services) -> Result<Connected<Self::Platform>>;
}

/// The outcome of [`Plugin::connect`].
pub enum Connected<P> {
    /// A platform with at least one device.
    Platform(P),
    /// The vendor's driver is not installed; the text is the reason, for people.
    NoDriver(String),
    /// The driver has no device; the text is the reason, for people.
    NoDevice(String),
}
