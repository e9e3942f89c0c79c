//! The C API in a program's form: a shared library.

use libloading::Library;
use xtask::shared_library::OFFLOAD;

/// The opened library. It is never closed, as its threads may run until the process ends.
pub(super) struct OffloadLibrary {
    library: &'static Library,
}

impl OffloadLibrary {
    /// Links this profile's `longshore-capi`, unless the shared library is newer, and opens the
    /// shared library.
    pub(super) fn open() -> OffloadLibrary {
        let executable = std::env::current_exe().expect("Linux tells");
        let folder = executable.ancestors().nth(2).expect("target/<profile>/deps/<executable>");
        let file = OFFLOAD.link(folder).unwrap_or_else(|error| panic!("{error:?}"));
        // SAFETY: opening our own library runs nothing.
        let library = unsafe { Library::new(file) }.expect("it was just linked");
        OffloadLibrary { library: Box::leak(Box::new(library)) }
    }

    /// Returns the library's function with this name. `_declared` only has the type, and is not
    /// called.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function.
    pub(super) unsafe fn function<F: Copy>(&self, name: &str, _declared: F) -> F {
        // SAFETY: promised by the caller.
        let found = unsafe { self.library.get::<F>(name) };
        *found.unwrap_or_else(|error| panic!("{name:?}: {error}"))
    }
}
