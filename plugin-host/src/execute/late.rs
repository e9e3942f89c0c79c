//! Calls of functions that device code makes before they are linked.
//!
//! Such a call comes in the middle of a kernel: on the stack of an item, which is small, and where a fault would leave the
//! kernel and whatever lock the linker holds. So the linking is done by another thread, while this one waits outside of device
//! code. If it cannot be done, the kernel ends there as if it had failed, with the linker's error.
//!
//! Constructors, destructors and resolvers run on the stack of a thread that links already, in the middle of its link; so that
//! thread links what they call. If it cannot be done, they end like a kernel.
//!
//! Other code of an image, as on threads that it has started, has nothing behind it to go on with: if it calls what cannot be
//! linked, the process ends with a message.

use super::guarded::{self, Broken, Further};
use crate::guard::{Guard, Stop};
use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::lazy::{
    LazyReexports, LinkCalls, LinkedRedirectables, LinkedTrampolines, Onward, Reenter, ReentryCall,
    ThisProcess, TrampolineBatch, TrampolineEmitter, Trampolines,
};
use longshore_plugin_api::{Error, ErrorCode};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

/// The functions of an image that are linked when they are called. It is dropped when nobody calls them any more, and no
/// kernel's fault is to be described.
pub(crate) struct LateCalls {
    pub(crate) reexports: LazyReexports,
    _calls: Arc<DeviceCalls>,
}

/// The image whose functions are called.
pub(crate) trait LateImage: Send + Sync {
    /// The error of a link, as it is to the image's author.
    fn explain(&self, error: longshore_jitlink::Error) -> Error;

    /// The error of a constructor or resolver that failed while something was linked.
    fn explain_broken(&self, broken: Broken) -> Error;
}

/// Answers calls that device code makes.
struct DeviceCalls {
    linker: OnceLock<Weak<dyn LinkCalls>>,
    image: Box<dyn LateImage>,
    /// Why calls could not go on, each reason once: kernels' faults refer to them.
    reasons: Mutex<Vec<Arc<Error>>>,
}

/// Why a call cannot go on: for a queue, and for a message with which the process ends.
struct Failure {
    error: Error,
    message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { message: error.to_string(), error }
    }
}

/// Consequence of a call that cannot go on.
enum Ending {
    /// The kernel ends that made the call, for a reason that stays as long as the image.
    Kernel(NonNull<Error>),
    /// The process ends with this message.
    Process(String),
}

impl LateCalls {
    /// For one image.
    ///
    /// # Errors
    /// Those of [`LazyReexports::new`].
    pub(crate) fn new(image: impl LateImage + 'static) -> longshore_jitlink::Result<LateCalls> {
        let image = Box::new(image);
        let calls =
            Arc::new(DeviceCalls { linker: OnceLock::new(), image, reasons: Mutex::default() });
        let trampolines =
            DeviceTrampolines { inner: LinkedTrampolines::new(), calls: Arc::clone(&calls) };
        let symbols = LinkedRedirectables::new(ThisProcess);
        let reexports = LazyReexports::new(trampolines, symbols, None)?;
        Ok(LateCalls { reexports, _calls: calls })
    }
}

/// Trampolines whose calls come to [`DeviceCalls`], and from there to the linker.
struct DeviceTrampolines {
    inner: LinkedTrampolines,
    calls: Arc<DeviceCalls>,
}

impl TrampolineEmitter for DeviceTrampolines {
    fn connect(&mut self, linker: Weak<dyn LinkCalls>) -> longshore_jitlink::Result<()> {
        self.calls.linker.set(linker).map_err(|_| ()).expect("trampolines are connected once");
        let calls: Weak<DeviceCalls> = Arc::downgrade(&self.calls);
        self.inner.connect_to(calls);
        Ok(())
    }

    fn emit(&self, graph: &mut LinkGraph, batch: TrampolineBatch) -> Trampolines {
        self.inner.emit(graph, batch)
    }

    fn hooks_write(&self) -> bool {
        self.inner.hooks_write()
    }

    fn retire(&self, batch: u64, retired: bool) -> longshore_jitlink::Result<()> {
        self.inner.retire(batch, retired)
    }
}

impl Reenter for DeviceCalls {
    fn reenter(self: Arc<Self>, call: ReentryCall) -> Result<Onward, String> {
        let guard = Guard::of_thread();
        let suspended = guard.suspend();
        let answer = self.answer(call, suspended.is_in_call());
        drop(self);
        // From here on the thread can be taken out of the call at any time, so nothing is held any more.
        guard.resume(suspended);
        match answer {
            Ok(onward) => Ok(onward),
            Err(Ending::Process(message)) => Err(message),
            // SAFETY: only calls from inside `Guard::call` end so. Neither device code nor the hook has anything to drop, and this
            // function holds nothing any more.
            Err(Ending::Kernel(reason)) => unsafe { guard.end_with(Stop::NotLinked(reason)) },
        }
    }
}

impl DeviceCalls {
    /// Returns where a call goes on that was made inside [`Guard::call`] or not.
    fn answer(&self, call: ReentryCall, in_call: bool) -> Result<Onward, Ending> {
        let Some(linker) = self.linker.get().and_then(Weak::upgrade) else {
            return Err(Ending::Process("its image is unloaded".to_owned()));
        };
        let link = || self.link(&*linker, call);
        let linked = match in_call && !guarded::is_watched() {
            true => on_a_thread(link),
            false => link(),
        };
        linked.map_err(|Failure { error, message }| match in_call {
            true => Ending::Kernel(self.keep(error)),
            false => Ending::Process(message),
        })
    }

    /// Links what is called, and runs its constructors, on this thread.
    fn link(&self, linker: &dyn LinkCalls, call: ReentryCall) -> Result<Onward, Failure> {
        let (linked, broken) = guarded::watched(Further::Skipped, || linker.link_call(call));
        match (broken, linked) {
            (Some(broken), _) => Err(self.image.explain_broken(broken).into()),
            (None, Err(failed)) => {
                let message = failed.to_string();
                Err(Failure { error: self.image.explain(failed.error), message })
            }
            (None, Ok(onward)) => Ok(onward),
        }
    }

    /// The place of a reason, where it stays as long as this.
    fn keep(&self, reason: Error) -> NonNull<Error> {
        let mut reasons = self.reasons.lock();
        let is_same = |known: &&Arc<Error>| {
            known.code() == reason.code() && known.message() == reason.message()
        };
        if let Some(known) = reasons.iter().find(is_same) {
            return NonNull::from(&**known);
        }
        let reason = Arc::new(reason);
        let place = NonNull::from(&*reason);
        reasons.push(reason);
        place
    }
}

/// Links on another thread, with a stack that constructors can run on, and waits for it.
fn on_a_thread<T: Send>(link: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    let linked = thread::scope(|scope| {
        let thread = thread::Builder::new().name("longshore-link".to_owned());
        let thread = thread.stack_size(LINK_STACK).spawn_scoped(scope, link);
        thread.map(|thread| thread.join())
    });
    match linked {
        Ok(Ok(linked)) => linked,
        Ok(Err(_)) => Err(Error::new(ErrorCode::BackendFailure, "the linker panicked").into()),
        Err(error) => {
            let message = format!("a thread to link a function that was called: {error}");
            Err(Error::new(ErrorCode::OutOfResources, message).into())
        }
    }
}

/// The stack of a thread that links: a main thread's.
const LINK_STACK: usize = 8 << 20;
