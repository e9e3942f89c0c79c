//! Devices with failing drivers.

use super::faults::Faults;
use crate::platform::{Settings, VulkanPlatform};
use crate::{VulkanDevice, VulkanEvent, VulkanKernel, VulkanModule, VulkanQueue};
use ash::vk;
use longshore_plugin_api::{
    Arguments, Connected, CopyRequest, Device as _, Error, ErrorCode, Event as _, HostFunction,
    ImageBytes, LaunchShape, Loading, MemoryKind, Module as _, Place, Platform as _, Queue as _,
    Result, Span, abi,
};
use std::ffi::c_void;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const IMAGE: &[u8] = b"
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(64)
fn bump(@builtin(global_invocation_id) at: vec3<u32>) { numbers[at.x] += 1u; }
@compute @workgroup_size(64)
fn linger(@builtin(global_invocation_id) at: vec3<u32>) {
    var number = numbers[at.x];
    // Drivers may end loops of more iterations.
    for (var round = 0u; round < 60000u; round++) {
        number = number * 1664525u + numbers[number & 63u];
    }
    numbers[at.x] = number;
}
";
const ITEMS: usize = 64;
const BYTES: u64 = 4 * ITEMS as u64;
/// Time limit of a check; a longer run counts as a hang.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a check with each setting on the first device, and stops a hanging check. Does nothing
/// without a driver.
fn on_a_device(check: fn(&VulkanPlatform)) {
    for staging in ["auto", "always"] {
        let read = |name: &str| (name == "STAGING").then(|| staging.to_owned());
        let settings = Settings::read(read).unwrap();
        let platform = match VulkanPlatform::connect(&settings).unwrap() {
            Connected::Platform(platform) => platform,
            Connected::NoDriver(why) | Connected::NoDevice(why) => {
                return println!("nothing is tried: {why}");
            }
        };
        within_the_limit(move || check(&platform));
    }
}

fn within_the_limit<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(body()));
    match receiver.recv_timeout(LIMIT) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it did not end within {LIMIT:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it has panicked"))
        }
    }
}

/// A device with a kernel, memory, a queue and events.
struct Rig {
    memory: u64,
    events: [VulkanEvent; 2],
    kernel: Arc<VulkanKernel>,
    module: VulkanModule,
    queue: VulkanQueue,
    device: VulkanDevice,
    faults: Arc<Faults>,
}

impl Rig {
    fn new(platform: &VulkanPlatform) -> Rig {
        let device = platform.open(0).unwrap();
        let module = load(&device).unwrap();
        Rig {
            memory: device.allocate(MemoryKind::Device, BYTES, 256).unwrap(),
            events: [true, false].map(|timing| device.create_event(timing).unwrap()),
            kernel: module.kernel("bump").unwrap().0,
            module,
            queue: device.create_queue().unwrap(),
            faults: Faults::for_device(&device),
            device,
        }
    }

    fn launch(&self, wait: bool) -> Result<()> {
        launch(&self.queue, &self.kernel, self.memory, wait)
    }

    fn span(&self) -> Span {
        // SAFETY: the memory lives as long as the rig, and the test waits for all queued work.
        unsafe { Span::new(self.memory, BYTES) }
    }

    fn write(&self, values: &[u32; ITEMS], wait: bool) -> Result<()> {
        copy_in(&self.queue, &self.device, self.memory, values, wait)
    }

    fn numbers(&self) -> Result<[u32; ITEMS]> {
        copy_out(&self.queue, &self.device, self.memory)
    }

    /// Closes the device and checks that no object is left.
    fn close(self) -> Result<()> {
        let Rig { memory, events, kernel, module, queue, device, faults } = self;
        drop((events, queue, kernel, module));
        device.free(MemoryKind::Device, memory).unwrap();
        let closed = device.close();
        assert_eq!((faults.live(), faults.is_destroyed()), (0, true), "live objects, destroyed");
        closed
    }
}

fn load(device: &VulkanDevice) -> Result<VulkanModule> {
    // SAFETY: the image is never freed.
    device.load(unsafe { ImageBytes::new(IMAGE) }, Loading::AtOnce)
}

fn launch(queue: &VulkanQueue, kernel: &VulkanKernel, memory: u64, wait: bool) -> Result<()> {
    let shape = LaunchShape::new([1; 3], [ITEMS as u32, 1, 1]).with_wait(wait);
    let (pointers, sizes) = ([(&raw const memory).cast::<c_void>()], [size_of::<u64>()]);
    // SAFETY: the kernel takes a pointer to one number per item.
    let arguments = unsafe { Arguments::from_raw(pointers.as_ptr(), sizes.as_ptr(), 1) };
    queue.launch(kernel, &shape, arguments)
}

