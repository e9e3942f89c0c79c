//! Calls of functions that device code makes before they are linked.
//!
//! Such a call comes in the middle of a kernel: on the stack of an item, which is small, and where a fault would leave the
//! kernel and whatever lock the linker holds. So the linking is done by another thread, while this one waits outside of device
//! code. If it cannot be done, the kernel ends there as if it had failed, with the linker's error.
//!
//! Constructors and destructors are not called through the guard, so there is nothing behind them to go on with: if one calls
//! what cannot be linked, the process ends with a message.

use super::guard::{Guard, Stop};
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
}

/// Answers calls that device code makes.
struct DeviceCalls {
    linker: Mutex<Option<Weak<dyn Reenter>>>,
    image: Box<dyn LateImage>,
    /// Why calls could not go on, each reason once: kernels' faults refer to them.
    reasons: Mutex<Vec<Arc<Error>>>,
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
        let landing = guard.suspend();
        let onward = self.answer(call, !landing.is_null());
        // From here on the thread can be taken out of the call at any time, so nothing is held any more.
        guard.resume(landing);
        onward
    }
}

impl DeviceCalls {
    /// Where a call goes on, from inside [`Guard::call`] or not.
    fn answer(&self, call: ReentryCall, in_kernel: bool) -> Result<Onward, String> {
        let linker = self.linker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let linker = linker.and_then(|linker| linker.upgrade()).ok_or("its image is unloaded")?;
        let link = || {
            let (onward, refused) = (linker.reenter(call), REFUSED.take());
            self.image.settle(refused.is_none());
            (onward, refused)
        };
        if !in_kernel {
            let (onward, refused) = link();
            return refused.map_or(onward, |refused| Err(refused.message));
        }
        let linked = thread::scope(|scope| {
            let thread = thread::Builder::new().name("longshore-link".to_owned());
            // Constructors run there.
            let thread = thread.stack_size(LINK_STACK);
            let thread = thread.spawn_scoped(scope, link);
            thread.map(|thread| thread.join())
        });
        let reason = match linked {
            Ok(Ok((onward, None))) => return onward,
            Ok(Ok((_, Some(refused)))) => self.image.explain(&refused.error),
            Ok(Err(_)) => Error::new(ErrorCode::BackendFailure, "the linker panicked"),
            Err(error) => {
                let message = format!("a thread to link a function that was called: {error}");
                Error::new(ErrorCode::OutOfResources, message)
            }
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
