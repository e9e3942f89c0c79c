//! Functions with a changeable destination.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longshore_orc_rt::service::memory::WRITE_POINTERS;

use super::code::{self, STUB_SIZE};
use super::trampolines::local;
use crate::Result;
use crate::graph::{BlockId, Content, Definition, LinkGraph, Linkage, NewSymbol, Scope, SymbolId};
use crate::memory::{Lifetime, Protection};
use crate::process::{TargetProcess, call_service};

/// A maker of functions with a changeable destination, which also changes it (ORC's
/// `RedirectableSymbolManager`).
pub trait RedirectableSymbols: Send + Sync {
    /// Adds functions of these names to a graph, and slots for their destinations, which are still
    /// null. The result must be the same each time for the same symbols.
    fn emit(&self, graph: &mut LinkGraph, symbols: &[RedirectableSymbol<'_>]) -> Slots;

    /// Redirects further calls of a function to `destination` (ORC's
    /// `RedirectionManager::redirect`). `slot` is the address of the function's slot on the
    /// executing side. Threads may be calling the function.
    ///
    /// # Errors
    /// An error if the executing side cannot be reached.
    fn redirect(&self, slot: u64, destination: u64) -> Result<()>;

    /// Returns whether the executing side may also write a slot, by one store, when a function's
    /// destination is found at its first call. True if the store is the whole redirection.
    fn hooks_may_write(&self) -> bool {
        false
    }
}

/// A function to be made.
#[derive(Debug, Clone, Copy)]
pub struct RedirectableSymbol<'a> {
    /// The function's name.
    pub name: &'a str,
    /// Strong or weak.
    pub linkage: Linkage,
    /// The function's visibility.
    pub scope: Scope,
}

/// The destinations of functions in a graph: 8 bytes for each, in their order.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    /// The symbol of the first slot.
    pub symbol: SymbolId,
    /// The block that holds the slots, from its start.
    pub block: BlockId,
}

impl Slots {
    /// Sets a function's first destination, `offset` bytes after a symbol.
    pub fn point(&self, graph: &mut LinkGraph, index: u32, symbol: SymbolId, offset: u64) {
        code::add_pointer(graph, self.block, u64::from(index) * 8, (symbol, offset));
    }
}

/// Stubs that jump to the addresses in their slots (ORC's `JITLinkRedirectableSymbolManager`). A
/// later call costs one indirect jump.
#[derive(Debug, Clone, Default)]
pub struct LinkedRedirectables<W = ThisProcess> {
    writer: W,
}

impl<W> LinkedRedirectables<W> {
    /// Creates a maker of stubs whose slots `writer` writes.
    pub fn new(writer: W) -> Self {
        Self { writer }
    }
}

/// A writer of pointers in the executing process.
pub trait PointerWriter: Send + Sync {
    /// Writes an aligned word. Threads that read it concurrently see the old or the new value, and
    /// with the new value all earlier writes.
    ///
    /// # Errors
    /// An error if the executing side cannot be reached.
    fn write(&self, address: u64, value: u64) -> Result<()>;

    /// Returns whether a write takes a message, so that a write by the hook saves it.
    fn takes_a_message(&self) -> bool {
        false
    }
}

/// A writer in this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisProcess;

impl PointerWriter for ThisProcess {
    fn write(&self, address: u64, value: u64) -> Result<()> {
        // SAFETY: the address is of a slot that was linked for this process, which the creator of
        // the session vouches for. The slot is an aligned word of writable memory that lives as
        // long as the stub, and all its users access it atomically while the stub can be called.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value, Ordering::Release);
        Ok(())
    }
}

/// A writer in a process that runs `longshore-orc-rt`. A write blocks until the process has
/// replied.
#[derive(Clone)]
pub struct ProcessWriter(pub Arc<dyn TargetProcess>);

impl PointerWriter for ProcessWriter {
    fn write(&self, address: u64, value: u64) -> Result<()> {
        // SAFETY: as for `ThisProcess`, in that process.
        let written = unsafe { call_service(&*self.0, WRITE_POINTERS, &vec![(address, value)]) };
        crate::wait(written)
    }

    fn takes_a_message(&self) -> bool {
        true
    }
}

impl<W: PointerWriter> RedirectableSymbols for LinkedRedirectables<W> {
    fn emit(&self, graph: &mut LinkGraph, symbols: &[RedirectableSymbol<'_>]) -> Slots {
        let (architecture, count) = (graph.architecture(), symbols.len() as u32);
        let data = graph.add_section(".data.stubs", Protection::ReadWrite, Lifetime::Standard);
        let block = graph.add_block(data, Content::Bytes(vec![0; 8 * symbols.len()]), 8);
        let slots = local(graph, "stub_slots", Definition::Block(block, 0));

        let text = graph.add_section(".text.stubs", Protection::ReadExecute, Lifetime::Standard);
        let stubs = Content::Bytes(code::stubs(architecture, count));
        let stubs = graph.add_block(text, stubs, STUB_SIZE);
        graph.set_edges(stubs, code::stub_edges(architecture, count, slots));
        for (symbol, start) in symbols.iter().zip((0..).step_by(STUB_SIZE as usize)) {
            graph.add_symbol(NewSymbol {
                name: symbol.name,
                definition: Definition::Block(stubs, start),
                size: STUB_SIZE,
                linkage: symbol.linkage,
                scope: symbol.scope,
                callable: true,
            });
        }
        Slots { symbol: slots, block }
    }

    fn redirect(&self, slot: u64, destination: u64) -> Result<()> {
        self.writer.write(slot, destination)
    }

    fn hooks_may_write(&self) -> bool {
        self.writer.takes_a_message()
    }
}
