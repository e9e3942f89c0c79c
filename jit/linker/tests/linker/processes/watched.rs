//! A process that records its requests, replies late, and fails or dies as planned.

use std::collections::{BTreeSet, HashMap};
use std::future::{poll_fn, ready};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use longshore_jitlink::memory::{
    ActionPair, AllocationRequest, FinalizedAllocation, InFlightAllocation, MemoryManager, Pending,
};
use longshore_jitlink::process::{Facts, Handler, InProcess, ProcessCalls, TargetProcess};
use longshore_jitlink::{Error, Result};
use longshore_orc_rt::service::exits::{ADD_DSO_HANDLES, CREATE_EXIT_SCOPE};
use longshore_orc_rt::service::thread_locals::CREATE_THREAD_LOCALS;
use longshore_orc_rt::service::{RELEASE, Released};

/// The plan for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Success of all steps.
    Live,
    /// Failure of this step alone.
    FailAt(usize),
    /// The end of the process at this step.
    DieAt(usize),
}

/// A process that is this one, behind messages.
pub(crate) struct Watched {
    inner: InProcess,
    notes: Arc<Notes>,
}

/// The requests to a process so far, and the resources in use.
pub(crate) struct Notes {
    plan: Plan,
    names: HashMap<u64, String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    steps: Vec<String>,
    in_flight: usize,
    finalized: BTreeSet<u64>,
    out: Out,
}

/// Resources that services have made and that were not given back.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Out {
    scopes: BTreeSet<u64>,
    dso_handles: BTreeSet<u64>,
    thread_locals: BTreeSet<u64>,
}

impl Watched {
    pub(crate) fn new(plan: Plan) -> Self {
        let inner = InProcess::new().unwrap();
        let symbols = inner.facts().symbols.iter();
        let names = symbols.map(|(name, address)| (*address, name.clone())).collect();
        let notes = Notes { plan, names, state: Mutex::default() };
        Self { inner, notes: Arc::new(notes) }
    }

    pub(crate) fn notes(&self) -> Arc<Notes> {
        Arc::clone(&self.notes)
    }
}

