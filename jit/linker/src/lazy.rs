//! Lazy re-exports: functions that can be called before their implementations are linked, or
//! compiled.
//!
//! A *lazy re-export*, or *entry*, is a function under one name with its implementation under
//! another name, or in another library. An entry exists from the beginning, as a stub that jumps to
//! the address in a slot. At first that is the address of a trampoline of its own.
//!
//! A call through the trampoline, from any thread, re-enters the linker
//! ([`reentry`](longshore_orc_rt::reentry)). The linker looks up the implementation, which links
//! it, and writes the slot. Then the call continues in the implementation with all its arguments.
//! Later calls are one indirect jump.
//!
//! | here | ORC |
//! | --- | --- |
//! | [`LazyReexports`] | `LazyReexportsManager` |
//! | [`LazyReexports::for_session`] | `createJITLinkLazyReexportsManager` |
//! | [`LazyReexports::add`] | `lazyReexports`, and `JITDylib::define` of its result |
//! | [`Reexport`] | an entry of a `SymbolAliasMap` |
//! | [`LazyTracker`] | the `ResourceTracker` |
//! | [`Listener`] | `LazyReexportsManager::Listener` |
//! | [`TrampolineEmitter`] | `EmitTrampolinesFn` |
//! | [`LinkedTrampolines`] | `JITLinkReentryTrampolines` |
//! | [`RedirectableSymbols`] | `RedirectableSymbolManager` |
//! | [`LinkedRedirectables`] | `JITLinkRedirectableSymbolManager` |
//! | [`Redirections`] | `RedirectableSymbolManager::createRedirectableSymbols` and `redirect` |
//! | [`LazyReexports::lazily`] | `CompileOnDemandLayer` for several modules |
//! | [`LazyReexports::add_lazily`] | `CompileOnDemandLayer` for a module |
//!
//! Three calls make a function lazy:
//!
//! ```no_run
//! use longshore_jitlink::Session;
//! use longshore_jitlink::lazy::{LazyReexports, Reexport};
//!
//! // SAFETY: slow.o is as sound to have in this process as a library that is opened.
//! let session = unsafe { Session::new() }?;
//! let (library, implementations) =
//!     (session.create_library("program"), session.create_library("program.impl"));
//! let object = std::fs::read("slow.o").unwrap().into();
//!
//! let _object = implementations.add_object("slow.o", object)?;
//! let lazy = LazyReexports::for_session(&session)?;
//! let entry = Reexport::new("slow", "slow_implementation");
//! let _entries = lazy.add(&library, &implementations, [entry])?;
//!
//! let slow = library.lookup("slow")?;
//! // SAFETY: slow.o defines `int slow_implementation(int)`.
//! let slow: extern "C" fn(i32) -> i32 = unsafe { std::mem::transmute(slow as usize) };
//! // Here slow.o is linked.
//! slow(3);
//! # Ok::<(), longshore_jitlink::Error>(())
//! ```
//!
//! The calling process may be another one: then re-entry is a call back, and a slot is written by a
//! message. The emitter of trampolines, the maker of redirectable symbols and the writer of slots
//! ([`PointerWriter`]) can be replaced.
//!
//! Functions that run during a link, the resolvers of indirect functions, can call entries that
//! have been called before. The first call of another entry fails with an error, as the look-up
//! would have to wait for the link. Constructors, destructors and exit handlers run without any
//! lock held, and may call any entry.

mod code;
mod constructors;
mod files;
mod index;
mod listener;
mod manager;
mod objects;
mod redirectable;
mod redirections;
mod source;
mod trampolines;

use std::sync::{Arc, Weak};

use longshore_orc_rt::names;

use crate::graph::{Linkage, Scope};
use crate::process::address_of;
use crate::session::{Library, Object, Removal, Session};
use crate::{Error, Result};

pub use files::{LazyAddition, LazyFiles};
pub use listener::{FailedCall, Listener};
pub use redirectable::{
    LinkedRedirectables, PointerWriter, ProcessWriter, RedirectableSymbol, RedirectableSymbols,
    Slots, ThisProcess,
};
pub use redirections::Redirections;
pub use source::{Defined, Source};
pub use trampolines::{
    LinkCalls, LinkedTrampolines, TrampolineBatch, TrampolineEmitter, Trampolines,
};

pub use longshore_orc_rt::reentry::{
    NOT_LINKED, Reenter, ReentryCall, ReentryReply, ReentryRequest, ReentryTarget,
};

use manager::{Implementations, Manager};

/// Entries of libraries that get their implementations on their first calls (ORC's
/// `LazyReexportsManager`). Any thread may use it.
///
/// The value keeps the sessions of the implementations alive. After its drop, a call of an entry
/// without its implementation ends the process.
pub struct LazyReexports(Arc<Manager>);

/// Returns the address of a function that ends its process at once with the exit code
/// [`NOT_LINKED`], in the process that executes a session's code. The function accepts any
/// arguments. It is for [`LazyReexports::on_failure`], whose handler reports the error before.
///
/// # Errors
/// [`Error::Unsupported`] if nothing executes the session's code, or with a `longshore-orc-rt` of
/// another version.
pub fn not_linked_function(session: &Session) -> Result<u64> {
    match session.process() {
        Some(process) => address_of(&*process, names::NOT_LINKED),
        None => Err(not_executed()),
    }
}

/// An entry and its implementation (an entry of ORC's `SymbolAliasMap`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reexport {
    /// The entry's name.
    pub name: String,
    /// The implementation's name.
    pub implementation: String,
    /// Strong or weak.
    pub linkage: Linkage,
    /// The entry's visibility: all libraries, or the library that has it.
    pub scope: Scope,
    /// Whether it is a function. Other symbols cannot be lazy, as the linker only notices calls.
    pub callable: bool,
}

