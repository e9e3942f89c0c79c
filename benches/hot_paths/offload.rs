//! The C API as a program has it: as a shared library.

use libloading::Library;
use xtask::offload_library;

/// The opened library. It stays open for good, as its threads may.
pub(super) struct OffloadLibrary {
    library: &'static Library,
}

impl OffloadLibrary {
    /// Links what this profile's `longshore-capi` is, unless that was done since it was built, and opens what comes of it.
    pub(super) fn open() -> OffloadLibrary {
        let executable = std::env::current_exe().expect("Linux tells");
        let folder = executable.ancestors().nth(2).expect("target/<profile>/deps/<executable>");
        let file = offload_library::link(folder).unwrap_or_else(|error| panic!("{error:?}"));
        // SAFETY: opening our own library runs nothing.
        let library = unsafe { Library::new(file) }.expect("it was just linked");
        OffloadLibrary { library: Box::leak(Box::new(library)) }
    }

    /// Its function of this name, of the same type as the declared one, which is not called.
    ///
    /// # Safety
    /// `F` is a pointer to functions of the type that it has.
    pub(super) unsafe fn function<F: Copy>(&self, name: &str, _declared: F) -> F {
        // SAFETY: promised by the caller.
        let found = unsafe { self.library.get::<F>(name) };
        *found.unwrap_or_else(|error| panic!("{name:?}: {error}"))
    }
}
