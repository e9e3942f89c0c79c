//! The guarantees for handlers of linked code.

use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::spawn;

use super::*;

/// Handlers that send their numbers to a channel.
struct Log {
    scope: ExitScope,
    sender: Sender<u32>,
    receiver: Receiver<u32>,
}

impl Log {
    fn new() -> Self {
        let (sender, receiver) = channel();
        Self { scope: ExitScope::new(), sender, receiver }
    }

    fn dso(&self) -> *mut c_void {
        self.scope.dso_handle() as *mut c_void
    }

    fn at_exit(&self, number: u32) -> usize {
        let argument = message(&self.sender, number);
        // SAFETY: the handler takes the message.
        assert_eq!(unsafe { cxa_atexit(tell, argument, self.dso()) }, 0);
        argument.expose_provenance()
    }

    fn at_thread_exit(&self, number: u32) -> usize {
        let argument = message(&self.sender, number);
        // SAFETY: the handler takes the message.
        assert_eq!(unsafe { cxa_thread_atexit(tell, argument, self.dso()) }, 0);
        argument.expose_provenance()
    }

    fn reported(&self) -> Vec<u32> {
        self.receiver.try_iter().collect()
    }
}

fn message(sender: &Sender<u32>, number: u32) -> *mut c_void {
    Box::into_raw(Box::new((sender.clone(), number))).cast()
}

/// Frees a message that no handler has sent.
fn take_back(message: usize) {
    // SAFETY: the pointer is from `message`, and no handler has taken it.
    drop(unsafe { Box::from_raw(message as *mut (Sender<u32>, u32)) });
}

unsafe extern "C" fn tell(message: *mut c_void) {
    // SAFETY: the pointer is from `message`, for one call.
    let (sender, number) = *unsafe { Box::from_raw(message.cast::<(Sender<u32>, u32)>()) };
    sender.send(number).unwrap();
}

#[test]
fn handlers_run_once_and_in_reverse() {
    let log = Log::new();
    for number in 1..=3 {
        log.at_exit(number);
    }
    assert_eq!(log.reported(), []);
    log.scope.run();
    assert_eq!(log.reported(), [3, 2, 1]);
    log.scope.run();
    assert_eq!(log.reported(), []);
}

#[test]
fn a_handler_that_is_registered_by_a_handler_runs_before_the_older_ones() {
    unsafe extern "C" fn registers(log: *mut c_void) {
        // SAFETY: the test passes its log.
        let log = unsafe { &*log.cast::<Log>() };
        log.at_exit(2);
        log.at_thread_exit(3);
    }
    let mut log = Log::new();
    log.at_exit(1);
    let argument = (&raw mut log).cast();
    // SAFETY: the log outlives the handler.
    unsafe { cxa_atexit(registers, argument, log.dso()) };
    log.scope.run();
    assert_eq!(log.reported(), [3, 2, 1]);
}

#[test]
fn a_handler_may_run_its_own_scope() {
    unsafe extern "C" fn finalizes(dso: *mut c_void) {
        // SAFETY: the pointer is the handle of a live scope.
        unsafe { cxa_finalize(dso) };
    }
    let log = Log::new();
    log.at_exit(1);
    // SAFETY: the scope outlives the handler.
    unsafe { cxa_atexit(finalizes, log.dso(), log.dso()) };
    log.scope.run();
    assert_eq!(log.reported(), [1]);
}

#[test]
fn atexit_takes_a_function_without_an_argument() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count() {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    let scope = ExitScope::new();
    // SAFETY: the function may be called at any time.
    assert_eq!(unsafe { longshore_atexit(count, scope.dso_handle() as *mut c_void) }, 0);
    scope.run();
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}

#[test]
fn some_handlers_run_and_others_stay() {
    let log = Log::new();
    let arguments: Vec<_> = (1..=4).map(|number| log.at_exit(number)).collect();
    let second = |handler: &Handler| handler.argument == arguments[1];
    assert!(log.scope.run_some(second));
    assert_eq!(log.reported(), [2]);
    assert!(!log.scope.run_some(second));
    assert_eq!(log.reported(), []);
    assert!(log.scope.run_some(|handler| handler.function as usize == tell as *const () as usize));
    assert_eq!(log.reported(), [4, 3, 1]);
}

#[test]
fn destructors_of_a_thread_run_when_it_ends() {
    let log = Log::new();
    std::thread::scope(|scope| {
        let log = &log.scope;
        let (sender, receiver) = channel();
        let thread = scope.spawn(move || {
            for number in 1..=2 {
                // SAFETY: the handler takes the message.
                unsafe {
                    cxa_thread_atexit(
                        tell,
                        message(&sender, number),
                        log.dso_handle() as *mut c_void,
                    )
                };
            }
            sender.send(0).unwrap();
        });
        thread.join().unwrap();
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 2, 1]);
    });
    log.scope.run();
    assert_eq!(log.reported(), []);
}

