//! The emission of trampolines.

use std::sync::{Arc, Weak};

use longshore_orc_rt::reentry::{
    Reenter, ReentryCall, ReentryContext, ReentryReply, ReentryRequest, ReentryTarget,
    TRAMPOLINE_SIZE, hook_function, reenter_function,
};
use longshore_orc_rt::service::reentry::RETIRE_TRAMPOLINES;
use longshore_orc_rt::{names, reentry};

use super::code;
use super::listener::FailedCall;
use crate::graph::{Content, Definition, LinkGraph, Linkage, NewSymbol, Scope, SymbolId};
use crate::memory::{Lifetime, Protection};
use crate::process::{TargetProcess, address_of, call_service};
use crate::{Error, Result};

/// An emitter of trampolines: callable code that re-enters the linker (ORC's
/// `LazyReexportsManager::EmitTrampolinesFn`).
///
/// ORC's emitter links its trampolines alone and returns their addresses; this emitter adds them to
/// the graph with the stubs. So a batch of entries is one link, at the time of the first look-up of
/// an entry, and needs no table of addresses.
pub trait TrampolineEmitter: Send + Sync {
    /// Sets the receiver of calls through trampolines, once, before any is emitted. The receiver
    /// may be dropped later.
    ///
    /// # Errors
    /// An error if the executing side cannot deliver calls.
    fn connect(&mut self, calls: Weak<dyn LinkCalls>) -> Result<()>;

    /// Adds trampolines to a graph. The result must be the same each time for the same batch.
    fn emit(&self, graph: &mut LinkGraph, batch: TrampolineBatch) -> Trampolines;

    /// Returns whether the hook can write a destination to the trampoline's slot, which saves a
    /// message: see
    /// [`ReentryTarget::redirect`](longshore_orc_rt::reentry::ReentryTarget::redirect).
    fn hooks_write(&self) -> bool {
        false
    }

    /// Stops hooks from writing to the slots of a batch, or lets them write again. After a stop, no
    /// hook writes there once the method has returned.
    ///
    /// # Errors
    /// An error if the executing side cannot be reached.
    fn retire(&self, batch: u64, retired: bool) -> Result<()> {
        _ = (batch, retired);
        Ok(())
    }
}

/// The linker's side of calls through trampolines. Any thread may use it, several at once.
pub trait LinkCalls: Reenter {
    /// Links the implementation of an entry that was called in this process, and returns the target
    /// of the call. Ignores the handler of
    /// [`LazyReexports::on_failure`](super::LazyReexports::on_failure).
    ///
    /// # Errors
    /// The entry, and the reason why it has no implementation.
    fn link_call(&self, call: ReentryCall) -> Result<ReentryTarget, FailedCall>;

    /// Links the implementation for a call in another process, which leaves constructors to the
    /// calling thread there. A failed call gets the target of
    /// [`LazyReexports::on_failure`](super::LazyReexports::on_failure)'s handler.
    ///
    /// # Errors
    /// The errors of [`Self::link_call`].
    fn reply(&self, request: ReentryRequest) -> Result<ReentryReply, FailedCall>;
}

/// The trampolines to emit.
#[derive(Debug, Clone, Copy)]
pub struct TrampolineBatch {
    /// The batch's number, which identifies calls: see
    /// [`ReentryCall::batch`](longshore_orc_rt::reentry::ReentryCall::batch).
    pub number: u64,
    /// The number of trampolines.
    pub count: u32,
    /// The slots, one of 8 bytes for each trampoline: for
    /// [`ReentryCall::slot`](longshore_orc_rt::reentry::ReentryCall::slot).
    pub slots: SymbolId,
}

/// The place of trampolines in a graph.
#[derive(Debug, Clone, Copy)]
pub struct Trampolines {
    /// The symbol from which the trampolines are addressed.
    pub symbol: SymbolId,
    /// Offset in bytes of the first trampoline from the symbol.
    pub first: u64,
    /// Distance in bytes from one trampoline to the next.
    pub stride: u64,
}