fn copy_in(
    queue: &VulkanQueue,
    device: &VulkanDevice,
    memory: u64,
    values: &[u32; ITEMS],
    wait: bool,
) -> Result<()> {
    // SAFETY: copies this small are captured, or the caller waits; both ranges have the same
    // length.
    let (source, destination) =
        unsafe { (Span::new(values.as_ptr() as u64, BYTES), Span::new(memory, BYTES)) };
    queue.copy(
        &CopyRequest::new(destination, Place::Device(device), source, Place::Host).with_wait(wait),
    )
}

fn copy_out(queue: &VulkanQueue, device: &VulkanDevice, memory: u64) -> Result<[u32; ITEMS]> {
    let mut values = [0u32; ITEMS];
    // SAFETY: the copy is waited for, and both ranges have the same length.
    let (source, destination) =
        unsafe { (Span::new(memory, BYTES), Span::new(values.as_mut_ptr() as u64, BYTES)) };
    queue.copy(
        &CopyRequest::new(destination, Place::Host, source, Place::Device(device)).with_wait(true),
    )?;
    Ok(values)
}

fn host_function<F: FnOnce() + Send + 'static>(function: F) -> HostFunction {
    unsafe extern "C" fn call<F: FnOnce()>(context: *mut c_void) {
        // SAFETY: the function was boxed below, and is called once.
        let function = unsafe { Box::from_raw(context.cast::<F>()) };
        function();
    }
    let context = Box::into_raw(Box::new(function)).cast();
    // SAFETY: the function may be sent, and does not unwind.
    unsafe { HostFunction::from_raw(abi::HostFunction { context, call: call::<F> }) }
}

#[track_caller]
fn is_loss<T: Debug>(result: Result<T>) {
    let error = result.expect_err("the device is lost");
    assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
    assert!(error.message().contains("the device is lost"), "{error}");
    let vendor = error.vendor().map(|vendor| (vendor.name.as_str(), vendor.number));
    assert_eq!(vendor, Some(("VK_ERROR_DEVICE_LOST", -4)), "{error}");
}

#[test]
fn every_call_of_a_lost_device_says_so_and_another_device_works_on() {
    on_a_device(|platform| {
        let (rig, other) = (Rig::new(platform), Rig::new(platform));
        let second_queue = rig.device.create_queue().unwrap();
        rig.write(&[1; ITEMS], true).unwrap();
        rig.queue.record_event(&rig.events[0]).unwrap();
        rig.launch(true).unwrap();
        rig.faults.lose();
        rig.launch(false).unwrap();
        is_loss(rig.queue.synchronize());

        for queue in [&rig.queue, &second_queue] {
            is_loss(launch(queue, &rig.kernel, rig.memory, false));
            is_loss(launch(queue, &rig.kernel, rig.memory, true));
            for wait in [false, true] {
                is_loss(copy_in(queue, &rig.device, rig.memory, &[0; ITEMS], wait));
                is_loss(queue.fill(rig.span(), &[0], wait));
            }
            is_loss(copy_out(queue, &rig.device, rig.memory));
            is_loss(queue.host_function(host_function(|| unreachable!("it was refused"))));
            is_loss(queue.synchronize());
            is_loss(queue.is_idle());
            for event in &rig.events {
                is_loss(queue.record_event(event));
                is_loss(queue.wait_event(event));
            }
        }
        for event in &rig.events {
            is_loss(event.is_complete());
            is_loss(event.synchronize());
        }
        is_loss(rig.events[0].elapsed_ns(&rig.events[0]));
        for kind in [MemoryKind::Device, MemoryKind::Host] {
            is_loss(rig.device.allocate(kind, BYTES, 1));
        }
        is_loss(load(&rig.device).map(drop));
        is_loss(rig.device.create_queue().map(drop));
        is_loss(rig.device.create_event(false).map(drop));

        other.write(&[7; ITEMS], false).unwrap();
        other.launch(false).unwrap();
        assert_eq!(other.numbers().unwrap(), [8; ITEMS]);
        drop(second_queue);
        is_loss(rig.close());
        other.launch(true).unwrap();
        other.close().unwrap();
    });
}

