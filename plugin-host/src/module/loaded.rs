//! Requests of a module to an image in memory, whether it was opened or linked.

use super::profile;
use longshore_plugin_api::{Result, SymbolKind};

/// An image in memory. What its symbols and profile parts say is mapped and readable while it lives.
pub(super) trait Loaded: Send + Sync {
    /// The exported kernel or global of this name.
    ///
    /// # Errors
    /// `InvalidBinary` for a kernel whose resolver gives none.
    fn symbol(&self, name: &str) -> Result<Option<Symbol>>;

    /// The same, if it is in memory already.
    fn symbol_in_memory(&self, name: &str) -> Result<Option<Symbol>> {
        self.symbol(name)
    }

    /// The content of an exported constant: what the image has for it.
    fn constant(&self, name: &str) -> Option<Vec<u8>> {
        let Symbol { address, bytes, .. } = variable(self.symbol(name))?;
        // SAFETY: the variable's bytes are readable; who asks knows that they are constant.
        Some(unsafe { std::slice::from_raw_parts(pointer(address), bytes as usize) }.to_vec())
    }

    /// All exported kernels and globals.
    ///
    /// # Errors
    /// `InvalidBinary` for a member of an archive that cannot be read, and was not before.
    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>>;

    /// Runs the constructors.
    fn construct(&self) -> Result<()>;

    /// Runs the destructors, all of them; the first failure.
    fn destruct(&self) -> Result<()>;

    /// Where its profile is.
    fn profile_parts(&self) -> Vec<profile::Part>;

    /// The major version of the clang that made it, if it says so.
    fn compiler(&self) -> Option<u32>;

    /// Gives its memory back.
    fn unload(self: Box<Self>) -> Result<()>;
}

/// A kernel or a global of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub(super) kind: SymbolKind,
    pub(super) address: u64,
    /// Size in bytes; 0 for a function that the image chooses when it is loaded.
    pub(super) bytes: u64,
}

/// Returns the symbol that was found, if it is a variable.
pub(super) fn variable(found: Result<Option<Symbol>>) -> Option<Symbol> {
    found.ok()?.filter(|symbol| symbol.kind == SymbolKind::Global)
}

/// Returns a pointer into an image, whose memory is exposed.
pub(super) fn pointer<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(address as usize)
}