/// Trampolines of 16 bytes each that are linked like any other code and never changed (ORC's
/// `JITLinkReentryTrampolines`).
///
/// Calls through the trampolines of another process arrive here as calls back, on threads of the
/// [`TargetProcess`].
pub struct LinkedTrampolines {
    reenter: u64,
    hook: u64,
    context: Context,
}

enum Context {
    /// A context of this process, once the receiver of calls is known.
    Here(Option<ReentryContext>),
    /// A tag by which another process calls back.
    Elsewhere(Arc<dyn TargetProcess>, u64),
    /// A context of another executing side.
    Others(u64),
}

impl LinkedTrampolines {
    /// Creates an emitter for this process.
    pub fn new() -> Self {
        let context = Context::Here(None);
        Self { reenter: reenter_function(), hook: hook_function(), context }
    }

    /// Creates an emitter for a process that runs `longshore-orc-rt`. Blocks until the process has
    /// replied.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if its `longshore-orc-rt` is of another
    /// version, and the errors of a call.
    pub fn for_process(process: Arc<dyn TargetProcess>) -> Result<Self> {
        let reenter = address_of(&*process, names::REENTER)?;
        let hook = address_of(&*process, names::CONTROLLER_HOOK)?;
        // The address is a unique tag in the process. It is never freed: calls may come as long as
        // the process lives.
        let tag = crate::wait(process.allocate(8, 8))?;
        Ok(Self { reenter, hook, context: Context::Elsewhere(process, tag) })
    }

    /// Creates an emitter for another executing side, from addresses there: [`reenter_function`], a
    /// [`Hook`](longshore_orc_rt::reentry::Hook), and the hook's context. The result only emits
    /// code; the caller delivers the calls by its own means.
    pub fn with_hook(reenter: u64, hook: u64, context: u64) -> Self {
        Self { reenter, hook, context: Context::Others(context) }
    }

    /// Sends calls through trampolines of this process to `calls` instead of the linker. Calls of
    /// another process are not delivered.
    pub fn connect_to(&mut self, calls: Weak<dyn Reenter>) {
        if let Context::Here(context) = &mut self.context {
            *context = Some(ReentryContext::new(calls));
        }
    }

    fn context(&self) -> u64 {
        match &self.context {
            // No context has number 0, so a call gets an error.
            Context::Here(context) => context.as_ref().map_or(0, ReentryContext::number),
            Context::Elsewhere(_, tag) | Context::Others(tag) => *tag,
        }
    }
}

impl Default for LinkedTrampolines {
    fn default() -> Self {
        Self::new()
    }
}

impl TrampolineEmitter for LinkedTrampolines {
    fn connect(&mut self, calls: Weak<dyn LinkCalls>) -> Result<()> {
        if let Context::Elsewhere(process, tag) = &self.context {
            return process.serve(*tag, Arc::new(move |call| reply(&calls, call)));
        }
        self.connect_to(calls);
        Ok(())
    }

    fn hooks_write(&self) -> bool {
        !matches!(self.context, Context::Others(_))
    }

    fn retire(&self, batch: u64, retired: bool) -> Result<()> {
        match &self.context {
            Context::Here(_) => reentry::retire(self.context(), batch, retired),
            Context::Elsewhere(process, tag) => {
                // SAFETY: the service is sound with any numbers.
                let done = unsafe {
                    call_service(&**process, RETIRE_TRAMPOLINES, &(*tag, batch, retired))
                };
                crate::wait(done)?;
            }
            Context::Others(_) => {}
        }
        Ok(())
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

/// Replies to a call back of `controller_hook_function`.
fn reply(calls: &Weak<dyn LinkCalls>, call: &[u8]) -> Result<Vec<u8>> {
    let failed = |problem: String| Error::Call { function: "a lazy entry".to_owned(), problem };
    let request = postcard::from_bytes(call).map_err(|error| failed(error.to_string()))?;
    let calls = calls.upgrade().ok_or_else(|| {
        failed(
            "the emitter of its code is gone; keep the emitter while its code is called".to_owned(),
        )
    })?;
    let reply = calls.reply(request).map_err(|call| failed(call.to_string()))?;
    postcard::to_allocvec(&reply).map_err(|error| failed(error.to_string()))
}

/// Adds a symbol that only the graph sees.
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
