//! Lazy re-exports: functions that can be called before what implements them is linked, or compiled.
//!
//! A *lazy re-export*, or *entry*, is a function under one name that is implemented under another, or by another library. It is
//! there from the beginning: a stub that jumps to where a slot says. At first that is a trampoline of its own. Who calls it,
//! from any thread, re-enters the linker ([`runtime::reentry`](longshore_orc_rt::reentry)): the implementation is looked up, which
//! links it, the slot is written, and the call goes on with all its arguments. Later calls are one indirect jump.
//!
//! | here | ORC |
//! | --- | --- |
//! | [`LazyReexports`] | `LazyReexportsManager` |
//! | [`LazyReexports::for_session`] | `createJITLinkLazyReexportsManager` |
//! | [`LazyReexports::add`] | `lazyReexports`, and `JITDylib::define` of what it gives |
//! | [`Reexport`] | an entry of a `SymbolAliasMap` |
//! | [`LazyTracker`] | the `ResourceTracker` |
//! | [`Listener`] | `LazyReexportsManager::Listener` |
//! | [`TrampolineEmitter`], [`LinkedTrampolines`] | `EmitTrampolinesFn`, `JITLinkReentryTrampolines` |
//! | [`RedirectableSymbols`], [`LinkedRedirectables`] | `RedirectableSymbolManager`, `JITLinkRedirectableSymbolManager` |
//! | [`Redirections`] | `RedirectableSymbolManager::createRedirectableSymbols` and `redirect` |
//! | [`LazyReexports::lazily`], [`LazyReexports::add_lazily`] | what `CompileOnDemandLayer` does with a module |
//!
//! It takes three calls to have a function linked when it is called:
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
//! let _entries = lazy.add(&library, &implementations, [Reexport::new("slow", "slow_implementation")])?;
//!
//! let slow = library.lookup("slow")?;
//! // SAFETY: slow.o defines `int slow_implementation(int)`.
//! let slow: extern "C" fn(i32) -> i32 = unsafe { std::mem::transmute(slow as usize) };
//! // Here slow.o is linked.
//! slow(3);
//! # Ok::<(), longshore_jitlink::Error>(())
//! ```
//!
//! The process that calls may be another one: then re-entry is a call back, and a slot is written by a message. Who emits
//! trampolines and who manages redirectable symbols can be replaced, and so can be how a slot is written ([`PointerWriter`]).
//!
//! What is called while a session links, so the resolver of an indirect function, can call entries that have been called before.
//! The first call of another one fails with an error, as the look-up would have to wait for the link. Constructors,
//! destructors and exit handlers run when nothing is locked and may call what they like.

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
    LinkedRedirectables, OfProcess, PointerWriter, RedirectableSymbol, RedirectableSymbols, Slots,
    ThisProcess,
};
pub use redirections::Redirections;
pub use source::{Defined, Source};
pub use trampolines::{
    LinkCalls, LinkedTrampolines, TrampolineBatch, TrampolineEmitter, Trampolines,
};

pub use longshore_orc_rt::reentry::{Answer, NOT_LINKED, Onward, Question, Reenter, ReentryCall};

use manager::{Implementations, Manager};

/// Entries of libraries that get their implementations when they are called (ORC's `LazyReexportsManager`). Any thread may use it.
///
/// It keeps the sessions of the implementations alive. A call of an entry that has not got its implementation when this is dropped
/// ends the process.
pub struct LazyReexports(Arc<Manager>);

/// The address, in the process that executes a session's code, of a function that ends that process at once with the exit code
/// [`NOT_LINKED`], whatever it is called with: for [`LazyReexports::on_failure`], whose handler says what is wrong before.
///
/// # Errors
/// [`Error::Unsupported`] if nothing executes the session's code, or with a `longshore-orc-rt` of another version.
pub fn not_linked_function(session: &Session) -> Result<u64> {
    match session.process() {
        Some(process) => address_of(&*process, names::NOT_LINKED),
        None => Err(not_executed()),
    }
}

