//! Sixteen threads call all functions of LLVM Offload's C API at random, on the CPU.
//! `LONGSHORE_STRESS_SECONDS` sets the time. Other threads destroy the objects concurrently, and
//! some arguments are invalid. Calls happen between olInit and olShutDown, and outside. Each thread
//! also has a queue and memory of its own, with results that must be right.
//!
//! The random choices depend on `LONGSHORE_STRESS_SEED`, which the test prints; the interleaving of
//! threads does not.

mod calls;
mod pool;
mod tally;
mod worker;

use longshore::{Environment, Host};
use longshore_capi::*;
use longshore_conformance::Fixtures;
use longshore_conformance::amount::TestScale;
use longshore_tests::resource_usage::{OTHERS_MAPPINGS, ResourceUsage};
use longshore_tests::suites::Suite;
use longshore_tests::trials;
use longshore_tests::vulkan;
use longshore_tests::world::{executor, host_plugin};
use pool::{Random, Shared, Slots};
use std::path::PathBuf;
use std::ptr::null;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tally::Function;
use worker::Worker;

pub(crate) const SUITE: Suite = Suite::new("stress", || {
    trials![
        all_functions_can_be_called_at_once_on_what_others_destroy,
        all_functions_can_be_called_at_once_on_an_isolated_device,
        the_library_can_be_shut_down_while_other_threads_call_it,
    ]
});

const THREADS: usize = 16;
const SECONDS: TestScale<u64> = TestScale { usual: 3, small: 1 };
/// The time after which all threads have ended, unless they wait for each other.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Devices to call, and their plugins.
struct On {
    backends: &'static str,
    /// Plugins in the order of the backends.
    plugins: fn() -> Vec<PathBuf>,
    is_isolated: bool,
}

impl On {
    const CPU: On = On { backends: "host", plugins: || vec![host_plugin()], is_isolated: false };
}

/// Returns the targets of the descriptors of this process.
fn descriptors() -> Vec<PathBuf> {
    let folder = std::fs::read_dir("/proc/self/fd").expect("Linux has it");
    folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect()
}

/// Numbers of consecutive calls of a thread with an olInit of its own, and without.
struct CallCounts {
    inside: usize,
    outside: usize,
}

fn all_functions_can_be_called_at_once_on_what_others_destroy() {
    all_functions_are_called(On::CPU);
}

fn all_functions_can_be_called_at_once_on_an_isolated_device() {
    all_functions_are_called(On { is_isolated: true, ..On::CPU });
    match vulkan::plugin().filter(|_| vulkan::lavapipe().is_some()) {
        Some(_) => all_functions_are_called(On {
            backends: "vulkan,host",
            plugins: || vec![vulkan::plugin().expect("it was there"), host_plugin()],
            is_isolated: true,
        }),
        None => println!("not tried on Vulkan: there is no lavapipe, or no plugin"),
    }
}

/// Lets threads call for some time, after a shorter uncounted time, and compares the resources of
/// the process.
fn all_functions_are_called(on: On) {
    let _alone = alone(&on);
    let shared = Shared::new(image(&on), false);
    let round = |seconds| {
        // SAFETY: all objects are destroyed, and this is the last olShutDown.
        unsafe {
            must(olInit(null()));
            let counts = CallCounts { inside: 200, outside: 50 };
            let written = call_at_random(&shared, seconds, &counts, || ());
            destroy_all(&shared);
            // The library closes queues with functions that have not run yet, and calls these.
            let before = shared.tally.set_shut_down(true);
            must(olShutDown());
            shared.tally.set_shut_down(before);
            drop(written);
        }
    };
    let threads = ResourceUsage::now().threads;
    round(1);
    let before = held_when_only(threads);
    round(seconds());
    let after = held_when_only(threads);
    println!("{}measured: before {before:?}; after {after:?}", shared.tally);
    assert_all_succeeded(&shared);
    // The shorter round may have left more behind: resources that end late are gone at the end of
    // the longer one.
    assert!(after.descriptors <= before.descriptors, "{before:?}, {after:?}, {:?}", descriptors());
    assert!(after.threads <= before.threads, "{before:?}, {after:?}");
    // A mapping leaked by each program would appear once for each program.
    let programs = shared.tally.calls_with(Function::olCreateProgram, OL_ERRC_SUCCESS) as usize;
    let most = before.mappings + OTHERS_MAPPINGS + programs / 4;
    assert!(after.mappings <= most, "{before:?}, {after:?}");
}

