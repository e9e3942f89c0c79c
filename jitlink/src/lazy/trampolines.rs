//! Who emits trampolines.

use std::sync::Weak;

use super::code;
use crate::graph::{Content, Definition, LinkGraph, Linkage, NewSymbol, Scope, SymbolId};
use crate::memory::{Lifetime, Protection};
use crate::runtime::reentry::{
    Reenter, ReentryContext, TRAMPOLINE_SIZE, hook_function, reenter_function,
};

/// Emits trampolines: code that can be called and re-enters (ORC's `LazyReexportsManager::EmitTrampolinesFn`).
///
/// Where ORC's emitter links its trampolines alone and says their addresses, this adds them to the graph that has the stubs too.
/// So a batch of entries is one link, at the time when the first of them is asked for, and no table of addresses is kept.
pub trait TrampolineEmitter: Send + Sync {
    /// Says who is to be asked when trampolines are called, once, before any is emitted. Whoever that is may be gone later.
    fn connect(&mut self, calls: Weak<dyn Reenter>);

    /// Adds trampolines to a graph. It must add the same each time for the same batch.
    fn emit(&self, graph: &mut LinkGraph, batch: TrampolineBatch) -> Trampolines;
}

/// Trampolines to be emitted.
#[derive(Debug, Clone, Copy)]
pub struct TrampolineBatch {
    /// What calls are to be known by: see [`ReentryCall::batch`](crate::runtime::reentry::ReentryCall::batch).
    pub number: u64,
    /// How many.
    pub count: u32,
    /// The slots, one of 8 bytes for each trampoline: for [`ReentryCall::slot`](crate::runtime::reentry::ReentryCall::slot).
    pub slots: SymbolId,
}

/// Trampolines in a graph.
#[derive(Debug, Clone, Copy)]
pub struct Trampolines {
    /// Where they are.
    pub symbol: SymbolId,
    /// How many bytes after it the first one is.
    pub first: u64,
    /// How many bytes there are from one to the next.
    pub stride: u64,
}

/// Trampolines of 16 bytes each that are linked like any other code and never changed (ORC's `JITLinkReentryTrampolines`).
///
/// They are for the process whose functions' addresses they are given.
#[derive(Debug)]
pub struct LinkedTrampolines {
    reenter: u64,
    hook: u64,
    context: Context,
}

#[derive(Debug)]
enum Context {
    /// A context of this process, once it is known who is asked.
    Here(Option<ReentryContext>),
    /// A number that means something to the hook of another process.
    Elsewhere(u64),
}

impl LinkedTrampolines {
    /// For this process.
    pub fn new() -> Self {
        let context = Context::Here(None);
        Self { reenter: reenter_function(), hook: hook_function(), context }
    }

    /// For another process: the addresses there of [`reenter_function`] and of a [`Hook`](crate::runtime::reentry::Hook), which gets this
    /// context. Whoever serves the hook's calls makes them calls of the [`LazyReexports`](super::LazyReexports).
    pub fn elsewhere(reenter: u64, hook: u64, context: u64) -> Self {
        Self { reenter, hook, context: Context::Elsewhere(context) }
    }

    fn context(&self) -> u64 {
        match &self.context {
            // No context has this number, so who calls the trampolines is told.
            Context::Here(context) => context.as_ref().map_or(0, ReentryContext::number),
            Context::Elsewhere(context) => *context,
        }
    }
}

impl Default for LinkedTrampolines {
    fn default() -> Self {
        Self::new()
    }
}

impl TrampolineEmitter for LinkedTrampolines {
    fn connect(&mut self, calls: Weak<dyn Reenter>) {
        if let Context::Here(context) = &mut self.context {
            *context = Some(ReentryContext::new(calls));
        }
    }

    fn emit(&self, graph: &mut LinkGraph, batch: TrampolineBatch) -> Trampolines {
        let architecture = graph.architecture();
        let text =
            graph.add_section(".text.trampolines", Protection::ReadExecute, Lifetime::Standard);
        let code = code::trampolines(architecture, batch.count);
        let code = graph.add_block(text, Content::Bytes(code), TRAMPOLINE_SIZE);
        let symbol = local(graph, "trampolines", Definition::Block(code, 0));

        let constants =
            graph.add_section(".data.rel.ro.trampolines", Protection::Read, Lifetime::Standard);
        // The fields of a `TrampolineHeader`.
        let header = [self.reenter, self.hook, self.context(), batch.number, 0, 0];
        let header = header.map(u64::to_le_bytes).as_flattened().to_vec();
        let header = graph.add_block(constants, Content::Bytes(header), 8);
        code::add_pointer(graph, header, 32, (symbol, code::HEAD_SIZE));
        code::add_pointer(graph, header, 40, (batch.slots, 0));

        let header = local(graph, "trampoline_header", Definition::Block(header, 0));
        graph.set_edges(code, code::head_edges(architecture, header));
        Trampolines { symbol, first: code::HEAD_SIZE, stride: TRAMPOLINE_SIZE }
    }
}

/// A symbol that only the graph sees.
pub(super) fn local(graph: &mut LinkGraph, name: &str, definition: Definition) -> SymbolId {
    graph.add_symbol(NewSymbol {
        name,
        definition,
        size: 0,
        linkage: Linkage::Strong,
        scope: Scope::Local,
        callable: false,
    })
}