#[test]
fn a_run_takes_its_own_threads_destructors_first_and_drops_other_threads_ones() {
    let log = Arc::new(Mutex::new(Log::new()));
    let barrier = Arc::new(Barrier::new(2));
    log.lock().at_thread_exit(1);
    log.lock().at_exit(2);
    let other = spawn({
        let (log, barrier) = (log.clone(), barrier.clone());
        move || {
            let message = log.lock().at_thread_exit(3);
            barrier.wait();
            barrier.wait();
            message
        }
    });
    barrier.wait();
    log.lock().scope.run();
    assert_eq!(log.lock().reported(), [1, 2]);
    barrier.wait();
    let message = other.join().unwrap();
    assert_eq!(log.lock().reported(), []);
    take_back(message);
}

#[test]
fn the_destructors_of_a_scope_that_has_gone_are_not_called() {
    let (sender, receiver) = channel();
    let message = spawn(move || {
        let scope = ExitScope::new();
        let message = message(&sender, 1);
        // SAFETY: the handler would take the message.
        unsafe { cxa_thread_atexit(tell, message, scope.dso_handle() as *mut c_void) };
        message.expose_provenance()
    })
    .join()
    .unwrap();
    assert!(receiver.try_recv().is_err());
    take_back(message);
}

#[test]
fn a_destructor_sees_thread_local_storage_that_was_first_used_after_its_registration() {
    unsafe extern "C" fn read(pair: *mut c_void) {
        // SAFETY: the test passes a pair whose module is alive; the block is this thread's.
        let value = unsafe { *tls::tls_get_address(pair.cast()).cast::<u8>() };
        assert_eq!(value, 2);
    }
    let scope = ExitScope::new();
    let module = tls::TlsModule::new([1u8].as_ptr() as u64, 1, 1, 1).unwrap();
    let mut pair = [module.handle(), 0];
    std::thread::scope(|threads| {
        let (pair, dso) = ((&raw mut pair).expose_provenance(), scope.dso_handle());
        let thread = threads.spawn(move || {
            let pair = pair as *mut c_void;
            // SAFETY: pair and module outlive the thread.
            unsafe { cxa_thread_atexit(read, pair, dso as *mut c_void) };
            // SAFETY: the module is alive, and the block is this thread's.
            unsafe { *tls::tls_get_address(pair.cast()).cast::<u8>() = 2 };
        });
        thread.join().unwrap();
    });
}

#[test]
fn a_run_waits_for_a_destructor_on_another_thread() {
    unsafe extern "C" fn slow(barrier: *mut c_void) {
        // SAFETY: the test passes a pair that outlives the thread.
        let barrier = unsafe { &*barrier.cast::<(Barrier, std::sync::atomic::AtomicBool)>() };
        barrier.0.wait();
        std::thread::sleep(std::time::Duration::from_millis(20));
        barrier.1.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    let scope = ExitScope::new();
    let shared = (Barrier::new(2), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|threads| {
        let (shared_address, dso) = ((&raw const shared).expose_provenance(), scope.dso_handle());
        threads.spawn(move || {
            // SAFETY: the shared pair outlives the thread.
            unsafe { cxa_thread_atexit(slow, shared_address as *mut c_void, dso as *mut c_void) };
        });
        shared.0.wait();
        scope.run();
        assert!(shared.1.load(std::sync::atomic::Ordering::Relaxed));
    });
}

#[test]
fn each_handler_runs_once_when_many_threads_register_and_run() {
    let log = Log::new();
    let dso = log.scope.dso_handle();
    std::thread::scope(|threads| {
        for thread in 0..4u32 {
            let (sender, scope) = (log.sender.clone(), &log.scope);
            threads.spawn(move || {
                for number in 0..100 {
                    let message = message(&sender, thread * 100 + number);
                    // SAFETY: the handler takes the message.
                    unsafe { cxa_atexit(tell, message, dso as *mut c_void) };
                    if number % 10 == 9 {
                        scope.run();
                    }
                }
            });
        }
    });
    let mut reported = log.reported();
    reported.sort();
    assert_eq!(reported, (0..400).collect::<Vec<_>>());
}

#[test]
fn a_handle_that_is_not_a_scopes_is_passed_on_to_libc() {
    let (sender, receiver) = channel();
    // A handle of no library: libc runs its handlers only in `__cxa_finalize` of this handle.
    let own = Box::new(0u8);
    let dso = (&raw const *own).cast_mut().cast();
    // SAFETY: the handler takes the message, and runs below.
    unsafe { cxa_atexit(tell, message(&sender, 1), dso) };
    assert!(receiver.try_recv().is_err());
    // SAFETY: the handler runs once, here.
    unsafe { cxa_finalize(dso) };
    assert_eq!(receiver.try_recv(), Ok(1));
    spawn(move || {
        // SAFETY: the handler takes the message; null is the program's handle.
        unsafe { cxa_thread_atexit(tell, message(&sender, 2), std::ptr::null_mut()) };
    })
    .join()
    .unwrap();
    assert_eq!(receiver.recv(), Ok(2));
}
