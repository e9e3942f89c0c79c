//! The entries, and the handling of their calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use longshore_orc_rt::reentry::{
    Reenter, ReentryCall, ReentryReply, ReentryRequest, ReentryTarget,
};
use parking_lot::RwLock;

use super::constructors::{Addition, InitializerGuard, InitializerLock};
use super::listener::{FailedCall, FailureHandler, Listener};
use super::trampolines::LinkCalls;
use super::{
    RedirectableSymbol, RedirectableSymbols, Reexport, TrampolineBatch, TrampolineEmitter,
};
use crate::graph::LinkGraph;
use crate::session::Library;
use crate::{Architecture, Error, Result, Undefined};

/// The state of a [`LazyReexports`](super::LazyReexports).
pub(super) struct Manager {
    emitters: Arc<Emitters>,
    batches: RwLock<Batches>,
    /// The lazy additions.
    additions: RwLock<Vec<Arc<Addition>>>,
    initializer_lock: InitializerLock,
    failure: RwLock<Option<Arc<FailureHandler>>>,
    listener: Option<Arc<dyn Listener>>,
}

/// The emitters of the entries' code.
struct Emitters {
    trampolines: Box<dyn TrampolineEmitter>,
    symbols: Box<dyn RedirectableSymbols>,
}

impl Emitters {
    /// Returns whether hooks write to slots.
    fn by_hook(&self) -> bool {
        self.trampolines.hooks_write() && self.symbols.hooks_may_write()
    }
}

#[derive(Default)]
struct Batches {
    last: u64,
    known: HashMap<u64, Arc<Batch>>,
}

/// Entries that were made together.
struct Batch {
    implementations: Implementations,
    entries: Box<[Entry]>,
    /// Whether the entries' memory may go, so that the manager writes to no slot; hooks that write
    /// have a flag of their own.
    leaving: RwLock<bool>,
}

/// The source of implementations.
pub(super) enum Implementations {
    Library(Library),
    Addition(Arc<Addition>),
}

struct Entry {
    name: Box<str>,
    implementation: Box<str>,
    /// Current destination of the entry; 0 before the first redirection.
    destination: AtomicU64,
}

/// Entries to be made: the code of a batch.
#[derive(Clone)]
pub(super) struct BatchCode {
    emitters: Arc<Emitters>,
    architecture: Architecture,
    number: u64,
    entries: Arc<[Reexport]>,
}

impl Manager {
    pub(super) fn new(
        mut trampolines: Box<dyn TrampolineEmitter>,
        symbols: Box<dyn RedirectableSymbols>,
        listener: Option<Arc<dyn Listener>>,
    ) -> Result<Arc<Self>> {
        let mut connected = Ok(());
        let manager = Arc::new_cyclic(|manager: &Weak<Self>| {
            connected = trampolines.connect(manager.clone());
            Self {
                emitters: Arc::new(Emitters { trampolines, symbols }),
                batches: RwLock::default(),
                additions: RwLock::default(),
                initializer_lock: InitializerLock::default(),
                failure: RwLock::default(),
                listener,
            }
        });
        connected.map(|()| manager)
    }

    pub(super) fn set_failure_handler(&self, handler: Arc<FailureHandler>) {
        *self.failure.write() = Some(handler);
    }

    /// Keeps an addition, and returns its number.
    pub(super) fn keep(&self, addition: Arc<Addition>) -> usize {
        let mut additions = self.additions.write();
        additions.push(addition);
        additions.len() - 1
    }

    /// Returns the addition of a number.
    pub(super) fn addition(&self, number: usize) -> Arc<Addition> {
        Arc::clone(&self.additions.read()[number])
    }

    /// Returns the lock under which constructors run.
    pub(super) fn initializer_lock(&self) -> &InitializerLock {
        &self.initializer_lock
    }

    /// Registers entries, and returns their batch number and code.
    pub(super) fn add_batch(
        &self,
        entries: Arc<[Reexport]>,
        implementations: Implementations,
    ) -> (u64, BatchCode) {
        let architecture = implementations.library().architecture();
        let known = entries.iter().map(|reexport| Entry {
            name: reexport.name.as_str().into(),
            implementation: reexport.implementation.as_str().into(),
            destination: AtomicU64::new(0),
        });
        let batch =
            Batch { implementations, entries: known.collect(), leaving: RwLock::new(false) };
        let mut batches = self.batches.write();
        batches.last += 1;
        let number = batches.last;
        batches.known.insert(number, Arc::new(batch));
        drop(batches);
        if let Some(listener) = &self.listener {
            listener.reexports_created(&mut entries.iter().map(|entry| entry.name.as_str()));
        }
        (number, BatchCode { emitters: Arc::clone(&self.emitters), architecture, number, entries })
    }

