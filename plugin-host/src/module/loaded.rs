//! The common interface of opened and linked images.

use super::profile;
use crate::lines::Lines;
use longshore_plugin_api::{Result, SymbolKind};
use std::sync::Arc;

/// An image in memory. The memory of its symbols and profile parts is mapped and readable while it
/// lives.
pub(super) trait LoadedImage: Send + Sync {
    /// Returns the exported kernel or global of this name.
    ///
    /// # Errors
    /// `InvalidBinary` for a kernel whose resolver returned null.
    fn symbol(&self, name: &str) -> Result<Option<Symbol>>;

    /// Returns the exported kernel or global of this name, if it is in memory already.
    fn symbol_in_memory(&self, name: &str) -> Result<Option<Symbol>> {
        self.symbol(name)
    }

    /// Returns the contents of an exported constant, from the image.
    fn constant(&self, name: &str) -> Option<Vec<u8>> {
        let Symbol { address, bytes, .. } = variable(self.symbol(name))?;
        // SAFETY: the variable's bytes are readable; the caller knows that they are constant.
        Some(unsafe { std::slice::from_raw_parts(pointer(address), bytes as usize) }.to_vec())
    }

    /// Returns all exported kernels and globals.
    ///
    /// # Errors
    /// `InvalidBinary` for an unreadable member of an archive that was not read before.
    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>>;

    /// Runs the constructors.
    fn construct(&self) -> Result<()>;

    /// Runs all destructors. Returns the first failure.
    fn destruct(&self) -> Result<()>;

    /// Returns the debug information of the code in memory.
    fn lines(&self) -> &Arc<Lines>;

    /// Returns the parts of the image's profile.
    fn profile_parts(&self) -> Vec<profile::Part>;

    /// Returns the major version of the clang that compiled the image, if it is known.
    fn compiler(&self) -> Option<u32>;

    /// Frees the image's memory.
    fn unload(self: Box<Self>) -> Result<()>;
}

/// A kernel or a global of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub(super) kind: SymbolKind,
    pub(super) address: u64,
    /// Size in bytes; 0 for a function that a resolver chooses.
    pub(super) bytes: u64,
}

/// Returns the found symbol, if it is a variable.
pub(super) fn variable(found: Result<Option<Symbol>>) -> Option<Symbol> {
    found.ok()?.filter(|symbol| symbol.kind == SymbolKind::Global)
}

/// Returns a pointer into an image, whose memory is exposed.
pub(super) fn pointer<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(address as usize)
}