#[test]
fn waits_for_a_lost_device_return_and_host_functions_run_once() {
    on_a_device(|platform| {
        let rig = Rig::new(platform);
        let second_queue = rig.device.create_queue().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let count = Arc::clone(&calls);
        let first = host_function(move || {
            started.send(()).unwrap();
            released.recv().unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        });
        let count = Arc::clone(&calls);
        let second = host_function(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        rig.queue.host_function(first).unwrap();
        has_started.recv().unwrap();
        rig.launch(false).unwrap();
        rig.queue.host_function(second).unwrap();
        rig.queue.record_event(&rig.events[1]).unwrap();
        second_queue.wait_event(&rig.events[1]).unwrap();
        thread::scope(|scope| {
            let of_event = scope.spawn(|| rig.events[1].synchronize());
            let of_queue = scope.spawn(|| rig.queue.synchronize());
            let of_other_queue = scope.spawn(|| second_queue.synchronize());
            rig.faults.lose();
            // The first caller learns of the loss from the driver; the host function still runs.
            let third_queue = rig.device.create_queue().unwrap();
            is_loss(launch(&third_queue, &rig.kernel, rig.memory, true));
            is_loss(of_event.join().unwrap());
            is_loss(of_other_queue.join().unwrap());
            assert_eq!(calls.load(Ordering::SeqCst), 0);
            release.send(()).unwrap();
            is_loss(of_queue.join().unwrap());
        });
        drop(second_queue);
        is_loss(rig.close());
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    });
}

/// Blocks a queue with a host function until the result is dropped, and records an event behind it.
fn held_up(queue: &VulkanQueue, event: &VulkanEvent) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    queue.host_function(host_function(move || assert!(released.recv().is_err()))).unwrap();
    queue.record_event(event).unwrap();
    release
}

/// Returns queues that wait for an event and then increment a counter, each with an event behind
/// that.
fn waiting_queues(
    device: &VulkanDevice,
    event: &VulkanEvent,
    count: &Arc<AtomicUsize>,
) -> Vec<(VulkanQueue, VulkanEvent)> {
    let wait = |_| {
        let (queue, end) = (device.create_queue().unwrap(), device.create_event(false).unwrap());
        queue.wait_event(event).unwrap();
        let count = Arc::clone(count);
        let add = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        queue.host_function(host_function(add)).unwrap();
        queue.record_event(&end).unwrap();
        (queue, end)
    };
    (0..50).map(wait).collect()
}

#[test]
fn queues_that_wait_for_a_queue_that_is_held_up_go_on_behind_it() {
    on_a_device(|platform| {
        let (rig, other) = (Rig::new(platform), platform.open(0).unwrap());
        rig.write(&[1; ITEMS], true).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let release = held_up(&rig.queue, &rig.events[1]);
        rig.launch(false).unwrap();
        let behind = rig.device.create_event(false).unwrap();
        rig.queue.record_event(&behind).unwrap();
        // The driver cannot wait for work of another device.
        let near = waiting_queues(&rig.device, &behind, &count);
        let far = waiting_queues(&other, &behind, &count);
        let second = &near[0].0;
        second.wait_event(&far[0].1).unwrap();
        launch(second, &rig.kernel, rig.memory, false).unwrap();
        // A thread that waits for a queue processes the queue's work.
        thread::scope(|scope| {
            let waits = scope.spawn(|| near[1].0.synchronize());
            assert!(!near[2].0.is_idle().unwrap());
            assert_eq!(count.load(Ordering::SeqCst), 0);
            drop(release);
            waits.join().unwrap().unwrap();
        });
        near.iter().chain(&far).for_each(|(_, end)| end.synchronize().unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 100);
        second.synchronize().unwrap();
        assert_eq!(rig.numbers().unwrap(), [3; ITEMS]);
        drop((near, far, behind));
        other.close().unwrap();
        rig.close().unwrap();
    });
}

#[test]
fn queues_that_are_dropped_while_they_wait_do_their_work_before_the_device_is_closed() {
    on_a_device(|platform| {
        let rig = Rig::new(platform);
        let other = platform.open(0).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let release = held_up(&rig.queue, &rig.events[1]);
        let near = waiting_queues(&rig.device, &rig.events[1], &count);
        let far = waiting_queues(&other, &rig.events[1], &count);
        drop((near, far));
        assert_eq!(count.load(Ordering::SeqCst), 0);
        let ends = thread::spawn(move || drop(release));
        other.close().unwrap();
        rig.close().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 100);
        ends.join().unwrap();
    });
}

