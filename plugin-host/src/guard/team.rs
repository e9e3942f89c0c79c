//! Faults of threads that device code has started, such as the threads of an OpenMP team.
//!
//! Such a thread is in no [`Guard::call`] that could end. Its handler hands the fault to a thread
//! that calls code of the same image, and interrupts it until its call ends with the fault. The
//! thread that faulted then sleeps for ever: the frames on its stack belong to the image and to the
//! library that started it. Other threads of the kernel may go on. So the image stays in memory.
//!
//! The interruption may come at any instruction. The call does not end while its thread may hold a
//! lock of the memory allocator, the standard streams or the system's loader. The next interruption
//! comes a millisecond later.

use super::context::{code_address, is_waiting, read};
use super::{Guard, Signal, former};
use crate::ranges::{Ranges, Registered};
use libc::{c_int, c_void, siginfo_t};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Most images whose code is known.
const MOST_IMAGES: usize = 1 << 12;
/// Most objects whose code takes locks that all code uses.
const MOST_LOCKING: usize = 3;
/// Time between two interruptions.
static PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Number of interruptions before the process ends.
const MOST_INTERRUPTIONS: u32 = 5000;
/// Bytes of `sched_yield`, from which a waiting thread rarely returns.
const YIELD_BYTES: u64 = 32;

static IMAGES: Ranges<MOST_IMAGES> = Ranges::new();
static LOCKING: Ranges<MOST_LOCKING> = Ranges::new();

/// Whether threads of a failed kernel may still run code of an image, by the image's number.
static IN_USE: [AtomicBool; MOST_IMAGES] = [const { AtomicBool::new(false) }; MOST_IMAGES];

/// The registered code of an image.
pub(crate) struct CodeOfImage(Registered<MOST_IMAGES>);

impl CodeOfImage {
    /// Registers the addresses of an image.
    pub(crate) fn new(addresses: Range<u64>) -> CodeOfImage {
        let code = IMAGES.register(addresses);
        if let Some(number) = code.number() {
            IN_USE[number].store(false, Ordering::Relaxed);
        }
        CodeOfImage(code)
    }

    /// Returns whether threads of a failed kernel may still run the code.
    pub(crate) fn is_in_use(&self) -> bool {
        self.0.number().is_some_and(|number| IN_USE[number].load(Ordering::Acquire))
    }
}

/// Mark of an interruption.
static MARK: u8 = 0;

/// No fault.
const NONE: u32 = 0;
/// The fault is written or read.
const BUSY: u32 = 1;
const READY: u32 = 2;

/// A fault that another thread has handed to the guard's thread.
#[derive(Default)]
pub(super) struct HandedFault {
    state: AtomicU32,
    /// The call that the fault shall end, by [`Guard::calls`].
    call: AtomicUsize,
    fault: Cell<Option<Signal>>,
    /// The last call that did not return.
    failed: AtomicUsize,
}

impl HandedFault {
    /// Stores a fault, unless there is one already.
    fn give(&self, call: usize, fault: Signal) {
        let begun =
            self.state.compare_exchange(NONE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if begun {
            self.fault.set(Some(fault));
            self.call.store(call, Ordering::Relaxed);
            self.state.store(READY, Ordering::Release);
        }
    }

    /// Takes the fault of a call.
    fn take(&self, call: usize) -> Option<Signal> {
        let begun =
            self.state.compare_exchange(READY, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !begun {
            return None;
        }
        let fault = self.fault.take().filter(|_| self.call.load(Ordering::Relaxed) == call);
        self.state.store(NONE, Ordering::Release);
        fault
    }

    /// Notes that a call did not return.
    pub(super) fn note_failed(&self, call: usize) {
        self.failed.store(call, Ordering::Release);
    }
}

impl Guard {
    /// Takes the fault that another thread has handed to the current call, if the call may end
    /// where the signal has interrupted it.
    pub(super) fn take_handed(&self, context: *const c_void) -> Option<Signal> {
        let call = self.calls.load(Ordering::Relaxed);
        may_end(context).then(|| self.handed.take(call)).flatten()
    }

    /// Returns a guard whose thread is in a call of an image's code.
    fn in_call_of(image: usize) -> Option<&'static Guard> {
        Guard::all().find(|guard| {
            let is_in_call = !guard.resume_point.load(Ordering::Relaxed).is_null();
            is_in_call && IMAGES.find(guard.code.load(Ordering::Relaxed) as u64) == Some(image)
        })
    }
}

/// Finds the objects whose code takes locks that all code uses.
pub(super) fn find_locks() {
    // SAFETY: this has no requirements.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) };
    let functions = [libc::malloc as *const () as u64, libc::fwrite as *const () as u64, loader];
    for object in functions.into_iter().filter_map(object_of) {
        // The process keeps these objects.
        std::mem::forget(LOCKING.register(object));
    }
}

/// Returns the addresses of the object that contains an address.
fn object_of(address: u64) -> Option<Range<u64>> {
    let mut search = Search { address, object: None };
    // SAFETY: `visit` is given this search.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.object
}

struct Search {
    address: u64,
    object: Option<Range<u64>>,
}

unsafe extern "C" fn visit(
    object: *mut libc::dl_phdr_info,
    _bytes: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader describes an object; `object_of` passes its search.
    let (base, headers, search) = unsafe {
        let object = &*object;
        let count = usize::from(object.dlpi_phnum);
        let headers = match object.dlpi_phdr.is_null() {
            true => &[],
            false => std::slice::from_raw_parts(object.dlpi_phdr, count),
        };
        (object.dlpi_addr, headers, &mut *search.cast::<Search>())
    };
    let segments = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
        let start = base.wrapping_add(header.p_vaddr);
        start..start.wrapping_add(header.p_memsz)
    });
    let start = segments.clone().map(|segment| segment.start).min();
    let end = segments.map(|segment| segment.end).max();
    let addresses = start.unwrap_or(0)..end.unwrap_or(0);
    if !addresses.contains(&search.address) {
        return 0;
    }
    search.object = Some(addresses);
    1
}

