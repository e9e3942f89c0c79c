//! Eight concurrent threads, on the CPU and on every device of CUDA, AMD and Vulkan.
//! `LONGSHORE_STRESS_SECONDS` sets their time.

use libtest_mimic::Trial;
use longshore::{Device, Environment, ErrorCode, Grid, Host, Program, Queue};
use longshore_conformance::TrustedImages;
use longshore_conformance::amount::TestScale;
use longshore_conformance::{DeviceName, Fixtures};
use longshore_tests::effort;
use longshore_tests::suites::Suite;
use longshore_tests::world::{World, copy_into, host_plugin};
use longshore_tests::{gpus, vulkan};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const THREADS: u64 = 8;
/// Seconds of a trial without the variable.
const SECONDS: TestScale<u64> = TestScale { usual: 10, small: 1 };
const GPU_SECONDS: TestScale<u64> = TestScale { usual: 4, small: 1 };

pub(crate) const SUITE: Suite =
    Suite { prepare: gpus::take_drivers, ..Suite::new("stress", trials) };

fn trials() -> Vec<Trial> {
    let devices = gpus::devices().unwrap_or_else(|error| panic!("{error:?}"));
    let mut trials = vec![Trial::test(format!("host:0: {OWN_QUEUES}"), || {
        let world = World::new();
        copy_into(&world, &host_plugin());
        let device = world.host().build().unwrap().default_device().unwrap();
        own_queues(device, SECONDS);
        Ok(())
    })];
    for device in &devices {
        trials.push(on_gpu(device, OWN_QUEUES, |device| own_queues(device, GPU_SECONDS)));
        trials.push(on_gpu(device, SHARED_QUEUES, shared_queues));
    }
    for backend_devices in devices.chunk_by(|one, next| one.backend == next.backend) {
        if let [one, other, ..] = backend_devices {
            let (one, other) = (one.clone(), other.clone());
            let name = "eight threads copy between two devices and launch on both";
            trials.push(Trial::test(format!("{}: {name}", one.backend), move || {
                between_devices([&one, &other]);
                Ok(())
            }));
        }
    }
    trials
}

fn on_gpu(name: &DeviceName, said: &str, check: fn(Device)) -> Trial {
    let name = name.clone();
    Trial::test(format!("{}: {said}", id(&name)), move || {
        check(host(&name)?.device(&id(&name))?);
        Ok(())
    })
}

fn id(name: &DeviceName) -> String {
    format!("{}:{}", name.backend, name.index)
}

/// Creates a host with only the plugin of the device's backend.
fn host(name: &DeviceName) -> longshore::Result<Host> {
    let environment = match &*name.backend {
        // In version 1.3.239 of the validation layer, calls of several threads sometimes wait for
        // each other for 10 s.
        "vulkan" if !effort::is_all() => vulkan::environment_without_layer(),
        "vulkan" => vulkan::environment(),
        _ => Environment::from_process(),
    };
    gpus::host(name, environment)
}

