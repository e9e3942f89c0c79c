//! Many queues that wait for one event, with the C API, on doubles of drivers with streams: a
//! waiting queue occupies no thread. Each trial is a process of its own, so that the test can count
//! its threads.

use crate::support::{code, devices, event, kernel, ok, one_item, said};
use libtest_mimic::{Failed, Trial};
use longshore_capi::*;
use longshore_conformance::Fixtures;
use longshore_tests::doubled::{self, Doubled};
use longshore_tests::suites::Suite;
use longshore_tests::world::{World, copy_into, host_plugin};
use std::ffi::c_void;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The variables with the backend of a trial's process, and with the trial.
const CHILD: [&str; 2] = ["LONGSHORE_TEST_CROWD_BACKEND", "LONGSHORE_TEST_CROWD"];
const QUEUES: usize = 2000;
/// Number of descriptors of a process: each stream of a double has one.
const DESCRIPTORS: libc::rlim_t = 8192;

type Check = fn(&Library);

const CHECKS: [(&str, Check); 3] = [
    ("queues that wait for an event have no threads, and go on in order", queues_have_no_threads),
    ("a launch that fails behind an event is reported to its queue alone", failures_are_reported),
    ("without a thread a function is refused, and the queue goes on", threads_may_be_missing),
];

pub(crate) const SUITE: Suite = Suite { child: is_done, ..Suite::new("crowds", trials) };

/// Returns whether this process is for a trial. If so, the trial has run.
fn is_done() -> bool {
    let [Ok(backend), Ok(name)] = CHILD.map(std::env::var) else { return false };
    let of = Doubled::for_backend(&backend).expect("a backend with a double");
    let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).expect("a trial");
    // SAFETY: there is no other thread yet.
    let library = unsafe { Library::start(of) };
    check(&library);
    true
}

fn trials() -> Vec<Trial> {
    let built = doubled::ALL.into_iter().filter(|of| {
        let is_built = of.plugin().is_some() && of.double().is_some();
        if !is_built {
            eprintln!("nothing is tried on {}: its plugin or its double is not built", of.backend);
        }
        is_built
    });
    let trials = built.flat_map(|of| {
        CHECKS.map(|(name, _)| {
            Trial::test(format!("{}: {name}", of.backend), move || in_a_process(of, name))
        })
    });
    trials.collect()
}

fn in_a_process(of: Doubled, name: &str) -> Result<(), Failed> {
    let mut child = Command::new(std::env::current_exe()?);
    child.env_remove("LONGSHORE_DEVICES").env(CHILD[0], of.backend).env(CHILD[1], name);
    let output = child.output()?;
    let [said, wrong] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    print!("{said}");
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {wrong}", output.status).into()),
    }
}

/// The progress of a queue with two functions and, between them, a kernel.
#[derive(Default)]
struct Progress(AtomicU32);

const FIRST: u32 = 1;
const BOTH: u32 = 2;
const OUT_OF_ORDER: u32 = 3;

impl Progress {
    fn step(&self, from: u32, to: u32) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        if self.0.compare_exchange(from, to, success, failure).is_err() {
            self.0.store(OUT_OF_ORDER, Ordering::Release);
        }
    }

    unsafe extern "C" fn first(progress: *mut c_void) {
        // SAFETY: the progress belongs to the test, which waits.
        unsafe { &*progress.cast::<Progress>() }.step(0, FIRST);
    }

    unsafe extern "C" fn second(progress: *mut c_void) {
        // SAFETY: as above.
        unsafe { &*progress.cast::<Progress>() }.step(FIRST, BOTH);
    }
}

/// Queues that wait for an event behind a function that does not return yet.
struct Crowd {
    gate: Box<AtomicU32>,
    blocked: ol_queue_handle_t,
    queues: Vec<ol_queue_handle_t>,
    progress: Vec<Progress>,
}

impl Crowd {
    /// Creates queues that each call a function, run the work from `between`, and call another
    /// function.
    fn new(library: &Library, count: usize, between: impl Fn(usize, ol_queue_handle_t)) -> Crowd {
        let gate = Box::new(AtomicU32::new(0));
        let blocked = library.queue();
        call(blocked, waits, &*gate);
        let mut opened = event(blocked);
        let queues: Vec<_> = (0..count).map(|_| library.queue()).collect();
        let progress: Vec<Progress> = queues.iter().map(|_| Progress::default()).collect();
        for (number, (queue, progress)) in queues.iter().zip(&progress).enumerate() {
            // SAFETY: both handles are live.
            ok(unsafe { olWaitEvents(*queue, &mut opened, 1) });
            call(*queue, Progress::first, progress);
            between(number, *queue);
            call(*queue, Progress::second, progress);
        }
        Crowd { gate, blocked, queues, progress }
    }

    /// Returns the number of queues that have reached a step.
    fn count(&self, step: u32) -> usize {
        self.progress.iter().filter(|it| it.0.load(Ordering::Acquire) == step).count()
    }

