//! The entries, and what happens when one is called.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use longshore_orc_rt::reentry::{Answer, Onward, Question, Reenter, ReentryCall};
use parking_lot::RwLock;

use super::constructors::{Addition, Turn, Turns};
use super::listener::{FailedCall, FailureHandler, Listener};
use super::trampolines::LinkCalls;
use super::{
    RedirectableSymbol, RedirectableSymbols, Reexport, TrampolineBatch, TrampolineEmitter,
};
use crate::graph::LinkGraph;
use crate::session::Library;
use crate::{Architecture, Error, Result, Undefined};

/// What is behind a [`LazyReexports`](super::LazyReexports).
pub(super) struct Manager {
    emitters: Arc<Emitters>,
    batches: RwLock<Batches>,
    /// What was added lazily.
    additions: RwLock<Vec<Arc<Addition>>>,
    turns: Turns,
    failure: RwLock<Option<Arc<FailureHandler>>>,
    listener: Option<Arc<dyn Listener>>,
}

/// Who makes the code of entries.
struct Emitters {
    trampolines: Box<dyn TrampolineEmitter>,
    symbols: Box<dyn RedirectableSymbols>,
}

impl Emitters {
    /// Whether hooks write to slots.
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
    /// Whether the entries' memory may go, so that the manager writes to no slot; hooks that write keep this themselves.
    leaving: RwLock<bool>,
}

/// Where implementations are.
pub(super) enum Implementations {
    Library(Library),
    Addition(Arc<Addition>),
}

struct Entry {
    name: Box<str>,
    implementation: Box<str>,
    /// Where the entry has been redirected to; 0 before.
    destination: AtomicU64,
}

/// Entries that are to be made: the code of a batch.
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
                turns: Turns::default(),
                failure: RwLock::default(),
                listener,
            }
        });
        connected.map(|()| manager)
    }

    pub(super) fn set_failure_handler(&self, handler: Arc<FailureHandler>) {
        *self.failure.write() = Some(handler);
    }

    /// Keeps an addition, and says by what number it is known.
    pub(super) fn keep(&self, addition: Arc<Addition>) -> usize {
        let mut additions = self.additions.write();
        additions.push(addition);
        additions.len() - 1
    }

    /// The addition of a number.
    pub(super) fn addition(&self, number: usize) -> Arc<Addition> {
        Arc::clone(&self.additions.read()[number])
    }

    /// Who runs constructors.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Registers entries, and says how their code is made.
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

    /// Forgets a batch. Calls of its entries that are here already go on.
    pub(super) fn forget_batch(&self, number: u64) {
        let Some(batch) = self.batches.write().known.remove(&number) else { return };
        if let Some(listener) = &self.listener {
            listener.reexports_removed(&mut batch.entries.iter().map(|entry| &*entry.name));
        }
    }

    /// Tells the side that writes to a batch's slots whether their memory may go. Then it writes nothing more when this returns.
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

    /// Does something for the entry of a call.
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
        let Some((batch, entry)) = entry else { return Err(FailedCall::of_removed(call)) };
        run(batch, entry).map_err(|error| FailedCall {
            entry: entry.name.clone(),
            implementation: entry.implementation.clone(),
            error,
        })
    }

    /// Returns where a failed call goes on instead, if there is a handler that says so.
    fn instead(&self, failed: FailedCall) -> Result<Onward, FailedCall> {
        let handler = self.failure.read().clone();
        match handler {
            Some(handler) => Ok(Onward { target: handler(&failed), redirect: false }),
            None => Err(failed),
        }
    }

    /// Where a call of an entry goes on. No lock is held while that is looked up, but for the session's, which the look-up takes, and
    /// for the turn, if constructors are to be run: on this thread.
    fn materialize(&self, batch: &Batch, entry: &Entry, call: ReentryCall) -> Result<Onward> {
        if let Some(onward) = self.arrive(batch, entry, call)? {
            return Ok(onward);
        }
        let Some(addition) = batch.implementations.that_constructs() else {
            return self.link(batch, entry, call);
        };
        let turn = self.turns.take_for(call, &addition.implementations)?;
        let target = addition.implementations.lookup_own(&entry.implementation)?;
        addition.construct(&turn)?;
        Ok(self.redirect_after(&turn, (batch, entry), call.slot, target))
    }

    /// The same for a call in another process, whose thread runs the constructors.
    fn materialize_elsewhere(
        &self,
        batch: &Batch,
        entry: &Entry,
        call: ReentryCall,
    ) -> Result<Answer> {
        if let Some(onward) = self.arrive(batch, entry, call)? {
            return Ok(Answer::Onward(onward));
        }
        let Some(addition) = batch.implementations.that_constructs() else {
            return self.link(batch, entry, call).map(Answer::Onward);
        };
        let turn = self.turns.take(call.turn, &addition.implementations)?;
        let target = addition.implementations.lookup_own(&entry.implementation)?;
        Ok(match addition.take_constructors() {
            Some((functions, arguments)) => {
                turn.keep();
                Answer::Construct { functions, arguments: arguments.into() }
            }
            None => Answer::Onward(self.redirect_after(&turn, (batch, entry), call.slot, target)),
        })
    }

    /// What comes after those constructors.
    fn constructed(&self, batch: &Batch, entry: &Entry, call: ReentryCall) -> Result<Answer> {
        let Some(turn) = self.turns.resume(call.turn) else {
            let function = entry.name.to_string();
            let problem = "its constructors were run by a thread that had not been asked to";
            return Err(Error::Call { function, problem: problem.to_owned() });
        };
        let target = batch.implementations.library().lookup_own(&entry.implementation)?;
        Ok(Answer::Onward(self.redirect_after(&turn, (batch, entry), call.slot, target)))
    }

    /// Where a call goes on for which nothing is to be looked up, as others have been here while its thread came. Else what can be done
    /// before others are waited for has been done.
    fn arrive(&self, batch: &Batch, entry: &Entry, call: ReentryCall) -> Result<Option<Onward>> {
        if let Some(listener) = self.listener.as_ref().filter(|_| !call.while_linking) {
            listener.reexport_called(&entry.name);
        }
        let known = entry.destination.load(Ordering::Acquire);
        if known != 0 {
            // A hook that has not written, as the entry was about to go, does so now.
            return Ok(Some(Onward { target: known, redirect: self.emitters.by_hook() }));
        }
        if call.while_linking {
            let file = "a function that is called while objects are linked".to_owned();
            let problem =
                "it needs what is not linked yet, which must wait for that; look it up before";
            return Err(Error::Unsupported { file, problem: problem.to_owned() });
        }
        batch.implementations.prepare(&entry.implementation)?;
        Ok(None)
    }

    fn link(&self, batch: &Batch, entry: &Entry, call: ReentryCall) -> Result<Onward> {
        let target = batch.implementations.library().lookup_own(&entry.implementation)?;
        Ok(self.redirect(batch, entry, call.slot, target))
    }

    /// Has later calls go there, if constructors are done: a constructor's call comes before their end, which others have to wait for.
    fn redirect_after(
        &self,
        turn: &Turn<'_>,
        (batch, entry): (&Batch, &Entry),
        slot: u64,
        target: u64,
    ) -> Onward {
        match turn.is_whole() {
            true => self.redirect(batch, entry, slot, target),
            false => Onward { target, redirect: false },
        }
    }

    /// Has later calls go there at once.
    fn redirect(&self, batch: &Batch, entry: &Entry, slot: u64, target: u64) -> Onward {
        if self.emitters.by_hook() {
            entry.destination.store(target, Ordering::Release);
            return Onward { target, redirect: true };
        }
        let leaving = batch.leaving.read();
        if *leaving {
            return Onward { target, redirect: false };
        }
        match self.emitters.symbols.redirect(slot, target) {
            Ok(()) => entry.destination.store(target, Ordering::Release),
            // The next call comes here again.
            Err(error) => log::warn!("redirecting {}: {error}", entry.name),
        }
        Onward { target, redirect: false }
    }
}

