//! Calls of device code to functions that are not linked yet.
//!
//! Such a call comes in the middle of a kernel, on the small stack of an item. A fault there would
//! end the kernel while the linker holds its locks. So another thread links, while this thread
//! waits outside of device code. If the link fails, the kernel ends as if it had failed, with the
//! linker's error.
//!
//! Constructors, destructors and resolvers run on a linking thread, in the middle of its link. So
//! that thread links the functions that they call. If such a link fails, the constructor,
//! destructor or resolver ends like a kernel.
//!
//! On other threads, such as threads that the image has started, no guarded call exists to return
//! to. If their code calls a function that cannot be linked, the process ends with a message.

use super::guarded::{self, FailedCall, FailurePolicy};
use crate::guard::{Guard, Stop};
use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::lazy::{
    LazyReexports, LinkCalls, LinkedRedirectables, LinkedTrampolines, Reenter, ReentryCall,
    ReentryTarget, ThisProcess, TrampolineBatch, TrampolineEmitter, Trampolines,
};
use longshore_plugin_api::{Error, ErrorCode};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

/// The functions of an image that are linked at their first call. Dropped when no thread calls them
/// any more and no kernel's fault is left to describe.
pub(crate) struct LateCalls {
    pub(crate) reexports: LazyReexports,
    _calls: Arc<DeviceCalls>,
}

/// The image with the functions.
pub(crate) trait LateImage: Send + Sync {
    /// Returns the error of a link, in terms of the image's author.
    fn explain(&self, error: longshore_jitlink::Error) -> Error;

    /// Returns the error of a constructor or resolver that failed during a link.
    fn explain_broken(&self, broken: FailedCall) -> Error;
}

/// The handler of the calls of device code.
struct DeviceCalls {
    linker: OnceLock<Weak<dyn LinkCalls>>,
    image: Box<dyn LateImage>,
    /// Reasons for failed calls, each reason once: kernels' faults refer to them.
    reasons: Mutex<Vec<Arc<Error>>>,
}

/// The reason for a failed call: for a queue, and as the last message of the process.
struct Failure {
    error: Error,
    message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { message: error.to_string(), error }
    }
}

/// Consequence of a failed call.
enum Ending {
    /// The end of the calling kernel, for a reason that stays as long as the image.
    Kernel(NonNull<Error>),
    /// The end of the process with this message.
    Process(String),
}

impl LateCalls {
    /// Creates the late calls of one image.
    ///
    /// # Errors
    /// The errors of [`LazyReexports::new`].
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

/// Trampolines whose calls go to [`DeviceCalls`], and from there to the linker.
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
    fn reenter(self: Arc<Self>, call: ReentryCall) -> Result<ReentryTarget, String> {
        let guard = Guard::for_thread();
        let suspended = guard.suspend();
        let target = self.resolve(call, suspended.is_in_call());
        drop(self);
        // From here on the thread can be taken out of the call at any time, so it holds nothing.
        guard.resume(suspended);
        match target {
            Ok(target) => Ok(target),
            Err(Ending::Process(message)) => Err(message),
            // SAFETY: only calls from inside `Guard::call` end this way. Device code, the hook and
            // this function hold nothing to drop.
            Err(Ending::Kernel(reason)) => unsafe { guard.end_with(Stop::NotLinked(reason)) },
        }
    }
}

impl DeviceCalls {
    /// Returns the target of a call, or the consequence of its failure. `in_call` is whether the
    /// caller is inside [`Guard::call`].
    fn resolve(&self, call: ReentryCall, in_call: bool) -> Result<ReentryTarget, Ending> {
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

    /// Links the called function, and runs its constructors, on this thread.
    fn link(&self, linker: &dyn LinkCalls, call: ReentryCall) -> Result<ReentryTarget, Failure> {
        let (linked, broken) = guarded::watched(FailurePolicy::Skipped, || linker.link_call(call));
        match (broken, linked) {
            (Some(broken), _) => Err(self.image.explain_broken(broken).into()),
            (None, Err(failed)) => {
                let message = failed.to_string();
                Err(Failure { error: self.image.explain(failed.error), message })
            }
            (None, Ok(target)) => Ok(target),
        }
    }

    /// Keeps a reason as long as this object, and returns its address.
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

/// Links on another thread, with a stack large enough for constructors, and waits for it.
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
            let message = format!("no thread could be started to link a called function: {error}");
            Err(Error::new(ErrorCode::OutOfResources, message).into())
        }
    }
}

/// Stack size of a linking thread, the same as a main thread's: 8 MiB.
const LINK_STACK: usize = 8 << 20;
