//! Platforms: what plugins offer.

use super::kind;
use crate::registry::handle::{Kind, Object};
use crate::types::enumerations::*;
use crate::types::structures::ol_platform_impl_t;

/// A platform. Its handle has the number of the context as its generation.
pub(crate) struct PlatformObject {
    backend: String,
    /// One of its devices, by its place among the host's.
    first: usize,
}

/// Backends that the interface has numbers for.
const BACKENDS: [(&str, ol_platform_backend_t); 3] = [
    ("cuda", OL_PLATFORM_BACKEND_CUDA),
    ("amdgpu", OL_PLATFORM_BACKEND_AMDGPU),
    ("host", OL_PLATFORM_BACKEND_HOST),
];

impl Object for PlatformObject {
    type Pointee = ol_platform_impl_t;
    const KIND: Kind = kind::PLATFORM;
}

impl PlatformObject {
    /// Returns the platform of a backend. `first` is one of its devices, by its place among the host's.
    pub(crate) fn new(backend: &str, first: usize) -> PlatformObject {
        PlatformObject { backend: backend.to_owned(), first }
    }

    /// Returns whether it is that of a backend.
    pub(crate) fn is_of(&self, backend: &str) -> bool {
        self.backend == backend
    }

    /// Returns one of its devices, by its place among the host's.
    pub(crate) fn first_device(&self) -> usize {
        self.first
    }

    /// Returns the interface's number of its backend.
    pub(crate) fn backend(&self) -> ol_platform_backend_t {
        let known = BACKENDS.iter().find(|(name, _)| *name == self.backend);
        known.map_or(OL_PLATFORM_BACKEND_UNKNOWN, |(_, number)| *number)
    }

    /// Returns whether it is that of the CPU.
    pub(crate) fn is_host(&self) -> bool {
        self.backend() == OL_PLATFORM_BACKEND_HOST
    }
}

/// Returns the backends of a number.
pub(crate) fn backends_of(number: ol_platform_backend_t) -> impl Iterator<Item = &'static str> {
    BACKENDS.into_iter().filter(move |(_, known)| *known == number).map(|(name, _)| name)
}