#[test]
fn a_queue_that_is_dropped_while_the_device_works_does_not_wait() {
    on_a_device(|platform| {
        let rig = Rig::new(platform);
        let queue = rig.device.create_queue().unwrap();
        let linger = rig.module.kernel("linger").unwrap().0;
        for _ in 0..20 {
            launch(&queue, &linger, rig.memory, false).unwrap();
        }
        queue.record_event(&rig.events[1]).unwrap();
        // Waits until no thread attends to the queue any more.
        thread::sleep(Duration::from_millis(50));
        drop(queue);
        assert!(!rig.events[1].is_complete().unwrap(), "dropping the queue has waited");
        // Kernels must outlive their queued launches.
        rig.events[1].synchronize().unwrap();
        drop(linger);
        rig.close().unwrap();
    });
}

#[test]
fn queues_that_wait_for_a_device_that_is_lost_go_on_with_its_failure() {
    on_a_device(|platform| {
        let (rig, other) = (Rig::new(platform), platform.open(0).unwrap());
        let count = Arc::new(AtomicUsize::new(0));
        let release = held_up(&rig.queue, &rig.events[1]);
        let near = waiting_queues(&rig.device, &rig.events[1], &count);
        let far = waiting_queues(&other, &rig.events[1], &count);
        rig.faults.lose();
        let third = rig.device.create_queue().unwrap();
        is_loss(launch(&third, &rig.kernel, rig.memory, true));
        // The host function is still running, and no thread waits for it.
        for (queue, end) in &far {
            is_loss(end.synchronize());
            is_loss(queue.synchronize());
        }
        near.iter().for_each(|(queue, _)| is_loss(queue.synchronize()));
        drop(release);
        drop((near, far, third));
        other.close().unwrap();
        is_loss(rig.close());
        assert_eq!(count.load(Ordering::SeqCst), 100, "host functions are called all the same");
    });
}

#[test]
fn a_submit_that_fails_is_reported_once_and_the_queue_goes_on() {
    on_a_device(|platform| {
        let rig = Rig::new(platform);
        let short = vk::Result::ERROR_OUT_OF_HOST_MEMORY;
        rig.write(&[1; ITEMS], true).unwrap();
        rig.faults.fail(c"vkQueueSubmit", 1, short);
        rig.launch(false).unwrap();
        let error = rig.queue.synchronize().unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfResources, "{error}");
        assert_eq!(error.vendor().unwrap().number, i64::from(short.as_raw()));
        rig.queue.synchronize().unwrap();
        rig.launch(false).unwrap();
        rig.queue.record_event(&rig.events[1]).unwrap();
        rig.events[1].synchronize().unwrap();
        assert_eq!(rig.numbers().unwrap(), [2; ITEMS]);
        rig.close().unwrap();
    });
}