    /// Removes a batch. Calls of its entries that are already here continue.
    pub(super) fn forget_batch(&self, number: u64) {
        let Some(batch) = self.batches.write().known.remove(&number) else { return };
        if let Some(listener) = &self.listener {
            listener.reexports_removed(&mut batch.entries.iter().map(|entry| &*entry.name));
        }
    }

    /// Sets whether the memory of a batch's slots may go. If so, no thread writes there once the
    /// function returns.
    pub(super) fn set_leaving(&self, number: u64, leaving: bool) -> Result<()> {
        let Some(batch) = self.batch(number) else { return Ok(()) };
        if self.emitters.by_hook() {
            return self.emitters.trampolines.retire(number, leaving);
        }
        *batch.leaving.write() = leaving;
        Ok(())
    }

    fn batch(&self, number: u64) -> Option<Arc<Batch>> {
        self.batches.read().known.get(&number).map(Arc::clone)
    }

    /// Runs a function for the entry of a call.
    fn for_entry<T>(
        &self,
        call: ReentryCall,
        run: impl FnOnce(&Batch, &Entry) -> Result<T>,
    ) -> Result<T, FailedCall> {
        let batch = self.batch(call.batch);
        let entry = batch.as_deref().and_then(|batch| {
            let index = usize::try_from(call.index).ok()?;
            Some((batch, batch.entries.get(index)?))
        });
        let Some((batch, entry)) = entry else { return Err(FailedCall::removed(call)) };
        run(batch, entry).map_err(|error| FailedCall {
            entry: entry.name.clone(),
            implementation: entry.implementation.clone(),
            error,
        })
    }

    /// Returns the handler's address for a failed call; without a handler, the failure.
    fn instead(&self, failed: FailedCall) -> Result<ReentryTarget, FailedCall> {
        let handler = self.failure.read().clone();
        match handler {
            Some(handler) => Ok(ReentryTarget { target: handler(&failed), redirect: false }),
            None => Err(failed),
        }
    }

    /// Returns the target of a call of an entry. Holds no lock during the look-up except for the
    /// session's, which the look-up takes, and the initializer lock if constructors must run: on
    /// this thread.
    fn materialize(
        &self,
        batch: &Batch,
        entry: &Entry,
        call: ReentryCall,
    ) -> Result<ReentryTarget> {
        if let Some(destination) = self.arrive(batch, entry, call)? {
            return Ok(destination);
        }
        let Some(addition) = batch.implementations.that_constructs() else {
            return self.link(batch, entry, call);
        };
        let guard = self.initializer_lock.take_for(call, &addition.implementations)?;
        let target = addition.implementations.lookup_own(&entry.implementation)?;
        addition.construct(&guard)?;
        Ok(self.redirect_after(&guard, (batch, entry), call.slot, target))
    }

    /// Returns the target of a call in another process, whose thread runs the constructors.
    fn materialize_elsewhere(
        &self,
        batch: &Batch,
        entry: &Entry,
        call: ReentryCall,
    ) -> Result<ReentryReply> {
        if let Some(destination) = self.arrive(batch, entry, call)? {
            return Ok(ReentryReply::Target(destination));
        }
        let Some(addition) = batch.implementations.that_constructs() else {
            return self.link(batch, entry, call).map(ReentryReply::Target);
        };
        let guard = self.initializer_lock.take(call.lock_owner, &addition.implementations)?;
        let target = addition.implementations.lookup_own(&entry.implementation)?;
        Ok(match addition.take_constructors() {
            Some((functions, arguments)) => {
                guard.keep();
                ReentryReply::Construct { functions, arguments: arguments.into() }
            }
            None => {
                ReentryReply::Target(self.redirect_after(&guard, (batch, entry), call.slot, target))
            }
        })
    }

    /// Completes a call whose constructors have run in another process.
    fn constructed(&self, batch: &Batch, entry: &Entry, call: ReentryCall) -> Result<ReentryReply> {
        let Some(guard) = self.initializer_lock.resume(call.lock_owner) else {
            let function = entry.name.to_string();
            let problem =
                "its constructors were run by a thread that does not own the initializer lock";
            return Err(Error::Call { function, problem: problem.to_owned() });
        };
        let target = batch.implementations.library().lookup_own(&entry.implementation)?;
        Ok(ReentryReply::Target(self.redirect_after(&guard, (batch, entry), call.slot, target)))
    }

    /// Returns the target of a call that needs no look-up, because another call has redirected the
    /// entry. Otherwise does the work that can precede waiting for other threads, and returns
    /// `None`.
    fn arrive(
        &self,
        batch: &Batch,
        entry: &Entry,
        call: ReentryCall,
    ) -> Result<Option<ReentryTarget>> {
        if let Some(listener) = self.listener.as_ref().filter(|_| !call.while_linking) {
            listener.reexport_called(&entry.name);
        }
        let known = entry.destination.load(Ordering::Acquire);
        if known != 0 {
            // A hook that did not write, because the entry was about to go, writes now.
            return Ok(Some(ReentryTarget { target: known, redirect: self.emitters.by_hook() }));
        }
        if call.while_linking {
            let file = "a function that is called while objects are linked".to_owned();
            let problem = "it needs code that is not linked yet, and cannot wait for the link under way; look it up before";
            return Err(Error::Unsupported { file, problem: problem.to_owned() });
        }
        batch.implementations.prepare(&entry.implementation)?;
        Ok(None)
    }

