//! The hot paths, each beside a floor in the same run: the same work without Longshore.
//!
//! Each group has a benchmark "floor" and one "longshore"; `cargo xtask bench` prints their
//! differences and ratios. The plugin must be built in release mode before.

mod capi;
mod crossing;
mod offload;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use longshore::{Device, Grid, Host, MemoryKind, Program, Queue, Region};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use std::ffi::c_void;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const NO_ARGUMENTS: *mut *mut c_void = std::ptr::null_mut();

struct Bench {
    host: Host,
    device: Device,
    queue: Queue,
    program: Program,
}

impl Bench {
    fn new() -> Bench {
        Bench::tracking(false)
    }

    fn tracking(track: bool) -> Bench {
        let host = Host::builder()
            .with_tracking(track)
            .with_only_given_plugins()
            .with_plugin(host_plugin())
            .with_backends("host")
            .build()
            .expect(
                "the host plugin is built: cargo build --release -p longshore-plugin-host-library",
            );
        let device = host.default_device().expect("the CPU is there");
        let queue = device.queue().expect("a queue");
        let image = Fixtures::built_in().image(&device, "basic");
        let image = image.expect("the device answers").expect("it takes shared objects");
        let program = device.load_trusted(&image[..]).expect("the fixture loads");
        Bench { host, device, queue, program }
    }
}

/// Returns the plugin beside this executable's folder: target/release/.
fn host_plugin() -> PathBuf {
    let executable = std::env::current_exe().expect("an executable has a path");
    let folder = executable.ancestors().nth(2).expect("target/release/deps/<executable>");
    folder.join("liblongshore_plugin_host.so")
}

/// Does nothing, like the kernel `nop`. A direct call is the floor of a launch.
extern "C" fn nop(_arguments: *mut *mut c_void) {
    black_box(());
}

fn launches(criterion: &mut Criterion) {
    let bench = Bench::new();
    let kernel = bench.program.kernel("nop").expect("the fixture has it");
    let function: extern "C" fn(*mut *mut c_void) = black_box(nop);

    let mut group = criterion.benchmark_group("launch_and_wait");
    group.bench_function("floor", |b| b.iter(|| function(black_box(NO_ARGUMENTS))));
    group.bench_function("longshore", |b| {
        // SAFETY: the kernel takes no arguments.
        b.iter(|| unsafe { bench.queue.launch_and_wait(&kernel, Grid::default(), ()) }.unwrap());
    });
    group.finish();

    let mut group = criterion.benchmark_group("launch_queued");
    group.throughput(Throughput::Elements(1));
    group.bench_function("floor", |b| b.iter(|| function(black_box(NO_ARGUMENTS))));
    group.bench_function("longshore", |b| {
        b.iter_custom(|launches| {
            let start = Instant::now();
            for _ in 0..launches {
                // SAFETY: the kernel takes no arguments.
                unsafe { bench.queue.launch(&kernel, Grid::default(), ()) }.unwrap();
            }
            bench.queue.synchronize().unwrap();
            start.elapsed()
        });
    });
    group.finish();
}

fn memory(criterion: &mut Criterion) {
    let bench = Bench::new();
    allocations(criterion, &bench, "allocate_free_1MiB");
    allocations(criterion, &Bench::tracking(true), "tracked_allocate_free_1MiB");
    copies(criterion, &bench, "copy_64B", 64, 10_000);
    copies(criterion, &bench, "copy_64MiB", 64 << 20, 1);
    tile(criterion, &bench);
}

fn allocations(criterion: &mut Criterion, bench: &Bench, name: &str) {
    let mut group = criterion.benchmark_group(name);
    group.bench_function("floor", |b| b.iter(|| black_box(Vec::<u8>::with_capacity(1 << 20))));
    group.bench_function("longshore", |b| {
        b.iter(|| bench.device.allocate(MemoryKind::Device, 1 << 20, 64).unwrap());
    });
    group.finish();
}

/// Measures copies. Floor and Longshore copy to the same place, as the CPU's device memory is the
/// process's own. Both benchmarks do both copies in turns and time one of them, so that both meet
/// the same state of the machine.
fn copies(criterion: &mut Criterion, bench: &Bench, name: &str, bytes: usize, at_a_time: u64) {
    let source = vec![1u8; bytes];
    let buffer = bench.device.buffer_of(&bench.queue, &source).expect("memory");
    let place = buffer.pointer().address() as *mut u8;
    // SAFETY: the buffer has this many bytes, and no other code uses it now.
    let plain = || unsafe { black_box(place).copy_from(black_box(&source).as_ptr(), bytes) };
    let ours = || buffer.write(&bench.queue, black_box(&source)).unwrap();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("floor", |b| {
        b.iter_custom(|count| in_rounds(count, at_a_time, plain, ours).0);
    });
    group.bench_function("longshore", |b| {
        b.iter_custom(|count| in_rounds(count, at_a_time, plain, ours).1);
    });
    group.finish();
}