fn the_library_can_be_shut_down_while_other_threads_call_it() {
    let _alone = alone(&On::CPU);
    let shared = Shared::new(image(&On::CPU), true);
    let start_and_end = || {
        // SAFETY: this thread uses no object of the library.
        unsafe {
            must(olInit(null()));
            std::thread::sleep(Duration::from_millis(2));
            must(olShutDown());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let counts = CallCounts { inside: 25, outside: 400 };
    let _written = call_at_random(&shared, seconds(), &counts, start_and_end);
    println!("{}", shared.tally);
    assert_all_succeeded(&shared);
    assert!(shared.tally.count_code(OL_ERRC_UNINITIALIZED) > 0, "it was never shut down meanwhile");
    // SAFETY: the call has no argument.
    let again = unsafe { olShutDown() };
    // SAFETY: results live until the end of the process.
    let code = unsafe { again.as_ref() }.map(|error| error.Code);
    assert_eq!(code, Some(OL_ERRC_UNINITIALIZED), "it is still in use");
}

/// Lets the threads call, and calls `meanwhile` repeatedly. Returns memory that queues may still
/// write.
fn call_at_random(
    shared: &Shared,
    seconds: u64,
    counts: &CallCounts,
    meanwhile: impl Fn(),
) -> Vec<Vec<u8>> {
    let seed = seed();
    println!("LONGSHORE_STRESS_SEED={seed}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let functions: [AtomicUsize; THREADS] = Default::default();
    std::thread::scope(|scope| {
        let start = |(number, now)| {
            let worker = move || Worker::new(shared, seed.wrapping_add(number as u64), now);
            scope.spawn(move || worker().run(end, counts.inside, counts.outside))
        };
        let threads: Vec<_> = functions.iter().enumerate().map(start).collect();
        while Instant::now() < end {
            meanwhile();
            std::thread::sleep(Duration::from_millis(1));
        }
        while threads.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() > end + TIMEOUT {
                stuck(&functions);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Returns the resources when only this number of threads is left: threads of queues may end a
/// little later.
fn held_when_only(threads: usize) -> ResourceUsage {
    let end = Instant::now() + TIMEOUT;
    loop {
        if ResourceUsage::now().threads <= threads || Instant::now() > end {
            // The resources are counted again, because threads may have ended after the count of
            // descriptors.
            return ResourceUsage::now();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn stuck(functions: &[AtomicUsize]) -> ! {
    let functions: Vec<_> = functions.iter().map(|now| Function::ALL[now.load(Relaxed)]).collect();
    eprintln!("the threads do not end; their last functions are {functions:?}");
    std::process::abort();
}

/// Destroys all objects that threads have left; symbols end with their program.
fn destroy_all(shared: &Shared) {
    fn each<T>(
        shared: &Shared,
        function: Function,
        of: &Slots,
        call: impl Fn(*mut T) -> ol_result_t,
    ) {
        for handle in of.all() {
            shared.tally.count(function, call(handle));
        }
    }
    // SAFETY: the library checks handles.
    unsafe {
        each(shared, Function::olDestroyEvent, &shared.events, |event| olDestroyEvent(event));
        each(shared, Function::olDestroyProgram, &shared.programs, |program| {
            olDestroyProgram(program)
        });
        each(shared, Function::olSyncQueue, &shared.queues, |queue| olSyncQueue(queue));
        each(shared, Function::olDestroyQueue, &shared.queues, |queue| olDestroyQueue(queue));
        for symbol in shared.symbols.all().chain(shared.iotas.all()) {
            let mut size = 0;
            let result = olGetSymbolInfoSize(symbol, OL_SYMBOL_INFO_KIND, &mut size);
            let is_there = shared.tally.count(Function::olGetSymbolInfoSize, result);
            assert!(!is_there, "{symbol:p} is of a program that was destroyed");
        }
    }
}

fn assert_all_succeeded(shared: &Shared) {
    for function in Function::ALL {
        let count = |code| shared.tally.calls_with(*function, code);
        assert!(
            count(OL_ERRC_SUCCESS) + count(OL_ERRC_UNSUPPORTED) > 0,
            "{function:?} never succeeded"
        );
    }
    let (queued, called) = (shared.queued.load(Relaxed), shared.called.load(Relaxed));
    assert_eq!(queued, called, "functions of the program that were queued, and that were called");
}

fn must(result: ol_result_t) {
    assert!(result.is_null());
}

fn seconds() -> u64 {
    let value = std::env::var("LONGSHORE_STRESS_SECONDS").ok();
    value.and_then(|text| text.parse().ok()).unwrap_or(SECONDS.get())
}

fn seed() -> u64 {
    let value = std::env::var("LONGSHORE_STRESS_SEED").ok();
    value.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Random::new(now.as_nanos() as u64).next()
    })
}

/// Locks the library, which is shared by the whole process.
fn alone(on: &On) -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: users of the environment wait for this lock.
    unsafe {
        let plugins = std::env::join_paths((on.plugins)()).expect("paths without colons");
        std::env::set_var("LONGSHORE_PLUGIN_PATH", plugins);
        std::env::set_var("LONGSHORE_BACKEND", on.backends);
        std::env::set_var("LONGSHORE_ISOLATE", if on.is_isolated { "all" } else { "" });
        std::env::set_var("LONGSHORE_EXECUTOR", executor());
    }
    alone
}

/// Returns an image for the first device.
fn image(on: &On) -> Vec<u8> {
    let host = Host::builder().with_environment(Environment::empty()).with_only_given_plugins();
    let host = host.with_plugin((on.plugins)().swap_remove(0)).build().unwrap();
    let device = host.default_device().unwrap();
    Fixtures::built_in().image(&device, "basic").unwrap().unwrap().to_vec()
}
