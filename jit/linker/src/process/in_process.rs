//! The linking process as the one that executes linked code.

use std::collections::HashMap;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use longshore_orc_rt::{bootstrap_symbols, callback, triple, wrapper};
use parking_lot::Mutex;

use super::{Facts, Handler, ProcessCalls, TargetProcess};
use crate::memory::{InProcessMemory, MemoryManager, Pending};
use crate::{Architecture, Error, Result};

/// The linking process itself (ORC's `SelfExecutorProcessControl`). The calling thread does
/// everything before a method returns.
///
/// Handlers of calls back stay until the value is disconnected or dropped.
pub struct InProcess {
    facts: Arc<Facts>,
    memory: Arc<dyn MemoryManager>,
    tags: Mutex<Vec<u64>>,
    is_disconnected: AtomicBool,
}

impl InProcess {
    /// Creates the value with memory of its own for linked code.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a processor that is neither x86-64 nor AArch64.
    pub fn new() -> Result<Self> {
        Self::with_memory(Arc::new(InProcessMemory::new()))
    }

    /// Creates the value with this memory for linked code, which must be of this process.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn with_memory(memory: Arc<dyn MemoryManager>) -> Result<Self> {
        let unsupported = || Error::Unsupported {
            file: "this program".to_owned(),
            problem: format!("is for {}, expected x86-64 or AArch64", triple()),
        };
        let facts = Arc::clone(FACTS.as_ref().ok_or_else(unsupported)?);
        let (tags, is_disconnected) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { facts, memory, tags, is_disconnected })
    }

    fn check(&self) -> Result<()> {
        match self.is_disconnected.load(Ordering::Acquire) {
            true => Err(Error::ProcessGone { how: "it was disconnected".to_owned() }),
            false => Ok(()),
        }
    }

    fn remove_handlers(&self) {
        let tags = std::mem::take(&mut *self.tags.lock());
        tags.into_iter().for_each(callback::remove_handler);
    }
}

/// The properties of this process; `None` on an unsupported processor.
static FACTS: LazyLock<Option<Arc<Facts>>> = LazyLock::new(|| {
    let symbols = bootstrap_symbols();
    let symbols = symbols.into_iter().map(|(name, address)| (name.to_owned(), address));
    Some(Arc::new(Facts {
        triple: triple().to_owned(),
        architecture: Architecture::native()?,
        page_size: rustix::param::page_size() as u64,
        is_this_process: true,
        symbols: HashMap::from_iter(symbols),
    }))
});

impl ProcessCalls for InProcess {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    unsafe fn call(&self, function: u64, argument: &[u8]) -> Pending<Vec<u8>> {
        let answer = self.check().and_then(|()| {
            // SAFETY: promised by the caller.
            unsafe { wrapper::call(function, argument) }
                .map_err(|problem| Error::Call { function: format!("{function:#x}"), problem })
        });
        Box::pin(ready(answer))
    }
}

impl TargetProcess for InProcess {
    fn memory(&self) -> Arc<dyn MemoryManager> {
        Arc::clone(&self.memory)
    }

    fn serve(&self, tag: u64, handler: Handler) -> Result<()> {
        let mut tags = self.tags.lock();
        self.check()?;
        let handler = move |argument: &[u8]| handler(argument).map_err(|error| error.to_string());
        if !callback::add_handler(tag, Arc::new(handler)) {
            let problem = "the tag has a handler already".to_owned();
            return Err(Error::Call {
                function: format!("the controller by tag {tag:#x}"),
                problem,
            });
        }
        tags.push(tag);
        Ok(())
    }

    fn disconnect(&self) -> Result<()> {
        let is_first = {
            let _no_handler_is_added = self.tags.lock();
            !self.is_disconnected.swap(true, Ordering::AcqRel)
        };
        if is_first {
            self.remove_handlers();
        }
        Ok(())
    }

    /// Writes directly: memory of this process needs no message.
    unsafe fn write(&self, writes: &[(u64, &[u8])]) -> Pending<()> {
        let written = self.check().map(|()| {
            for (address, bytes) in writes {
                // SAFETY: promised by the caller.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len())
                };
            }
        });
        Box::pin(ready(written))
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.remove_handlers();
    }
}

#[cfg(test)]
mod tests;