/// Measures a copy of a tile of 64 KiB, 256 rows, from an array of the host to an array of the
/// device. The floor copies each row. Both benchmarks do both copies, as above.
fn tile(criterion: &mut Criterion, bench: &Bench) {
    const WIDTH: usize = 1024;
    const TILE: usize = 256;
    let source = vec![1u8; WIDTH * WIDTH];
    let buffer = bench.device.buffer_of(&bench.queue, &source).expect("memory");
    let place = buffer.pointer().address() as *mut u8;
    let origin = [TILE, TILE, 0];
    let region = Region::new([WIDTH, WIDTH, 1]).part(origin, [TILE, TILE, 1]);
    let plain = || {
        let bytes = black_box(TILE);
        for row in TILE..2 * TILE {
            let at = row * WIDTH + TILE;
            let row = &black_box(&source)[at..at + bytes];
            // SAFETY: the row lies in the buffer, which no other code uses now.
            unsafe { black_box(place).add(at).copy_from(row.as_ptr(), bytes) };
        }
    };
    let whole = buffer.as_slice();
    let ours = || whole.write_region(&bench.queue, region, black_box(&source), region).unwrap();
    let mut group = criterion.benchmark_group("copy_tile");
    group.throughput(Throughput::Bytes((TILE * TILE) as u64));
    group.bench_function("floor", |b| b.iter_custom(|count| in_rounds(count, 100, plain, ours).0));
    group.bench_function("longshore", |b| {
        b.iter_custom(|count| in_rounds(count, 100, plain, ours).1);
    });
    group.finish();
}

/// Runs two functions `count` times each, in rounds of `at_a_time` calls. Returns the time of each
/// function.
fn in_rounds(count: u64, at_a_time: u64, a: impl Fn(), b: impl Fn()) -> (Duration, Duration) {
    let timed = |what: &dyn Fn(), times: u64| {
        let start = Instant::now();
        (0..times).for_each(|_| what());
        start.elapsed()
    };
    let (mut a_took, mut b_took) = (Duration::ZERO, Duration::ZERO);
    let mut left = count;
    while left > 0 {
        let times = left.min(at_a_time);
        a_took += timed(&a, times);
        b_took += timed(&b, times);
        left -= times;
    }
    (a_took, b_took)
}

/// Measures a query that the plugin answers from a field, beside the same call through a bare C
/// table.
fn boundary(criterion: &mut Criterion) {
    struct Table {
        is_complete: unsafe extern "C" fn(*mut u32) -> u32,
    }
    unsafe extern "C" fn is_complete(event: *mut u32) -> u32 {
        // SAFETY: called below with a live place.
        unsafe { *event }
    }
    let crossing = crossing::Crossing::new();
    let table: &Table = black_box(&Table { is_complete });
    let mut count = 1u32;
    let mut group = criterion.benchmark_group("boundary");
    // SAFETY: `count` is alive.
    group.bench_function("floor", |b| b.iter(|| unsafe { (table.is_complete)(&mut count) }));
    group.bench_function("longshore", |b| b.iter(|| crossing.call()));
    group.finish();
}

/// Measures discovery: the time for one more candidate that is not opened.
fn discovery(criterion: &mut Criterion) {
    const CANDIDATES: usize = 100;
    let folder = tempfile::tempdir().expect("a folder");
    for i in 0..CANDIDATES {
        let name = format!("liblongshore_plugin_x{i}.so");
        std::fs::copy(host_plugin(), folder.path().join(name)).expect("a copy");
    }
    let empty = tempfile::tempdir().expect("a folder");
    let search = |folder: &std::path::Path| {
        Host::builder().with_only_given_plugins().with_plugin(folder).candidates().unwrap().len()
    };
    let mut group = criterion.benchmark_group("discovery_100_candidates");
    group.bench_function("floor", |b| b.iter(|| search(empty.path())));
    group.bench_function("longshore", |b| b.iter(|| search(folder.path())));
    group.finish();
}

/// Measures opening the host device from a new copy of the file, beside a bare `dlopen`.
fn opening(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut copies = 0;
    let mut fresh = move || {
        copies += 1;
        let place = folder.path().join(copies.to_string());
        std::fs::create_dir(&place).expect("a folder");
        let copy = place.join("liblongshore_plugin_host.so");
        std::fs::copy(host_plugin(), &copy).expect("a copy");
        copy
    };
    let mut group = criterion.benchmark_group("open_host_device");
    group.sample_size(10).warm_up_time(Duration::from_millis(50));
    group.measurement_time(Duration::from_millis(400));
    group.bench_function("floor", |b| {
        b.iter_batched(
            &mut fresh,
            // SAFETY: opening our own plugin runs nothing but its loading.
            |file| unsafe { libloading::Library::new(file) }.unwrap(),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("longshore", |b| {
        b.iter_batched(
            &mut fresh,
            |file| {
                let host =
                    Host::builder().with_only_given_plugins().with_plugin(file).build().unwrap();
                host.default_device().unwrap()
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = launches, memory, boundary, discovery, opening, capi::calls
}
criterion_main!(benches);