fn duration(usual: TestScale<u64>) -> Duration {
    let seconds = std::env::var("LONGSHORE_STRESS_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(usual.get()))
}

/// Runs `round` on eight threads repeatedly, with the number of the thread and of the round.
fn repeat(seconds: TestScale<u64>, round: impl Fn(u64, u64) + Sync) {
    let end = Instant::now() + duration(seconds);
    let one = |seed: u64| {
        let rounds = (0..).take_while(|_| Instant::now() < end);
        rounds.inspect(|number| round(seed, *number)).count()
    };
    let rounds: usize = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || one(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("measured: {rounds} rounds by {THREADS} threads in {:?}", duration(seconds));
    assert!(rounds as u64 >= THREADS);
}

const OWN_QUEUES: &str = "eight threads load, launch, copy and unload at once";

fn own_queues(device: Device, seconds: TestScale<u64>) {
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    // A program that threads take from each other, launch while it is loaded, and replace.
    let shared = Mutex::new(device.load_trusted(&image[..]).unwrap());
    repeat(seconds, |seed, number| {
        own_program(&device, &image, seed + number);
        match (seed + number) % 3 {
            0 => {
                let next = device.load_trusted(&image[..]).unwrap();
                drop(std::mem::replace(&mut *shared.lock().unwrap(), next));
            }
            1 => launch_shared(&device, &shared.lock().unwrap().clone()),
            _ => unload_shared(&shared.lock().unwrap().clone()),
        }
    });
    drop(shared);
    assert!(device.close().unwrap().leaks.is_empty());
}

/// Uses a program of this thread alone, whose results must be right.
fn own_program(device: &Device, image: &[u8], seed: u64) {
    const ELEMENTS: usize = 777;
    let queue = device.queue().unwrap();
    let program = device.load_trusted(image).unwrap();
    let saxpy = program.kernel("saxpy").unwrap();
    let value = (seed % 100) as f32;
    let x = device.buffer_of(&queue, &[value; ELEMENTS]).unwrap();
    let y = device.buffer_of(&queue, &[1.0f32; ELEMENTS]).unwrap();
    for _ in 0..3 {
        // SAFETY: saxpy takes these arguments and stays within the elements.
        unsafe { queue.launch(&saxpy, Grid::default(), (ELEMENTS as u64, 2.0f32, &x, &y)) }
            .unwrap();
    }
    let event = queue.record_timed().unwrap();
    event.synchronize().unwrap();
    assert_eq!(y.to_vec(&queue).unwrap(), [1.0 + 6.0 * value; ELEMENTS]);
    drop(saxpy);
    program.unload().unwrap();
}

/// Launches a kernel that other threads may unload at any moment: it runs, or the program was
/// unloaded.
fn launch_shared(device: &Device, program: &Program) {
    let queue = device.queue().unwrap();
    let Ok(bump) = program.kernel("bump") else { return };
    for _ in 0..20 {
        // SAFETY: the kernel takes no arguments.
        match unsafe { queue.launch(&bump, Grid::default(), ()) } {
            Ok(()) => {}
            Err(error) => return assert_eq!(error.code(), ErrorCode::Uninitialized),
        }
    }
}

fn unload_shared(program: &Program) {
    if let Err(error) = program.clone().unload() {
        assert_eq!(error.code(), ErrorCode::Uninitialized);
    }
}

const SHARED_QUEUES: &str = "eight threads share three queues, each orders its own work";

/// Shares three queues between eight threads. The work of a thread on one queue keeps its order,
/// whatever other threads queue meanwhile, and events carry the order from queue to queue.
fn shared_queues(device: Device) {
    const ELEMENTS: usize = 333;
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    let program = device.load_trusted(&image[..]).unwrap();
    let saxpy = program.kernel("saxpy").unwrap();
    let queues: Vec<Queue> = (0..3).map(|_| device.queue().unwrap()).collect();
    repeat(GPU_SECONDS, |seed, number| {
        let at = |step: u64| &queues[((seed + number + step) % 3) as usize];
        let x = device.buffer_of(at(0), &[seed as f32; ELEMENTS]).unwrap();
        let y = device.buffer_of(at(0), &[1.0f32; ELEMENTS]).unwrap();
        for step in 0..4 {
            // SAFETY: saxpy takes these arguments and stays within the elements.
            unsafe {
                at(step).launch(&saxpy, Grid::default(), (ELEMENTS as u64, 2.0f32, &x, &y)).unwrap()
            };
            at(step + 1).wait_for(&at(step).record().unwrap()).unwrap();
        }
        assert_eq!(y.to_vec(at(4)).unwrap(), [1.0 + 8.0 * seed as f32; ELEMENTS]);
    });
    drop((saxpy, queues));
    program.unload().unwrap();
    assert!(device.close().unwrap().leaks.is_empty());
}

/// Sends a value to and fro between two devices; a kernel doubles it on each.
fn between_devices(names: [&DeviceName; 2]) {
    const ELEMENTS: usize = 1000;
    let host = host(names[0]).unwrap();
    let devices = names.map(|name| host.device(&id(name)).unwrap());
    let programs = devices.each_ref().map(|device| {
        let image = Fixtures::built_in().image(device, "basic").unwrap().unwrap();
        device.load_trusted(&image[..]).unwrap()
    });
    let kernels = programs.each_ref().map(|program| program.kernel("saxpy").unwrap());
    repeat(GPU_SECONDS, |seed, _| {
        let queues = devices.each_ref().map(|device| device.queue().unwrap());
        let start = [seed as f32 + 1.0; ELEMENTS];
        let buffers: Vec<_> =
            (0..2).map(|at| devices[at].buffer_of(&queues[at], &start).unwrap()).collect();
        for _ in 0..2 {
            for (here, there) in [(0, 1), (1, 0)] {
                let buffer = &buffers[here];
                // y = 1 * y + y. SAFETY: saxpy takes these arguments and stays within the elements.
                unsafe {
                    let values = (ELEMENTS as u64, 1.0f32, buffer, buffer);
                    queues[here].launch(&kernels[here], Grid::default(), values).unwrap();
                }
                let bytes = size_of_val(&start) as u64;
                // SAFETY: both buffers have this size and live until all work is done.
                unsafe {
                    queues[here].copy(buffers[there].pointer(), buffer.pointer(), bytes).unwrap();
                }
                queues[there].wait_for(&queues[here].record().unwrap()).unwrap();
            }
        }
        assert_eq!(buffers[0].to_vec(&queues[0]).unwrap(), start.map(|value| 16.0 * value));
    });
    drop(kernels);
    for program in programs {
        program.unload().unwrap();
    }
    for device in devices {
        assert!(device.close().unwrap().leaks.is_empty());
    }
}
