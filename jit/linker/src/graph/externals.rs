//! Symbols defined outside of a graph, and access to thread-local variables.

use super::SymbolId;

/// A symbol defined outside of the graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct External {
    pub(crate) symbol: SymbolId,
    /// The symbol's address; for a thread-local variable the offset in bytes in its module's block.
    pub(crate) address: u64,
    pub(crate) kind: ExternalKind,
}

/// The kind of definition of an [`External`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExternalKind {
    /// A definition in memory of the same session, assumed within reach until addresses are known.
    Linked,
    /// A definition at any distance.
    Process { callable: bool },
    /// A weak reference without a definition: null.
    Missing,
    /// A thread-local variable, in [`Externals::thread_locals`].
    ThreadLocal,
}

/// The symbols of a graph that are defined outside of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Externals {
    /// Ascending by the graph's symbols.
    pub(crate) symbols: Vec<External>,
    /// Places of the symbols of [`ExternalKind::ThreadLocal`], in the same order.
    pub(crate) thread_locals: Vec<(SymbolId, ThreadLocalPlace)>,
}

/// The module of a thread-local variable, and the variable's place relative to the thread pointer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadLocalPlace {
    pub(crate) module: u64,
    /// The variable's offset in bytes from the thread pointer, if it is the same in all threads.
    pub(crate) from_thread_pointer: Option<i64>,
}

/// The memory assumed to be within reach of a graph's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All memory of the session: only targets outside of it get entries.
    Session,
    /// The graph's own: all other targets get entries, and superfluous ones are removed once
    /// addresses are known.
    Graph,
}

/// The location of a graph's thread-local variables, and the descriptor functions for them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TlsLayout {
    /// The runtime's identifier of the block with the variables.
    pub(crate) module: u64,
    /// The block's offset in bytes from the thread pointer, if it is the same in all threads.
    pub(crate) from_thread_pointer: Option<i64>,
    /// Offset in bytes of the graph's variables in the block.
    pub(crate) module_offset: u64,
    /// Descriptor function of the runtime for a fixed offset.
    pub(crate) static_resolver: u64,
    /// Descriptor function of the runtime for a module and an offset.
    pub(crate) dynamic_resolver: u64,
}

impl Externals {
    /// Returns the symbol's definition outside of the graph, if it has one.
    pub(super) fn get(&self, symbol: SymbolId) -> Option<&External> {
        let index = self.symbols.binary_search_by_key(&symbol, |external| external.symbol).ok()?;
        Some(&self.symbols[index])
    }

    /// Returns the symbol's place, if it is a thread-local variable defined outside of the graph.
    pub(super) fn thread_local(&self, symbol: SymbolId) -> Option<ThreadLocalPlace> {
        let variables = &self.thread_locals;
        let index = variables.binary_search_by_key(&symbol, |(symbol, _)| *symbol).ok()?;
        Some(variables[index].1)
    }
}