/// An entry, and what implements it (an entry of ORC's `SymbolAliasMap`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reexport {
    /// The name under which it is called.
    pub name: String,
    /// The name of its implementation.
    pub implementation: String,
    /// Strong or weak.
    pub linkage: Linkage,
    /// Who sees the entry: all libraries, or that which has it.
    pub scope: Scope,
    /// Whether it is a function. Nothing else can be lazy, as only a call can be noticed.
    pub callable: bool,
}

/// The entries of one [`LazyReexports::add`] (ORC's `ResourceTracker`). Dropping it leaves them where they are.
#[must_use = "without it the entries cannot be removed before their session ends"]
pub struct LazyTracker {
    manager: Weak<Manager>,
    batch: u64,
    object: Object,
}

impl Reexport {
    /// A function that all libraries see.
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
    /// Entries for a session, by this module's own trampolines and stubs (ORC's `createJITLinkLazyReexportsManager`). Blocks until
    /// the process that executes its code has answered.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if nothing executes it, and those of a process.
    pub fn for_session(session: &Session) -> Result<Self> {
        match session.process() {
            Some(process) if process.facts().is_this_process => {
                Self::new(LinkedTrampolines::new(), LinkedRedirectables::new(ThisProcess), None)
            }
            Some(process) => {
                let trampolines = LinkedTrampolines::for_process(Arc::clone(&process))?;
                Self::new(trampolines, LinkedRedirectables::new(OfProcess(process)), None)
            }
            None => Err(not_executed()),
        }
    }

    /// Entries made of these parts, of which a listener is told.
    ///
    /// # Errors
    /// If the trampolines cannot be connected.
    pub fn new(
        trampolines: impl TrampolineEmitter + 'static,
        symbols: impl RedirectableSymbols + 'static,
        listener: Option<Arc<dyn Listener>>,
    ) -> Result<Self> {
        Ok(Self(Manager::new(Box::new(trampolines), Box::new(symbols), listener)?))
    }

    /// Has calls go on elsewhere whose implementation cannot be had. The address that `handler` returns is called in its place, with
    /// the arguments of the call, from which it may return, throw, or end the thread. The next call of the entry tries again.
    /// Without a handler such a call ends the process that made it with a message.
    ///
    /// The address is one of that process, and is believed, as those of generators are. `handler` is called on the thread that made
    /// the call, if that is of this process, and must not panic. It may look names up, but for calls of what runs while the session
    /// links, which fail with [`Error::Unsupported`].
    pub fn on_failure(&self, handler: impl Fn(&FailedCall) -> u64 + Send + Sync + 'static) {
        self.0.set_failure_handler(Arc::new(handler));
    }

    /// Defines entries in a library whose implementations `implementations` has, itself or by its generators (ORC's `lazyReexports`).
    /// These are looked up when the entries are called, and need not be there before. The entries' code is made and linked when
    /// the first of them is asked for.
    ///
    /// An implementation is not used by its entries in the sense of [`Removal`]: they are to be removed first.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what is not a function, is seen by nobody, or implements itself. [`Error::Duplicate`] for a
    /// name that the library has, [`Error::Malformed`] for one with a zero in it. Nothing has changed then.
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
    let problem = "nothing executes the session's code, so nobody calls them".to_owned();
    Error::Unsupported { file: "lazy entries".to_owned(), problem }
}

impl Reexport {
    /// Whether it can be one.
    fn check(&self, in_same_library: bool) -> Result<()> {
        let problem = if !self.callable {
            "it is not a function: only a call can be noticed; define an alias, or look it up where it is"
        } else if self.scope == Scope::Local {
            "nobody would see it; expected an entry that is hidden at most"
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
    /// Takes the entries away: their names, their trampolines and their bindings. Blocks until their memory is given back.
    ///
    /// Nobody may be calling them, as for [`Object::remove`], but a call that has got as far as to wait for its implementation has
    /// left the entries behind: it goes on there, now or later.
    ///
    /// # Errors
    /// As for [`Object::remove`], and those of a process.
    pub fn remove(self, removal: Removal) -> Result<()> {
        let Some(manager) = self.manager.upgrade() else { return self.object.remove(removal) };
        // Destructors of users may call the entries while these are still there.
        match manager.set_leaving(self.batch, true) {
            // Then nobody is left who would write there.
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