/// The entries of one [`LazyReexports::add`] (ORC's `ResourceTracker`). Dropping it leaves the
/// entries in place.
#[must_use = "without it the entries cannot be removed before their session ends"]
pub struct LazyTracker {
    manager: Weak<Manager>,
    batch: u64,
    object: Object,
}

impl Reexport {
    /// Creates the entry of a function that all libraries see.
    pub fn new(name: impl Into<String>, implementation: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            implementation: implementation.into(),
            linkage: Linkage::Strong,
            scope: Scope::Default,
            callable: true,
        }
    }
}

impl LazyReexports {
    /// Creates a manager for a session, with this module's own trampolines and stubs (ORC's
    /// `createJITLinkLazyReexportsManager`). Blocks until the executing process has replied.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if nothing executes the session's code, and the errors of a process.
    pub fn for_session(session: &Session) -> Result<Self> {
        match session.process() {
            Some(process) if process.facts().is_this_process => {
                Self::new(LinkedTrampolines::new(), LinkedRedirectables::new(ThisProcess), None)
            }
            Some(process) => {
                let trampolines = LinkedTrampolines::for_process(Arc::clone(&process))?;
                Self::new(trampolines, LinkedRedirectables::new(ProcessWriter(process)), None)
            }
            None => Err(not_executed()),
        }
    }

    /// Creates a manager from these parts, which notifies the listener.
    ///
    /// # Errors
    /// An error if the trampolines cannot be connected.
    pub fn new(
        trampolines: impl TrampolineEmitter + 'static,
        symbols: impl RedirectableSymbols + 'static,
        listener: Option<Arc<dyn Listener>>,
    ) -> Result<Self> {
        Ok(Self(Manager::new(Box::new(trampolines), Box::new(symbols), listener)?))
    }

    /// Sets a handler for calls whose implementation is not available. The call continues at the
    /// address that `handler` returns, with the call's arguments. The function there may return,
    /// throw, or end the thread. The next call of the entry tries again. Without a handler, such a
    /// call ends the calling process with a message.
    ///
    /// The address is one of the calling process, and is trusted, as the addresses of generators
    /// are. `handler` is called on the calling thread, if that is of this process, and must not
    /// panic. It may look names up, except for calls during a link, which fail with
    /// [`Error::Unsupported`].
    pub fn on_failure(&self, handler: impl Fn(&FailedCall) -> u64 + Send + Sync + 'static) {
        self.0.set_failure_handler(Arc::new(handler));
    }

    /// Defines entries in a library, with implementations from `implementations` or its generators
    /// (ORC's `lazyReexports`). Implementations are looked up when the entries are called, and need
    /// not exist before. The entries' code is made and linked when the first of them is looked up.
    ///
    /// An implementation is not used by its entries in the sense of [`Removal`]: the caller must
    /// remove the entries first.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a symbol that is not a function, is not visible, or implements
    /// itself. [`Error::Duplicate`] for a name that the library has, [`Error::Malformed`] for one
    /// with a zero byte. On error, nothing has changed.
    pub fn add(
        &self,
        library: &Library,
        implementations: &Library,
        reexports: impl IntoIterator<Item = Reexport>,
    ) -> Result<LazyTracker> {
        let reexports: Arc<[Reexport]> = reexports.into_iter().collect();
        for reexport in &*reexports {
            reexport.check(library == implementations)?;
        }
        let (batch, code) =
            self.0.add_batch(reexports, Implementations::Library(implementations.clone()));
        match library.add_graph(move || code.make()) {
            Ok(object) => Ok(LazyTracker { manager: Arc::downgrade(&self.0), batch, object }),
            Err(error) => {
                self.0.forget_batch(batch);
                Err(error)
            }
        }
    }
}

fn not_executed() -> Error {
    let problem = "nothing executes the session's code, so they are never called".to_owned();
    Error::Unsupported { file: "lazy entries".to_owned(), problem }
}

impl Reexport {
    /// Checks whether the symbol can be an entry.
    fn check(&self, in_same_library: bool) -> Result<()> {
        let problem = if !self.callable {
            "it is not a function: only a call can be noticed; define an alias, or look it up where it is"
        } else if self.scope == Scope::Local {
            "it would not be visible; expected an entry that is hidden at most"
        } else if in_same_library && self.name == self.implementation {
            "it would be its own implementation; expected one of another name or in another library"
        } else {
            return Ok(());
        };
        let file = format!("lazy entry {}", self.name);
        Err(Error::Unsupported { file, problem: problem.to_owned() })
    }
}

impl LazyTracker {
    /// Removes the entries: their names, their trampolines and their bindings. Blocks until their
    /// memory is given back.
    ///
    /// As for [`Object::remove`], no thread may be calling them. A call that already waits for its
    /// implementation has left the entries' code: it continues in the implementation, now or later.
    ///
    /// # Errors
    /// The errors of [`Object::remove`], and the errors of a process.
    pub fn remove(self, removal: Removal) -> Result<()> {
        let Some(manager) = self.manager.upgrade() else { return self.object.remove(removal) };
        // Destructors of users may call the entries while these still exist.
        match manager.set_leaving(self.batch, true) {
            // From here on no thread writes to the entries' slots.
            Ok(()) | Err(Error::ProcessGone { .. }) => {}
            Err(error) => return Err(error),
        }
        match self.object.remove(removal) {
            Err(error @ Error::InUse { .. }) => {
                manager.set_leaving(self.batch, false).and(Err(error))
            }
            removed => {
                manager.forget_batch(self.batch);
                removed
            }
        }
    }
}