impl Notes {
    /// Returns the names of the steps so far.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.state().steps.clone()
    }

    /// Checks that no resources are in use.
    pub(crate) fn assert_nothing_is_out(&self, context: &str) {
        let state = self.state();
        assert_eq!(state.out, Out::default(), "{context}");
        assert!(state.finalized.is_empty(), "{context}: {:?}", state.finalized);
    }

    /// Checks that no memory is being written any more.
    pub(crate) fn assert_nothing_is_in_flight(&self, context: &str) {
        assert_eq!(self.state().in_flight, 0, "{context}");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn step(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        let number = state.steps.len();
        state.steps.push(name.to_owned());
        match self.plan {
            Plan::FailAt(step) if number == step => {
                let (function, problem) = (name.to_owned(), "it was told to fail".to_owned());
                Err(Error::Call { function, problem })
            }
            Plan::DieAt(step) if number >= step => {
                Err(Error::ProcessGone { how: "it was killed by signal 9".to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn asked(&self, name: &str, argument: &[u8]) {
        if name == ADD_DSO_HANDLES.name() {
            let handles: Vec<(u64, u64)> = postcard::from_bytes(argument).unwrap();
            self.state().out.dso_handles.extend(handles.into_iter().map(|(_, handle)| handle));
        }
        if name == RELEASE.name() {
            let released: Released = postcard::from_bytes(argument).unwrap();
            let out = &mut self.state().out;
            // Handles are given back even if their addition has failed.
            released.dso_handles.iter().for_each(|handle| _ = out.dso_handles.remove(handle));
            for (out, numbers) in [
                (&mut out.scopes, released.scopes),
                (&mut out.thread_locals, released.thread_locals),
            ] {
                numbers.iter().for_each(|number| assert!(out.remove(number), "{number} is out"));
            }
        }
    }

    fn answered(&self, name: &str, answer: &[u8]) {
        let out = &mut self.state().out;
        if name == CREATE_EXIT_SCOPE.name() {
            out.scopes.insert(CREATE_EXIT_SCOPE.decode_reply(answer).unwrap());
        }
        if name == CREATE_THREAD_LOCALS.name() {
            let made = CREATE_THREAD_LOCALS.decode_reply(answer).unwrap().unwrap_or_default();
            out.thread_locals.extend(made.iter().map(|made| made.number));
        }
    }
}

/// Returns a reply that is ready, but only found at the second poll.
fn later<T: Send + 'static>(answer: Result<T>) -> Pending<T> {
    let mut is_first = true;
    Box::pin(async move {
        poll_fn(|context| {
            if !std::mem::take(&mut is_first) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        answer
    })
}

impl ProcessCalls for Watched {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    unsafe fn call(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>> {
        let name = self.notes.names.get(&function).map_or("another function", String::as_str);
        if let Err(error) = self.notes.step(name) {
            return later(Err(error));
        }
        self.notes.asked(name, argument);
        // SAFETY: promised by the caller.
        let answer = longshore_jitlink::wait(unsafe { self.inner.call(function, argument) });
        if let Ok(answer) = &answer {
            self.notes.answered(name, answer);
        }
        later(answer)
    }
}

impl TargetProcess for Watched {
    fn memory(&self) -> Arc<dyn MemoryManager> {
        Arc::new(WatchedMemory { inner: self.inner.memory(), notes: self.notes() })
    }

    fn serve(&self, tag: u64, handler: Handler) -> Result<()> {
        self.notes.step("serve")?;
        self.inner.serve(tag, handler)
    }

    fn disconnect(&self) -> Result<()> {
        self.inner.disconnect()
    }
}

struct WatchedMemory {
    inner: Arc<dyn MemoryManager>,
    notes: Arc<Notes>,
}

impl MemoryManager for WatchedMemory {
    fn page_size(&self) -> u64 {
        self.inner.page_size()
    }

    fn allocate(&self, request: AllocationRequest<'_>) -> Pending<Box<dyn InFlightAllocation>> {
        if let Err(error) = self.notes.step("allocate") {
            return Box::pin(ready(Err(error)));
        }
        let inner = longshore_jitlink::wait(self.inner.allocate(request));
        let notes = Arc::clone(&self.notes);
        later(inner.map(|inner| {
            notes.state().in_flight += 1;
            Box::new(WatchedInFlight { inner: Some(inner), notes }) as Box<dyn InFlightAllocation>
        }))
    }

    fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Pending<()> {
        let step = self.notes.step("deallocate");
        for allocation in &allocations {
            assert!(self.notes.state().finalized.remove(&allocation.number()));
        }
        match step {
            // The process's memory is gone with it.
            Err(error @ Error::ProcessGone { .. }) => later(Err(error)),
            step => later(longshore_jitlink::wait(self.inner.deallocate(allocations)).and(step)),
        }
    }
}

struct WatchedInFlight {
    inner: Option<Box<dyn InFlightAllocation>>,
    notes: Arc<Notes>,
}

impl InFlightAllocation for WatchedInFlight {
    fn addresses(&self) -> &[u64] {
        self.inner.as_ref().unwrap().addresses()
    }

    fn working_memory(&mut self) -> Vec<&mut [u8]> {
        self.inner.as_mut().unwrap().working_memory()
    }

    fn finalize(
        mut self: Box<Self>,
        actions: Vec<Vec<ActionPair>>,
    ) -> Pending<Vec<FinalizedAllocation>> {
        if let Err(error) = self.notes.step("finalize") {
            return later(Err(error));
        }
        let done = longshore_jitlink::wait(self.inner.take().unwrap().finalize(actions));
        let numbers = done.iter().flatten().map(FinalizedAllocation::number);
        self.notes.state().finalized.extend(numbers);
        later(done)
    }
}

impl Drop for WatchedInFlight {
    fn drop(&mut self) {
        self.notes.state().in_flight -= 1;
    }
}
