//! Functions whose destination can be changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longshore_orc_rt::service::memory::WRITE_POINTERS;

use super::code::{self, STUB_SIZE};
use super::trampolines::local;
use crate::Result;
use crate::graph::{BlockId, Content, Definition, LinkGraph, Linkage, NewSymbol, Scope, SymbolId};
use crate::memory::{Lifetime, Protection};
use crate::process::{TargetProcess, call_service};

/// Makes functions whose destination can be changed, and changes it (ORC's `RedirectableSymbolManager`).
pub trait RedirectableSymbols: Send + Sync {
    /// Adds functions of these names to a graph, and the slots in which their destinations are, which are still null. It must add
    /// the same each time for the same symbols.
    fn emit(&self, graph: &mut LinkGraph, symbols: &[RedirectableSymbol<'_>]) -> Slots;

    /// Has whoever calls a function from now on come to `destination`: the function whose slot is at this address on the executing
    /// side (ORC's `RedirectionManager::redirect`). Threads may be calling it.
    ///
    /// # Errors
    /// If the executing side cannot be reached.
    fn redirect(&self, slot: u64, destination: u64) -> Result<()>;

    /// Whether a slot may also be written where the code runs, by one store, when a function's destination is found at its first
    /// call: if that is all that redirecting it takes.
    fn hooks_may_write(&self) -> bool {
        false
    }
}

/// A function to be made.
#[derive(Debug, Clone, Copy)]
pub struct RedirectableSymbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Strong or weak.
    pub linkage: Linkage,
    /// Who sees it.
    pub scope: Scope,
}

/// The destinations of functions in a graph: 8 bytes for each, in their order.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    /// Where they are.
    pub symbol: SymbolId,
    /// The block that holds them, from its start.
    pub block: BlockId,
}

impl Slots {
    /// Makes a function's first destination so many bytes after a symbol.
    pub fn point(&self, graph: &mut LinkGraph, index: u32, symbol: SymbolId, offset: u64) {
        code::add_pointer(graph, self.block, u64::from(index) * 8, (symbol, offset));
    }
}

/// Stubs that jump to what their slots say (ORC's `JITLinkRedirectableSymbolManager`). A later call costs one indirect jump.
#[derive(Debug, Clone, Default)]
pub struct LinkedRedirectables<W = ThisProcess> {
    writer: W,
}

impl<W> LinkedRedirectables<W> {
    /// Stubs whose slots are written so.
    pub fn new(writer: W) -> Self {
        Self { writer }
    }
}

/// Writes pointers where linked code is executed.
pub trait PointerWriter: Send + Sync {
    /// Writes an aligned word, of which threads that read it meanwhile see the old or the new value. What was written before is there
    /// for those who see the new one.
    ///
    /// # Errors
    /// If the executing side cannot be reached.
    fn write(&self, address: u64, value: u64) -> Result<()>;

    /// Whether writing takes a message, which a hook that writes itself spares.
    fn takes_a_message(&self) -> bool {
        false
    }
}

/// Writes in this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisProcess;

impl PointerWriter for ThisProcess {
    fn write(&self, address: u64, value: u64) -> Result<()> {
        // SAFETY: the address is of a slot that was linked for this process, which who made the session vouches for. It is an aligned
        // word of writable memory that is there as long as the stub, and all who use it while it can be called do so atomically.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value, Ordering::Release);
        Ok(())
    }
}

/// Writes in a process that runs `longshore-orc-rt`. Blocks until it has answered.
#[derive(Clone)]
pub struct OfProcess(pub Arc<dyn TargetProcess>);

impl PointerWriter for OfProcess {
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