    fn open(&self) {
        self.gate.store(1, Ordering::Release);
    }

    fn destroy(self) {
        for queue in self.queues.iter().chain([&self.blocked]) {
            // SAFETY: the handle is live, and the test has waited for its queue.
            ok(unsafe { olDestroyQueue(*queue) });
        }
    }
}

unsafe extern "C" fn waits(number: *mut c_void) {
    // SAFETY: the number belongs to the test, which waits.
    while unsafe { &*number.cast::<AtomicU32>() }.load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn queues_have_no_threads(library: &Library) {
    let program = library.program("basic");
    let bump = kernel(program, c"bump");
    let before = library.counter(program);
    let crowd = Crowd::new(library, QUEUES, |_, queue| library.launch(queue, bump, &[]));
    let waiting = threads_of_queues();
    assert_eq!(crowd.count(0), QUEUES, "queues that have waited");
    crowd.open();
    for queue in &crowd.queues {
        // SAFETY: the handle is live.
        ok(unsafe { olSyncQueue(*queue) });
    }
    assert_eq!(crowd.count(BOTH), QUEUES, "queues that were done in order");
    assert_eq!(library.counter(program), before + QUEUES as u64);
    assert!(waiting.len() < 100, "{} threads while {QUEUES} queues wait", waiting.len());
    let later = threads_of_queues();
    assert!(later.len() < 400, "{} threads after {QUEUES} queues waited", later.len());
    crowd.destroy();
}

fn failures_are_reported(library: &Library) {
    const FEW: usize = 50;
    const INVALID_IMAGE: u32 = 200;
    let program = library.program("basic");
    let (bump, read) = (kernel(program, c"bump"), kernel(program, c"read_counter"));
    let double = library.of.open_double();
    let function =
        if library.of.backend == "cuda" { "cuLaunchKernel" } else { "hipModuleLaunchKernel" };
    // The driver refuses one launch, and the failure affects only the work of its queue.
    let crowd = Crowd::new(library, FEW, |_, queue| library.launch(queue, bump, &[]));
    double.fail(function, 7, INVALID_IMAGE);
    crowd.open();
    let results: Vec<_> = crowd.queues.iter().map(|queue| synchronize(*queue)).collect();
    let failed: Vec<_> = results.iter().filter(|(code, _)| *code != OL_ERRC_SUCCESS).collect();
    assert!(matches!(&failed[..], [(_, said)] if said.contains("'bump'")), "{failed:?}");
    assert_eq!(crowd.count(BOTH), FEW);
    crowd.destroy();
    // A kernel faults, and the device is lost for all queues.
    let crowd = Crowd::new(library, FEW, |number, queue| {
        if number == 20 {
            library.launch(queue, read, &[0x10]);
        }
    });
    crowd.open();
    let (code, said) = synchronize(crowd.queues[20]);
    assert_eq!(code, OL_ERRC_BACKEND_FAILURE, "{said}");
    assert!(said.contains("'read_counter'") && said.contains("lost"), "{said}");
    for queue in &crowd.queues {
        // The work may be done before the loss, and its queue gets no error; but the work is done.
        synchronize(*queue);
    }
    assert_eq!(crowd.count(BOTH), FEW, "functions are called although the device is lost");
    crowd.destroy();
}

fn threads_may_be_missing(library: &Library) {
    let (queue, progress) = (library.queue(), Progress::default());
    let context = std::ptr::from_ref(&progress).cast_mut().cast();
    // SAFETY: the progress lives until the test has waited for the queue.
    let call = |function| unsafe { olLaunchHostFunction(queue, Some(function), context) };
    // After the first work, all threads of a double exist, with all their memory.
    library.use_stream(queue);
    let before = limit_address_space(256 << 10);
    let refused = call(Progress::second);
    set_limit(libc::RLIMIT_AS, before);
    assert_eq!(code(refused), OL_ERRC_OUT_OF_RESOURCES, "{}", said(refused));
    ok(call(Progress::first));
    assert_eq!(synchronize(queue).0, OL_ERRC_SUCCESS);
    assert_eq!(progress.0.load(Ordering::Acquire), FIRST, "what was refused was not called");
}

/// The library between olInit and olShutDown, with a device on a double.
struct Library {
    of: Doubled,
    /// The device on the double, and the CPU.
    devices: [ol_device_handle_t; 2],
    _plugins: World,
}

impl Library {
    /// # Safety
    /// No other thread runs yet.
    unsafe fn start(of: Doubled) -> Library {
        set_limit(libc::RLIMIT_NOFILE, DESCRIPTORS);
        let plugins = World::new();
        copy_into(&plugins, &of.plugin().expect("the plugin is built"));
        copy_into(&plugins, &host_plugin());
        // SAFETY: promised by the caller.
        unsafe {
            of.take_double("devices=1;quiet");
            std::env::set_var("LONGSHORE_PLUGIN_PATH", plugins.path());
            std::env::set_var("LONGSHORE_BACKEND", format!("{},host", of.backend));
            std::env::set_var("LONGSHORE_PROFILE_FILE", "/dev/null");
            ok(olInit(null()));
        }
        Library { of, devices: devices().try_into().expect("two devices"), _plugins: plugins }
    }

    fn queue(&self) -> ol_queue_handle_t {
        let mut queue = null_mut();
        // SAFETY: the call writes the queue to the variable.
        ok(unsafe { olCreateQueue(self.devices[0], &mut queue) });
        queue
    }

    /// Runs some work on the stream of the queue.
    fn use_stream(&self, queue: ol_queue_handle_t) {
        let (mut memory, zero) = (null_mut(), 0u8);
        // SAFETY: the call writes the address to the variable; the memory has this size, and is
        // freed after the fill.
        unsafe {
            ok(olMemAlloc(self.devices[0], OL_ALLOC_TYPE_DEVICE, 64, &mut memory));
            ok(olMemFill(queue, memory, 1, (&raw const zero).cast(), 64));
            ok(olSyncQueue(queue));
            ok(olMemFree(memory));
        }
    }

    fn program(&self, name: &str) -> ol_program_handle_t {
        let device = self.of.host().unwrap().device(&format!("{}:0", self.of.backend)).unwrap();
        let image = Fixtures::built_in().image(&device, name).unwrap().expect("an image");
        device.close().unwrap();
        let mut program = null_mut();
        let (bytes, size) = (image.as_ptr().cast(), image.len());
        // SAFETY: the image has this size; the call writes the program to the variable.
        ok(unsafe { olCreateProgram(self.devices[0], bytes, size, &mut program) });
        program
    }

    /// Queues a kernel whose arguments are numbers.
    fn launch(&self, queue: ol_queue_handle_t, kernel: ol_symbol_handle_t, values: &[u64]) {
        let size = one_item();
        let mut pointers: Vec<*mut c_void> =
            values.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast()).collect();
        let sizes = vec![size_of::<u64>(); values.len()];
        let (pointers, sizes, count) = (pointers.as_mut_ptr(), sizes.as_ptr(), values.len());
        // SAFETY: the kernel takes this number of numbers.
        ok(unsafe {
            olLaunchKernel(queue, self.devices[0], kernel, &size, null(), count, pointers, sizes)
        });
    }

    /// Returns the value of the global `counter` of a program.
    fn counter(&self, program: ol_program_handle_t) -> u64 {
        let (mut symbol, mut address, mut value) = (null_mut(), null_mut::<c_void>(), 0u64);
        let [device, cpu] = self.devices;
        // SAFETY: the calls write to variables of the given sizes.
        unsafe {
            let kind = OL_SYMBOL_KIND_GLOBAL_VARIABLE;
            ok(olGetSymbol(program, c"counter".as_ptr(), kind, &mut symbol));
            let (what, to) = (OL_SYMBOL_INFO_GLOBAL_VARIABLE_ADDRESS, (&raw mut address).cast());
            ok(olGetSymbolInfo(symbol, what, size_of_val(&address), to));
            let to = (&raw mut value).cast();
            ok(olMemcpy(null_mut(), to, cpu, address, device, size_of_val(&value)));
        }
        value
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the call is always allowed.
        unsafe { olShutDown() };
    }
}