/// Returns whether a call may end at the instruction that a signal has interrupted.
fn may_end(context: *const c_void) -> bool {
    let code = code_address(context);
    let yields = libc::sched_yield as *const () as u64;
    let is_yielding = (yields..yields + YIELD_BYTES).contains(&code);
    is_yielding || LOCKING.find(code).is_none() || is_waiting(context)
}

/// Returns whether a signal is an interruption by a thread that has handed over its fault.
pub(super) fn is_interruption(info: *const siginfo_t) -> bool {
    // SAFETY: the kernel passed the information to the handler; queued signals have a value.
    unsafe {
        (*info).si_code == libc::SI_QUEUE
            && (*info).si_value().sival_ptr.cast_const() == (&raw const MARK).cast()
    }
}

/// Hands a fault of device code on a thread without a call to a thread with one. Returns `false` if
/// the process has to handle the signal; otherwise it never returns.
pub(super) fn hand_over(signal: c_int, info: *const siginfo_t, context: *const c_void) -> bool {
    // SAFETY: the kernel passed the information to the handler.
    let code = unsafe { (*info).si_code };
    if code <= 0 || former::may_resolve(signal, code) {
        return false;
    }
    let Some(image) = IMAGES.find(code_address(context)) else { return false };
    let Some(guard) = Guard::in_call_of(image) else { return false };
    let call = guard.calls.load(Ordering::Relaxed);
    IN_USE[image].store(true, Ordering::Release);
    let fault = Signal { is_of_other_thread: true, ..read(signal, code, info, context) };
    for _ in 0..MOST_INTERRUPTIONS {
        // A later call may have failed by now, too.
        if guard.handed.failed.load(Ordering::Acquire) >= call {
            sleep_for_ever();
        }
        if guard.calls.load(Ordering::Relaxed) != call {
            break;
        }
        guard.handed.give(call, fault);
        if !interrupt(guard.thread_id.load(Ordering::Relaxed), signal) {
            break;
        }
        // SAFETY: the time is valid.
        unsafe { libc::nanosleep(&raw const PAUSE, null_mut()) };
    }
    guard.handed.take(call);
    false
}

/// Sends an interruption to a thread of this process. Returns `false` if there is no such thread.
fn interrupt(thread: c_int, signal: c_int) -> bool {
    /// The fields of `siginfo_t` for a queued signal.
    #[repr(C)]
    struct Queued {
        signal: c_int,
        error: c_int,
        code: c_int,
        padding: c_int,
        process: libc::pid_t,
        user: libc::uid_t,
        value: *const u8,
        rest: [u64; 12],
    }
    const { assert!(size_of::<Queued>() == size_of::<siginfo_t>()) };
    // SAFETY: the structure has the fields that the call reads.
    unsafe {
        let process = libc::getpid();
        let information = Queued {
            signal,
            error: 0,
            code: libc::SI_QUEUE,
            padding: 0,
            process,
            user: libc::getuid(),
            value: &raw const MARK,
            rest: [0; 12],
        };
        let call = libc::SYS_rt_tgsigqueueinfo;
        libc::syscall(call, process, thread, signal, &raw const information) == 0
    }
}

fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: this has no requirements.
        unsafe { libc::pause() };
    }
}
