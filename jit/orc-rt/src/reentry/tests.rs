use std::sync::Mutex;

use super::*;
use crate::registers::{call_keeping, change};

/// Returns at once.
#[unsafe(naked)]
extern "C" fn landing() {
    std::arch::naked_asm!("ret")
}

/// A handler that returns the address of [`landing`], after changing every register that it may
/// change.
struct Replies(Mutex<Vec<ReentryCall>>);

impl Reenter for Replies {
    fn reenter(self: Arc<Self>, call: ReentryCall) -> Result<ReentryTarget, String> {
        self.0.lock().unwrap().push(call);
        // SAFETY: the address is that of this thread's variable.
        unsafe { *libc::__errno_location() = 77 };
        change();
        Ok(ReentryTarget { target: landing as *const () as u64, redirect: false })
    }
}

/// Executable memory with code that jumps to `reenter` as a trampoline does.
struct Code(*mut u8);

impl Code {
    const SIZE: usize = 4096;

    fn arriving(header: &TrampolineHeader, index: u32) -> Self {
        let bytes = arch::tests::arriving(header, index);
        // SAFETY: new memory, which is written before it is executed, and unmapped on drop.
        let code = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let code = libc::mmap(std::ptr::null_mut(), Self::SIZE, access, flags, -1, 0);
            assert_ne!(code, libc::MAP_FAILED);
            code.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            assert_eq!(libc::mprotect(code, Self::SIZE, libc::PROT_READ | libc::PROT_EXEC), 0);
            code.cast()
        };
        Self(code)
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this size, and nothing runs there.
        unsafe { libc::munmap(self.0.cast(), Self::SIZE) };
    }
}

#[test]
fn all_registers_arrive_whatever_the_hook_changes() {
    for (reenter, legacy) in arch::tests::functions() {
        let replies = Arc::new(Replies(Mutex::default()));
        let context = ReentryContext::new(Arc::downgrade(&replies) as Weak<dyn Reenter>);
        let header = TrampolineHeader {
            reenter,
            hook: hook_function(),
            context: context.number(),
            batch: 5,
            trampolines: 0x1000,
            slots: 0x8000,
        };
        let code = Code::arriving(&header, 3);
        // SAFETY: the address is that of this thread's variable.
        unsafe { *libc::__errno_location() = 11 };
        let descriptor = [code.0 as u64, 0];
        // SAFETY: the code re-enters, and continues at the landing, which returns.
        let returned = unsafe { call_keeping(&descriptor, legacy, arch::tests::CHANGED) };
        assert_eq!(returned, &raw const descriptor as u64);
        // SAFETY: the address is that of this thread's variable.
        assert_eq!(unsafe { *libc::__errno_location() }, 11);
        let slot = 0x8000 + 3 * 8;
        let expected = ReentryCall {
            batch: 5,
            index: 3,
            slot,
            while_linking: false,
            lock_owner: lock_owner(),
        };
        assert_eq!(*replies.0.lock().unwrap(), [expected]);
    }
}

#[test]
fn a_context_has_a_number_of_its_own_and_is_unknown_once_it_is_dropped() {
    let replies = Arc::new(Replies(Mutex::default()));
    let context = || ReentryContext::new(Arc::downgrade(&replies) as Weak<dyn Reenter>);
    let is_known = |number| CONTEXTS.read().known.contains_key(&number);
    let (first, second) = (context(), context());
    let (one, other) = (first.number(), second.number());
    assert_ne!(one, other);
    drop(first);
    assert_eq!((is_known(one), is_known(other)), (false, true));
}

#[test]
fn a_hook_writes_to_slots_on_request_and_the_batch_is_not_retired() {
    let slot = AtomicU64::new(0);
    let header = TrampolineHeader {
        reenter: 0,
        hook: 0,
        // No context of this process has this number.
        context: u64::MAX,
        batch: 8,
        trampolines: 0,
        slots: slot.as_ptr() as u64,
    };
    let go_on = |target, redirect| {
        assert_eq!(
            super::go_on(&header, header.call_of(0), ReentryTarget { target, redirect }),
            target
        );
        slot.load(Ordering::Relaxed)
    };
    assert_eq!((go_on(1, false), go_on(2, true)), (0, 2));
    retire(u64::MAX, 8, true);
    assert_eq!(go_on(3, true), 2);
    retire(u64::MAX, 8, false);
    assert_eq!(go_on(4, true), 4);
}

#[test]
fn constructors_that_a_controller_asks_for_run_on_the_thread_that_calls_before_the_call_goes_on() {
    static RAN: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
    extern "C" fn constructor(argc: u64) {
        RAN.lock().unwrap().push((lock_owner(), argc));
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&asked);
    let reply = move |request: &[u8]| {
        let request: ReentryRequest = postcard::from_bytes(request).unwrap();
        requests.lock().unwrap().push(request);
        let function = constructor as *const () as u64;
        let arguments = Arguments { argc: 6, ..Arguments::default() };
        let reply = match request {
            ReentryRequest::Call(_) => {
                ReentryReply::Construct { functions: vec![function; 2], arguments }
            }
            ReentryRequest::Constructed(_) => {
                ReentryReply::Target(ReentryTarget { target: 0x1234, redirect: false })
            }
        };
        Ok(postcard::to_stdvec(&reply).unwrap())
    };
    let slot = 0;
    let tag = &raw const slot as u64;
    assert!(callback::add_handler(tag, Arc::new(reply)));
    let header = TrampolineHeader {
        reenter: 0,
        hook: 0,
        context: tag,
        batch: 2,
        trampolines: 0,
        slots: tag,
    };
    // SAFETY: the header is valid, and the address is that of its first trampoline.
    assert_eq!(unsafe { controller_hook(&raw const header, 0) }, 0x1234);
    callback::remove_handler(tag);
    let call = header.call_of(0);
    assert_eq!(
        *asked.lock().unwrap(),
        [ReentryRequest::Call(call), ReentryRequest::Constructed(call)]
    );
    assert_eq!(*RAN.lock().unwrap(), [(lock_owner(), 6); 2]);
}

#[test]
fn a_thread_has_its_own_turn_unless_it_runs_something_for_another() {
    let own = lock_owner();
    assert_eq!(
        as_lock_owner(77, || (lock_owner(), as_lock_owner(78, lock_owner), lock_owner())),
        (77, 78, 77)
    );
    assert_eq!(lock_owner(), own);
    assert_ne!(std::thread::spawn(lock_owner).join().unwrap(), own);
}
