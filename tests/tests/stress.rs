//! Eight threads on one device at once, for as long as `LONGSHORE_STRESS_SECONDS` says.

use longshore::{Device, ErrorCode, Grid, Program};
use longshore_tests::Fixtures;
use longshore_tests::world::{World, copy_into, host_plugin};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const THREADS: u64 = 8;

fn duration() -> Duration {
    let seconds = std::env::var("LONGSHORE_STRESS_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(10))
}

#[test]
fn eight_threads_load_launch_copy_and_unload_at_once() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let device = world.host().build().unwrap().default_device().unwrap();
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    // A program that threads take from each other, launch while it is there, and replace.
    let shared = Mutex::new(device.load(&image[..]).unwrap());
    let end = Instant::now() + duration();
    let rounds: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|seed| {
                let (device, image, shared) = (&device, &image, &shared);
                scope.spawn(move || worker(device, image, shared, seed, end))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("{rounds} rounds by {THREADS} threads in {:?}", duration());
    assert!(rounds > THREADS);
    drop(shared);
    assert!(device.close().unwrap().leaks.is_empty());
}

fn worker(device: &Device, image: &[u8], shared: &Mutex<Program>, seed: u64, end: Instant) -> u64 {
    let mut rounds = 0;
    while Instant::now() < end {
        own_program(device, image, seed + rounds);
        match (seed + rounds) % 3 {
            0 => drop(std::mem::replace(&mut *shared.lock().unwrap(), device.load(image).unwrap())),
            1 => launch_shared(device, &shared.lock().unwrap().clone()),
            _ => unload_shared(&shared.lock().unwrap().clone()),
        }
        rounds += 1;
    }
    rounds
}

/// What nobody else touches must come out right.
fn own_program(device: &Device, image: &[u8], seed: u64) {
    const ELEMENTS: usize = 777;
    let queue = device.queue().unwrap();
    let program = device.load(image).unwrap();
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

/// Launches what others may unload at any moment: it runs, or the program was unloaded.
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
