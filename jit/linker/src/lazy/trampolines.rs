//! Who emits trampolines.

use std::sync::{Arc, Weak};

use longshore_orc_rt::reentry::{
    Answer, Onward, Question, Reenter, ReentryCall, ReentryContext, TRAMPOLINE_SIZE, hook_function,
    reenter_function,
};
use longshore_orc_rt::service::reentry::RETIRE_TRAMPOLINES;
use longshore_orc_rt::{names, reentry};

use super::code;
use super::listener::FailedCall;
use crate::graph::{Content, Definition, LinkGraph, Linkage, NewSymbol, Scope, SymbolId};
use crate::memory::{Lifetime, Protection};
use crate::process::{TargetProcess, address_of, call_service};
use crate::{Error, Result};

/// Emits trampolines: code that can be called and re-enters (ORC's `LazyReexportsManager::EmitTrampolinesFn`).
///
/// Where ORC's emitter links its trampolines alone and says their addresses, this adds them to the graph that has the stubs too.
/// So a batch of entries is one link, at the time when the first of them is asked for, and no table of addresses is kept.
pub trait TrampolineEmitter: Send + Sync {
    /// Says who is to be asked when trampolines are called, once, before any is emitted. Whoever that is may be gone later.
    ///
    /// # Errors
    /// If calls cannot be had from the executing side.
    fn connect(&mut self, calls: Weak<dyn LinkCalls>) -> Result<()>;

    /// Adds trampolines to a graph. It must add the same each time for the same batch.
    fn emit(&self, graph: &mut LinkGraph, batch: TrampolineBatch) -> Trampolines;

    /// Whether the hook can write a destination to the trampoline's slot when it is told one: see
    /// [`Onward::redirect`](longshore_orc_rt::reentry::Onward::redirect). It spares a message.
    fn hooks_write(&self) -> bool {
        false
    }

    /// Has hooks write nothing any more to the slots of a batch, or write there again. When this returns none does.
    ///
    /// # Errors
    /// If the executing side cannot be reached.
    fn retire(&self, batch: u64, retired: bool) -> Result<()> {
        _ = (batch, retired);
        Ok(())
    }
}

/// The linker's side of calls through trampolines. Any thread may use it, several at once.
pub trait LinkCalls: Reenter {
    /// Links the implementation of an entry that was called in this process, and returns where the call goes on. What
    /// [`LazyReexports::on_failure`](super::LazyReexports::on_failure) was given is not asked.
    ///
    /// # Errors
    /// The entry, and why it has no implementation.
    fn link_call(&self, call: ReentryCall) -> Result<Onward, FailedCall>;

    /// Does the same for a call in another process, which leaves constructors to the thread there that made it. A failed call goes on
    /// as [`LazyReexports::on_failure`](super::LazyReexports::on_failure) was given.
    ///
    /// # Errors
    /// As for [`Self::link_call`].
    fn answer(&self, question: Question) -> Result<Answer, FailedCall>;
}

/// Trampolines to be emitted.
#[derive(Debug, Clone, Copy)]
pub struct TrampolineBatch {
    /// What calls are to be known by: see [`ReentryCall::batch`](longshore_orc_rt::reentry::ReentryCall::batch).
    pub number: u64,
    /// How many.
    pub count: u32,
    /// The slots, one of 8 bytes for each trampoline: for [`ReentryCall::slot`](longshore_orc_rt::reentry::ReentryCall::slot).
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
/// Calls through those of another process come here as calls back, on threads of the [`TargetProcess`].
pub struct LinkedTrampolines {
    reenter: u64,
    hook: u64,
    context: Context,
}

enum Context {
    /// A context of this process, once it is known who is asked.
    Here(Option<ReentryContext>),
    /// A tag by which another process calls back.
    Elsewhere(Arc<dyn TargetProcess>, u64),
    /// Whoever else has it.
    Others(u64),
}

impl LinkedTrampolines {
    /// For this process.
    pub fn new() -> Self {
        let context = Context::Here(None);
        Self { reenter: reenter_function(), hook: hook_function(), context }
    }

    /// For a process that runs `longshore-orc-rt`. Blocks until it has answered.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if its `longshore-orc-rt` is of another version, and those of a call.
    pub fn for_process(process: Arc<dyn TargetProcess>) -> Result<Self> {
        let reenter = address_of(&*process, names::REENTER)?;
        let hook = address_of(&*process, names::CONTROLLER_HOOK)?;
        // An address that nobody else has there. It is never freed: calls may come as long as the process lives.
        let tag = crate::wait(process.allocate(8, 8))?;
        Ok(Self { reenter, hook, context: Context::Elsewhere(process, tag) })
    }

    /// For another executing side: the addresses there of [`reenter_function`] and of a [`Hook`](longshore_orc_rt::reentry::Hook), and
    /// what the hook finds as the context. This emits only: it is for an emitter that has the calls come by a way of its own.
    pub fn with_hook(reenter: u64, hook: u64, context: u64) -> Self {
        Self { reenter, hook, context: Context::Others(context) }
    }

    /// Has calls through trampolines of this process come to `calls` instead of the linker; those of another process come to nobody.
    pub fn connect_to(&mut self, calls: Weak<dyn Reenter>) {
        if let Context::Here(context) = &mut self.context {
            *context = Some(ReentryContext::new(calls));
        }
    }

    fn context(&self) -> u64 {
        match &self.context {
            // No context has this number, so who calls the trampolines is told.
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
            return process.serve(*tag, Arc::new(move |call| answer(&calls, call)));
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
                // SAFETY: any numbers may be retired.
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

/// Answers a call back of `controller_hook_function`.
fn answer(calls: &Weak<dyn LinkCalls>, call: &[u8]) -> Result<Vec<u8>> {
    let failed = |problem: String| Error::Call { function: "a lazy entry".to_owned(), problem };
    let question = postcard::from_bytes(call).map_err(|error| failed(error.to_string()))?;
    let calls = calls.upgrade().ok_or_else(|| {
        failed("who emitted it is gone; keep it while its code is called".to_owned())
    })?;
    let answer = calls.answer(question).map_err(|call| failed(call.to_string()))?;
    postcard::to_allocvec(&answer).map_err(|error| failed(error.to_string()))
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
