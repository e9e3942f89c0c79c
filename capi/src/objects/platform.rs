//! Platforms, each from one plugin.

use super::kind;
use crate::registry::handle::{Kind, Object};
use crate::types::enumerations::*;
use crate::types::structures::ol_platform_impl_t;

/// A platform. Its handle has the number of the context as its generation.
pub(crate) struct PlatformObject {
    backend: String,
    /// Index of one of its devices among the host's devices.
    first: usize,
}

/// Backends with a number in the interface.
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
    /// Creates the platform of a backend. `first` is the index of one of its devices among the
    /// host's devices.
    pub(crate) fn new(backend: &str, first: usize) -> PlatformObject {
        PlatformObject { backend: backend.to_owned(), first }
    }

    /// Returns whether the platform belongs to a backend.
    pub(crate) fn is_of(&self, backend: &str) -> bool {
        self.backend == backend
    }

    /// Returns the index of one of the platform's devices among the host's devices.
    pub(crate) fn first_device(&self) -> usize {
        self.first
    }

    /// Returns the interface's number of the backend.
    pub(crate) fn backend(&self) -> ol_platform_backend_t {
        let known = BACKENDS.iter().find(|(name, _)| *name == self.backend);
        known.map_or(OL_PLATFORM_BACKEND_UNKNOWN, |(_, number)| *number)
    }

    /// Returns whether the platform belongs to the CPU.
    pub(crate) fn is_host(&self) -> bool {
        self.backend() == OL_PLATFORM_BACKEND_HOST
    }
}

/// Returns the backends with a number.
pub(crate) fn backends_of(number: ol_platform_backend_t) -> impl Iterator<Item = &'static str> {
    BACKENDS.into_iter().filter(move |(_, known)| *known == number).map(|(name, _)| name)
}
