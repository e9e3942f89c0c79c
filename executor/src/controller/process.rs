//! An executor as a target process of the linker.

use std::collections::HashMap;
use std::future::ready;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use longshore_jitlink::memory::{MemoryManager, Pending, ProcessMemory, SharedFile, SharedPages};
use longshore_jitlink::process::{Facts, Handler, ProcessCalls, TargetProcess};
use longshore_jitlink::{Architecture, Error, Result};
use parking_lot::{Mutex, RwLock};

use super::{Executor, Spawn, SpawnError, data};
use crate::arena::{Arena, Mapped};
use crate::protocol::{self, CALL, CALL_CONTROLLER, CALL_ON_FIRST_THREAD, FACTS, join, split};
use crate::remote::{self, Key, RemoteError};
use crate::rpc::{CallError, Connection, Options, Peer, Service};

/// A process of an executor (ORC's `SimpleRemoteEPC`). Dropping it ends the process, as described
/// at [`Executor`].
///
/// Replies of several requests can be awaited together. Polling a reply blocks the polling thread
/// until the reply is there.
pub struct ExecutorProcess {
    calls: Arc<Calls>,
    memory: Arc<ProcessMemory>,
    data: data::Data,
    handlers: Arc<Handlers>,
    /// The executor or its connection; taken at disconnection.
    process: Mutex<Option<Process>>,
}

/// The reason for a failure to start or to reach a process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Failure to start the executor.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Failure to reach the executor.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Failure to obtain the executor's facts, or facts for which code cannot be linked.
    #[error("the executor gives no usable facts about itself: {0}")]
    Facts(String),
}

enum Process {
    Child(Executor),
    Remote(#[allow(dead_code, reason = "it lives as long as this")] Connection),
}

impl ExecutorProcess {
    /// Starts an executor on this machine.
    ///
    /// # Errors
    /// The reason for the failure to start, to greet or to give usable facts. No process remains
    /// then.
    pub fn spawn(spawn: &Spawn) -> std::result::Result<Arc<Self>, ProcessError> {
        let handlers = Arc::new(Handlers::default());
        let executor = spawn.start(Arc::clone(&handlers) as Arc<dyn Service>)?;
        let (peer, arena) = (Arc::clone(executor.peer()), executor.arena().cloned());
        Self::new(peer, arena, handlers, Process::Child(executor))
    }

    /// Connects to an executor that listens.
    ///
    /// # Errors
    /// The reason for the failed connection.
    pub fn connect(
        address: &str,
        key: &Key,
        options: Options,
    ) -> std::result::Result<Arc<Self>, ProcessError> {
        let handlers = Arc::new(Handlers::default());
        let service = Arc::clone(&handlers) as Arc<dyn Service>;
        let connection = remote::connect(address, key, options, service)?;
        Self::new(Arc::clone(connection.peer()), None, handlers, Process::Remote(connection))
    }

    /// Kills the process if this process started it. Does not block.
    pub fn kill(&self) {
        if let Some(Process::Child(executor)) = &*self.process.lock() {
            executor.child().kill();
        }
    }

    /// Returns the other side of the connection.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.calls.peer
    }

    fn new(
        peer: Arc<Peer>,
        arena: Option<Arc<Arena>>,
        handlers: Arc<Handlers>,
        process: Process,
    ) -> std::result::Result<Arc<Self>, ProcessError> {
        let facts = facts(&peer).map_err(ProcessError::Facts)?;
        let calls = Arc::new(Calls { peer, facts });
        let file = arena.map(|arena| Arc::new(File(arena)) as Arc<dyn SharedFile>);
        let memory = ProcessMemory::new(Arc::clone(&calls) as Arc<dyn ProcessCalls>, file);
        let (memory, process) = (Arc::new(memory), Mutex::new(Some(process)));
        let data = data::Data::new(Arc::clone(&memory));
        Ok(Arc::new(Self { calls, memory, data, handlers, process }))
    }
}

fn facts(peer: &Peer) -> std::result::Result<Facts, String> {
    let reply = peer.call(FACTS, &[]).map_err(|error| error.to_string())?;
    let facts: protocol::Facts = postcard::from_bytes(&reply).map_err(|error| error.to_string())?;
    let known = [Architecture::X86_64, Architecture::Aarch64];
    let architecture = known
        .into_iter()
        .find(|architecture| architecture.triple() == facts.triple)
        .ok_or_else(|| format!("code for {} cannot be linked", facts.triple))?;
    let (theirs, here) = (facts.page_size, rustix::param::page_size() as u64);
    if !theirs.is_power_of_two() || peer.shares_memory() && theirs != here {
        return Err(format!(
            "the executor's pages have {theirs} bytes, but this process's pages have {here} bytes"
        ));
    }
    Ok(Facts {
        triple: facts.triple,
        architecture,
        page_size: facts.page_size,
        is_this_process: false,
        symbols: facts.symbols.into_iter().collect(),
    })
}