    fn link(&self, batch: &Batch, entry: &Entry, call: ReentryCall) -> Result<ReentryTarget> {
        let target = batch.implementations.library().lookup_own(&entry.implementation)?;
        Ok(self.redirect(batch, entry, call.slot, target))
    }

    /// Redirects later calls, if constructors are done: a constructor's own call precedes their
    /// end, for which other threads must wait.
    fn redirect_after(
        &self,
        guard: &InitializerGuard<'_>,
        (batch, entry): (&Batch, &Entry),
        slot: u64,
        target: u64,
    ) -> ReentryTarget {
        match guard.is_whole() {
            true => self.redirect(batch, entry, slot, target),
            false => ReentryTarget { target, redirect: false },
        }
    }

    /// Redirects later calls at once.
    fn redirect(&self, batch: &Batch, entry: &Entry, slot: u64, target: u64) -> ReentryTarget {
        if self.emitters.by_hook() {
            entry.destination.store(target, Ordering::Release);
            return ReentryTarget { target, redirect: true };
        }
        let leaving = batch.leaving.read();
        if *leaving {
            return ReentryTarget { target, redirect: false };
        }
        match self.emitters.symbols.redirect(slot, target) {
            Ok(()) => entry.destination.store(target, Ordering::Release),
            // The next call comes here again.
            Err(error) => log::warn!("redirecting {}: {error}", entry.name),
        }
        ReentryTarget { target, redirect: false }
    }
}

impl FailedCall {
    /// Returns the failure of a call of a removed entry.
    fn removed(call: ReentryCall) -> Self {
        let symbol = format!("entry {} of batch {}", call.index, call.batch);
        let entry = symbol.clone().into();
        let file = "a call through a lazy entry that was removed".to_owned();
        let error = Error::Undefined(vec![Undefined { symbol, file }]);
        Self { entry, implementation: Box::default(), error }
    }
}

impl Implementations {
    /// Does the part of the work for an implementation that needs no lock, before its look-up.
    fn prepare(&self, name: &str) -> Result<()> {
        match self {
            Self::Library(_) => Ok(()),
            Self::Addition(addition) => addition.prepare(name),
        }
    }

    fn library(&self) -> &Library {
        match self {
            Self::Library(library) => library,
            Self::Addition(addition) => &addition.implementations,
        }
    }

    /// Returns the addition, if it runs constructors.
    fn that_constructs(&self) -> Option<&Addition> {
        match self {
            Self::Addition(addition) if addition.constructs() => Some(addition),
            _ => None,
        }
    }
}

impl LinkCalls for Manager {
    fn link_call(&self, call: ReentryCall) -> Result<ReentryTarget, FailedCall> {
        self.for_entry(call, |batch, entry| self.materialize(batch, entry, call))
    }

    fn reply(&self, request: ReentryRequest) -> Result<ReentryReply, FailedCall> {
        let reply = match request {
            ReentryRequest::Call(call) => {
                self.for_entry(call, |batch, entry| self.materialize_elsewhere(batch, entry, call))
            }
            ReentryRequest::Constructed(call) => {
                self.for_entry(call, |batch, entry| self.constructed(batch, entry, call))
            }
        };
        reply.or_else(|failed| self.instead(failed).map(ReentryReply::Target))
    }
}

impl Reenter for Manager {
    fn reenter(self: Arc<Self>, call: ReentryCall) -> Result<ReentryTarget, String> {
        let destination = self.link_call(call).or_else(|failed| self.instead(failed));
        destination.map_err(|failed| failed.to_string())
    }
}

impl BatchCode {
    /// Makes the graph, which is the same each time.
    pub(super) fn make(&self) -> LinkGraph {
        let Self { emitters, architecture, number, entries } = self;
        let mut graph = LinkGraph::new(&format!("lazy entries, batch {number}"), *architecture);
        let symbols: Vec<RedirectableSymbol<'_>> = entries
            .iter()
            .map(|Reexport { name, linkage, scope, .. }| RedirectableSymbol {
                name,
                linkage: *linkage,
                scope: *scope,
            })
            .collect();
        let slots = emitters.symbols.emit(&mut graph, &symbols);
        let count = symbols.len() as u32;
        let batch = TrampolineBatch { number: *number, count, slots: slots.symbol };
        let trampolines = emitters.trampolines.emit(&mut graph, batch);
        for index in 0..count {
            let offset = trampolines.first + u64::from(index) * trampolines.stride;
            slots.point(&mut graph, index, trampolines.symbol, offset);
        }
        graph
    }
}