/// Queues a function with a value that outlives it.
fn call<T>(queue: ol_queue_handle_t, function: unsafe extern "C" fn(*mut c_void), of: &T) {
    let context = std::ptr::from_ref(of).cast_mut().cast();
    // SAFETY: trials wait for their queues.
    ok(unsafe { olLaunchHostFunction(queue, Some(function), context) });
}

fn synchronize(queue: ol_queue_handle_t) -> (ol_errc_t, String) {
    // SAFETY: the handle is live.
    let waited = unsafe { olSyncQueue(queue) };
    (code(waited), said(waited))
}

/// Returns the names of the plugins' threads; streams of doubles have threads of other names.
fn threads_of_queues() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).filter(|name| name.starts_with("longshore-")).collect()
}

/// Limits the address space to `bytes` more than the process has now; returns the former limit.
fn limit_address_space(bytes: libc::rlim_t) -> libc::rlim_t {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: libc::rlim_t = pages.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: the call has no precondition.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as libc::rlim_t;
    set_limit(libc::RLIMIT_AS, pages * page + bytes)
}

/// Sets the soft limit of a resource, to at most the hard limit; returns the former limit.
fn set_limit(what: libc::__rlimit_resource_t, limit: libc::rlim_t) -> libc::rlim_t {
    let mut of = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for the calls.
    unsafe {
        assert_eq!(libc::getrlimit(what, &mut of), 0);
        let before = std::mem::replace(&mut of.rlim_cur, limit.min(of.rlim_max));
        assert_eq!(libc::setrlimit(what, &of), 0);
        before
    }
}
