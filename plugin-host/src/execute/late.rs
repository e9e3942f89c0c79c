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

use super::guard::{Guard, Stop};
use super::guarded::{self, Broken, Further};
use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::lazy::{
    FailedCall, LazyReexports, LinkedRedirectables, LinkedTrampolines, Onward, Reenter,
    ReentryCall, ThisProcess, TrampolineBatch, TrampolineEmitter, Trampolines,
};
use longshore_plugin_api::{Error, ErrorCode};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// The functions of an image that are linked when they are called. It is dropped when nobody calls them any more, and no
/// kernel's fault is to be described.
pub(crate) struct LateCalls {
    pub(crate) reexports: LazyReexports,
    _calls: Arc<DeviceCalls>,
}

/// The image whose functions are called.
pub(crate) trait LateImage: Send + Sync {
    /// Is told that this thread has linked something, or tried to.
    fn settle(&self, is_linked: bool);

    /// What a linker's error is to who made the image.
    fn explain(&self, error: &longshore_jitlink::Error) -> Error;

    /// The error of a constructor or resolver that failed while something was linked.
    fn explain_broken(&self, broken: Broken) -> Error;
}

/// Answers calls that device code makes.
struct DeviceCalls {
    linker: Mutex<Option<Weak<dyn Reenter>>>,
    image: Box<dyn LateImage>,
    /// Why calls could not go on, each reason once: kernels' faults refer to them.
    reasons: Mutex<Vec<Arc<Error>>>,
}

/// Why a call cannot go on: for a queue, and for a message with which the process ends.
struct Ending {
    error: Error,
    message: String,
}

impl From<Error> for Ending {
    fn from(error: Error) -> Ending {
        Ending { message: error.to_string(), error }
    }
}

/// Why a call cannot go on, and of what function.
struct Refused {
    message: String,
    error: longshore_jitlink::Error,
}

thread_local! {
    /// What has become of the call for which this thread links.
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
    /// With what the kernel ends that this thread runs.
    static REASON: Cell<Option<NonNull<Error>>> = const { Cell::new(None) };
}

impl LateCalls {
    /// For one image.
    ///
    /// # Errors
    /// Those of [`LazyReexports::new`].
    pub(crate) fn new(image: impl LateImage + 'static) -> longshore_jitlink::Result<LateCalls> {
        let image = Box::new(image);
        let calls =
            Arc::new(DeviceCalls { linker: Mutex::default(), image, reasons: Mutex::default() });
        let trampolines =
            DeviceTrampolines { inner: LinkedTrampolines::new(), calls: Arc::clone(&calls) };
        let symbols = LinkedRedirectables::new(ThisProcess);
        let reexports = LazyReexports::new(trampolines, symbols, None)?;
        reexports.on_failure(refuse);
        Ok(LateCalls { reexports, _calls: calls })
    }
}

/// Trampolines whose calls come to [`DeviceCalls`], and from there to the linker.
struct DeviceTrampolines {
    inner: LinkedTrampolines,
    calls: Arc<DeviceCalls>,
}

impl TrampolineEmitter for DeviceTrampolines {
    fn connect(&mut self, linker: Weak<dyn Reenter>) -> longshore_jitlink::Result<()> {
        *self.calls.linker.lock().unwrap_or_else(PoisonError::into_inner) = Some(linker);
        let calls: Weak<DeviceCalls> = Arc::downgrade(&self.calls);
        self.inner.connect(calls)
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
    fn reenter(&self, call: ReentryCall) -> Result<Onward, String> {
        let guard = Guard::of_thread();
        let suspended = guard.suspend();
        let onward = self.answer(call, suspended.is_in_call());
        // From here on the thread can be taken out of the call at any time, so nothing is held any more.
        guard.resume(suspended);
        onward
    }
}

impl DeviceCalls {
    /// Where a call goes on that was made inside [`Guard::call`] or not.
    fn answer(&self, call: ReentryCall, in_call: bool) -> Result<Onward, String> {
        let linker = self.linker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let linker = linker.and_then(|linker| linker.upgrade()).ok_or("its image is unloaded")?;
        let link = || {
            let (onward, broken) = guarded::watched(Further::Skipped, || linker.reenter(call));
            let refused = REFUSED.take();
            self.image.settle(refused.is_none());
            match (broken, refused) {
                (Some(broken), _) => Err(self.image.explain_broken(broken).into()),
                (None, Some(Refused { message, error })) => {
                    Err(Ending { error: self.image.explain(&error), message })
                }
                (None, None) => Ok(onward),
            }
        };
        let linked = match (in_call, guarded::is_watched()) {
            (false, _) => return link().unwrap_or_else(|ending| Err(ending.message)),
            (true, true) => link(),
            (true, false) => on_a_thread(link),
        };
        let reason = match linked {
            Ok(onward) => return onward,
            Err(ending) => ending.error,
        };
        REASON.set(Some(self.keep(reason)));
        Ok(Onward { target: end_kernel as *const () as u64, redirect: false })
    }

    /// The place of a reason, where it stays as long as this.
    fn keep(&self, reason: Error) -> NonNull<Error> {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
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
fn on_a_thread<T: Send>(link: impl FnOnce() -> Result<T, Ending> + Send) -> Result<T, Ending> {
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

/// Takes down why a call cannot go on; where it goes on instead is for [`DeviceCalls`] to say.
fn refuse(call: &FailedCall<'_>) -> u64 {
    REFUSED.set(Some(Refused { message: call.to_string(), error: call.error.clone() }));
    end_kernel as *const () as u64
}

/// What device code calls in place of a function that cannot be linked. Does not return.
extern "C" fn end_kernel() {
    let reason = REASON.take().expect("it was set when the call was sent here");
    // SAFETY: only calls from inside `Guard::call` are sent here, and device code has nothing to drop.
    unsafe { Guard::of_thread().end_with(Stop::NotLinked(reason)) }
}