/// Calls to the executor, and its facts.
struct Calls {
    peer: Arc<Peer>,
    facts: Facts,
}

impl ProcessCalls for Calls {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    unsafe fn call(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>> {
        self.send(CALL, function, argument)
    }
}

impl Calls {
    fn send(&self, method: u32, function: u64, argument: &[u8]) -> Pending<Vec<u8>> {
        let failed = move |error| match error {
            CallError::Ended(ended) => Error::ProcessGone { how: ended.to_string() },
            CallError::Failed(problem) => {
                Error::Call { function: format!("{function:#x}"), problem }
            }
            large @ (CallError::TooLarge { .. } | CallError::TooMany { .. }) => {
                Error::Call { function: format!("{function:#x}"), problem: large.to_string() }
            }
        };
        match self.peer.start(method, &join(function, argument)) {
            Ok(started) => Box::pin(async move { started.wait().map_err(failed) }),
            Err(error) => Box::pin(ready(Err(failed(error)))),
        }
    }
}

impl ProcessCalls for ExecutorProcess {
    fn facts(&self) -> &Facts {
        self.calls.facts()
    }

    unsafe fn call(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.calls.call(function, argument) }
    }
}

impl TargetProcess for ExecutorProcess {
    fn memory(&self) -> Arc<dyn MemoryManager> {
        Arc::clone(&self.memory) as Arc<dyn MemoryManager>
    }

    unsafe fn call_on_first_thread(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>> {
        self.calls.send(CALL_ON_FIRST_THREAD, function, argument)
    }

    unsafe fn write(&self, writes: &[(u64, &[u8])]) -> Pending<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { data::write(&self.memory, &*self.calls, writes) }
    }

    unsafe fn read(&self, ranges: &[(u64, usize)]) -> Pending<Vec<Vec<u8>>> {
        // SAFETY: guaranteed by the caller.
        unsafe { data::read(&self.memory, &*self.calls, ranges) }
    }

    fn allocate(&self, size: u64, alignment: u64) -> Pending<u64> {
        self.data.allocate(size, alignment)
    }

    unsafe fn free(&self, address: u64) -> Pending<()> {
        self.data.free(address)
    }

    fn serve(&self, tag: u64, handler: Handler) -> Result<()> {
        self.handlers.add(tag, handler)
    }

    fn disconnect(&self) -> Result<()> {
        let process = self.process.lock().take();
        if process.is_some() {
            self.calls.peer.wait_until_idle(LAST_CALLS);
        }
        drop(process);
        let handlers = std::mem::take(&mut *self.handlers.0.write());
        // Dropped after the lock is released: a handler may own this `ExecutorProcess`.
        drop(handlers);
        Ok(())
    }
}

/// Time allowed for calls under way when the process is disconnected.
const LAST_CALLS: Duration = Duration::from_secs(2);

/// Handlers that code of the process can call, by tag.
#[derive(Default)]
struct Handlers(RwLock<HashMap<u64, Handler>>);

impl Handlers {
    fn add(&self, tag: u64, handler: Handler) -> Result<()> {
        let mut handlers = self.0.write();
        if handlers.contains_key(&tag) {
            let function = format!("the controller by tag {tag:#x}");
            let problem = "the tag has a handler already".to_owned();
            return Err(Error::Call { function, problem });
        }
        handlers.insert(tag, handler);
        Ok(())
    }
}

impl Service for Handlers {
    fn call(
        &self,
        _: &Arc<Peer>,
        method: u32,
        argument: &[u8],
    ) -> std::result::Result<Vec<u8>, String> {
        if method != CALL_CONTROLLER {
            return Err(format!("the controller has no method {method}"));
        }
        let (tag, argument) = split(argument)?;
        let handler = self.0.read().get(&tag).cloned();
        let handler = handler
            .ok_or_else(|| format!("no handler is registered for calls with the tag {tag:#x}"))?;
        handler(argument).map_err(|error| error.to_string())
    }

    fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
}

/// The arena, in the linker's interface.
struct File(Arc<Arena>);

impl SharedFile for File {
    fn take(&self, size: u64) -> std::result::Result<Box<dyn SharedPages>, String> {
        let failed = |error: std::io::Error| format!("shared memory: {error}");
        let piece = Arc::new(self.0.take(size, 1).map_err(failed)?);
        Ok(Box::new(Pages(piece.map().map_err(failed)?)))
    }
}

struct Pages(Mapped);

impl SharedPages for Pages {
    fn offset(&self) -> u64 {
        self.0.piece().offset()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: no part is unmapped yet, as the linker promises. The process does not touch the
        // pages before the linker's request to do so.
        unsafe {
            let bytes = self.0.piece().bytes() as usize;
            std::slice::from_raw_parts_mut(self.0.address().as_ptr(), bytes)
        }
    }

    fn unmap(&mut self, pages: Range<usize>) {
        self.0.unmap(pages);
    }

    fn address(&self) -> NonNull<u8> {
        self.0.address()
    }

    fn leave(&self) {
        self.0.piece().leave();
    }
}
