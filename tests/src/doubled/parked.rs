//! Queues that wait for an event whose work has not reached the driver yet, such as work behind a
//! host function.

use super::{Double, Round, image};
use longshore::{DevicePointer, Environment, Grid};
use longshore_conformance::TrustedImages;
use longshore_conformance::services_for;
use longshore_plugin_api::remote::{RemotePlatform, RemotePlugin};
use longshore_plugin_api::{Connected, Device, HostFunction, Platform, Queue, abi};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const QUEUES: usize = 50;

/// Asserts that queues dropped while they wait finish their work before their device is closed, and
/// that nothing is left.
///
/// # Panics
/// If the assertion fails.
pub fn dropped_queues_are_done_before_their_device_is_closed(double: &Double, round: &Round) {
    let gate = Gate::default();
    let platform = platform(round);
    let device = platform.open(0).unwrap();
    let (blocked, event) = (device.create_queue().unwrap(), device.create_event(false).unwrap());
    blocked.host_function(gate.function(Gate::wait)).unwrap();
    blocked.record_event(&event).unwrap();
    for _ in 0..QUEUES {
        let queue = device.create_queue().unwrap();
        queue.wait_event(&event).unwrap();
        queue.host_function(gate.function(Gate::pass)).unwrap();
    }
    drop(blocked);
    drop(event);
    assert_eq!(gate.passed.load(Ordering::Acquire), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Long enough for the close of the device to begin.
            thread::sleep(Duration::from_millis(50));
            gate.is_open.store(true, Ordering::Release);
        });
        device.close().unwrap();
    });
    assert_eq!(gate.passed.load(Ordering::Acquire), QUEUES);
    assert_eq!(double.live(), [""; 0]);
    assert_eq!(double.violations(), [""; 0]);
}

/// Asserts that waiting queues of a lost device call their functions and report the loss, once the
/// event lets them continue.
///
/// # Panics
/// If the assertion fails.
pub fn waiting_queues_report_a_lost_device(double: &Double, round: &Round) {
    let host = round.host().unwrap();
    let device = host.device(&format!("{}:0", round.of.backend)).unwrap();
    let (blocked, other) = (device.queue().unwrap(), device.queue().unwrap());
    let basic = device.load_trusted(&*image(&device, "basic").unwrap()).unwrap();
    let read = basic.kernel("read_counter").unwrap();
    let (open, gate) = mpsc::channel::<()>();
    blocked.host_function(move || _ = gate.recv()).unwrap();
    let event = blocked.record().unwrap();
    let called = Arc::new(AtomicUsize::new(0));
    let wait = |_| {
        let (queue, called) = (device.queue().unwrap(), Arc::clone(&called));
        queue.wait_for(&event).unwrap();
        queue.host_function(move || _ = called.fetch_add(1, Ordering::AcqRel)).unwrap();
        queue
    };
    let waiting: Vec<_> = (0..QUEUES).map(wait).collect();
    // SAFETY: the kernel writes to no memory at all: the device is lost, and nothing else.
    unsafe { other.launch(&read, Grid::default(), (DevicePointer(0x10),)).unwrap() };
    let lost = other.synchronize().unwrap_err();
    assert_eq!(called.load(Ordering::Acquire), 0);
    drop(open);
    for queue in &waiting {
        assert_eq!(queue.synchronize().unwrap_err().message(), lost.message());
    }
    assert_eq!(event.synchronize().unwrap_err().message(), lost.message());
    assert_eq!(called.load(Ordering::Acquire), QUEUES);
    drop((read, waiting, blocked, other, event));
    assert!(basic.unload().is_err());
    assert!(device.close().is_err());
    assert_eq!(double.live(), [""; 0]);
    assert_eq!(double.violations(), [""; 0]);
}

/// A gate that holds up a queue, and counts the functions that have run behind it.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    passed: AtomicUsize,
}

impl Gate {
    /// Returns a function of the program, which the gate has to outlive.
    fn function(&self, call: unsafe extern "C" fn(*mut c_void)) -> HostFunction {
        let context = std::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the device is closed before the gate is gone.
        unsafe { HostFunction::from_raw(abi::HostFunction { context, call }) }
    }

    unsafe extern "C" fn wait(gate: *mut c_void) {
        // SAFETY: the pointer is to a gate, see `function`.
        while !unsafe { &*gate.cast::<Gate>() }.is_open.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    unsafe extern "C" fn pass(gate: *mut c_void) {
        // SAFETY: as above.
        unsafe { &*gate.cast::<Gate>() }.passed.fetch_add(1, Ordering::AcqRel);
    }
}

/// Returns the plugin itself, without a host: a host would wait for each queue before it closes the
/// device.
fn platform(round: &Round) -> RemotePlatform {
    let plugin = round.of.plugin().expect("the plugin is built");
    // SAFETY: the library's initialisers do nothing. The library stays loaded, and the symbol is
    // the plugin's entry.
    let connected = unsafe {
        let library = Box::leak(Box::new(libloading::Library::new(plugin).unwrap()));
        let entry = library.get::<*const abi::Entry>(b"longshore_plugin").unwrap();
        let plugin = RemotePlugin::new(*entry).unwrap();
        plugin.connect(services_for(round.of.backend, Environment::from_process())).unwrap()
    };
    match connected {
        Connected::Platform(platform) => platform,
        Connected::NoDriver(why) | Connected::NoDevice(why) => panic!("{why}"),
    }
}
