use std::sync::Mutex;

use super::*;
use crate::registers::{call_keeping, change};

/// A function that does nothing.
#[unsafe(naked)]
extern "C" fn landing() {
    std::arch::naked_asm!("ret")
}

/// Answers with the address of [`landing`], after it has changed what it may.
struct Answers(Mutex<Vec<ReentryCall>>);

impl Reenter for Answers {
    fn reenter(self: Arc<Self>, call: ReentryCall) -> Result<Onward, String> {
        self.0.lock().unwrap().push(call);
        // SAFETY: this thread's variable.
        unsafe { *libc::__errno_location() = 77 };
        change();
        Ok(Onward { target: landing as *const () as u64, redirect: false })
    }
}

/// Memory with code that arrives as a trampoline does.
struct Code(*mut u8);

impl Code {
    const SIZE: usize = 4096;

    fn arriving(header: &TrampolineHeader, index: u32) -> Self {
        let bytes = arch::tests::arriving(header, index);
        // SAFETY: new memory, which is written before it is executed, and given back when this is dropped.
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
        // SAFETY: it was mapped with this size, and nothing runs there.
        unsafe { libc::munmap(self.0.cast(), Self::SIZE) };
    }
}

#[test]
fn all_registers_arrive_whatever_the_hook_changes() {
    for (reenter, legacy) in arch::tests::functions() {
        let answers = Arc::new(Answers(Mutex::default()));
        let context = ReentryContext::new(Arc::downgrade(&answers) as Weak<dyn Reenter>);
        let header = TrampolineHeader {
            reenter,
            hook: hook_function(),
            context: context.number(),
            batch: 5,
            trampolines: 0x1000,
            slots: 0x8000,
        };
        let code = Code::arriving(&header, 3);
        // SAFETY: this thread's variable.
        unsafe { *libc::__errno_location() = 11 };
        let descriptor = [code.0 as u64, 0];
        // SAFETY: the code re-enters, and goes on at the landing, which returns.
        let returned = unsafe { call_keeping(&descriptor, legacy, arch::tests::CHANGED) };
        assert_eq!(returned, &raw const descriptor as u64);
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 11);
        let slot = 0x8000 + 3 * 8;
        let expected = ReentryCall { batch: 5, index: 3, slot, while_linking: false, turn: turn() };
        assert_eq!(*answers.0.lock().unwrap(), [expected]);
    }
}

#[test]
fn a_context_has_a_number_of_its_own_and_is_unknown_once_it_is_dropped() {
    let answers = Arc::new(Answers(Mutex::default()));
    let context = || ReentryContext::new(Arc::downgrade(&answers) as Weak<dyn Reenter>);
    let is_known = |number| CONTEXTS.read().known.contains_key(&number);
    let (first, second) = (context(), context());
    let (one, other) = (first.number(), second.number());
    assert_ne!(one, other);
    drop(first);
    assert_eq!((is_known(one), is_known(other)), (false, true));
}

#[test]
fn a_hook_writes_to_slots_if_it_is_told_to_and_the_batch_is_not_retired() {
    let slot = AtomicU64::new(0);
    let header = TrampolineHeader {
        reenter: 0,
        hook: 0,
        // No context of this process has it.
        context: u64::MAX,
        batch: 8,
        trampolines: 0,
        slots: slot.as_ptr() as u64,
    };
    let go_on = |target, redirect| {
        assert_eq!(super::go_on(&header, header.call_of(0), Onward { target, redirect }), target);
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
        RAN.lock().unwrap().push((turn(), argc));
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let questions = Arc::clone(&asked);
    let answer = move |question: &[u8]| {
        let question: Question = postcard::from_bytes(question).unwrap();
        questions.lock().unwrap().push(question);
        let function = constructor as *const () as u64;
        let arguments = Arguments { argc: 6, ..Arguments::default() };
        let answer = match question {
            Question::Call(_) => Answer::Construct { functions: vec![function; 2], arguments },
            Question::Constructed(_) => Answer::Onward(Onward { target: 0x1234, redirect: false }),
        };
        Ok(postcard::to_stdvec(&answer).unwrap())
    };
    let slot = 0;
    let tag = &raw const slot as u64;
    assert!(callback::add_handler(tag, Arc::new(answer)));
    let header = TrampolineHeader {
        reenter: 0,
        hook: 0,
        context: tag,
        batch: 2,
        trampolines: 0,
        slots: tag,
    };
    // SAFETY: the header is one, of which this is the first trampoline.
    assert_eq!(unsafe { controller_hook(&raw const header, 0) }, 0x1234);
    callback::remove_handler(tag);
    let call = header.call_of(0);
    assert_eq!(*asked.lock().unwrap(), [Question::Call(call), Question::Constructed(call)]);
    assert_eq!(*RAN.lock().unwrap(), [(turn(), 6); 2]);
}

#[test]
fn a_thread_has_its_own_turn_unless_it_runs_something_for_another() {
    let own = turn();
    assert_eq!(in_turn(77, || (turn(), in_turn(78, turn), turn())), (77, 78, 77));
    assert_eq!(turn(), own);
    assert_ne!(std::thread::spawn(turn).join().unwrap(), own);
}