#[test]
fn an_event_behind_work_that_was_not_submitted_is_reached_and_reports_the_failure() {
    on_a_device(|platform| {
        let rig = Rig::new(platform);
        let second_queue = rig.device.create_queue().unwrap();
        rig.faults.fail(c"vkQueueSubmit", 1, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        rig.launch(false).unwrap();
        rig.queue.record_event(&rig.events[1]).unwrap();
        second_queue.wait_event(&rig.events[1]).unwrap();
        for waited in [
            second_queue.synchronize(),
            rig.events[1].synchronize(),
            rig.queue.synchronize(),
            rig.events[1].synchronize(),
        ] {
            assert_eq!(waited.unwrap_err().code(), ErrorCode::OutOfResources);
        }
        assert!(rig.events[1].is_complete().unwrap());
        // An event does not report failures that were reported before it was recorded.
        rig.queue.record_event(&rig.events[1]).unwrap();
        rig.events[1].synchronize().unwrap();
        second_queue.wait_event(&rig.events[1]).unwrap();
        second_queue.synchronize().unwrap();
        rig.queue.synchronize().unwrap();
        drop(second_queue);
        rig.close().unwrap();
    });
}

#[test]
fn a_time_that_was_not_noted_is_an_error() {
    on_a_device(|platform| {
        let rig = Rig::new(platform);
        let (again, end) = (&rig.events[0], rig.device.create_event(true).unwrap());
        for event in [again, &end] {
            rig.queue.record_event(event).unwrap();
        }
        rig.queue.synchronize().unwrap();
        assert!(again.elapsed_ns(&end).unwrap() >= 0);
        // The slot of the earlier time still exists.
        rig.faults.fail(c"vkQueueSubmit", 1, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        rig.queue.record_event(again).unwrap();
        rig.queue.synchronize().unwrap_err();
        let error = again.elapsed_ns(&end).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BackendFailure, "{error}");
        rig.queue.record_event(again).unwrap();
        rig.queue.synchronize().unwrap();
        assert!(again.elapsed_ns(&end).unwrap() <= 0);
        drop(end);
        rig.close().unwrap();
    });
}

#[test]
fn memory_that_the_driver_refuses_is_asked_for_again() {
    on_a_device(|platform| {
        let rig = Rig::new(platform);
        let large = 300 << 20;
        let live = rig.faults.live();
        for result in [vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, vk::Result::ERROR_OUT_OF_HOST_MEMORY]
        {
            rig.faults.fail(c"vkAllocateMemory", 1, result);
            let memory = rig.device.allocate(MemoryKind::Device, large, 256).unwrap();
            rig.device.free(MemoryKind::Device, memory).unwrap();
            rig.faults.fail(c"vkAllocateMemory", usize::MAX, result);
            let error = rig.device.allocate(MemoryKind::Device, large, 256).unwrap_err();
            assert_eq!(error.code(), ErrorCode::OutOfResources, "{error}");
            rig.faults.fail(c"vkAllocateMemory", 0, result);
            assert_eq!(rig.faults.live(), live, "objects");
        }
        rig.launch(true).unwrap();
        rig.close().unwrap();
    });
}

#[test]
fn one_failure_of_any_call_hangs_nothing_and_leaves_nothing_behind() {
    on_a_device(|platform| {
        let calls = fail_at(platform, usize::MAX, vk::Result::SUCCESS).1;
        let results = [
            vk::Result::ERROR_OUT_OF_HOST_MEMORY,
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
            vk::Result::ERROR_DEVICE_LOST,
        ];
        for (at, result) in (0..calls).flat_map(|at| results.map(|result| (at, result))) {
            if let Err(error) = fail_at(platform, at, result).0 {
                let expected = match result {
                    vk::Result::ERROR_DEVICE_LOST => ErrorCode::BackendFailure,
                    _ => ErrorCode::OutOfResources,
                };
                assert_eq!(error.code(), expected, "call {at}: {result:?}: {error}");
            }
        }
    });
}

/// Runs [`work`] on a device with one failing call. Returns the first error, and the number of
/// calls.
fn fail_at(platform: &VulkanPlatform, at: usize, result: vk::Result) -> (Result<()>, usize) {
    let device = platform.open(0).unwrap();
    let faults = Faults::for_device(&device);
    let before = faults.calls();
    faults.fail_after(at, result);
    let worked = work(&device);
    let calls = faults.calls() - before;
    let is_lost = faults.is_lost();
    if !is_lost && worked.is_err() {
        work(&device).unwrap_or_else(|error| panic!("after {result:?} at call {at}: {error}"));
    }
    faults.fail(c"vkQueueSubmit", 0, result);
    let closed = device.close();
    assert_eq!(closed.is_err(), is_lost, "{result:?} at call {at}: {closed:?}");
    assert_eq!(faults.live(), 0, "objects left by {result:?} at call {at}");
    assert!(faults.is_destroyed());
    (worked, calls)
}

fn work(device: &VulkanDevice) -> Result<()> {
    let module = load(device)?;
    let kernel = module.kernel("bump")?.0;
    let queues = [device.create_queue()?, device.create_queue()?];
    let memory = device.allocate(MemoryKind::Device, BYTES, 256)?;
    let worked = use_memory(device, &queues, &kernel, memory);
    // Only one call fails: the second attempt waits for all running work.
    let waited: Vec<_> = queues.iter().chain(&queues).map(|queue| queue.synchronize()).collect();
    device.free(MemoryKind::Device, memory)?;
    waited.into_iter().fold(worked, Result::and)
}

fn use_memory(
    device: &VulkanDevice,
    queues: &[VulkanQueue; 2],
    kernel: &VulkanKernel,
    memory: u64,
) -> Result<()> {
    let [queue, other] = queues;
    let events = [device.create_event(true)?, device.create_event(true)?];
    queue.record_event(&events[0])?;
    copy_in(queue, device, memory, &[1; ITEMS], false)?;
    launch(queue, kernel, memory, false)?;
    queue.host_function(host_function(|| {}))?;
    launch(queue, kernel, memory, false)?;
    queue.record_event(&events[1])?;
    other.wait_event(&events[1])?;
    launch(other, kernel, memory, true)?;
    queue.synchronize()?;
    other.host_function(host_function(|| {}))?;
    other.synchronize()?;
    let numbers = copy_out(other, device, memory)?;
    events[0].elapsed_ns(&events[1])?;
    let wrong = || Error::new(ErrorCode::Unknown, format!("{numbers:?}"));
    if numbers == [4; ITEMS] { Ok(()) } else { Err(wrong()) }
}