impl FailedCall {
    /// A call of an entry that is not known any more.
    fn of_removed(call: ReentryCall) -> Self {
        let symbol = format!("entry {} of batch {}", call.index, call.batch);
        let entry = symbol.clone().into();
        let file = "a call through a lazy entry that was removed".to_owned();
        let error = Error::Undefined(vec![Undefined { symbol, file }]);
        Self { entry, implementation: Box::default(), error }
    }
}

impl Implementations {
    /// Does what need not wait for others before an implementation is looked up.
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

    /// An addition whose constructors are run as it is linked.
    fn that_constructs(&self) -> Option<&Addition> {
        match self {
            Self::Addition(addition) if addition.constructs() => Some(addition),
            _ => None,
        }
    }
}

impl LinkCalls for Manager {
    fn link_call(&self, call: ReentryCall) -> Result<Onward, FailedCall> {
        self.for_entry(call, |batch, entry| self.materialize(batch, entry, call))
    }

    fn answer(&self, question: Question) -> Result<Answer, FailedCall> {
        let answer = match question {
            Question::Call(call) => {
                self.for_entry(call, |batch, entry| self.materialize_elsewhere(batch, entry, call))
            }
            Question::Constructed(call) => {
                self.for_entry(call, |batch, entry| self.constructed(batch, entry, call))
            }
        };
        answer.or_else(|failed| self.instead(failed).map(Answer::Onward))
    }
}

impl Reenter for Manager {
    fn reenter(self: Arc<Self>, call: ReentryCall) -> Result<Onward, String> {
        let onward = self.link_call(call).or_else(|failed| self.instead(failed));
        onward.map_err(|failed| failed.to_string())
    }
}

impl BatchCode {
    /// Makes the graph: the same each time.
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
