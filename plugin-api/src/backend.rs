//! The traits that a plugin implements and the host sees.
//!
//! One type family per backend, like wgpu-hal's `Api`: [`Backend`] names the types, the other
//! traits say what they do. Methods with a default body are optional; the default answers
//! `Unsupported`, which the host passes on.
//!
//! Everything is `Send + Sync`: any method may be called from any thread, at the same time as any
//! other. Methods do not block unless their doc says so.

use crate::description::Description;
use crate::error::{Error, ErrorCode, Result};
use crate::services::Services;

pub use crate::interface::{Device, Event, Module, Platform, Queue};

/// The family of types that makes up a backend.
pub trait Backend: Sized + 'static {
    /// What a connected plugin offers.
    type Platform: Platform<Self>;
    /// An open device.
    type Device: Device<Self>;
    /// A loaded image.
    type Module: Module<Self>;
    /// A kernel of a module.
    type Kernel: Send + Sync + 'static;
    /// An in-order queue.
    type Queue: Queue<Self>;
    /// An event.
    type Event: Event<Self>;
}

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

/// An image of a container, and what the container says of it.
#[derive(Clone, Copy, Debug)]
pub struct ImageEntry<'a> {
    /// The image.
    pub bytes: &'a [u8],
    /// Its target triple, empty if the container has none.
    pub triple: &'a str,
    /// Its architecture, empty if the container has none: "gfx90a:xnack+", "sm_90", "x86-64-v3".
    pub arch: &'a str,
}

/// Answer of [`Device::accepts`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Acceptance {
    /// `load` would try it.
    Accepted,
    /// `load` would try it, and refuses it unless verification shows that loading, constructing and
    /// unloading it is sound whatever its bytes are. Nothing unverified runs then.
    Verified,
    /// `load` would refuse it, for this reason.
    Refused(String),
}

impl Acceptance {
    /// Whether `load` would try the image.
    pub fn is_accepted(&self) -> bool {
        !matches!(self, Acceptance::Refused(_))
    }
}

/// The bytes of an image in the host's managed storage. They stay in place, unchanged, until
/// after the module that was made from them was dropped. Whoever implements [`Device::load`] keeps
/// this value in the module, or drops it.
pub struct ImageBytes(&'static [u8]);

impl ImageBytes {
    /// Vouches for an image.
    ///
    /// # Safety
    /// The bytes must not move, change or go away until the module that is loaded from them was
    /// dropped, or its loading failed.
    pub unsafe fn new(bytes: &[u8]) -> ImageBytes {
        // SAFETY: the caller promises a life as long as the module's, which is as long as `self`
        // lives and as `get` borrows.
        ImageBytes(unsafe { std::mem::transmute::<&[u8], &'static [u8]>(bytes) })
    }

    /// The bytes.
    pub fn get(&self) -> &[u8] {
        self.0
    }
}

pub(crate) fn unsupported(what: &str) -> Error {
    Error::new(ErrorCode::Unsupported, format!("this backend has no {what}"))
}
